/* SPDX-License-Identifier: MIT */
/*
 * How to get from a frame to its caller, as the walker inside the target reads it (blob/unwind.c) and
 * as unwind.c makes it outside. Everything is found by distances, so it works wherever it is copied.
 *
 *	struct unwind_dir	spans of code, sorted, each with the distance to its data
 *	struct unwind_data	of one module: header, index, rows, rules
 *
 * Code is cut into blocks of 1 KiB. index[block] is the block's first row, index[block + 1] the end of
 * its rows. A row is 10 bits of place in the block and 22 bits of rule, and holds up to the next row;
 * a block's first row is always at place 0. So a lookup touches one line of the index, one or two of
 * the rows and one rule, of which a module has a few hundred.
 *
 * This header is used without any library.
 */
#ifndef JAB_SYM_UNWIND_TABLE_H
#define JAB_SYM_UNWIND_TABLE_H

#include <stdint.h>

#define UNWIND_BLOCK_BITS 10
#define UNWIND_BLOCK (1u << UNWIND_BLOCK_BITS)

enum unwind_kind {
	UNWIND_NONE,		/* nothing is known here */
	UNWIND_END,		/* the outermost frame */
	UNWIND_STOP,		/* something is known, but not told in this form */
	UNWIND_CFA,		/* CFA = reg + off */
	UNWIND_DEREF,		/* CFA = *(reg + off) + add */
	UNWIND_PLT,		/* CFA = reg + off, and 8 more from the place `add` of 16 bytes on */
	UNWIND_SIGNAL,		/* all registers are in the ucontext at rsp */
};

/* Where something of the caller's is: at base + offset, or (neither bit set) it is as it was. */
enum unwind_flags {
	UNWIND_BP_CFA = 1 << 0,	/* rbp at CFA + bp */
	UNWIND_BP_BP = 1 << 1,	/* rbp at rbp + bp */
	UNWIND_BX_CFA = 1 << 2,
	UNWIND_BX_BP = 1 << 3,
	UNWIND_BP_LOST = 1 << 4,
	UNWIND_BX_LOST = 1 << 5,
	UNWIND_RA_REG = 1 << 6,	/* the return address is in register ra, else at CFA + ra */
};

/* Registers have their numbers of machine code: rax rcx rdx rbx rsp rbp rsi rdi r8... */
struct unwind_rule {
	uint8_t kind, reg, flags, pad;
	int32_t off;
	int16_t add, ra, bp, bx;
};

_Static_assert(sizeof(struct unwind_rule) == 16, "layout");

struct unwind_data {
	uint32_t size;		/* of all, header included; a multiple of 8 */
	uint32_t nblocks;
	uint32_t rows;		/* distance from the header to uint32_t rows[] */
	uint32_t rules;		/* and to struct unwind_rule rules[] */
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
