/* SPDX-License-Identifier: MIT */
/* The parts of an arena: for the files of this folder that make it, change text and restore it. */
#ifndef JAB_PROC_ARENA_H
#define JAB_PROC_ARENA_H

#include <sys/resource.h>
#include "arch/event.h"
#include "proc/borrow/batch.h"
#include "proc/frames/sigframes.h"
#include "proc/threads/tid.h"
#include "proc/undo/undo.h"

/*
 * Two memfds. The first holds record, desk, code and tables: it is sealed before the target maps it, so that only the
 * tracer ever writes it. The second holds data and rings. The tracer never relies on what it reads back from
 * either: what it needs to know is in this struct.
 */
struct arena {
	struct proc *p;
	int fd, data_fd;	/* the two memfds, while the arena is made */
	int pidfd;
	struct arena_label label;	/* the name of its mappings in any process */
	uint64_t inode;		/* of the first memfd */
	taddr record_at;	/* where the target maps offset 0 of the first memfd, read-only */
	size_t record_len;
	size_t desk_len;	/* after the record: table and code of batches of calls */
	size_t size;		/* of the first memfd */
	size_t data_size;	/* of the second; 0: there is none */
	size_t data_view_len;	/* how much of it data_view maps: all but the rings */
	struct undo_book book;	/* the tracer's own copy of the record, and where the shared one is */
	uint8_t *view, *data_view;	/* the tracer's mappings of the memfds; the first begins with the shared record */
	uint8_t *rings_view;	/* the tracer's mappings of the rings, one after the other */
	size_t rings_len;
	struct piece *pieces;
	size_t n;
	struct {		/* for kin_find() */
		uint64_t since;	/* when the arena was made, in the ticks of /proc/PID/stat */
		pid_t parent;	/* of the target, as of proc_open() */
		pid_list sharers;	/* processes that shared the target's memory then */
	} kin;
	bool mapped;		/* the target has the mappings */
	bool undumped;		/* they are excluded from core dumps, or that was tried */
	struct sigframes frames;
	struct rseq_conf rseq;	/* of the threads that existed when the arena was made */
	uint32_t made_in;	/* priv(p)->stops then */
	int clock;		/* PR_TSC_...: whether the target may read the time stamp counter, as of that stop; 0: not known */
	tid_list tids;		/* the same threads, until tid_off is found */
	gap_list unread;	/* after arena_map_later(): ranges that arena_map_rest() has to map in the target */
	bool maps_later;
	bool has_tid;		/* tid_off is valid: see proc_tid_offset() */
	int32_t tid_off;
};

/* How many bytes of address space a piece takes. */
static inline size_t piece_span(const struct piece *c)
{
	return c->kind == PIECE_RING ? 2 * c->len - RING_HEAD_SIZE : c->len;
}

/* Whether a shared piece is in the memfd that the target can write, not in the sealed one. */
static inline bool is_data(const struct piece *c)
{
	return c->kind == PIECE_DATA || c->kind == PIECE_RING;
}

/* Choose addresses for the record and for the pieces that have none yet. */
int arena_place(struct arena *a);

/* limits.c: of a process; pid 0 is the tracer. false: the limit suffices or can't be changed, and was not changed. */
bool limit_lift(pid_t pid, int what, rlim_t need, struct rlimit *ret_old);
bool limit_descriptors(pid_t pid, struct rlimit *ret_old);
void limit_restore(pid_t pid, int what, const struct rlimit *old);

/* arena_make.c: the stop in which the arena is made. */
int arena_make(struct arena *a);
size_t arena_calls(const struct arena *a);	/* the most system calls that its batch may have */
size_t arena_ranges(const struct arena *a, struct gap *ret_all);	/* addresses of the pieces, sorted, neighbours joined */
void arena_unmap(struct arena *a);	/* while held */

/* While held: exclude the pieces from core dumps, if that was not done yet. */
void arena_dont_dump(struct arena *a);

/* err is an error, and the reason is that the target has ended or runs another program. */
bool target_left(struct proc *p, int err);

/* While held. The raw result of a borrowed call, or the error because of which it could not be made. */
int64_t borrow(struct proc *p, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f);

#endif
