/* SPDX-License-Identifier: MIT */
/* The registers that users can name, and which of them carry arguments. */
#ifndef JAB_ARCH_REGS_H
#define JAB_ARCH_REGS_H

#include <stdint.h>

#define CPU_REGS 32		/* most general registers that a CPU has, the stack pointer included */

struct arch_regs {
	const char *names[CPU_REGS];	/* by their number in machine code */
	uint8_t n;
	uint8_t args[8], nargs;	/* of the C calling convention; further arguments are on the stack */
	uint8_t go_args[9];	/* of Go's calling convention since 1.17 */
	uint8_t ret, sp;
};

extern const struct arch_regs x86_regs;

/* The number of a register by its name; -1: there is none of that name. */
int reg_number(const struct arch_regs *regs, const char *name);

#endif
