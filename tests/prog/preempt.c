/* SPDX-License-Identifier: MIT */
/*
 * `preempt K`: K user-level threads on stacks of their own, preempted by a timer: the handler swaps
 * contexts, so the frame of the one that was interrupted stays on a stack that no thread uses. `run N`
 * resumes them in turn until work() was called N times in all, and then leaves them where they are.
 */
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include "prog.h"

enum { STACK = 65536, MOST = 32 };

static ucontext_t routine[MOST], back;
static volatile unsigned long calls[MOST], sum[MOST];
static volatile int routines, current;
static volatile long wanted;
static volatile int switching;

noinline unsigned long work(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3;
}

/*
 * swapcontext() takes over the mask of signals before the registers. So a routine begins with the signal blocked: else one that is
 * pending comes in between, and its handler takes the place of what has not begun yet.
 */
static void body(int k)
{
	sigprocmask(SIG_UNBLOCK, &routine[k].uc_sigmask, NULL);
	for (;;) {
		sum[k] += work(calls[k]);
		calls[k]++;
	}
}

static long all_calls(void)
{
	unsigned long n = 0;

	for (int i = 0; i < routines; i++)
		n += calls[i];
	return (long)n;
}

static void on_timer(int sig)
{
	int from = current;

	if (!switching)
		return;			/* the last one of a run comes late */
	if (all_calls() >= wanted) {
		current = (from + 1) % routines;
		switching = 0;
		swapcontext(&routine[from], &back);
		return;
	}
	current = (from + 1) % routines;
	swapcontext(&routine[from], &routine[current]);
}

static void set_timer(long us)
{
	struct itimerval every = { { 0, us }, { 0, us } };

	setitimer(ITIMER_REAL, &every, NULL);
}

static void run(long n)
{
	sigset_t alarms, before;

	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarms, &before);
	wanted = all_calls() + n;
	switching = 1;
	set_timer(500);
	swapcontext(&back, &routine[current]);
	set_timer(0);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_timer };

	routines = argc > 1 ? atoi(argv[1]) : 8;
	sigaction(SIGALRM, &sa, NULL);
	for (int i = 0; i < routines; i++) {
		getcontext(&routine[i]);
		sigemptyset(&routine[i].uc_sigmask);
		sigaddset(&routine[i].uc_sigmask, SIGALRM);
		routine[i].uc_stack.ss_size = STACK;
		routine[i].uc_stack.ss_sp = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		makecontext(&routine[i], (void (*)(void))body, 1, i);
	}
	serve(run, NULL);
	for (int i = 0; i < routines; i++) {
		unsigned long n = calls[i], want = 3 * (n * (n - 1) / 2);

		if (n && sum[i] != want && sum[i] != want + 3 * n)	/* it is between the two lines, perhaps */
			bad("routine %d: sum %lu after %lu calls", i, sum[i], n);
	}
	return verdict();
}
