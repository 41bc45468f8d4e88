/* SPDX-License-Identifier: MIT */
/*
 * Parking: a thread that is about to execute another program, or has just mapped a library, waits in a pad until
 * the tracer has done what must be done before it goes on. This is the memory that both share:
 *
 *	thread	takes a free slot (FREE -> CLAIMED), fills it, WAITING, increments the bell, sleeps on the state
 *	tracer	sees the bell, does its work, puts an answer into arg[0] if there is one, WAITING -> GO, wakes the thread
 *	thread	GO -> FREE
 *
 * The thread never waits longer than the limit, and not at all while `open` is 0. When the tracer dies, the kernel
 * sets OWNER_DIED in `tid`, which is on the tracer's robust futex list, and the thread goes on. Both words are in a piece
 * that the target can't write: else a child with fewer rights could hold its parent where nobody serves it any more, and with it
 * the removal of the pads.
 */
#ifndef JAB_ARCH_PARK_H
#define JAB_ARCH_PARK_H

#include <stddef.h>
#include <stdint.h>

#define PARK_SLOTS 255	/* they fill four pages */
#define PARK_END_MS 10000	/* by the clock, however often the thread was woken before */
#define PARK_LIMIT_MS 2000
#define PARK_TURN_MS 2		/* how often a thread that wants an answer and found no slot tries again */
#define PARK_NO_ANSWER 0ull
#define PARK_FULL (~0ull)	/* no answer: there was no slot */
#define PARK_SLICE_MS 10	/* how often a parked thread checks that the tracer lives, at first; */
#define PARK_SLICE_MOST_MS 50	/* later less often: on a busy machine each check waits for a CPU, and the thread is not seen asleep */

enum park_kind {
	PARK_EXEC,		/* arg: path */
	PARK_EXECAT,		/* arg: directory, path */
	PARK_LOADED,		/* the dynamic loader has mapped or unmapped a library */
	PARK_IDS,		/* asks for the thread's numbers in the tracer's pid namespace. Answer: pid << 32 | tid */
};

enum park_state { PARK_FREE, PARK_CLAIMED, PARK_WAITING, PARK_GO };

struct park_slot {
	uint32_t state;
	uint32_t kind;
	uint32_t tid, pid;
	uint64_t arg[2];
	uint8_t unused[32];
};

struct park_keeper {
	uint32_t tid;		/* the tracer's; the kernel sets OWNER_DIED here when it dies. First: its entry in the list has pointers */
	uint32_t open;		/* 0: no tracer serves requests, threads don't park */
	uint64_t park;		/* struct park, in the target */
};

#define PARK_KEEPER_SIZE 64u	/* of the tables */

struct park {
	uint32_t bell;		/* counts requests; the tracer sleeps on it */
	uint32_t missed;	/* programs executed without the tracer: no slot was free, or it did not answer in time */
	uint32_t missed_loads;	/* libraries, for the same reasons */
	uint8_t unused[52];
	struct park_slot slots[PARK_SLOTS];
};

#define PARK_OWNER_DIED 0x40000000u

_Static_assert(sizeof(struct park_slot) == 64 && offsetof(struct park, slots) == 64, "both sides know it");
#define PARK_SIZE 16384u
_Static_assert(sizeof(struct park) <= PARK_SIZE, "whole pages");

/* Parameters of the pad's code. */
struct park_spec {
	uint64_t keeper;	/* struct park_keeper, in the target */
	uint64_t routine;	/* address of blob_park() */
	uint64_t quiet;		/* process_state.quiet: while it is not 0 no thread parks, since that takes system calls */
	uint32_t kind;
};

#define PARK_CODE_MAX 160

#endif
