/* SPDX-License-Identifier: MIT */
/*
 * Reading the traces that ctf.h writes, all streams merged by time. Whatever is in the files, reading ends, with an
 * error or with the events that are whole; damaged parts are counted and skipped.
 */
#ifndef JAB_TRACE_TRACE_H
#define JAB_TRACE_TRACE_H

#include <stdio.h>

#include "trace/layout.h"

struct trace;

struct trace_event {
	const struct ctf_class *class;
	uint64_t ticks;
	int64_t ns;			/* CLOCK_MONOTONIC */
	uint32_t stream, cpu, pid, tid;
	uint64_t lost;			/* events lost in this stream since its previous event */
	const uint8_t *payload;		/* valid until the next trace_next() */
	uint32_t len;
};

enum trace_fault { READ_WELL, READ_FAULT, READ_FORBIDDEN };

struct trace_value {
	const struct ctf_field *field;
	union {
		int64_t i;		/* CTF_SIGNED */
		uint64_t u;		/* CTF_UNSIGNED, CTF_POINTER */
		double f;		/* CTF_FLOAT */
	};
	const uint8_t *bytes;		/* text without a NUL, bytes, arrays of numbers, addresses */
	uint32_t len;			/* bytes; for arrays and addresses: elements */
	bool cut;			/* CTF_STRING: only the first part of a longer string */
	enum trace_fault fault;		/* unless READ_WELL, none of the above is set, except addresses */
	uint64_t address;		/* the address that could not be read */
	bool has_address;		/* `address` is known */
};

struct trace_totals {
	uint64_t events, lost;
	uint64_t damaged;		/* packets or files that could not be read to their end */
};

int trace_open(const char *path, struct trace **ret_trace);

/* Opens only the events that describe processes: jab:module, jab:thread. */
int trace_open_own(const char *path, struct trace **ret_trace);

/*
 * Skips packets whose events are all before this time (CLOCK_MONOTONIC); events before it may still come. Must be
 * called before the first trace_next().
 */
void trace_seek(struct trace *t, int64_t ns);

/* Returns 1 for an event, 0 at the end. */
int trace_next(struct trace *t, struct trace_event *ret_event);

/* The values of an event in order: size_t pos = 0, i = 0; while (trace_value(ev, &i, &pos, &v)) */
bool trace_value(const struct trace_event *ev, size_t *i, size_t *pos, struct trace_value *ret_value);

/* One number of an array, or one address, as a value of its own. */
struct trace_value trace_element(const struct trace_value *v, uint32_t i);

/* The totals so far; at the end of the trace including losses after the last event. */
struct trace_totals trace_totals(const struct trace *t);

/* Each stream, as far as it has been read: i from 0 on, until false is returned. */
struct trace_stream {
	uint32_t stream, cpu;
	uint64_t events, lost, damaged;
	const char *damage;		/* the first damage as text, or "" */
};
bool trace_stream(const struct trace *t, size_t i, struct trace_stream *ret_stream);

const struct tsc_clock *trace_clock(const struct trace *t);
const char *trace_env(const struct trace *t, const char *key);		/* NULL: no such entry */
size_t trace_classes(const struct trace *t);	/* how many there are, jab's own not counted */

void trace_close(struct trace *t);

struct trace_printed {
	bool any;
	int64_t first, last;
	int64_t second;		/* of the last time of the day that was shown, */
	char day_time[9];	/* and its text; "": none */
};

/* How events are shown. A zeroed struct: readable, without colours, addresses as numbers. */
struct trace_style {
	bool json, colour, full_names;
	enum trace_time { TIME_BOOT, TIME_WALL, TIME_RELATIVE, TIME_DELTA } time;
	int64_t realtime_ns;	/* CLOCK_REALTIME - CLOCK_MONOTONIC, for TIME_WALL */
	struct trace_printed *printed;	/* what TIME_RELATIVE and TIME_DELTA count from; NULL: they are TIME_BOOT */
	/*
	 * Writes the name of an address in the event's process; returns its length, 0: not known. A return address
	 * belongs to the call before it.
	 */
	size_t (*name)(void *arg, const struct trace_event *ev, uint64_t address, bool is_return, char *out,
		       size_t room);
	/* The name of the event's thread; never NULL. */
	const char *(*comm)(void *arg, const struct trace_event *ev);
	void *arg;
};

/*
 * Prints one readable line, and one for each frame of a backtrace; or one JSON object. Text of the target is
 * escaped, so that it can't control the terminal. Returns the number of bytes.
 */
int trace_print(FILE *out, const struct trace_event *ev, const struct trace_style *style);
int trace_print_event(FILE *out, const struct trace_event *ev);		/* without a style */

#endif
