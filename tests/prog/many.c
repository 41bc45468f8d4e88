/* SPDX-License-Identifier: MIT */
/* Three functions that look alike: events of a probe that matches all of them must say which one it was. */
#include "prog.h"

noinline int op_a(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

noinline int op_b(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 2;
}

noinline int op_c(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 3;
}

int main(void)
{
	int sum = 0;

	for (int i = 0; i < 2; i++)
		sum += op_a(i) + op_b(i) + op_c(i);
	printf("%d\n", sum);
	return 0;
}
