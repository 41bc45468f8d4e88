/* SPDX-License-Identifier: MIT */
/* Thread-local variables of a library. NAME(x) is its own name of x. */
#include "prog.h"

static __thread long NAME(mine) = 11;
__thread int NAME(open)[40] = { 12 };
__thread char NAME(zeros)[1000];

long NAME(probe)(long n);
long NAME(call)(long n);

noinline long NAME(probe)(long n)
{
	__asm__ volatile("" : "+r"(n) : : "memory");
	return n * 3;
}

long NAME(call)(long n)
{
	NAME(mine) += n;
	NAME(open)[3] = (int)n * 5;
	NAME(zeros)[999] = (char)n;
	printf("%ld %ld %d %d %p\n", n, NAME(mine), NAME(open)[3], NAME(zeros)[999], (void *)&NAME(mine));
	return NAME(probe)(n);
}
