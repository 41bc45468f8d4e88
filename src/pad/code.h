/* SPDX-License-Identifier: MIT */
/*
 * The instructions of a module: where each begins, which bytes are branch targets, where a function exits, and
 * where the analysis is in doubt. Link addresses throughout. Functions are decoded at their first use.
 */
#ifndef JAB_PAD_CODE_H
#define JAB_PAD_CODE_H

#include "arch/arch.h"
#include "sym/sym.h"

enum exit_kind { EXIT_RET, EXIT_JMP, EXIT_JCC, EXIT_JMP_IND };

struct code_exit { uint64_t addr; uint8_t kind; };

/* Why a byte is a branch target: kept for the reason that `jab check` shows. */
enum target_why {
	TARGET_NONE, TARGET_BRANCH, TARGET_TABLE, TARGET_LANDING, TARGET_POINTER, TARGET_ENTRY,
	TARGET_LEA, TARGET_RSEQ, TARGET_RETURN,
	TARGET_DATA,		/* no branch: a constant that the function loads */
};

struct fcode {
	uint64_t lo, hi;	/* decoded range, including filler after the function up to the next one */
	uint64_t end;		/* end of the function itself */
	const struct func *func;
	VEC(struct insn) insns;	/* contiguous from lo; undecodable bytes end the list early */
	uint32_t *index;	/* index[addr - lo] = number of the instruction that begins there, or UINT32_MAX */
	uint8_t *target;	/* target[addr - lo] = enum target_why */
	VEC(struct code_exit) exits; /* exits in cold parts of this function included */
	bool uncertain;		/* a branch may have been missed: only tactics that keep every instruction start valid */
	bool broken;		/* undecodable or without bytes: not probed */
	uint32_t orphans;	/* number of blocks that no known branch reaches: the extent of the doubt */
	uint32_t lost_jumps;	/* computed jumps whose table was not found */
};

struct code {
	struct module *m;
	const struct arch *arch;
	void *priv;
};

int code_open(struct module *m, struct code **ret_code);
void code_close(struct code *c);

/*
 * Memory for the cells of a plan, all zero: of a large text only those around windows are ever touched. Given back all zero,
 * it is used by the next plan.
 */
uint16_t *code_take_cells(struct code *c, size_t size);	/* NULL: no memory */
void code_give_cells(struct code *c, uint16_t *cells, size_t size);

/* The function around addr, decoded; NULL (with a sentence) if no function is known there. */
const struct fcode *code_func(struct code *c, uint64_t addr);

/* Frees a decoded function, for runs over a whole file. f and pointers into it are invalid afterwards. */
void code_drop(struct code *c, const struct fcode *f);

uint64_t fcode_addr(const struct fcode *f, uint32_t insn);	/* address of instruction number insn */

/*
 * Whether and why this byte may be reached other than from the instruction before it. Includes branches from other
 * functions.
 */
enum target_why code_target(struct code *c, const struct fcode *f, uint64_t addr);

/* Marks a byte as a branch target permanently: code_target() and later decodings include it. False: it already was one. */
bool code_add_target(struct code *c, uint64_t addr, enum target_why why);

/*
 * Quick check for a window at a function's entry, without decoding the function: whether [lo, hi) has no inner
 * targets. Takes every byte of the function for the start of a rel8 or rel32: true is certain, false means that the
 * function must be decoded.
 */
bool code_window_is_quiet(struct code *c, const struct func *f, uint64_t lo, uint64_t hi);

struct span { uint64_t lo, hi; };

/*
 * Finds the windows that have an inner byte (lo < byte < hi) to which code outside of the window's own function
 * branches, or whose address it takes. Any number of windows in any order: ret_hit[i] is set to 0 or 1. The bytes
 * that were hit become targets (code_add_target), so a second planning includes them. The first call reads the
 * whole text once, about 1 ns a byte; later calls look up; with n == 0 the text is only read. Returns true if a
 * target was found that was not known before (a window that was planned over a known one is valid).
 */
bool code_window_hit_from_outside(struct code *c, const struct span *windows, size_t n,
				  uint8_t *ret_hit);

/*
 * Filler: bytes that no code reaches: a run of nop/int3 after an unconditional branch or between functions. Finds
 * the nearest run of at least `need` bytes.
 *reach >= 0: addr <= lo <= addr + reach (the run may end beyond); a run that contains addr is cut there.
 *reach < 0: addr + reach <= lo and hi <= addr, cut at both.
 * To continue after a run that is taken: call again from its hi (or from its lo, with the remaining reach).
 */
bool code_filler_near(struct code *c, uint64_t addr, int64_t reach, size_t need, struct span *ret_span);

/* Reasons never to change an address: sigreturn pattern, cancellation ranges, rseq, data. NULL: there is none. */
const char *code_forbidden(struct code *c, uint64_t lo, uint64_t hi);
const char *code_never(struct code *c, uint64_t addr);	/* reasons that concern the whole function */

#endif
