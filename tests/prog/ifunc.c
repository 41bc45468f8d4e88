/* SPDX-License-Identifier: MIT */
/*
 * `ifunc N`: fast() is an ifunc that resolves to fast_wide(); nick() is another name of work(). Calls
 * each of fast and nick N times and work N times more, and prints N.
 */
#include "prog.h"

noinline unsigned long fast_plain(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 3;
}

noinline unsigned long fast_wide(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 4;
}

__attribute__((used)) static unsigned long (*resolve_fast(void))(unsigned long)
{
	return sizeof(void *) == 8 ? fast_wide : fast_plain;
}

unsigned long fast(unsigned long x) __attribute__((ifunc("resolve_fast")));

noinline unsigned long work(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3 + 1;
}

unsigned long nick(unsigned long x) __attribute__((alias("work")));

int main(int argc, char **argv)
{
	long i, n = argc > 1 ? atol(argv[1]) : 1000;
	unsigned long sum = 0;

	for (i = 0; i < n; i++)
		sum += fast((unsigned long)i) + nick((unsigned long)i) + work((unsigned long)i);
	if (sum != (unsigned long)(7 * (n * (n - 1) / 2) + 6 * n))
		return 3;
	printf("%ld\n", n);
	return 0;
}
