/* SPDX-License-Identifier: MIT */
/*
 * Recording: the pads of a session write events into rings, and we take them out.
 *
 *	events_enable()         before the first session_add_probe(): probes record instead of counting
 *	events_output() and/or events_call()	where they go; before session_insert()
 *	... session_insert()
 *	events_drain()          again and again, after events_wait_ns() each
 *	... session_remove()
 *	events_drain(j, true)   what came last
 *	events_close()          the trace is complete
 *
 * One event class per row (a probe in a function): its id is the number of the row.
 */
#ifndef JAB_SESSION_EVENTS_H
#define JAB_SESSION_EVENTS_H

#include <jab/jab.h>
#include "arch/event.h"
#include "trace/ctf.h"
#include "trace/trace.h"

struct events_options {
	uint64_t buffer_size;	/* per CPU and process; 0: the usual. Rounded up to a power of two */
	uint64_t most;		/* events of a trace, the oldest ones; 0: all */
	bool overwrite;		/* keep the newest events; they are taken by events_snapshot() only */
};

int events_enable(struct jab *j, const struct events_options *o);
int events_context(struct jab *j, const char *text);	/* -t: a field for every probe */

/* The clock of this run. The first call takes up to 50 ms. */
int events_clock(struct jab *j, struct tsc_clock *ret_clock);

/* Write them to a trace. It is closed by events_close(). */
void events_output(struct jab *j, struct ctf *trace);

/* Hand each out, ordered by time over all rings and targets. A value other than 0 stops the drain. */
void events_call(struct jab *j, int (*each)(void *arg, const struct trace_event *ev), void *arg);

/* The same for events that no class describes: as they stand in the ring, in a copy. */
struct raw_event {
	struct event_head head;
	const uint8_t *payload;	/* NULL: none has come, but more were lost */
	uint32_t stream, cpu;
	uint32_t target;	/* whose memory has its stacks */
	uint64_t lost;		/* in this ring so far */
};
void events_call_raw(struct jab *j, int (*raw)(void *arg, const struct raw_event *ev), void *arg);

/*
 * Take out what is there. Returns how many events; negative if they could not be written (they are
 * lost then, and counted), or what the callback returned. last: nothing comes any more.
 */
int64_t events_drain(struct jab *j, bool last);

/* How long the rings can be left alone at the present rate. */
uint64_t events_wait_ns(const struct jab *j);

/* Overwrite mode: the newest events of all rings, into a trace of their own. */
int64_t events_snapshot(struct jab *j, struct ctf *trace);

struct events_totals {
	uint64_t events, bytes;	/* recorded so far */
	uint64_t lost;
	uint64_t damaged;	/* times that a ring held what is no event; each counts as one that was lost */
	uint64_t damaged_bytes;
	uint64_t no_stack;	/* of the lost: for want of stack, not of room in rings */
	bool timeless;		/* some may be lost because the time could not be read */
};
bool events_full(const struct jab *j);	/* has the trace reached the size that it may have? */
void events_totals(struct jab *j, struct events_totals *ret_totals);

/* The name of a thread, as known to us; "" if it is not. */
const char *events_comm(struct jab *j, uint32_t pid, uint32_t tid);

/* "module:function+0x12" of an address in a process; "" if it is in none. Until the next call. */
const char *events_address(struct jab *j, uint32_t pid, uint64_t addr);

/* The file that is mapped there; NULL: none. */
const char *events_module(struct jab *j, uint32_t pid, uint64_t addr);

/* What went wrong in programs (conditions that could not be read, full maps...), told as warnings. */
void units_say_errors(const struct jab *j);
void rows_say_early(struct jab *j);	/* calls whose end was not seen, since they went on in an unknown function */

/* For probes without a hit: what is known of the reason, as warnings. At the end of a run. */
void probes_say_hints(struct jab *j);
void probes_say_unmatched(struct jab *j);	/* scripts, whose hits are not counted: only those that never had a place */

int events_close(struct jab *j);

#endif
