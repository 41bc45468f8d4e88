/* SPDX-License-Identifier: MIT */
/*
 * Who begins to use a file: a thread that executes it, or a loader that opens it. The kernel lets them wait
 * (fanotify's permission events) until they are answered, and in that time we can seize them. Nobody may wait
 * for a tracer that is slow, stopped or dead, so it is a process of its own that answers, the doorman: a child of ours that
 * does nothing else, blocks on nothing, asks us about those that matter and lets everybody go at once when we don't
 * react. If it dies the kernel lets everybody go. A thread of ours looks whether it works: if it is stopped, it is continued;
 * if it is frozen, what waits for it is allowed in its place.
 */
#ifndef JAB_PROC_DOORMAN_H
#define JAB_PROC_DOORMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct door_file {
	const char *path;
	bool exec, open;	/* who executes it; whose loader opens it */
};

enum door_kind {
	DOOR_EXEC,		/* waits in execve: the old program is still there */
	DOOR_OPEN,		/* waits in an open of its loader */
	DOOR_LATE,		/* does not wait: it may have gone on already */
};

struct caller { uint32_t id, kind; pid_t tid; uint64_t since; };	/* since: it waits since then; 0: it does not */

enum door_answer {
	DOOR_GO,
	DOOR_MISSED,		/* the same, if it still waits: it was too late for it */
	DOOR_LATER,		/* can't be seized as long as its exec lasts: ask again when its loader opens its cache */
	DOOR_DONE,		/* later: nothing is left to do about it, so that we can be asked about another one */
	DOOR_BAD,		/* the same, and it came to nothing: it was let go because it took too long */
};

struct door_counts {
	uint64_t unheard;	/* waited for us in vain, and were let go */
	uint64_t asleep;	/* of these, while we were stopped */
	uint64_t foreign;	/* have another tracer */
	uint64_t flooded;	/* were let go at once: too many of their user waited already */
};

struct doorman;

/*
 * exact: they wait; else they are only told of (-EINVAL: the kernel has no such events). Until doorman_open() everybody
 * goes by unseen. We must be single-threaded, or at least not hold locks.
 */
int doorman_hire(const struct door_file *files, size_t n, bool exact, struct doorman **ret_doorman);
void doorman_open(struct doorman *d);
void doorman_dismiss(struct doorman *d);

int doorman_next(struct doorman *d, struct caller *ret_caller);	/* 1: somebody; 0: nobody; -ESRCH: the doorman is gone */
void doorman_answer(struct doorman *d, const struct caller *c, enum door_answer answer);

/*
 * To be called again and again: it tells the doorman that we live. hold: there are processes in our hands, so that
 * we must not be stopped; a stop that came in the meantime is made up for when nobody is.
 */
void doorman_beat(struct doorman *d, bool hold);

bool doorman_crowd(const struct doorman *d);	/* more come than may wait: nobody is to be kept long */
uint32_t *doorman_bell(struct doorman *d);	/* a futex that is rung with each caller */
void doorman_get_counts(const struct doorman *d, struct door_counts *ret_counts);

#endif
