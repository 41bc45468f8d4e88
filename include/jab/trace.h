/* SPDX-License-Identifier: MIT */
/* Traces in the Common Trace Format 1.8: writing the events of a session, and reading. */
#ifndef JAB_TRACE_H
#define JAB_TRACE_H

#include <jab/event.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- writing ---- */

struct jab_writer;

struct jab_writer_options {
	size_t size;
	const char *path;	/* of the directory, which is created; of a descriptor: its name in messages */
	bool to_fd;		/* write a tar archive of the directory to `fd`, which the caller closes */
	int fd;
	const char *command;	/* kept in the trace; NULL: none */
	uint64_t max_size;	/* bytes; 0: no limit */
};

/* -EEXIST: the directory is there already. SIGPIPE must be ignored if to_fd is set. */
JAB_API int jab_writer_new(struct jab *j, const struct jab_writer_options *options, struct jab_writer **ret_writer);

/* From now on jab_dispatch() writes the events there. Before jab_insert(); not together with jab_on_event(). */
JAB_API int jab_write_to(struct jab *j, struct jab_writer *w);

/* jab_options.overwrite: the newest events, to a writer that nothing was written to. Returns how many. */
JAB_API int64_t jab_snapshot(struct jab *j, struct jab_writer *w);

/* Before jab_free(). The first error; the trace is readable in any case. NULL is allowed. */
JAB_API int jab_writer_close(struct jab_writer *w);

/* ---- reading; jab_error(NULL) has the messages ---- */

struct jab_trace;

JAB_API int jab_trace_open(const char *path, struct jab_trace **ret_trace);
JAB_API void jab_trace_close(struct jab_trace *t);

/* Skips what is surely before this time (CLOCK_MONOTONIC); events before it may still come. Before the first event. */
JAB_API void jab_trace_seek(struct jab_trace *t, int64_t ns);

/* The next event in the order of time; NULL at the end, or if there is no memory (jab_trace_info.no_memory). */
JAB_API const struct jab_event *jab_trace_next(struct jab_trace *t);

struct jab_trace_info {
	uint64_t events, lost;	/* so far */
	uint64_t damaged;	/* packets or files that could not be read to their end */
	uint64_t classes, streams;
	uint64_t clock_hz;
	int64_t realtime_ns;	/* CLOCK_REALTIME - CLOCK_MONOTONIC when it was recorded */
	bool no_memory;		/* reading ended for want of it */
};
JAB_API const struct jab_trace_info *jab_trace_get_info(struct jab_trace *t);
JAB_API const char *jab_trace_env(const struct jab_trace *t, const char *key);	/* NULL: no such entry */

struct jab_stream {
	uint32_t stream, cpu;
	uint64_t events, lost, damaged;
	const char *damage;	/* the first damage as text, or "" */
	bool is_own;		/* it has the events of jab itself */
};
JAB_API int jab_trace_each_stream(struct jab_trace *t, int (*each)(void *arg, const struct jab_stream *s), void *arg);

/* Files from which no names of addresses could be had so far. */
JAB_API void jab_trace_each_missing(struct jab_trace *t, void (*each)(void *arg, const char *path, const char *why), void *arg);

#ifdef __cplusplus
}
#endif
#endif
