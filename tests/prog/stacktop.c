/* SPDX-License-Identifier: MIT */
/*
 * Calls work() N times with eight arguments, the first half as a coroutine whose stack ends right above its first frame, with
 * nothing mapped behind: what would be its seventh argument is not there. The other half has it, next to the end of a page.
 * Prints the sum of what it returned.
 */
#include <sys/mman.h>
#include "prog.h"

#define PAGE 4096

noinline long work(long n)
{
	__asm__ volatile("" ::: "memory");
	return n * 3;
}

static long call_on(long (*f)(long), long a, void *top)
{
	long r;

	__asm__ volatile("mov %%rsp,%%rbx; mov %3,%%rsp; call *%1; mov %%rbx,%%rsp"
			 : "=a"(r) : "r"(f), "D"(a), "r"(top)
			 : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	return r;
}

int main(int argc, char **argv)
{
	char *stack = mmap(NULL, 9 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *top = stack + 4 * PAGE;
	long n = argc > 1 ? atol(argv[1]) : 100, sum = 0;

	if (stack == MAP_FAILED || mprotect(top, PAGE, PROT_NONE))
		return 2;
	for (long i = 0; i < n / 2; i++)
		sum += call_on(work, i, top);
	top = stack + 8 * PAGE;
	for (long i = n / 2; i < n; i++) {
		*(long *)top = i + 1000;
		sum += call_on(work, i, top);
	}
	printf("%ld\n", sum);
	return 0;
}
