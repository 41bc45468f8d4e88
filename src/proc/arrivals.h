/* SPDX-License-Identifier: MIT */
/*
 * Processes that begin to use some files, each held before it runs code of them: at the stop that follows its exec if
 * it has no loader; when its loader has mapped and relocated everything, before the first constructor; or where it
 * loads a library later, before that is mapped.
 */
#ifndef JAB_PROC_ARRIVALS_H
#define JAB_PROC_ARRIVALS_H

#include "proc/doorman.h"
#include "proc/proc.h"

struct arrivals;

/* known(): this process needs no help with a library that it opens. */
struct arrivals_options {
	const struct door_file *files;
	size_t nfiles;
	bool exact;		/* see doorman_hire() */
	bool (*known)(void *arg, pid_t pid);
	void *arg;
};

struct arrival {
	struct proc *proc;	/* held, as by proc_stop() */
	bool loaded;		/* its libraries are there; else only the loader is */
};

struct arrival_counts {
	uint64_t missed;	/* ran on without us: nobody waits too long */
	uint64_t asleep;	/* of these, because we were stopped */
	uint64_t foreign;	/* have another tracer, or we may not */
	uint64_t flooded;	/* too many of their user came at a time */
};

int arrivals_open(const struct arrivals_options *o, struct arrivals **ret_arrivals);
void arrivals_start(struct arrivals *a);	/* who comes from now on is told */
void arrivals_close(struct arrivals *a);	/* lets everybody go */

/*
 * 1: somebody is there; 0: nobody yet; -ESRCH: nobody will be told any more. Takes 2 ms at most if nobody is. Who is on
 * the way stands still without us: poll again and again as long as there is one, and accept no more before you do anything
 * else that may take its time.
 */
int arrivals_poll(struct arrivals *a, bool accept, struct arrival *ret_arrival);
bool arrivals_busy(const struct arrivals *a);	/* somebody is on the way */
bool arrivals_leave(const struct arrivals *a);	/* some that we gave up have not stopped yet: poll soon */

uint32_t *arrivals_bell(struct arrivals *a);	/* a futex that is rung when there is somebody */
void arrivals_get_counts(const struct arrivals *a, struct arrival_counts *ret_counts);

#endif
