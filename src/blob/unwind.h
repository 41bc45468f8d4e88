/* SPDX-License-Identifier: MIT */
/*
 * The walker: from the registers of a site to the return addresses on its stack. It runs inside the
 * target, on a copy of the top of the stack, and never loads from an address that it was not given as
 * its own: everything else is asked of read(). It also compiles for the tracer (and its tests).
 */
#ifndef JAB_BLOB_UNWIND_H
#define JAB_BLOB_UNWIND_H

#include <stdint.h>

#include "sym/unwind_table.h"

#define UNWIND_FRAMES_MAX 128
#define UNWIND_STACK 136

enum unwind_end {
	UNWIND_OUTERMOST,	/* complete */
	UNWIND_LIMIT,		/* there may be more */
	UNWIND_FAULT,		/* w->s->fault could not be read */
	UNWIND_LOST,		/* the way on is not known */
};

/* Reads len bytes at `from` into `to`; gives back how many from the beginning could be read. */
typedef uint32_t unwind_read(void *arg, uint64_t from, void *to, uint32_t len);

/*
 * What changes during a walk, for the scratch memory of an event rather than the stack. The caller sets everything of the
 * first part.
 *
 * This memory may be written at the same time by another one that holds the ring, too: a copy of ourselves (a child forked
 * by a signal handler in the middle of a walk), or a thread that was led there because a child has written over the lock.
 * The frames are worthless then, but no load or call goes astray: what leads anywhere is in struct unwind_walk.
 */
struct unwind_state {
	uint64_t regs[16];	/* by number of machine code; rsp as at the site */
	uint64_t ip;		/* the site */
	uint64_t copy_at;	/* address that the copy is of, */
	uint32_t copy_len;	/* and its bytes; 0: there is none */
	uint32_t entry;		/* the site is a function's first instruction: used where no row tells */

	uint32_t known;		/* its own from here: registers whose values are those of this frame */
	uint32_t exact;		/* ip is where the frame goes on, not behind its call */
	uint32_t span;		/* where the last row was found */
	uint64_t cfa;
	uint64_t fault;		/* the address that could not be read */
};

/* Set by the caller, on its stack. */
struct unwind_walk {
	struct unwind_state *s;
	const struct unwind_dir *dir;	/* NULL: frame pointers only */
	unwind_read *read;
	void *arg;
	uint8_t *copy;		/* room for a copy of the stack, 8-aligned */
	uint32_t copy_room;	/* its bytes: at least 256, a multiple of 8 */
};

/*
 * Start with what is on the page of the stack pointer, by plain loads: it is there if `touched`, where
 * we have just written ourselves, is on the same page. Then most walks need no read at all. Both
 * numbers must not come from shared memory.
 */
void unwind_copy_page(struct unwind_walk *w, uint64_t rsp, uint64_t touched);

/*
 * Writes the site and then the return addresses, innermost first, at most `limit` of them. Gives back
 * how many, and why it ended in *ret_end. Uses at most UNWIND_STACK bytes of stack, return addresses
 * included, before it calls read().
 */
uint32_t unwind_walk(struct unwind_walk *w, uint64_t *frames, uint32_t limit, enum unwind_end *ret_end);

#endif
