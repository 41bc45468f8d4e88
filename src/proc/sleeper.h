/* SPDX-License-Identifier: MIT */
/*
 * Which thread sleeps at an address of an arena? A parked thread writes the numbers that it has for itself into its slot. They are
 * not trusted: the thread must be found asleep at the slot, in a process that maps the arena. In a pid namespace of its
 * own (unshare, a container) the numbers are not ours, and then all processes are looked at, a part of them in each call.
 */
#ifndef JAB_PROC_SLEEPER_H
#define JAB_PROC_SLEEPER_H

#include <dirent.h>
#include "proc/proc.h"

struct arena;

struct sleeper {
	uint32_t their_pid, their_tid;	/* as the slot says */
	uint32_t pid, tid;		/* which we take these for; when found, our numbers for it */
	uint64_t since;			/* the first call */
	DIR *processes, *threads;	/* a look through /proc that goes on with the next call */
	pid_t looked_at;		/* whose threads these are */
	bool may_come;			/* a thread with these numbers runs, and may be about to sleep */
};

/*
 * One try, which never sleeps and ends soon after `until`. 1: found; 0: not known yet, call again; -ESRCH: no thread
 * with these numbers waits there.
 */
int sleeper_find(struct sleeper *s, const struct arena *a, taddr at, uint64_t until);
void sleeper_close(struct sleeper *s);

#endif
