/* SPDX-License-Identifier: MIT */
/*
 * Following a target to other programs (exec) and to libraries that it loads later. Threads that do
 * such a thing park in a pad (arch/park.h) until we have looked.
 *
 *	dlopen	the loader calls _dl_debug_state() when it has mapped something, before constructors
 *		run: new modules become a part of the target, probed before the thread goes on
 *	exec	we seize the thread, let it go on, and hold the new program before its first
 *		instruction. A static one is probed right there. For another one only the loader's
 *		_dl_debug_state() gets a pad; the libraries are there when it is called, and then
 *		everything is probed as if we had attached to a running process.
 */
#ifndef JAB_SESSION_FOLLOW_H
#define JAB_SESSION_FOLLOW_H

#include "session/session.h"

struct park_view;
struct text_call;

bool follow_answers(const struct jab *j, const struct target *t);	/* true if its threads may park to ask for their numbers */
bool follow_parks(const struct jab *j, const struct target *t);	/* true if its threads may park for any reason */
int follow_plan(struct jab *j, struct target *t);
void follow_watch(struct jab *j, struct target *t, const struct text_call *calls, size_t n);
size_t follow_body(const struct target *t, uint8_t kind, uint8_t *out);
size_t follow_data_size(const struct target *t);
void follow_take(struct target *t, uint8_t *here, uint64_t at);
size_t follow_tables_size(const struct target *t);	/* the part that the target can't write */
void follow_take_tables(struct target *t, uint8_t *here, uint64_t at);
void follow_open(struct target *t);	/* from now on threads may park */
void park_free(struct park_view *v);

/* What is new is resolved, planned and probed: a part of a process, or a whole one. */
int follow_probe(struct jab *j, uint32_t target);

/* The second half of follow_add(): for sites from number `first` on; returns whether this target has any. */
int follow_place(struct jab *j, uint32_t target, size_t first);
bool follow_has_sites(const struct jab *j, uint32_t target);

/* Serves all parked threads. Returns how many there were. */
int follow_poll(struct jab *j);

/* Sleeps for that time at most, and only until a thread parks. */
void follow_wait(struct jab *j, uint64_t ns);

/* From now on no thread parks, and those that are parked go on. */
void follow_stop(struct jab *j);

#endif
