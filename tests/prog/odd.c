/* SPDX-License-Identifier: MIT */
/* odd N: names that test_output.py replaces in the file by others of the same length, which speak to a terminal. */
#include <stdio.h>
#include <stdlib.h>

struct tEEEEag { int mEEEEember; };
enum eEEEEnum { vEEEEalue = 7 };

__attribute__((noinline)) int wEEEEork(struct tEEEEag *pEEEEaram, enum eEEEEnum kind, const char *text)
{
	__asm__ volatile("" : : "r"(text) : "memory");
	return pEEEEaram->mEEEEember + kind;
}

int main(int argc, char **argv)
{
	struct tEEEEag t = { 1 };
	int sum = 0;

	for (int i = 0; i < atoi(argv[1]); i++)
		sum += wEEEEork(&t, vEEEEalue, argc > 2 ? argv[2] : "text");
	printf("%d\n", sum);
	return 0;
}
