/* SPDX-License-Identifier: MIT */
/* A library with exceptions of its own: `left_host` loads it, and with it the unwinder. */
extern "C" __attribute__((noinline)) long plug_bottom(long i)
{
	__asm__ volatile("");
	if (i % 2)
		throw i;
	return i;
}

extern "C" __attribute__((noinline)) long plug_top(long i)
{
	try {
		return plug_bottom(i) + 1;
	} catch (long v) {
		return -v;
	}
}
