/* SPDX-License-Identifier: MIT */
/* A function whose name is as long as those that templates get. */
#include <stdio.h>

#define X10(a) a##aaaaaaaaa0
#define X100(a) X10(a##aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhhhhhhhhhiiiiiiiiii)
#define X300(a) X100(a##aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhhhhhhhhhiiiiiiiiii\
jjjjjjjjjjaaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhhhhhhhhhiiiiiiiiiijjjjjjjjjj)

__attribute__((noinline)) int X300(long_name_)(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

int main(void)
{
	printf("%d\n", X300(long_name_)(4));
	return 0;
}
