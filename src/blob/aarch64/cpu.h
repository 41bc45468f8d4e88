/* SPDX-License-Identifier: MIT */
/*
 * aarch64, for the code that runs inside the target, and for what the tracer shares with it. There is no such code yet (none.c): what
 * only the blob would use is not here.
 */
#ifndef JAB_BLOB_AARCH64_CPU_H
#define JAB_BLOB_AARCH64_CPU_H

#include <stdbool.h>
#include <stdint.h>

#define PAGE 4096u
#define RED_ZONE 0
#define USER_BITS 48		/* addresses of user space have no more */

static inline void spin(void)
{
	__asm__ volatile("yield");
}

/*
 * Replaces two words, aligned to 16 bytes, in one step if they are `from` and *old; else *old is the second one that was found.
 * In one order with all other accesses to them (acquire and release), as on x86. If the words differ, what was loaded is stored back:
 * only a store that succeeds proves that both were loaded at once.
 */
static inline bool replace_pair(void *at, uint64_t from, uint64_t *old, uint64_t to, uint64_t value)
{
	uint64_t a, b, x, y;
	uint32_t failed;

	do {
		__asm__ volatile("ldaxp %0, %1, %2" : "=&r"(a), "=&r"(b) : "Q"(*(char (*)[16])at) : "memory");
		x = a == from && b == *old ? to : a;
		y = a == from && b == *old ? value : b;
		__asm__ volatile("stlxp %w0, %2, %3, %1" : "=&r"(failed), "=Q"(*(char (*)[16])at) : "r"(x), "r"(y) : "memory");
	} while (failed);
	if (a == from && b == *old)
		return true;
	*old = b;
	return false;
}

#endif
