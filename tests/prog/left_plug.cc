/* SPDX-License-Identifier: MIT */
/* A library with exceptions of its own: `left_host` loads it, and with it the unwinder. */
#include <ucontext.h>

extern "C" __attribute__((noinline)) long plug_bottom(long i)
{
	__asm__ volatile("");
	if (i % 2)
		throw i;
	return i;
}

/* By a way that is not watched. */
extern "C" __attribute__((noinline)) void plug_escape(ucontext_t *to)
{
	if (to)
		setcontext(to);
	__asm__ volatile("");
}

extern "C" __attribute__((noinline)) long plug_top(long i)
{
	try {
		return plug_bottom(i) + 1;
	} catch (long v) {
		return -v;
	}
}
