/* SPDX-License-Identifier: MIT */
/*
 * Edits grouped by the pages they are in: one span for each run of adjacent pages, so that a page
 * is read once and written once, however many edits it has. All memory is allocated by spans_make(), before the stop.
 */
#ifndef JAB_PROC_SPANS_H
#define JAB_PROC_SPANS_H

#include "proc/text/text.h"

struct span_of_text {
	uint64_t lo, hi;
	size_t first, n;	/* the edits inside, by number */
	uint8_t *now;		/* the bytes of [lo, hi), as of spans_read() */
	bool gone;		/* could not be read: not mapped any more */
	bool changed;		/* to be written by spans_write() */
};

struct spans {
	VEC(struct span_of_text) v;
	uint8_t *bytes;
	size_t size;
};

/* Edits are sorted by address. A span begins and ends with the bytes of edits, or at page borders. */
void spans_make(struct spans *s, const struct edit *edits, size_t n, bool whole_pages);
void spans_free(struct spans *s);

int spans_read(struct spans *s, struct proc *p);	/* while held; unreadable ones are marked gone */
int span_write(struct proc *p, const struct span_of_text *t);

/* The bytes of one edit within its span. */
static inline uint8_t *span_at(const struct span_of_text *t, uint64_t at)
{
	return t->now + (at - t->lo);
}

/* The edit whose bytes hold pc, its first byte included; NULL: none. */
const struct edit *edit_around(const struct edit *edits, size_t n, uint64_t pc);
/* The address to which a program counter is to be moved; 0: none. Moves are sorted. */
uint64_t move_find(const struct move *moves, size_t n, uint64_t pc);

#endif
