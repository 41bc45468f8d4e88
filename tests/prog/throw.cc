/* SPDX-License-Identifier: MIT */
/*
 * Exceptions through functions, caught in them, rethrown by them. An exit by exception is no return.
 * `throw N` prints "name entries returns" as returns.c does, counted by the caller's side.
 */
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#define noinline __attribute__((noinline, noclone))

static volatile long sink;

struct guard {	/* its destructor makes a cleanup landing pad in every function that holds one */
	noinline ~guard() { sink = sink + 1; }
};

noinline long source(long i)
{
	if (i % 4 == 0)
		throw std::runtime_error("four");
	if (i % 4 == 1)
		throw i;
	return i * 2;
}

namespace shop {

noinline long through(long i)
{
	guard g;

	return source(i) + 1;
}

noinline long rethrow(long i)
{
	try {
		return through(i);
	} catch (long v) {
		sink = sink + v;
		throw;
	}
}

}

noinline long catcher(long i)
{
	try {
		return shop::rethrow(i);
	} catch (const std::exception &) {
		return -1;
	} catch (long v) {
		return -v;
	}
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 1000, ok = 0, sum = 0;

	for (long i = 0; i < n; i++) {
		ok += i % 4 >= 2;
		sum += catcher(i);
	}
	printf("source %ld %ld\n", n, ok);
	printf("shop::through %ld %ld\n", n, ok);
	printf("shop::rethrow %ld %ld\n", n, ok);
	printf("catcher %ld %ld\n", n, n);
	printf("sum %ld %ld\n", sum, (long)sink);
	return 0;
}
