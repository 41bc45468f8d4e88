/* SPDX-License-Identifier: MIT */
/* Integer arithmetic as the CPU does it, with its flags. Sizes are 1, 4 or 8 bytes. */
#ifndef JAB_ARCH_X86_ARITH_H
#define JAB_ARCH_X86_ARITH_H

#include <stdbool.h>
#include <stdint.h>

enum { CF = 1, PF = 4, AF = 0x10, ZF = 0x40, SF = 0x80, DF = 0x400, OF = 0x800 };
#define STATUS ((uint64_t)(CF | PF | AF | ZF | SF | OF))
#define POPF_CHANGES (STATUS | 0x400)	/* and DF */

/* In the order of machine code. */
enum { ARITH_ADD, ARITH_OR, ARITH_ADC, ARITH_SBB, ARITH_AND, ARITH_SUB, ARITH_XOR, ARITH_CMP };

static inline uint64_t cut(uint64_t v, unsigned size)
{
	return size == 8 ? v : v & ((1ull << 8 * size) - 1);
}

/* a and b are already truncated to their size. */
uint64_t arith_do(unsigned op, uint64_t a, uint64_t b, unsigned size, uint64_t *flags);
uint64_t arith_inc(uint64_t v, unsigned size, uint64_t *flags);
uint64_t arith_dec(uint64_t v, unsigned size, uint64_t *flags);
uint64_t arith_flags(uint64_t v, unsigned size);	/* ZF, SF and PF of a result */
bool arith_condition(uint64_t flags, unsigned n);	/* n: as in jcc and setcc */

#endif
