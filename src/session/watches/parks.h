/* SPDX-License-Identifier: MIT */
/*
 * Threads of targets that park (arch/park.h), served in turn. What a slot says is written by the target and may be anything: it is
 * copied once, the thread that it names must be found asleep there, and nothing here waits for a target. Each target has a share
 * of each round; a slot that does not turn out right in time is dropped, and a target with many of these in a row is
 * no longer followed.
 */
#ifndef JAB_SESSION_PARKS_H
#define JAB_SESSION_PARKS_H

#include "arch/park.h"
#include "proc/exec/exec.h"
#include "proc/threads/sleeper.h"
#include "session/session.h"

/* What a slot says, from the moment that we first saw it. */
struct ask {
	uint64_t since;		/* 0: none */
	uint32_t kind;
	uint64_t arg[2];
	struct sleeper sleeper;
	uint32_t number;	/* of this request; a slot is used again and again */
	bool follows;		/* its thread is on the way through its exec */
};

struct park_view {
	struct park *here;
	struct park_keeper *by;	/* our view of what the target reads only */
	uint64_t at, keeper_at;
	struct keeper *keeper;
	struct id_map *ids;	/* NULL: its numbers are ours */
	uint32_t heard;		/* value of the bell at the last round */
	uint32_t calls;		/* of the loader */
	struct ask asks[PARK_SLOTS];
	uint32_t asked;		/* requests so far */
	uint32_t missed, missed_loads;	/* of struct park, as far as they are counted */
	uint32_t next;		/* slot to begin with */
	uint32_t bad;		/* slots in a row that were dropped */
	bool more;		/* there are slots to look at without a bell */
	bool closed;		/* it is no longer followed */
	bool follows;		/* programs and libraries; else its threads only ask for their numbers */
	uint64_t rests;		/* until then it is not looked at */
};

/* One that is on the way through its exec. */
struct exec_guest {
	struct exec_way *way;
	pid_t pid;
	uint32_t target, slot, number;	/* whose request it was */
	char *path;
};

int parks_poll(struct jab *j);	/* one round; returns how many were served */
void parks_stop(struct jab *j);	/* all parked threads go on, and no thread parks any more */
void park_count_missed(struct jab *j, struct park_view *v);	/* those that have not waited, since the last call */
uint64_t parks_wait(struct jab *j, uint64_t ns);	/* not longer than until there is something to look at */
bool parks_follow(const struct jab *j, pid_t pid);	/* true if a thread of it is on the way through an exec */
bool park_listens(const struct park_view *v);	/* true if a change of its bell needs a round */

/* follow.c: what they wait for */
void follow_loaded(struct jab *j, uint32_t target);
void follow_executed(struct jab *j, struct proc *p, bool loaded);	/* loaded: its libraries are there */

#endif
