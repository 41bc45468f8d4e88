/* SPDX-License-Identifier: MIT */
/*
 * Following the loader of a new program from one system call to the next. The last call that glibc's loader
 * makes before constructors run is the one that unmaps /etc/ld.so.cache, right after it has reported to debuggers that all
 * libraries are ready: relocated, with the thread block and restartable sequences set up.
 */
#ifndef JAB_PROC_LOADING_H
#define JAB_PROC_LOADING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "arch/thread.h"

#define LOADER_MOST (4ull << 20)	/* the largest size of a loader */

struct proc;

struct loading {
	uint64_t cache;		/* address of the cache's mapping; 0: not known yet */
	uint64_t mapped;	/* the first mapping that may be the cache */
};

enum loading_at {
	LOADING_ON,		/* the loader is not ready yet */
	LOADING_READY,		/* the call that unmaps the cache begins */
	LOADING_UNSEEN,		/* a loader without that cache: its end can't be seen in this way. The thread block is not set up yet */
};

/* The thread is in the stop before or after a system call. */
enum loading_at loading_look(struct loading *l, pid_t pid, const struct thread_regs *regs);

/* Whether its calls show on this CPU how far a loader is; if not, a program is held at its entry point. */
bool loading_shows(void);

/* The thread was not followed so far, and stands anywhere in its loader. */
void loading_begin_here(struct loading *l, pid_t pid);

uint64_t loading_auxv(pid_t pid, uint64_t type);	/* a value of the auxiliary vector; 0: none */
uint64_t loading_base(pid_t pid);	/* address of the loader; 0: the program has none */

/* Address of the function that the loader calls when libraries are ready (r_brk of struct r_debug). false: not set yet */
bool loading_reports(struct proc *p, uint64_t *ret_at);

#endif
