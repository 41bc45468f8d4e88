/* SPDX-License-Identifier: MIT */
/*
 * Calls work() N times, forbids itself to read the time stamp counter, and calls it N times more. Prints the sum of what it
 * returned. `timeless` alone has forbidden itself that from the start, and serves commands.
 */
#include <sys/prctl.h>
#include "prog.h"

noinline long work(long n)
{
	__asm__ volatile("" ::: "memory");
	return n * 3;
}

static void do_run(long n)
{
	for (long i = 0; i < n; i++)
		if (work(i) != i * 3)
			bad("work %ld", i);
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 100, sum = 0;

	if (argc < 2) {
		if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV))
			return 4;
		serve(do_run, NULL);
		return verdict();
	}
	for (long i = 0; i < n; i++)
		sum += work(i);
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV))
		return 4;
	for (long i = 0; i < n; i++)
		sum += work(i);
	prctl(PR_SET_TSC, PR_TSC_ENABLE);
	printf("%ld\n", sum);
	return 0;
}
