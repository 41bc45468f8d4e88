/* SPDX-License-Identifier: MIT */
/* Taking our changes out: what removal by the tracer itself and recovery after its death share. */
#ifndef JAB_PROC_CLEAN_H
#define JAB_PROC_CLEAN_H

#include "proc/arena.h"

/* One process: text back, arena out, page copies dropped, verified. Adds to the report. */
int clean_process(struct proc *p, const struct undo *u, struct text_report *report);

/* That process, and every other one that maps the same arena, until none is left. */
int clean_everywhere(struct proc *p, const struct undo *u, struct text_report *report);
void clean_forks(pid_t not, const struct undo *u, struct text_report *report);	/* only the other ones */

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

/* holders.c: who has an arena. */
struct holder {
	pid_t pid;
	int fd;			/* -1: a mapping */
	uint64_t inode;
	struct tracer_id tracer;
};
typedef VEC(struct holder) holder_list;

void holders_in_maps(pid_t pid, holder_list *list);	/* appends: one entry for each arena mapped */
void holders_in_fds(pid_t pid, pid_t tid, holder_list *list);	/* appends: one for each descriptor */
int holders_everywhere(bool descriptors, holder_list *list);

#endif
