/* SPDX-License-Identifier: MIT */
/* The library that dlopen.c opens; also built with its text at another place, as a changed version. */
__attribute__((noinline)) unsigned long plug_work(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
#ifdef CHANGED
	if (x == 77)
		return 5;
#endif
	return x * 5 + 2;
}

__attribute__((noinline)) unsigned long plug_other(unsigned long x)
{
	return plug_work(x) + plug_work(x + 1);
}
