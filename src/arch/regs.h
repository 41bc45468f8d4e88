/* SPDX-License-Identifier: MIT */
/* Registers: their names, what they are for, and their numbers in DWARF. */
#ifndef JAB_ARCH_REGS_H
#define JAB_ARCH_REGS_H

#include <stdint.h>

#define CPU_REGS 32		/* most general registers that a CPU has, the stack pointer included */
#define CPU_VECTORS 32

struct arch_regs {
	const char *names[CPU_REGS + 2];	/* by number: the general registers, the pc, the flags */
	const char *others[CPU_REGS + 2];	/* a second name in the language; NULL: none */
	const char *some;		/* the names for messages */
	const char *vector;		/* word before the number of a vector register */
	uint8_t n, nvectors;
	uint8_t sp, fp;			/* stack pointer and frame pointer */

	uint8_t dwarf[CPU_REGS];	/* register by DWARF's number, as far as they are general ones */
	uint8_t dwarf_pc;		/* DWARF's number of the return address */
	struct { uint8_t lo, hi, first; } dwarf_vectors[2];	/* DWARF's numbers lo to hi are the vector registers from `first` on */
	struct { uint8_t lo, hi; } dwarf_stacked;	/* those of a stack of floating point registers; hi 0: there is none */
};

/* The address of the site, and the flags, have the numbers after those of the general registers. */
static inline uint32_t reg_pc(const struct arch_regs *regs)
{
	return regs->n;
}

static inline uint32_t reg_flags(const struct arch_regs *regs)
{
	return regs->n + 1;
}

/* The number of a register by its name; -1: there is none of that name. */
int reg_number(const struct arch_regs *regs, const char *name);

/* Likewise by either of its names. */
int reg_number_of_any(const struct arch_regs *regs, const char *name);

/* A general register by DWARF's number; -1: it is no general one. */
int reg_of_dwarf(const struct arch_regs *regs, uint64_t number);

#endif
