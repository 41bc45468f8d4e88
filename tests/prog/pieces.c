/* SPDX-License-Identifier: MIT */
/*
 * A struct of which only the first half is anywhere while the second one is being made. clang describes
 * that half and says nothing about the rest.
 */
#include <stdio.h>

struct two { long a, b; };

__attribute__((noinline)) static long make(long n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1000;
}

__attribute__((noinline)) static long both(long n)
{
	struct two t;

	t.a = n * 3;
	__asm__ volatile("" : "+r"(t.a));
	/* no register is left for it: on the stack */
	__asm__ volatile("" : : : "rax", "rbx", "rcx", "rdx", "rsi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15");
	t.b = make(n);				/* line: half */
	__asm__ volatile("" : "+r"(t.a), "+r"(t.b));
	return t.a ^ t.b;			/* line: whole */
}

int main(void)
{
	for (long i = 1; i < 4; i++)
		printf("%ld\n", both(i * 100));
	return 0;
}
