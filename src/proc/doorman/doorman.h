/* SPDX-License-Identifier: MIT */
/*
 * Threads that begin to use a file, by execve or by an open in the loader. By fanotify permission events the kernel makes
 * them wait for an answer, and in that time they can be seized. No thread may wait for a tracer that is slow, stopped or
 * dead, so the answers come from a process of its own, the doorman: a child of the tracer that does nothing else, blocks
 * on nothing, asks the tracer about the threads that matter, and allows all threads to go on when the tracer does not
 * react. If the doorman dies, the kernel allows them. A thread of the tracer, the guard, watches the doorman: if it is
 * stopped, the guard continues it; if it is frozen, the guard answers its events.
 */
#ifndef JAB_PROC_DOORMAN_H
#define JAB_PROC_DOORMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct door_file {
	const char *path;
	bool exec, open;	/* watch for threads that execute it; for loaders that open it */
};

enum door_kind {
	DOOR_EXEC,		/* waits in execve: the old program is still mapped */
	DOOR_OPEN,		/* waits in an open of its loader */
	DOOR_LATE,		/* does not wait: it may have gone on already */
};

/* A thread that the tracer is asked about. since: when it began to wait; 0: it does not wait. */
struct caller { uint32_t id, kind; pid_t tid; uint64_t since; };

/* The first three end the thread's wait; one of the other two follows when the tracer has finished with it. */
enum door_answer {
	DOOR_GO,		/* allow it to go on */
	DOOR_MISSED,		/* allow it, and count it as unheard: it was too late to seize it */
	DOOR_LATER,		/* allow it; it can't be seized during its exec: ask again when its loader opens DOOR_CACHE */
	DOOR_DONE,		/* finished with it: the tracer may be asked about another thread */
	DOOR_BAD,		/* finished with it, by giving it up because it took too long */
};

struct door_counts {		/* threads that were allowed to go on: */
	uint64_t unheard;	/* without an answer of the tracer in time */
	uint64_t asleep;	/* of these, while the tracer was stopped */
	uint64_t foreign;	/* because they have another tracer */
	uint64_t flooded;	/* because too many threads of their user waited already */
};

struct doorman;

/*
 * exact: threads wait for an answer; else they are only reported (DOOR_LATE). -EINVAL: the kernel has no such events. Before
 * doorman_open() no thread waits or is reported. It forks: the tracer must be single-threaded, or hold no locks.
 */
int doorman_hire(const struct door_file *files, size_t n, bool exact, struct doorman **ret_doorman);
void doorman_open(struct doorman *d);
void doorman_dismiss(struct doorman *d);

int doorman_next(struct doorman *d, struct caller *ret_caller);	/* 1: *ret_caller; 0: none yet; -ESRCH: the doorman is gone */
void doorman_answer(struct doorman *d, const struct caller *c, enum door_answer answer);

/*
 * To be called again and again: it shows the doorman that the tracer works. hold: the tracer holds processes, so the doorman
 * continues it if it is stopped; the stop is made up for by raise(SIGSTOP) when hold is false again.
 */
void doorman_beat(struct doorman *d, bool hold);

bool doorman_crowd(const struct doorman *d);	/* more come than may wait: no process is to be held for long */
uint32_t *doorman_bell(struct doorman *d);	/* a futex that is woken with each caller */
void doorman_get_counts(const struct doorman *d, struct door_counts *ret_counts);

#endif
