/* SPDX-License-Identifier: MIT */
/* Events of a session (jab_options.events) or of a trace. */
#ifndef JAB_EVENT_H
#define JAB_EVENT_H

#include <jab/jab.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define JAB_NO_CPU UINT32_MAX

/* Valid until the callback returns, or until the next one is read. */
struct jab_event {
	const char *name;	/* of the probe, or MODULE:FUNCTION */
	uint32_t id;		/* one number per kind of event; events of one id have the same fields */
	bool is_own;		/* made by jab itself: jab:module, jab:thread, jab:thinned */
	uint32_t stream, cpu;	/* JAB_NO_CPU: not known */
	uint32_t pid, tid;
	int64_t ns;		/* CLOCK_MONOTONIC */
	uint64_t lost;		/* events lost in this stream since its previous event */
	size_t nfields;
};

enum jab_kind { JAB_SIGNED, JAB_UNSIGNED, JAB_POINTER, JAB_FLOAT, JAB_STRING, JAB_BYTES, JAB_ADDRESSES };
enum jab_fault { JAB_READ_WELL, JAB_READ_FAULT, JAB_READ_FORBIDDEN };

struct jab_value {
	const char *name;
	enum jab_kind kind;
	uint8_t bits, base;	/* of numbers */
	bool is_array;		/* of numbers: see jab_event_element() */
	enum jab_fault fault;	/* unless JAB_READ_WELL there is no value, but some addresses */
	union {
		int64_t i;	/* JAB_SIGNED */
		uint64_t u;	/* JAB_UNSIGNED, JAB_POINTER */
		double f;	/* JAB_FLOAT */
	};
	const void *bytes;	/* JAB_STRING (without a NUL), JAB_BYTES */
	uint32_t len;		/* of these in bytes; arrays, JAB_ADDRESSES: elements */
	bool cut;		/* JAB_STRING: only the first part of a longer one */
	bool has_address;
	uint64_t address;	/* that could not be read */
};

/* The i-th field; NULL: there is none. Quickest in their order. Valid until the next call for this event. */
JAB_API const struct jab_value *jab_event_value(const struct jab_event *ev, size_t i);
JAB_API const struct jab_value *jab_event_find(const struct jab_event *ev, const char *name);
JAB_API const struct jab_value *jab_event_element(const struct jab_event *ev, size_t i, uint32_t element);	/* of an array, of addresses */

JAB_API const char *jab_event_comm(const struct jab_event *ev);	/* the name of its thread; "": not known */

/*
 * One line, and one for each frame of a backtrace; or one JSON object. Text of the target is escaped, so that it can't
 * control a terminal. Returns the number of bytes, or an error of the write.
 */
enum jab_print_flags {
	JAB_PRINT_JSON = 1,
	JAB_PRINT_COLOUR = 2,
	JAB_PRINT_FULL_NAMES = 4,	/* of C++ and Rust: not std::string for std::basic_string<...>; JSON has them always */

	/* Times; without one of these: seconds of CLOCK_MONOTONIC. As JSON all are nanoseconds. */
	JAB_PRINT_WALL = 8,		/* of the day, in the local time zone, by the system's clock as it was when the run began */
	JAB_PRINT_RELATIVE = 16,	/* since the first event that was printed */
	JAB_PRINT_DELTA = 32,		/* since the previous event that was printed */
};
JAB_API int jab_event_print(const struct jab_event *ev, FILE *to, unsigned int flags);

/* Called by jab_dispatch() with each event, ordered by time. A value other than 0 ends that call. Before jab_insert(). */
JAB_API int jab_on_event(struct jab *j, int (*each)(void *arg, const struct jab_event *ev), void *arg);

struct jab_totals {
	uint64_t events, bytes;	/* so far */
	uint64_t lost;
	uint64_t damaged;	/* times that a buffer held what is no event; each counts as one that was lost */
	uint64_t damaged_bytes;
	uint64_t no_stack;	/* of the lost: for want of stack, not of room in buffers */
	bool timeless;		/* some may be lost because the time could not be read */
	bool full;		/* the trace has reached jab_writer_options.max_size */
};
JAB_API const struct jab_totals *jab_get_totals(struct jab *j);

#ifdef __cplusplus
}
#endif
#endif
