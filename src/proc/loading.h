/* SPDX-License-Identifier: MIT */
/*
 * A new program whose loader works, followed from one system call to the next by its tracer. The last call that glibc's loader
 * makes before constructors run is the one that unmaps its cache, right after it has reported to debuggers that all
 * libraries are ready: relocated, with the thread block and restartable sequences set up.
 */
#ifndef JAB_PROC_LOADING_H
#define JAB_PROC_LOADING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "arch/thread.h"

#define LOADER_MOST (4ull << 20)	/* so large a loader may be */

struct proc;

struct loading {
	uint64_t cache;		/* where it is mapped; 0: not known yet */
	uint64_t mapped;	/* the first mapping that may be it */
};

enum loading_at {
	LOADING_ON,		/* it works on */
	LOADING_READY,		/* the call that unmaps the cache begins */
	LOADING_UNSEEN,		/* a loader without that cache: its end can't be seen in this way. No thread block yet */
};

/* The thread stands at the begin or the end of a system call. */
enum loading_at loading_look(struct loading *l, pid_t pid, const struct thread_regs *regs);

/* Whether its calls show on this CPU how far a loader is; if not, a program is held at its entry point. */
bool loading_shows(void);

/* The thread was not followed so far, and stands anywhere in its loader. */
void loading_begin_here(struct loading *l, pid_t pid);

uint64_t loading_auxv(pid_t pid, uint64_t type);	/* what the kernel has passed to the program; 0: nothing */
uint64_t loading_base(pid_t pid);	/* where the loader is; 0: it has none */

/* What the loader calls when libraries are ready (r_brk of struct r_debug). false: it has not said so yet */
bool loading_reports(struct proc *p, uint64_t *ret_at);

#endif
