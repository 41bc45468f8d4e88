/* SPDX-License-Identifier: MIT */
/* The few functions of libc that a compiler calls on its own. */
#include "blob/inside.h"

void *memcpy(void *to, const void *from, size_t n)
{
	copy_bytes(to, from, n);
	return to;
}

void *memmove(void *to, const void *from, size_t n)
{
	uint8_t *t = to;
	const uint8_t *f = from;

	if (t <= f || t >= f + n)
		return memcpy(to, from, n);
	while (n--)
		*(volatile uint8_t *)(t + n) = f[n];
	return to;
}

void *memset(void *to, int c, size_t n)
{
	set_bytes(to, c, n);
	return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const volatile uint8_t *x = a, *y = b;

	for (; n; n--, x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}
