/* SPDX-License-Identifier: MIT */
/*
 * Parking: a thread that is about to start another program, or has just mapped a library, waits in a pad
 * until we have done what must be done before it goes on. The memory that both sides share:
 *
 *	thread	takes a free slot (0 -> CLAIMED), fills it, WAITING, rings the bell, sleeps on the state
 *	we	see the bell, do our work, WAITING -> GO, wake it
 *	thread	GO -> 0
 *
 * It never waits longer than the limit, not at all while `open` is 0, and it is woken by the kernel
 * when we die: our word in `keeper` is on a robust list.
 */
#ifndef JAB_ARCH_PARK_H
#define JAB_ARCH_PARK_H

#include <stddef.h>
#include <stdint.h>

#define PARK_SLOTS 255	/* they fill four pages */
#define PARK_END_MS 10000	/* whoever wakes it before */
#define PARK_LIMIT_MS 2000
#define PARK_SLICE_MS 10	/* how often a sleeper looks whether its keeper lives, at first; */
#define PARK_SLICE_MOST_MS 50	/* later less often: on a busy machine each look is a wait for a CPU, in which it is not seen asleep */

enum park_kind {
	PARK_EXEC,		/* arg: path */
	PARK_EXECAT,		/* arg: directory, path */
	PARK_LOADED,		/* the loader has mapped or unmapped something */
};

enum park_state { PARK_FREE, PARK_CLAIMED, PARK_WAITING, PARK_GO };

struct park_slot {
	uint32_t state;
	uint32_t kind;
	uint32_t tid, pid;
	uint64_t arg[2];
	uint8_t unused[32];
};

struct park {
	uint32_t bell;		/* counts requests; we sleep on it */
	uint32_t open;		/* 0: nobody is there, go on */
	uint32_t keeper;	/* our tid; the kernel sets OWNER_DIED here when we die */
	uint32_t missed;	/* programs executed without us: no slot was free, or we did not come in time */
	uint32_t missed_loads;	/* libraries, the same */
	uint8_t unused[44];
	struct park_slot slots[PARK_SLOTS];
};

#define PARK_OWNER_DIED 0x40000000u

_Static_assert(sizeof(struct park_slot) == 64 && offsetof(struct park, slots) == 64, "both sides know it");
#define PARK_SIZE 16384u
_Static_assert(sizeof(struct park) <= PARK_SIZE, "whole pages");

/* What the code of a pad must know. */
struct park_spec {
	uint64_t park;		/* struct park, in the target */
	uint64_t routine;	/* where blob_park() stands */
	uint64_t quiet;		/* process_state.quiet: while it is not 0 nobody parks, which takes system calls */
	uint32_t kind;
};

#define PARK_CODE_MAX 160

#endif
