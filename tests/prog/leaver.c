/* SPDX-License-Identifier: MIT */
/*
 * Calls leap() all the time and leaves it again and again by a jump from a signal handler, wherever it is by
 * then. When it has done so often enough it says "tired" and calls rest() at times, until its input ends.
 */
#include "prog.h"
#include <fcntl.h>
#include <setjmp.h>
#include <sys/time.h>

#define JUMPS 300

static sigjmp_buf back;
static volatile sig_atomic_t jumps, in_leap;

noinline long leap(long n, const char *text)
{
	__asm__ volatile("" : "+r"(n), "+r"(text));
	return n + 1;
}

noinline long rest(long n, const char *text)
{
	__asm__ volatile("" : "+r"(n), "+r"(text));
	return n - 1;
}

static void on_alarm(int sig)
{
	if (in_leap && jumps < JUMPS) {
		jumps++;
		siglongjmp(back, 1);
	}
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
	volatile long n = 0;
	char c;

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	sigsetjmp(back, 1);
	in_leap = 1;
	while (jumps < JUMPS)
		n = leap(n, "leaping");
	in_leap = 0;
	setitimer(ITIMER_REAL, &never, NULL);
	puts("tired");
	fflush(stdout);
	fcntl(0, F_SETFL, O_NONBLOCK);
	while (read(0, &c, 1) != 0) {
		n = rest(n, "resting");
		usleep(10000);
	}
	return 0;
}
