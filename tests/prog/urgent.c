/* SPDX-License-Identifier: MIT */
/*
 * SIGURG while a program is executed and its loader works.
 *
 *	urgent pending		one is pending and blocked over the exec: the new program tells what it finds
 *	urgent flood N		executes itself N times, while a child sends it one after the other
 *	urgent handled		what the first becomes
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t came;

static void on_urgent(int sig)
{
	(void)sig;
	came++;
}

__attribute__((noinline)) void hit(long seq)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : "r"(seq) : "memory");
}

/* What is pending, what it carries, and one to itself. */
static int handled(void)
{
	struct timespec none = { 0 };
	siginfo_t info = { 0 };
	sigset_t pending, urgent;

	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	sigpending(&pending);
	printf("pending %d", sigismember(&pending, SIGURG));
	if (sigismember(&pending, SIGURG) && sigtimedwait(&urgent, &info, &none) == SIGURG)
		printf(" code %d value %d own %d", info.si_code, info.si_value.sival_int, info.si_pid == getpid());
	sigpending(&pending);
	signal(SIGURG, on_urgent);
	sigprocmask(SIG_UNBLOCK, &urgent, NULL);
	raise(SIGURG);
	printf(" then %d came %d\n", sigismember(&pending, SIGURG), came);
	hit(0);
	return 0;
}

static void flood(pid_t whom)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0; getppid() == whom; i++) {
		if (i & 1)
			kill(whom, SIGURG);
		else
			syscall(SYS_tgkill, whom, whom, SIGURG);
		if (i % 16 == 0)
			usleep(50);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	union sigval value = { .sival_int = 42 };
	char left[16];
	sigset_t urgent;
	int n = argc > 2 ? atoi(argv[2]) : 0;

	if (!strcmp(mode, "handled"))
		return handled();
	if (!strcmp(mode, "pending")) {
		sigemptyset(&urgent);
		sigaddset(&urgent, SIGURG);
		sigprocmask(SIG_BLOCK, &urgent, NULL);
		sigqueue(getpid(), SIGURG, value);
		execl(argv[0], argv[0], "handled", NULL);
		return 1;
	}
	if (!strcmp(mode, "flood")) {
		pid_t whom = getpid(), child = argc > 3 ? atoi(argv[3]) : fork();
		char number[16];

		if (!child)
			flood(whom);
		hit(n);
		snprintf(left, sizeof(left), "%d", n - 1);
		snprintf(number, sizeof(number), "%d", child);
		if (n)
			execl(argv[0], argv[0], "flood", left, number, NULL);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		puts("done");
		return 0;
	}
	return 2;
}
