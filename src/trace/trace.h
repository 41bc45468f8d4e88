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

struct trace_value {
	const struct ctf_field *field;
	union {
		int64_t i;		/* CTF_SIGNED */
		uint64_t u;		/* CTF_UNSIGNED, CTF_POINTER */
		double f;		/* CTF_FLOAT */
	};
	const uint8_t *bytes;		/* CTF_STRING, CTF_BYTES: `len` of them, no end mark */
	uint32_t len;
};

struct trace_totals {
	uint64_t events, lost;
	uint64_t damaged;		/* packets or files that could not be read to their end */
};

int trace_open(const char *path, struct trace **ret_trace);

/* 1: an event, 0: no more. */
int trace_next(struct trace *t, struct trace_event *ret_event);

/* The values of an event in order: size_t pos = 0, i = 0; while (trace_value(ev, &i, &pos, &v)) */
bool trace_value(const struct trace_event *ev, size_t *i, size_t *pos, struct trace_value *ret_value);

/* So far; at the end it is all, with losses after the last event. */
struct trace_totals trace_totals(const struct trace *t);
const struct tsc_clock *trace_clock(const struct trace *t);
const char *trace_env(const struct trace *t, const char *key);		/* NULL: no such entry */
const struct ctf_class *trace_class(const struct trace *t, uint32_t id);

void trace_close(struct trace *t);

/* One readable line. Text of the target is escaped: it can't play with the terminal. */
int trace_print_event(FILE *out, const struct trace_event *ev);

#endif
