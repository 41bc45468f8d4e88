/* SPDX-License-Identifier: MIT */
/*
 * Processes that begin to use certain files. Each is held before it runs code of such a file: at the stop after its exec if
 * it has no loader; when its loader has mapped and relocated everything, before the first constructor; or, if it
 * loads a library later, before the library is mapped.
 */
#ifndef JAB_PROC_ARRIVALS_H
#define JAB_PROC_ARRIVALS_H

#include "proc/doorman/doorman.h"
#include "proc/proc.h"

struct arrivals;

struct arrivals_options {
	const struct door_file *files;
	size_t nfiles;
	bool exact;		/* see doorman_hire() */
	bool (*known)(void *arg, pid_t pid);	/* a target whose loader is probed: it is not held when it opens a library */
	void *arg;
};

struct arrival {
	struct proc *proc;	/* held, as by proc_stop() */
	bool loaded;		/* its libraries are mapped; else only the loader is */
};

struct arrival_counts {		/* of processes that were not held: */
	uint64_t missed;	/* took too long, or the tracer did */
	uint64_t asleep;	/* of these, because the tracer was stopped */
	uint64_t foreign;	/* have another tracer */
	uint64_t flooded;	/* too many of the same user came at a time */
};

int arrivals_open(const struct arrivals_options *o, struct arrivals **ret_arrivals);
void arrivals_start(struct arrivals *a);	/* processes that come before this call are not held */
void arrivals_close(struct arrivals *a);	/* detaches from all processes */

/*
 * 1: *ret_arrival is a held process; 0: there is none yet; -ESRCH: the doorman is gone, and there will be none. Takes 2 ms
 * at most if there is none. A process on its way stands still unless this is called: call it without a pause while
 * arrivals_busy(), and with accept == false, so that no more come, before other work that may take long.
 */
int arrivals_poll(struct arrivals *a, bool accept, struct arrival *ret_arrival);
bool arrivals_busy(const struct arrivals *a);	/* a process is on its way to being held */
bool arrivals_leave(const struct arrivals *a);	/* a process is on its way, or was given up and has not stopped yet: poll soon */

uint32_t *arrivals_bell(struct arrivals *a);	/* a futex that is woken when the doorman has a process for us */
void arrivals_get_counts(const struct arrivals *a, struct arrival_counts *ret_counts);

#endif
