/* SPDX-License-Identifier: MIT */
/*
 * Calls that are left by an exception or by longjmp: what entries of calls (src/gen/pairs.c) note, what a pad where
 * frames go away hands over, and how slots of open calls are found by a range of stack addresses.
 *
 * The tables of open calls are followed by marks, one for each slot, at the same distance from all: what the key of a
 * slot was made of. They are written when a slot gets another key, which is seldom; and behind them maps: a bit for each slot
 * (of 64 bytes; longer ones have the first bit of many) in the map of the page of the stack that its call is in; and sums, with a
 * bit for each word of the maps. A bit is never cleared: it only says where to look.
 */
#ifndef JAB_BLOB_LEAVE_H
#define JAB_BLOB_LEAVE_H

#include <stdint.h>

#define PAIR_HIGH 12			/* of a slot: upper half of the time of its entry, */
#define PAIR_FREE 0x80000000u		/* and no call is open there if that is its value */
#define PAIR_UNIT_SHIFT 6		/* bytes of a slot that have a bit */

struct pair_mark {
	uint64_t sp;			/* at the entry of the call: where its return address is */
	uint32_t leaver;		/* number of the code that ends it */
	uint32_t key;			/* lower half of the slot's, written last: the mark belongs to it */
};

/* Pages of the stack share maps, by a hash. */
#define LEAVE_MAPS_SHIFT 6
#define LEAVE_MAPS (1u << LEAVE_MAPS_SHIFT)
#define LEAVE_HASH 0x9e3779b1u

static inline uint32_t leave_map_of(uint64_t sp)
{
	return ((uint32_t)(sp >> 12) * LEAVE_HASH) >> (32 - LEAVE_MAPS_SHIFT);
}

/* How a pad knows the new stack pointer. */
enum leave_how {
	LEAVE_RETURN,			/* it is that in the caller, whose return address is at what is handed over */
	LEAVE_JMP_BUF,			/* in the jmp_buf at that address, in glibc's way or as it is */
	LEAVE_LLVM,			/* in the registers of LLVM's unwinder at that address */
};

/* How a call has ended that did not return. */
enum call_left { LEFT_THROWN = 1, LEFT_LONGJMP };

/* For one target; it can't write here. */
struct leave_desc {
	uint64_t pairs;			/* tables of open calls */
	uint64_t marks;			/* from a slot to its mark */
	uint64_t maps;			/* u64[LEAVE_MAPS][map_words] */
	uint64_t sums;			/* u64[LEAVE_MAPS][map_words / 64] */
	uint32_t map_words;		/* a multiple of 64 */
	uint32_t nleavers;
	uint64_t leavers;		/* u64[nleavers]: code (0: none, yet), called with the stack pointer of the call and enum call_left on the stack */
	uint64_t stack_top;		/* of the first thread; 0: not known */
	uint64_t end, end_size;		/* code that calls longjmp() to end a thread which was unwound */
	uint64_t quiet;			/* process_state.quiet: not 0: don't call the kernel */
	uint32_t may_call;
	uint32_t has_thread_insn;	/* the thread pointer can be read by an instruction */
};

#define LEAVE_STACK 704			/* that a pad must ask for: everything but what code of leavers asks for itself */
#define LEAVE_STACK_PAD 224		/* of that: the pad, up to the return address of what it calls */

#endif
