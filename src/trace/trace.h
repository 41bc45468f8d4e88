/* SPDX-License-Identifier: MIT */
/*
 * Reading back the traces that ctf.h writes, all streams merged by time. Whatever is in the files,
 * reading ends, with an error or with what was whole; damage is counted, never followed.
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
	uint64_t lost;			/* lost in this stream since its event before */
	const uint8_t *payload;		/* until the next trace_next() */
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
	const uint8_t *bytes;		/* text without an end mark, bytes, arrays of numbers, addresses */
	uint32_t len;			/* of them; arrays and addresses: elements */
	bool cut;			/* CTF_STRING: there was more of it */
	enum trace_fault fault;		/* otherwise nothing of the above is set, except addresses */
	uint64_t address;		/* that could not be read */
	bool has_address;		/* it is known */
};

struct trace_totals {
	uint64_t events, lost;
	uint64_t damaged;		/* packets or files that could not be read to their end */
};

int trace_open(const char *path, struct trace **ret_trace);

/* Only the events that tell about processes: jab:module, jab:thread. */
int trace_open_own(const char *path, struct trace **ret_trace);

/*
 * Skip packets that hold nothing at or behind this time (CLOCK_MONOTONIC); events before it may still come.
 * Before the first trace_next().
 */
void trace_seek(struct trace *t, int64_t ns);

/* 1: an event, 0: no more. */
int trace_next(struct trace *t, struct trace_event *ret_event);

/* The values of an event in order: size_t pos = 0, i = 0; while (trace_value(ev, &i, &pos, &v)) */
bool trace_value(const struct trace_event *ev, size_t *i, size_t *pos, struct trace_value *ret_value);

/* One number of an array, or one address, as a value of its own. */
struct trace_value trace_element(const struct trace_value *v, uint32_t i);

/* So far; at the end it is all, with losses after the last event. */
struct trace_totals trace_totals(const struct trace *t);

/* Each stream, as far as it has been read: i from 0 on, until false. */
struct trace_stream {
	uint32_t stream, cpu;
	uint64_t events, lost, damaged;
	const char *damage;		/* the first damage in words, or "" */
};
bool trace_stream(const struct trace *t, size_t i, struct trace_stream *ret_stream);

const struct tsc_clock *trace_clock(const struct trace *t);
const char *trace_env(const struct trace *t, const char *key);		/* NULL: no such entry */
const struct ctf_class *trace_class(const struct trace *t, uint32_t id);

void trace_close(struct trace *t);

/* How events are shown. A zeroed one: readable, plain, addresses as numbers. */
struct trace_style {
	bool json, colour;
	/*
	 * Write the name of an address in the event's process; returns its length, 0: not known. A
	 * return address belongs to the call in front of it.
	 */
	size_t (*name)(void *arg, const struct trace_event *ev, uint64_t address, bool is_return, char *out,
		       size_t room);
	/* What the event's thread is called; never NULL. */
	const char *(*comm)(void *arg, const struct trace_event *ev);
	void *arg;
};

/* One readable line, and one for each frame of a backtrace; or one JSON object. Text of the target
   is escaped: it can't play with the terminal. Returns the number of bytes. */
int trace_print(FILE *out, const struct trace_event *ev, const struct trace_style *style);
int trace_print_event(FILE *out, const struct trace_event *ev);		/* plain */

#endif
