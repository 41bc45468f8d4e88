/* SPDX-License-Identifier: MIT */
/*
 * Changing a target's text, all or nothing, and restoring it. The record of how to undo the changes is in the
 * arena's first pages before the first byte of text is changed, in a form that another process can use
 * when the tracer is dead.
 */
#ifndef JAB_PROC_TEXT_H
#define JAB_PROC_TEXT_H

#include "proc/proc.h"

#define EDIT_MAX 16

/* One run of bytes to be changed. */
struct edit {
	taddr at;
	taddr resume;		/* where a thread goes on whose PC is `at` when the edit is removed: `at` itself;
				   for a long jump in filler, the site of the short jump that leads to it */
	uint8_t len;
	uint8_t group;		/* reserved */
	uint8_t old[EDIT_MAX], new[EDIT_MAX];
};

/* A thread found at `from` (inside a window) is moved to `to` (the same instruction in a pad). */
struct move { taddr from, to; };

/* A counter of 16 bits that is raised by one as long as the edit that holds the address `edit` is in the text (undo/semaphores.c). */
struct semaphore {
	taddr at, edit;
	uint16_t before;
	uint8_t state;		/* enum semaphore_state */
};

struct text_patch {
	VEC(struct edit) edits;		/* sorted by at, not overlapping */
	VEC(struct move) moves_in;	/* sorted by from: window -> pad, at insertion */
	VEC(struct move) moves_out;	/* sorted by from: pad -> original, at removal */
	VEC(struct semaphore) semaphores;
	void (*held)(void *arg);	/* called in the stop, before the text is written; NULL: nothing to do then */
	void *arg;
};

void text_patch_sort(struct text_patch *patch);	/* as text_apply() wants it */

/*
 * Apply a patch: record it, make private copies of its pages, stop, check that the old bytes
 * are still there (else -ESTALE naming the address, nothing changed), move program counters (also those in
 * signal frames, and those of system calls that may be restarted), write each page once, resume.
 */
int text_apply(struct proc *p, struct arena *a, const struct text_patch *patch);

/*
 * Look for breakpoints that were set over edits of the patch since; the old bytes are restored around each one, so that the
 * program does not run into the rest of a jump, and given() is called with the edit's address. Threads are stopped
 * only if a breakpoint is found.
 */
int text_give_way(struct proc *p, const struct text_patch *patch, void (*given)(void *arg, taddr at), void *arg);

/*
 * Remove everything: stop, restore every edit (one whose bytes are neither ours nor the
 * original ones is left and reported), move threads out of pads, wait for those that can't be moved,
 * unmap the arena, drop private copies of pages that equal their file again, resume, verify. Also
 * in every other process that maps the arena (forked children).
 */
struct text_report {
	size_t restored, foreign;	/* edits restored; edits that another process or the program has changed meanwhile */
	size_t pages_kept;		/* private page copies that could not be dropped */
	size_t processes;		/* that were cleaned, forked children included */
	size_t running;			/* of these, that still run */
	pid_t one_running;		/* the last of these */
	bool verified;			/* text, mappings and descriptors are as before */
	bool arena_left;		/* still mapped: a thread has not left a pad, or a foreign edit may need it */
	bool gone;			/* the process ended or executed another program meanwhile */
};
int text_remove(struct proc *p, struct arena *a, struct text_report *ret_report);

/* Remove what a killed tracer has left in a process and in its forks. -ENOENT: nothing is left. -EBUSY: the tracer lives. */
int text_recover(pid_t pid, struct text_report *ret_report);
int text_find_left(pid_list *ret_pids);	/* all processes with an arena whose tracer is dead */
bool text_is_traced(pid_t pid);		/* it has an arena whose tracer is alive */

#endif
