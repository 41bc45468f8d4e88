/* SPDX-License-Identifier: MIT */
/*
 * The stack walker: from the registers at a site to the return addresses on its stack. It runs inside the target,
 * on a copy of the top of the stack, and never loads from an address other than its own memory: everything else is
 * read by the callback read(). It also compiles for the tracer (and its tests).
 */
#ifndef JAB_BLOB_UNWIND_H
#define JAB_BLOB_UNWIND_H

#include <stdint.h>

#include "blob/cpu.h"
#include "sym/unwind/unwind_table.h"

#define UNWIND_FRAMES_MAX 128
#define UNWIND_STACK 136

enum unwind_end {
	UNWIND_OUTERMOST,	/* complete */
	UNWIND_LIMIT,		/* there may be more */
	UNWIND_FAULT,		/* w->s->fault could not be read */
	UNWIND_LOST,		/* there is no rule for the next step */
};

/* Reads len bytes at `from` into `to`; returns how many bytes from the front could be read. */
typedef uint32_t unwind_read(void *arg, uint64_t from, void *to, uint32_t len);

/*
 * The state of a walk, in the scratch memory of an event rather than on the stack. The caller sets all members of
 * the first part.
 *
 * Another thread or process that holds the ring's lock as well may write here at the same time: a child that a
 * signal handler has forked during the walk, or a thread that took the lock because a child of the target has
 * overwritten it. The frames are worthless then, but no load or call goes to a wrong address: all addresses that
 * are used are in struct unwind_walk.
 */
struct unwind_state {
	uint64_t regs[NREGS];	/* by their number; the stack pointer as at the site */
	uint64_t ip;		/* the site */
	uint64_t copy_at;	/* address of the stack memory that the copy has */
	uint32_t copy_len;	/* bytes of the copy; 0: there is none */
	uint32_t entry;		/* the site is a function's first instruction: used where the table has no row */

	uint32_t known;		/* from here on set by the walk itself. Bit per register whose value is that of this frame */
	uint32_t exact;		/* ip is the next instruction of the frame, not the return address of a call */
	uint32_t span;		/* index of the span in which the last row was found */
	uint64_t cfa;
	uint64_t fault;		/* the address that could not be read */
};

/* The parameters of a walk. Set by the caller, on its stack. */
struct unwind_walk {
	struct unwind_state *s;
	const struct unwind_dir *dir;	/* NULL: frame pointers only */
	unwind_read *read;
	void *arg;
	uint8_t *copy;		/* memory for the copy of the stack, 8-aligned */
	uint32_t copy_room;	/* bytes of `copy`: at least 256, a multiple of 8 */
};

/*
 * Copies the rest of the stack pointer's page by plain loads, as the walk's first copy. That page is mapped if
 * `touched`, an address that the pad has just written to, is on the same page. Most walks then need no read() at
 * all. Neither argument may come from shared memory.
 */
void unwind_copy_page(struct unwind_walk *w, uint64_t sp, uint64_t touched);

/*
 * Writes the site and then the return addresses, innermost first, at most `limit` in all. Returns how many, and in
 * *ret_end why the walk ended. Uses at most UNWIND_STACK bytes of stack, return addresses included, before it calls
 * read().
 */
uint32_t unwind_walk(struct unwind_walk *w, uint64_t *frames, uint32_t limit, enum unwind_end *ret_end);

#endif
