/* SPDX-License-Identifier: MIT */
/* Raising and lowering the semaphores of static tracepoints, with threads stopped. */
#ifndef JAB_PROC_SEMAPHORES_H
#define JAB_PROC_SEMAPHORES_H

#include "proc/arena/arena.h"

/* What was found where an edit is, before anything was restored. */
enum edit_state {
	EDIT_GONE,		/* its text is not mapped */
	EDIT_OLD,
	EDIT_OURS,		/* restored now */
	EDIT_FOREIGN,		/* bytes of somebody else: they stay */
};

/* All of the book from number `first` on, or none of them. Behind the write of the text: see the head of semaphores.c. */
int semaphores_raise(struct proc *p, struct undo_book *b, size_t first);

/* Before the first byte of text is restored; behind the last one. states: enum edit_state by number of the edit. */
void semaphores_begin(struct proc *p, const struct undo *u);
void semaphores_lower(struct proc *p, const struct undo *u, const uint8_t *states);

#endif
