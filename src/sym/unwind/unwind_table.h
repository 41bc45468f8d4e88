/* SPDX-License-Identifier: MIT */
/*
 * Unwind tables: how to get from a frame to its caller. unwind.c makes them in the tracer, and the stack walker
 * inside the target reads them (blob/unwind.c). All references are relative distances, so a table works at any
 * address that it is copied to.
 *
 *	struct unwind_dir	spans of code, sorted, each with the distance to its data
 *	struct unwind_data	of one module: header, index, rows, rules
 *
 * Code is cut into blocks of 1 KiB. index[block] is the block's first row, index[block + 1] the end of its rows. A
 * row is 10 bits of offset in the block and 22 bits of rule number, and is valid up to the next row; a block's
 * first row is always at offset 0. So a lookup touches one cache line of the index, one or two of the rows and one
 * rule, of which a module has a few hundred.
 *
 * This header depends on no library.
 */
#ifndef JAB_SYM_UNWIND_TABLE_H
#define JAB_SYM_UNWIND_TABLE_H

#include <stdint.h>

#define UNWIND_BLOCK_BITS 10
#define UNWIND_BLOCK (1u << UNWIND_BLOCK_BITS)

enum unwind_kind {
	UNWIND_NONE,		/* there is no information for this code */
	UNWIND_END,		/* the outermost frame */
	UNWIND_STOP,		/* there is information that this table can't express */
	UNWIND_CFA,		/* CFA = reg + off */
	UNWIND_DEREF,		/* CFA = *(reg + off) + add */
	UNWIND_PLT,		/* CFA = reg + off, plus 8 from offset `add` of each 16 bytes on */
	UNWIND_SIGNAL,		/* all registers are in the signal frame at the stack pointer */
};

/* Where a register of the caller is saved: at base + offset, or (neither bit set) it is unchanged. */
enum unwind_flags {
	UNWIND_FP_CFA = 1 << 0,	/* the frame pointer at CFA + fp */
	UNWIND_FP_FP = 1 << 1,	/* at the frame pointer + fp */
	UNWIND_EXTRA_CFA = 1 << 2,
	UNWIND_EXTRA_FP = 1 << 3,
	UNWIND_FP_LOST = 1 << 4,
	UNWIND_EXTRA_LOST = 1 << 5,
	UNWIND_RA_REG = 1 << 6,	/* the return address is in register ra, else at CFA + ra */
};

/* Registers have their numbers of struct arch_regs; extra: unwind_abi.extra. */
struct unwind_rule {
	uint8_t kind, reg, flags, pad;
	int32_t off;
	int16_t add, ra, fp, extra;
};

_Static_assert(sizeof(struct unwind_rule) == 16, "layout");

struct unwind_data {
	uint32_t size;		/* total size, header included; a multiple of 8 */
	uint32_t nblocks;
	uint32_t rows;		/* distance from the header to uint32_t rows[] */
	uint32_t rules;		/* distance from the header to struct unwind_rule rules[] */
	uint32_t nrows, nrules;
	uint32_t index[];	/* nblocks + 1 */
};

/* Live addresses. data is the distance from the unwind_dir to the unwind_data of this code. */
struct unwind_span { uint64_t lo, hi; int64_t data; };

struct unwind_dir {
	uint64_t n;
	struct unwind_span span[];
};

#endif
