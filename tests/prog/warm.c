/* SPDX-License-Identifier: MIT */
/*
 * Two functions for so many seconds of CPU time: hot() all the time, half a microsecond each, cold() once in 10,000 calls of it.
 * Prints how often each was called.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__attribute__((noinline)) long hot(long n)
{
	for (int i = 0; i < 500; i++)
		n = n * 3 + i;
	return n;
}

__attribute__((noinline)) long cold(long n)
{
	return n * 5 + 1;
}

int main(int argc, char **argv)
{
	clock_t end = clock() + (argc > 1 ? atoi(argv[1]) : 1) * CLOCKS_PER_SEC;
	volatile long sum = 0;
	long hots = 0, colds = 0;

	while (clock() < end)
		for (int i = 0; i < 10000; i++) {
			sum += hot(hots++);
			if (i == 77)
				sum += cold(colds++);
		}
	printf("%ld %ld\n", hots, colds);
	return 0;
}
