/* SPDX-License-Identifier: MIT */
/* Calls backwards() N times, which sets the direction flag with its first instruction. Prints the sum of what it returned. */
#include "prog.h"

long backwards(const char *text, long n);
__asm__(".text\n"
	".globl backwards\n"
	".type backwards,@function\n"
	"backwards:\n"
	"	std\n"
	"	.rept 6; nop; .endr\n"
	"	mov %rsi,%rax\n"
	"	pushf\n"
	"	pop %rdx\n"
	"	and $0x400,%edx\n"
	"	add %rdx,%rax\n"		/* still set? */
	"	cld\n"
	"	ret\n"
	".size backwards,.-backwards\n");

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 100, sum = 0;
	char *text = strdup("hello, world");

	for (long i = 0; i < n; i++)
		sum += backwards(text, i);
	printf("%ld\n", sum);
	return 0;
}
