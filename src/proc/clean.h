/* SPDX-License-Identifier: MIT */
/* Taking our changes out: what removal by the tracer itself and recovery after its death share. */
#ifndef JAB_PROC_CLEAN_H
#define JAB_PROC_CLEAN_H

#include "proc/arena.h"

/* One process: text back, arena out, page copies dropped, verified. Adds to the report. Threads in pads are waited for
   until the deadline (now_ns()), and looked at once in any case. */
int clean_process(struct proc *p, const struct undo *u, uint64_t deadline, struct text_report *report);
#define CLEAN_NS 5000000000ull	/* with one process, or with all its forks together */
#define ROUNDS_NS 10000000000ull	/* with the look for forks */

/* giveway.c: are these `bytes`, but for an int3 here or there; and the old ones where they are the new ones */
bool text_is_under_breakpoint(const uint8_t *now, const uint8_t *bytes, size_t n);
void text_put_around_breakpoint(uint8_t *now, const uint8_t *new, const uint8_t *old, size_t n);

/* finish.c: by hand, while held, what is left of the code in a pad. */
#define FINISH_PAGE 4096ull
struct finish {
	struct proc *p;
	const struct undo *u;
	const struct gap *arena;	/* its mappings */
	size_t n;
	uint64_t page_at;		/* 0: none is kept. From one stop to the next, none */
	uint8_t page[FINISH_PAGE];
};
int finish_thread(struct finish *f, struct thread *t);		/* -EAGAIN: it must run itself */
int finish_frame(struct finish *f, struct saved_pc *s);		/* likewise; s->pc is the new place */

/* pages.c: private copies of text pages that equal their file again. */
struct pages {
	VEC(uint64_t) at;	/* page addresses, ascending */
	uint8_t *file;		/* what the file says, 4096 bytes each */
	uint8_t *state;
};
struct spans;
void pages_load(struct pages *g, struct proc *p, const struct spans *s);	/* slow; uses p->maps */
void pages_compare(struct pages *g, const struct spans *s);			/* with what stands in the spans */
/* While held: drop some runs of pages. From a desk, if there is one, it takes one turn of a thread. */
void pages_drop(struct pages *g, struct proc *p, bool check, const struct desk *desk);
int pages_drop_rest(struct pages *g, struct proc *p);	/* the others, in slices, so that no pause gets long */
size_t pages_left(const struct pages *g);	/* still to be dropped */
size_t pages_kept(const struct pages *g);	/* those that were not */
void pages_free(struct pages *g);

/* holders.c: which processes have an arena. */
struct holder {
	pid_t pid, via;		/* a process, and a thread of it that has not ended */
	int fd;			/* -1: mappings */
	uint64_t record;	/* where the record is mapped; 0: it is not */
	uint64_t inode;		/* of the record, or of the descriptor; 0: it is not mapped */
	uint64_t data_inode;	/* of what the target can write; the same */
	struct arena_label label;
};
typedef VEC(struct holder) holder_list;
#define HOLDERS_MOST 8		/* of each kind, in one process: what is beyond was made to keep us busy */

void holders_in_maps(pid_t pid, holder_list *list);	/* appends: one entry for each arena mapped */
void holders_in(struct proc *p, holder_list *list);	/* the same of a process that we have opened */
void holders_in_fds(pid_t pid, pid_t tid, holder_list *list);	/* appends: one for each descriptor */
int holders_everywhere(bool descriptors, holder_list *list);
bool holder_shares(const struct holder *h, const struct arena *a);	/* the very memory, by a challenge */
bool holder_is_older(const struct holder *h, const struct arena *a);

/* tracer.c */
enum tracer_state holder_tracer(const struct holder *h, pid_t *ret_pid);	/* its number here, if it is alive */
int refuse_living(const struct holder *h);	/* -EBUSY with a sentence, or 0 */

/* ids.c: what a process calls itself in its own namespace */
bool innermost_pid(pid_t pid, uint32_t *ret_pid);

static inline bool has_pid(const pid_list *list, pid_t pid)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i] == pid)
			return true;
	return false;
}

#endif
