/* SPDX-License-Identifier: MIT */
/* Calls each function of short.S N times with its result checked; prints N. */
#include "prog.h"

long packed_1(long), packed_2(long), packed_3(long), packed_4(long), packed_1b(long), packed_jump(long),
	packed_3b(long), packed_5(long), loose_1(long), loose_2(long), loose_3(long), loose_4(long);

/* The ones that only return leave %rax alone, so it is given a value before the call. */
static long call(long (*f)(long), long arg)
{
	long rax = 77;

	__asm__ volatile("call *%2" : "+a"(rax), "+D"(arg) : "r"(f)
			 : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory");
	return rax;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; long (*f)(long); long want; } all[] = {
		{ "packed_1", packed_1, 77 }, { "packed_2", packed_2, 77 }, { "packed_3", packed_3, 0 },
		{ "packed_4", packed_4, 0xffffffff }, { "packed_1b", packed_1b, 77 },
		{ "packed_jump", packed_jump, 0xffffffff }, { "packed_3b", packed_3b, 5 },
		{ "packed_5", packed_5, 12 }, { "loose_1", loose_1, 77 }, { "loose_2", loose_2, 3 },
		{ "loose_3", loose_3, 0 }, { "loose_4", loose_4, 0xffffffff },
	};
	long i, n = argc > 1 ? atol(argv[1]) : 1000;
	size_t k;

	for (i = 0; i < n; i++)
		for (k = 0; k < sizeof(all) / sizeof(all[0]); k++)
			if (call(all[k].f, 5) != all[k].want) {
				printf("bad: %s\n", all[k].name);
				return 3;
			}
	printf("%ld\n", n);
	return 0;
}
