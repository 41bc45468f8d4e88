/* SPDX-License-Identifier: MIT */
/*
 * For targets that are probed while they are busy. work() is called only by "run N", so its count
 * is exact for a probe that was there before and after; noise() is called by the background all
 * the time, so probes on it come and go under running threads. Both are checked by their results.
 */
#ifndef PHASES_H
#define PHASES_H

#include "prog.h"

noinline unsigned long work(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3 + 1;
}

/* Long enough for several windows, with a loop, a call and three ways out. */
noinline unsigned long noise_leaf(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x ^ (x >> 7);
}

noinline unsigned long noise(unsigned long x)
{
	unsigned long i, sum = 0;

	if (x % 5 == 0)
		return x + 1;
	for (i = 0; i < x % 4; i++) {
		sum += noise_leaf(x + i);
		__asm__ volatile("" : "+r"(sum));
	}
	if (x & 8)
		return sum;
	return noise_leaf(sum) + 2;
}

/* The same again, never probed: compiled away into its caller. */
static inline __attribute__((always_inline)) unsigned long noise_leaf_expected(unsigned long x)
{
	return x ^ (x >> 7);
}

static inline __attribute__((always_inline)) unsigned long noise_expected(unsigned long x)
{
	unsigned long i, sum = 0;

	if (x % 5 == 0)
		return x + 1;
	for (i = 0; i < x % 4; i++)
		sum += noise_leaf_expected(x + i);
	return x & 8 ? sum : noise_leaf_expected(sum) + 2;
}

static inline void make_noise(unsigned long x)
{
	unsigned long got = noise(x);

	if (got != noise_expected(x))
		bad("noise(%lu) was %lu", x, got);
}

static inline void work_times(long n)
{
	long i;

	for (i = 0; i < n; i++)
		if (work((unsigned long)i) != (unsigned long)i * 3 + 1)
			bad("work(%ld) was wrong", i);
}

/* The i-th of t shares of n. */
static inline long share_of(long n, int i, int t)
{
	return n / t + (i < n % t);
}

#endif
