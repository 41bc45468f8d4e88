/* SPDX-License-Identifier: MIT */
/*
 * A thread's integer registers, and access to its memory by callbacks: enough to emulate generated code from
 * outside. See arch.perform.
 */
#ifndef JAB_ARCH_CPU_H
#define JAB_ARCH_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "arch/regs.h"

struct cpu {
	uint64_t reg[CPU_REGS];	/* by their number: arch/regs.h */
	uint64_t pc, flags;
	uint64_t tls;		/* base address of the thread pointer's segment */
};

struct cpu_memory {
	void *arg;
	int (*read)(void *arg, uint64_t at, void *to, size_t len);
	int (*write)(void *arg, uint64_t at, const void *from, size_t len);
	int (*add)(void *arg, uint64_t at, uint64_t n);	/* adds to 8 bytes atomically */
};

#endif
