/* SPDX-License-Identifier: MIT */
/* What an arena is made of: for the files of this folder that change text and take it back. */
#ifndef JAB_PROC_ARENA_H
#define JAB_PROC_ARENA_H

#include <sys/resource.h>
#include "arch/event.h"
#include "proc/batch.h"
#include "proc/sigframes.h"
#include "proc/tid.h"
#include "proc/undo.h"

/*
 * Two memfds. The first holds record, desk, code and tables: it is sealed before the target maps it, so that no
 * process but ours ever writes it. The second holds data and rings. Nothing of ours reads back from either what it
 * depends on: that is here.
 */
struct arena {
	struct proc *p;
	int fd, data_fd;	/* of both, while it is made */
	int pidfd;
	struct arena_label label;	/* its name in any process */
	uint64_t inode;		/* of the first memfd */
	taddr record_at;	/* where the target sees offset 0, read-only */
	size_t record_len;
	size_t desk_len;	/* behind the record: where batches of calls are made from */
	size_t size;		/* of the first memfd */
	size_t data_size;	/* of the second; 0: there is none */
	size_t data_view_len;	/* of our view of it: all but the rings */
	struct undo_book book;	/* our own copy of the record, and where the shared one is */
	uint8_t *view, *data_view;	/* here; the first begins with the shared record */
	uint8_t *rings_view;	/* likewise: the rings, one behind the other */
	size_t rings_len;
	struct piece *pieces;
	size_t n;
	bool mapped;		/* the target has the mappings */
	bool undumped;		/* and keeps them out of core dumps */
	struct sigframes frames;
	struct rseq_conf rseq;	/* of the threads that were there when it was made */
	uint32_t made_in;	/* priv(p)->stops then */
	int clock;		/* PR_TSC_...: may it read the time stamp counter? As of that stop; 0: not known */
	tid_list tids;		/* the same threads, until it is known where they keep their numbers */
	gap_list unread;	/* arena_map_later(): what arena_map_rest() is for */
	bool maps_later;
	bool has_tid;
	int32_t tid_off;
};

/* How many bytes of addresses a piece takes. */
static inline size_t piece_span(const struct piece *c)
{
	return c->kind == PIECE_RING ? 2 * c->len - RING_HEAD_SIZE : c->len;
}

/* Where a shared piece is: in the memfd that the target can write, or in the other one. */
static inline bool is_data(const struct piece *c)
{
	return c->kind == PIECE_DATA || c->kind == PIECE_RING;
}

/* Choose addresses for the record and for the pieces that have none yet. */
int arena_place(struct arena *a);

/* limits.c: of a process; 0 is ours. False: it was enough, or may not be changed, and nothing was. */
bool limit_lift(pid_t pid, int what, rlim_t need, struct rlimit *ret_old);
bool limit_descriptors(pid_t pid, struct rlimit *ret_old);
void limit_restore(pid_t pid, int what, const struct rlimit *old);

/* arena_make.c: the stop in which it is made. */
int arena_make(struct arena *a);
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
