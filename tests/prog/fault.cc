// SPDX-License-Identifier: MIT
/*
 * A bad pointer made into an exception: the handler of SIGSEGV throws, and the unwinder looks up which
 * instruction faulted (-fnon-call-exceptions). `fault N` prints what N reads of good and bad pointers gave.
 */
#include <csignal>
#include <cstdio>
#include <cstdlib>

#define noinline __attribute__((noinline, noclone))

static long good[2] = { 5, 7 };

static void on_fault(int)
{
	throw 1;
}

noinline long first(const long *p)
{
	try {
		return *p + 1;
	} catch (int) {
		return -1;
	}
}

noinline long between(const long *p, long a, long b)
{
	long sum = a * 3 + b;

	try {
		sum += p[0];
		sum += p[a & 1];
	} catch (int) {
		return -sum;
	}
	return sum;
}

int main(int argc, char **argv)
{
	struct sigaction sa = {};
	long n = argc > 1 ? atol(argv[1]) : 10, sum = 0, bad = 0;

	sa.sa_handler = on_fault;
	sa.sa_flags = SA_NODEFER;
	sigaction(SIGSEGV, &sa, nullptr);
	for (long i = 0; i < n; i++) {
		const long *p = i % 3 ? good : nullptr;

		sum += first(p) + between(p, i, 2);
		bad += first(p) < 0;
	}
	printf("%ld %ld\n", sum, bad);
	return 0;
}
