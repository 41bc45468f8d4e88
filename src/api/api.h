/* SPDX-License-Identifier: MIT */
/*
 * The public functions: the headers in include/jab on top of session and trace. Each call that may fail goes through API_CALL()
 * or API_TRY(), which refuse calls in the wrong order, by another thread and from within a callback, direct log messages
 * to the handle's callback, keep the error message with the handle and turn lack of memory into an error.
 */
#ifndef JAB_API_H
#define JAB_API_H

#include <jab/script.h>
#include <jab/symbols.h>
#include <jab/trace.h>
#include "base/err.h"
#include "session/events/events.h"
#include "session/scripts/script.h"
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
#define STAGE_END 127		/* any, and for calls that end a session also after a lack of memory */

/* An event as the public header has it, and where its values and names come from. */
struct event_view {
	struct jab_event public;
	const struct trace_event *ev;
	const struct ctf_class *class;	/* that `public` describes */
	size_t i, pos;			/* of the next value */
	struct trace_value value;
	struct jab_value last, element;
	struct trace_style style;	/* its functions; not json and colour */
	struct trace_printed printed;
	bool live;			/* of a session: within jab_dispatch() */
};

struct jab_probe {
	struct jab *j;
	uint32_t first, n;	/* of the session's probes: one */
};

struct handle {
	struct log_sink log;
	char *error;		/* NULL: none, or there was no memory for it */
	bool has_failed;
	pid_t thread;
	bool busy;
	bool is_torn;		/* a call ended where its memory did: only the targets are cared for from now on */
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

struct api_frame {
	struct mem_frame memory;
	const struct log_sink *log;
};
int api_enter(struct api_frame *f, struct jab *j, unsigned int stages, const char *call, bool hold);
int64_t api_leave(struct api_frame *f, struct jab *j, int64_t r);
int64_t api_no_memory(struct jab *j);

/*
 * API_CALL: targets are touched. Lack of memory is bridged by a reserve, which the next call wants to have again.
 * API_TRY: files are read and code is made; lack of memory is -ENOMEM, and the session can only be removed and freed.
 * While probes are in, it is the same as API_CALL.
 */
#define API_FRAME(j, stages, expr, hold) ({ \
	struct api_frame f_; \
	int64_t r_ = api_enter(&f_, j, stages, __func__, hold); \
	if (r_ == 0) { \
		if (setjmp(f_.memory.jmp) == 0) \
			r_ = (expr); \
		else \
			r_ = api_no_memory(j); \
		r_ = api_leave(&f_, j, r_); \
	} \
	r_; \
})
#define API_CALL(j, stages, expr) API_FRAME(j, stages, expr, true)
#define API_TRY(j, stages, expr) API_FRAME(j, stages, expr, (j)->handle->stage == STAGE_RUNNING)

int no_memory(void);	/* -ENOMEM, with its message */

/* For calls without a session, too frequent for a jump's frame: as API_CALL. False: there is no memory for the reserve. */
#define RESERVE (2u << 20)
static inline bool hold_enter(struct mem_frame *f)
{
	if (!mem_reserve(RESERVE)) {
		no_memory();
		return false;
	}
	mem_enter(f, true);
	return true;
}

/* Copies an options struct of `size` bytes, as the caller's version of the header has it; the rest is zero. */
int options_copy(void *to, size_t room, const void *from);

/* events.c */
void view_fill(struct event_view *v, const struct trace_event *ev);
int events_to_callback(void *arg, const struct trace_event *ev);	/* for events_call(); arg is struct jab */

#endif
