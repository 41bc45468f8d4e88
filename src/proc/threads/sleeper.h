/* SPDX-License-Identifier: MIT */
/*
 * Finds the thread that waits on a futex at an address of an arena. A parked thread writes its own pid and tid into its slot. They
 * are not trusted: the thread must be found in a futex call on the slot, in a process that maps the arena. In another pid
 * namespace (unshare, a container) the numbers differ from ours, and then all processes are searched, some in each call.
 */
#ifndef JAB_PROC_SLEEPER_H
#define JAB_PROC_SLEEPER_H

#include <dirent.h>
#include "proc/proc.h"

struct arena;

struct sleeper {
	uint32_t their_pid, their_tid;	/* as written in the slot */
	uint32_t pid, tid;		/* in our namespace: the first guess; when found, the right ones */
	uint64_t since;			/* time of the first call */
	DIR *processes, *threads;	/* state of the search through /proc, which goes on with the next call */
	pid_t looked_at;		/* the process of `threads` */
	bool may_come;			/* a thread with these numbers runs, and may be about to sleep */
};

/*
 * One attempt, which never sleeps and ends soon after `until`. 1: found; 0: not known yet, call again; -ESRCH: no thread
 * with these numbers waits there.
 */
int sleeper_find(struct sleeper *s, const struct arena *a, taddr at, uint64_t until);
void sleeper_close(struct sleeper *s);

#endif
