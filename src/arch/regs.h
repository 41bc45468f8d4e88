/* SPDX-License-Identifier: MIT */
/* The registers that a person can name, and which of them carry arguments. */
#ifndef JAB_ARCH_REGS_H
#define JAB_ARCH_REGS_H

#include <stdint.h>

struct arch_regs {
	const char *names[16];	/* by their number in machine code */
	uint8_t args[6];	/* arguments of the C convention; more stand on the stack */
	uint8_t go_args[9];	/* of Go since 1.17 */
	uint8_t ret, sp;
};

extern const struct arch_regs x86_regs;

/* By name; -1: there is none. */
int reg_number(const char *name);

#endif
