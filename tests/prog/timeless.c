/* SPDX-License-Identifier: MIT */
/*
 * Calls work() N times, forbids itself to read the time stamp counter, and calls it N times more. Prints the sum of what it
 * returned. `timeless` alone has forbidden itself that from the start, and serves commands. `timeless N prctl` and `timeless N
 * seccomp` enter the strict mode of seccomp by that call, which forbids the counter as well.
 */
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

/* From here on read, write, exit and sigreturn are all there is. */
static void strictly(const char *how, long n, long sum)
{
	char text[32];

	if (strcmp(how, "prctl") ? syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) : prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		_exit(4);
	for (long i = 0; i < n; i++)
		sum += work(i);
	n = write(1, text, sprintf(text, "%ld\n", sum));
	syscall(SYS_exit, 0);
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
	if (argc > 2)
		strictly(argv[2], n, sum);
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV))
		return 4;
	for (long i = 0; i < n; i++)
		sum += work(i);
	prctl(PR_SET_TSC, PR_TSC_ENABLE);
	printf("%ld\n", sum);
	return 0;
}
