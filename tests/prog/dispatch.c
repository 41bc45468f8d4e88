/* SPDX-License-Identifier: MIT */
/*
 * Syscall User Dispatch: system calls from outside of an allowed range become SIGSYS, as Wine does it. `dispatch early` has it on
 * before it serves commands, `dispatch late N` calls work() N times, switches it on and calls it N times more. Any SIGSYS is bad.
 */
#include <sys/prctl.h>
#include "prog.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

static volatile char selector;	/* 1: block */

noinline long work(const char *text, long n)
{
	__asm__ volatile("" : "+r"(text), "+r"(n));
	return text[0] + n;
}

static void on_call(int number, siginfo_t *info, void *context)
{
	selector = 0;
	bad("SIGSYS at %p", info->si_call_addr);
}

static int start(void)
{
	return prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &selector);
}

static char *text;

static void do_run(long n)
{
	for (long i = 0; i < n; i++) {
		selector = 1;
		if (work(text, i) != text[0] + i)
			bad("work %ld", i);
		selector = 0;
	}
}

int main(int argc, char **argv)
{
	struct sigaction a = { .sa_sigaction = on_call, .sa_flags = SA_SIGINFO };

	text = strdup("on the heap");
	sigaction(SIGSYS, &a, NULL);
	if (argc > 2) {
		for (long i = 0; i < atol(argv[2]); i++)
			work(text, i);
		if (start())
			return 4;
		do_run(atol(argv[2]));
		puts(*bad_why ? bad_why : "ok");
		return *bad_why ? 3 : 0;
	}
	if (start())
		return 4;
	serve(do_run, NULL);
	return verdict();
}
