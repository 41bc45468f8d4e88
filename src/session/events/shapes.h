/* SPDX-License-Identifier: MIT */
/* The rows of a session as event classes of a trace, and as code of pads: a count, or a clause (scripts/units.h). */
#ifndef JAB_SESSION_SHAPES_H
#define JAB_SESSION_SHAPES_H

#include "lang/store.h"
#include "session/events/events.h"
#include "session/session.h"

struct events {
	struct events_options o;
	struct clock_pair look;
	struct tsc_clock clock;
	bool has_clock;
	VEC(char *) contexts;		/* -t, as written */
	struct ctf *trace;		/* where classes and events go */
	bool in_memory;			/* it only knows the classes */
	int (*each)(void *arg, const struct trace_event *ev);
	int (*raw)(void *arg, const struct raw_event *ev);
	void *arg;
	uint32_t streams;		/* numbers given so far */
	uint32_t rows;			/* that have their class */
	VEC(uint64_t) recorded;		/* by row */
	VEC(uint64_t) unwritten;	/* taken out, but could not be written */
	uint64_t events, bytes;
	uint64_t until;			/* with o.most: the time of the last event that is wanted, in this round */
	uint64_t damaged;		/* events, each for itself, that made no sense */
	uint64_t unread, unread_bytes;	/* what was no event: how often, and how much */
	uint64_t forgot_at;	/* which pages are of stacks */
	bool any_quiet;		/* a target has forbidden system calls, which was said */
	bool any_timeless;	/* a target has forbidden itself to read the time, likewise */
	uint64_t drained_at, wait_ns;
	bool in_parts;		/* some rings are not all there yet */
	uint8_t *copy;		/* of what is being written */
	uint64_t copy_size;
	VEC(uint32_t) stacked;	/* by row, may be shorter: number + 1 of the record that has stacks; 0: none has */
	bool any_stacks;
	struct bytes wide;	/* events with their stacks */
	struct names *names;
};

/* Classes for the rows that have none yet; the class of one row. */
int shapes_declare(struct jab *j);
int shape_declare(struct jab *j, uint32_t row);

/* The class of a record of the language. */
struct ir_record;
struct ir_unit;
int record_declare(struct jab *j, uint32_t id, const char *name, const struct ir_unit *u, const struct ir_record *rec);

/* events.c */
int events_prepare(struct jab *j);	/* before pads can hit */
void events_free(struct events *e);

/* Bytes of code that a site takes in a pad; what is its row's of them; what counting a hit takes. */
size_t shape_body(const struct jab *j, const struct site *s);
size_t shape_own_body(const struct jab *j, const struct site *s);
size_t count_body(const struct arch *arch);

/* Write the code of a site as it runs at `at`, or what is its row's of it. Returns its length, or an error. */
int shape_emit(struct jab *j, struct target *t, const struct want *w, uint64_t at, uint8_t *out);
int shape_emit_own(struct jab *j, struct target *t, const struct want *w, uint64_t at, uint8_t *out);
int site_emit_count(const struct jab *j, const struct target *t, const struct site *s, uint64_t at, uint8_t *out);	/* t: a main part */

/* A body of `used` bytes that has room for `size`: goes on after that. */
void shape_fill(const struct arch *arch, uint8_t *out, uint64_t at, size_t used, size_t size);

/* The name of a row's events: NAME, or module:function. Caller frees. */
char *row_name(const struct jab *j, uint32_t row);

#endif
