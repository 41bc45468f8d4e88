/* SPDX-License-Identifier: MIT */
/* What an arena is made of: for the files of this folder that change text and take it back. */
#ifndef JAB_PROC_ARENA_H
#define JAB_PROC_ARENA_H

#include "arch/event.h"
#include "proc/batch.h"
#include "proc/sigframes.h"
#include "proc/tid.h"
#include "proc/undo.h"

struct arena {
	struct proc *p;
	int shm;		/* a segment's number; -1: it is a memfd */
	int fd;			/* that, opened by us */
	int pidfd;
	uint64_t inode;		/* tells its mappings in any process */
	taddr record_at;	/* where the target sees offset 0, read-only */
	taddr stage_at;		/* of a segment, while it is made: all of it, to be written */
	size_t record_len;
	size_t desk_len;	/* behind the record: where batches of calls are made from */
	struct undo_head *head;	/* our view of the same */
	size_t view_len;	/* of that view: all but the rings */
	size_t size;		/* of all that is shared */
	struct piece *pieces;
	size_t n;
	bool mapped;		/* the target has the mappings */
	bool undumped;		/* and keeps them out of core dumps */
	struct sigframes frames;
	struct rseq_conf rseq;	/* of the threads that were there when it was made */
	tid_list tids;		/* the same threads, until it is known where they keep their numbers */
	bool has_tid;
	int32_t tid_off;
};

/* How many bytes of addresses a piece takes. */
static inline size_t piece_span(const struct piece *c)
{
	return c->kind == PIECE_RING ? 2 * c->len - RING_HEAD_SIZE : c->len;
}

/* How many the record takes, with the desk, while the arena is made: a segment is mapped as a whole first. */
static inline size_t record_span(const struct arena *a)
{
	return a->shm >= 0 ? a->size : a->record_len + a->desk_len;
}

/* Choose addresses for the record and for the pieces that have none yet. */
int arena_place(struct arena *a);

/*
 * segment.c. It is made, marked for removal and seen here as a whole, from a->head on; false: there can be
 * none. While it is mapped, segment_map() shows a part of it once more.
 */
extern bool segment_never;	/* set by tests of the other way */
bool segment_make(struct arena *a);
void segment_drop(struct arena *a);
bool segment_map(const struct arena *a, uint8_t *at, size_t len, uint64_t offset);

/* arena_make.c: the stop in which it is made. */
int arena_make(struct arena *a, size_t max_edits);
size_t arena_calls(const struct arena *a);	/* at most, in one batch */
size_t arena_ranges(const struct arena *a, struct gap *ret_all);	/* of the pieces, sorted, joined */
void arena_unmap(struct arena *a);	/* while held */

/* While held: keep the pieces out of core dumps, once. */
void arena_dont_dump(struct arena *a);

/* The target is not there any more: no error for whoever wanted to leave it anyway. */
bool target_left(struct proc *p, int err);

/* While held. Raw result of a borrowed call, or why it could not be made. */
int64_t borrow(struct proc *p, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f);

#endif
