/* SPDX-License-Identifier: MIT */
/*
 * Known memory: memory that the program may give back at any time (its heap), and that pads read by plain loads until then
 * (docs/why/reads.md). The struct is in memory that is private to a process and copied by a fork.
 *
 *	reader (gen/known.c)		in[phase] += 1; look in load[]; load; out[phase] += 1	the last three in one restartable sequence
 *	a call that takes memory away	finds it in hold[]; load[].len is cut; membarrier() restarts the readers between look and
 *	(blob/unmap.c)			load; waits until all that came in before are out (they may be in a page fault of their load);
 *					hold[].len is cut; the call is made
 *	the tracer			adds ranges: to hold[] in one stop, to load[] in a later one (session/watches/known.c)
 */
#ifndef JAB_ARCH_KNOWN_H
#define JAB_ARCH_KNOWN_H

#include <stddef.h>
#include <stdint.h>

#define KNOWN_RANGES 16
#define KNOWN_SHORT 7		/* load[].len is less by this than the memory: a load of 8 bytes that begins in the range ends in it */
#define KNOWN_CPU_SHIFT 6
#define KNOWN_PHASES 2
#define KNOWN_SIGNATURE 0x53053053	/* of rseq, as the C library registers it: the blob has it as a constant */

struct known_range { uint64_t lo, len; };

/*
 * On a cache line of its own. A reader may come in on one CPU and be out on another one: only the sums count. It is out in the phase
 * in which it came in. A call that takes memory away begins the other phase, so that those that it waits for become no more.
 */
struct known_cpu { uint64_t in[KNOWN_PHASES], out[KNOWN_PHASES], pad[4]; };

struct known {
	struct known_range load[KNOWN_RANGES];	/* for readers */
	struct known_range hold[KNOWN_RANGES];	/* for calls that take memory away; never less than load[] */
	uint64_t phase;		/* as an offset in in[] and out[]: 0 or 8 */
	uint64_t apart[7];	/* from what readers write */
	uint64_t left[KNOWN_PHASES];	/* readers that went out without a load: nothing found, or interrupted */
	uint64_t came[KNOWN_PHASES], went[KNOWN_PHASES];	/* readers that copy (blob/program.c), in and out: locked, so whatever the CPU */
	uint64_t missed;	/* of these, those that have not copied */
	uint32_t off;		/* enum known_off */
	uint32_t cuts;		/* times that a range was cut */
	uint32_t busy;		/* threads in blob/unmap.c */
	uint32_t lock;		/* 1: a thread there changes the phase and waits */
	uint32_t pad[14];
	struct known_cpu cpu[];
};

/* Why no range is added any more. */
enum known_off {
	KNOWN_ON,
	KNOWN_OFF_CALL,		/* a call whose effect on memory is not followed: userfaultfd, io_uring_setup, pkey_mprotect */
	KNOWN_OFF_READER,	/* a reader did not come out in time */
	KNOWN_OFF_BARRIER,	/* the kernel refused membarrier() */
};

/* What a call that takes memory away does to the ranges. */
enum known_cut {
	KNOWN_CUT_RANGE,	/* those that it meets end where it begins */
	KNOWN_CUT_ALL,
	KNOWN_CUT_OFF,		/* all, and none is added any more */
};

_Static_assert(sizeof(struct known_cpu) == 1 << KNOWN_CPU_SHIFT, "one shift away");
_Static_assert(offsetof(struct known, cpu) % 64 == 0, "cache lines");

#endif
