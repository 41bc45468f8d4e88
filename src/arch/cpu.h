/* SPDX-License-Identifier: MIT */
/*
 * A thread's integer registers as plain numbers, and memory behind two calls: enough to do by hand,
 * from outside, what generated code would have done. See arch_ops.perform.
 */
#ifndef JAB_ARCH_CPU_H
#define JAB_ARCH_CPU_H

#include <stddef.h>
#include <stdint.h>

struct cpu {
	uint64_t reg[16];	/* by number in machine code */
	uint64_t pc, flags;
	uint64_t tls;		/* what the thread pointer's segment begins at */
};

struct cpu_memory {
	void *arg;
	int (*read)(void *arg, uint64_t at, void *to, size_t len);
	int (*write)(void *arg, uint64_t at, const void *from, size_t len);
	int (*add)(void *arg, uint64_t at, uint64_t n);	/* to 8 bytes, so that no other addition is lost */
};

#endif
