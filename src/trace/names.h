/* SPDX-License-Identifier: MIT */
/*
 * Names for numbers in a trace: for addresses of backtraces, from the files that were mapped at the time (if they
 * still exist and have the same build id), and for threads.
 */
#ifndef JAB_TRACE_NAMES_H
#define JAB_TRACE_NAMES_H

#include "trace/trace.h"

struct trace_names;

/* Reads the modules and threads that the trace lists; without them there are no names. */
int trace_names_open(const char *path, struct trace_names **ret_names);

/* For struct trace_style; arg is the names. "libc.so.6:malloc+0x12", or "libc.so.6+0x9f123" without symbols. */
size_t trace_names_address(void *arg, const struct trace_event *ev, uint64_t address, bool is_return, char *out,
			   size_t room);
const char *trace_names_comm(void *arg, const struct trace_event *ev);

/* Lists the files that could not be used so far: add(arg, path, why). */
void trace_names_missing(const struct trace_names *names, void (*add)(void *arg, const char *path, const char *why),
			 void *arg);
void trace_names_close(struct trace_names *names);

#endif
