/* SPDX-License-Identifier: MIT */
/* For sharedtext.c: it needs no relocation. */
long in_library(long n)
{
	__asm__ volatile("" : "+r"(n));
	return n * 3 + 7;
}
