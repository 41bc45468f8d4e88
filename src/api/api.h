/* SPDX-License-Identifier: MIT */
/*
 * The public functions: the headers in include/jab on top of session and trace. Each call that may fail goes through API_CALL(),
 * which refuses calls in the wrong order, by another thread and from within a callback, directs log messages to
 * the handle's callback and keeps the error message with the handle.
 */
#ifndef JAB_API_H
#define JAB_API_H

#include <jab/script.h>
#include <jab/symbols.h>
#include <jab/trace.h>
#include "base/err.h"
#include "session/events.h"
#include "session/script.h"
#include "session/session.h"

/* How far a session is. */
enum stage {
	STAGE_OPEN = 1,		/* targets and probes are being added */
	STAGE_RESOLVED = 2,
	STAGE_PLANNED = 4,
	STAGE_ALONE = 8,	/* planned to be looked at only */
	STAGE_RUNNING = 16,	/* the probes are in */
	STAGE_OVER = 32,	/* and out again, or their insertion has failed */
};
#define STAGE_BEFORE (STAGE_OPEN | STAGE_RESOLVED | STAGE_PLANNED)
#define STAGE_ANY 63

/* An event as the public header has it, and where its values and names come from. */
struct event_view {
	struct jab_event public;
	const struct trace_event *ev;
	size_t i, pos;			/* of the next value */
	struct trace_value value;
	struct jab_value last, element;
	struct trace_style style;	/* its functions; not json and colour */
};

struct jab_probe {
	struct jab *j;
	uint32_t first, n;	/* of the session's probes: one */
};

struct handle {
	struct log_sink log;
	char *error;
	pid_t thread;
	bool busy;
	enum stage stage;
	int timer;		/* -1: jab_fd() was not called */
	struct script_run *script;
	uint64_t script_wait;	/* ns until it has something to do */
	VEC(struct jab_probe *) probes;
	struct jab_writer *writer;	/* events go there; NULL: they don't */
	uint64_t writers_from;		/* ticks: events are not older */
	int (*each)(void *arg, const struct jab_event *ev);
	void *arg;
	struct event_view view;
	struct jab_report report;
	struct jab_times times;
	struct jab_totals totals;
	struct jab_newcomers newcomers;
	struct jab_unfollowed unfollowed;
};

int api_enter(struct jab *j, unsigned int stages, const char *call, const struct log_sink **ret_log);
int64_t api_leave(struct jab *j, int64_t r, const struct log_sink *log);

#define API_CALL(j, stages, expr) ({ \
	const struct log_sink *log_; \
	int64_t r_ = api_enter(j, stages, __func__, &log_); \
	r_ == 0 ? api_leave(j, expr, log_) : r_; \
})

/* Copies an options struct of `size` bytes, as the caller's version of the header has it; the rest is zero. */
int options_copy(void *to, size_t room, const void *from);

/* events.c */
void view_fill(struct event_view *v, const struct trace_event *ev);
int events_to_callback(void *arg, const struct trace_event *ev);	/* for events_call(); arg is struct jab */

#endif
