/* SPDX-License-Identifier: MIT */
/*
 * What is known of a module's instructions: where each begins, which bytes can be branched to,
 * where a function leaves, and where we are in doubt. Link addresses throughout. Functions are
 * decoded when first asked for.
 */
#ifndef JAB_PAD_CODE_H
#define JAB_PAD_CODE_H

#include "arch/arch.h"
#include "sym/sym.h"

enum exit_kind { EXIT_RET, EXIT_JMP, EXIT_JCC, EXIT_JMP_IND };

struct code_exit { uint64_t addr; uint8_t kind; };

/* Why a byte is a target: kept for the reason that `check` shows. */
enum target_why {
	TARGET_NONE, TARGET_BRANCH, TARGET_TABLE, TARGET_LANDING, TARGET_POINTER, TARGET_ENTRY,
	TARGET_LEA, TARGET_RSEQ, TARGET_RETURN,
};

struct fcode {
	uint64_t lo, hi;	/* decoded range, filler behind the function included up to the next one */
	uint64_t end;		/* end of the function itself */
	const struct func *func;
	VEC(struct insn) insns;	/* back to back from lo; undecodable bytes end the list early */
	uint32_t *index;	/* index[addr - lo] = number of the instruction that begins there, or UINT32_MAX */
	uint8_t *target;	/* target[addr - lo] = enum target_why */
	VEC(struct code_exit) exits; /* exits in cold parts of this function included */
	bool uncertain;		/* an edge was missed: only tactics that keep every instruction start valid */
	bool broken;		/* undecodable or no bytes: not probed */
	uint32_t orphans;	/* blocks that nobody is known to reach: the doubt in figures */
	uint32_t lost_jumps;	/* computed jumps whose table was not found */
};

struct code {
	struct module *m;
	const struct arch_ops *arch;
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

/* Forget a decoded function, for runs over a whole file. f and what points into it is gone. */
void code_drop(struct code *c, const struct fcode *f);

uint64_t fcode_addr(const struct fcode *f, uint32_t insn);	/* where instruction number insn stands */

/* May this byte be reached other than by falling into it? Knows branches from other functions too. */
enum target_why code_target(struct code *c, const struct fcode *f, uint64_t addr);

/* Make a byte a target for good: code_target() and later decodings know it from now on. False: it was one. */
bool code_add_target(struct code *c, uint64_t addr, enum target_why why);

/*
 * Quick answer for a plain entry window, without decoding the function: is [lo, hi) free of inner
 * targets? Reads every byte of the function as if a rel8 or rel32 began there: true is certain,
 * false means decode and look closely.
 */
bool code_window_is_quiet(struct code *c, const struct func *f, uint64_t lo, uint64_t hi);

struct span { uint64_t lo, hi; };

/*
 * With n == 0 the text is only read. Does code outside a window's own function branch to (or take the address of) one of its inner
 * bytes, lo < byte < hi? Any number of windows in any order: ret_hit[i] is set to 0 or 1. The bytes
 * that were hit are made targets (code_add_target), so a second planning sees them. The first call
 * reads the whole text once, about 1 ns a byte; later ones look up. True: a target was found that was
 * not known before (a window that was planned over a known one is fine as it is).
 */
bool code_window_hit_from_outside(struct code *c, const struct span *windows, size_t n,
				  uint8_t *ret_hit);

/*
 * Filler: bytes that nothing reaches, unbroken nop/int3 behind an unconditional transfer or between
 * functions. Gives the nearest run of at least `need` bytes.
 * reach >= 0: addr <= lo <= addr + reach (the run may end beyond); a run that holds addr is cut there.
 * reach < 0: addr + reach <= lo and hi <= addr, cut at both.
 * To go on behind a run that is taken: again from its hi (or from its lo, with what reach is left).
 */
bool code_filler_near(struct code *c, uint64_t addr, int64_t reach, size_t need, struct span *ret_span);

/* Reasons never to touch an address: sigreturn pattern, cancellation ranges, rseq, data. NULL: none. */
const char *code_forbidden(struct code *c, uint64_t lo, uint64_t hi);
const char *code_never(struct code *c, uint64_t addr);	/* the same, as far as the whole function is concerned */

#endif
