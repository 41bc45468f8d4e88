/* SPDX-License-Identifier: MIT */
/*
 * Places that one probe may mean, of which some lack what a clause asks for: places N
 *
 * place_one() has `n`, place_two() has `n` and `wide`; both hold a copy of copied(), whose `b` the compiler has
 * thrown away in the first. Prints how often each was called and the sum of what the second was given.
 */
#include <stdio.h>
#include <stdlib.h>
#define noinline __attribute__((__noinline__, __noclone__))

static long sum;

__attribute__((const)) static noinline int costly(int n)
{
	__asm__("" : "+r"(n));
	return n * 3;
}

static inline __attribute__((__always_inline__)) void copied(int a, int b)
{
	__asm__ volatile("" : : "r"(a) : "memory");
}

noinline int place_one(int n)
{
	__asm__ volatile("" : "+r"(n));
	copied(n + 1, costly(n));
	return n;
}

noinline int place_two(int n, long wide)
{
	__asm__ volatile("" : "+r"(n), "+r"(wide));
	copied(n + 2, (int)wide);
	sum += wide;
	return n + (int)wide;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 0;

	for (int i = 0; i < n; i++) {
		place_one(i);
		place_two(i, 5l * i + costly(1) - 3);
	}
	printf("%d %ld\n", n, sum);
	return 0;
}
