/* SPDX-License-Identifier: MIT */
/*
 * A hardware breakpoint at the function with which a new program's loader reports to debuggers (_dl_debug_state). glibc's
 * calls it before it maps libraries and again when all are relocated, before constructors run. The breakpoint is a perf event
 * that sends SIGURG to the thread, and the tracer suppresses that signal. The breakpoint belongs to the event's
 * descriptor: if the tracer dies, the kernel removes it, and a signal that is still pending is ignored by default.
 */
#ifndef JAB_PROC_LOADBREAK_H
#define JAB_PROC_LOADBREAK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "proc/exec/loading.h"

struct load_break {
	bool set;
	int fd;
	uint64_t base;		/* of the loader */
	uint64_t at;		/* address of its _dl_debug_state */
	uint64_t debug;		/* address of its _r_debug */
	bool adding;		/* it has reported that it begins to map libraries */
	unsigned hits;		/* signals of the breakpoint that were seen */
};

/*
 * The thread is in the stop after its exec, and its loader is at base. Negative errno: the loader has to be followed in another
 * way, because it has no such function, or the kernel allows no breakpoint, or the signal would not arrive.
 */
int load_break_set(struct load_break *b, pid_t tid, uint64_t base);

/*
 * The thread is in the stop before the delivery of a SIGURG. LOADING_READY: libraries are ready, and the function is about to
 * return or has returned. LOADING_UNSEEN: the thread is not where it should be, and the breakpoint is of no use any more. *sig
 * becomes 0 if the breakpoint has sent the signal; any other signal is the program's own.
 */
enum loading_at load_break_look(struct load_break *b, pid_t tid, int *sig);

/* True if the loader has finished and a signal of the breakpoint got lost. Then no further breakpoint is set in this run of jab. */
bool load_break_missed(struct load_break *b);
void load_break_clear(struct load_break *b);

/* Addresses of _dl_debug_state and _r_debug in the loader at base, from its symbols in memory. */
int load_break_find(pid_t pid, uint64_t base, uint64_t *ret_at, uint64_t *ret_debug);

#endif
