/* SPDX-License-Identifier: MIT */
/* Removing jab's changes from a process: what removal by the tracer itself and recovery after its death share. */
#ifndef JAB_PROC_CLEAN_H
#define JAB_PROC_CLEAN_H

#include "proc/arena/arena.h"

/*
 * One process: restores the text, unmaps the arena, drops page copies, verifies. Adds to the report. Threads in pads are
 * waited for until the deadline (now_ns()); one attempt is made in any case.
 */
int clean_process(struct proc *p, const struct undo *u, uint64_t deadline, struct text_report *report);
#define CLEAN_NS 5000000000ull	/* time for one process, and for all its forks together */
#define ROUNDS_NS 10000000000ull	/* time for all rounds of looking for forks in /proc */

/* giveway.c. Whether `now` equals `bytes` except for at least one int3. */
bool text_is_under_breakpoint(const uint8_t *now, const uint8_t *bytes, size_t n);
/* Replaces the bytes that equal those of `new` by those of `old`; others, such as an int3, stay. */
void text_put_around_breakpoint(uint8_t *now, const uint8_t *new, const uint8_t *old, size_t n);

/* finish.c: interprets the rest of a pad's code for a stopped thread or a signal frame. */
#define FINISH_PAGE 4096ull
struct finish {
	struct proc *p;
	const struct undo *u;
	const struct gap *arena;	/* its mappings */
	size_t n;
	uint64_t page_at;		/* address of the pad page that `page` holds, within one stop; 0: none */
	uint8_t page[FINISH_PAGE];
};
int finish_thread(struct finish *f, struct thread *t);		/* -EAGAIN: not possible, the thread must leave the pad itself */
int finish_frame(struct finish *f, struct saved_pc *s);		/* the same for a frame; s->pc becomes the new address */

/* pages.c: private copies of text pages that equal their file again. */
struct pages {
	VEC(uint64_t) at;	/* page addresses, ascending */
	uint8_t *file;		/* the bytes of the file, 4096 for each page */
	uint8_t *state;
};
struct spans;
void pages_load(struct pages *g, struct proc *p, const struct spans *s);	/* slow; uses p->maps */
void pages_compare(struct pages *g, const struct spans *s);			/* with the bytes in the spans */
/* While held: drop some runs of pages. With a desk, all in one batch of system calls. check: compare each page once more. */
void pages_drop(struct pages *g, struct proc *p, bool check, const struct desk *desk);
int pages_drop_rest(struct pages *g, struct proc *p);	/* the others, some in each of several stops, so that no pause gets long */
size_t pages_left(const struct pages *g);	/* still to be dropped */
size_t pages_kept(const struct pages *g);	/* that were not dropped */
void pages_free(struct pages *g);

/* holders.c: which processes have an arena, mapped or as a descriptor. */
struct holder {
	pid_t pid, via;		/* a process, and a thread of it that has not ended */
	int fd;			/* the descriptor; -1: this entry is for mappings */
	uint64_t record;	/* where the record is mapped; 0: it is not */
	uint64_t inode;		/* of the record's mapping, or of the descriptor; 0: the record is not mapped */
	uint64_t data_inode;	/* of the memfd that the target can write; 0: it is not mapped */
	struct arena_label label;
};
typedef VEC(struct holder) holder_list;
#define HOLDERS_MOST 8		/* of each kind, in one process: more are made only to keep the tracer busy */

void holders_in_maps(pid_t pid, holder_list *list);	/* appends: one entry for each arena mapped */
void holders_in(struct proc *p, holder_list *list);	/* the same for an open process */
void holders_in_fds(pid_t pid, pid_t tid, holder_list *list);	/* appends: one entry for each descriptor */
/* These append. A process whose mappings can't be read in time is added to *stuck. */
int holders_among_kin(const struct arena *a, holder_list *list, pid_list *stuck);	/* mappings of all processes that may be forks of its target */
int holders_everywhere(holder_list *list, pid_list *stuck);	/* mappings and descriptors of all processes */
bool holder_shares(const struct holder *h, const struct arena *a);	/* it maps the memory of a: proved by a challenge */
bool holder_is_older(const struct holder *h, const struct arena *a);
bool holder_is_late(const struct holder *h, struct proc *p);

/* tracer.c */
enum tracer_state holder_tracer(const struct holder *h, pid_t *ret_pid);	/* *ret_pid: its pid in our namespace, if it is alive */
int refuse_living(const struct holder *h);	/* -EBUSY with a message if the tracer lives or that is not known; else 0 */

/* ids.c: the pid of a process in its own pid namespace */
bool innermost_pid(pid_t pid, uint32_t *ret_pid);

static inline bool has_pid(const pid_list *list, pid_t pid)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i] == pid)
			return true;
	return false;
}

#endif
