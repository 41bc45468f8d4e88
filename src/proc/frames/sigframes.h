/* SPDX-License-Identifier: MIT */
/*
 * Program counters that are saved in signal frames. A thread inside a handler returns, through rt_sigreturn, to the
 * instruction that the signal interrupted; if that is in a window or in a pad, the saved program counter must be treated
 * like a thread's own.
 */
#ifndef JAB_PROC_SIGFRAMES_H
#define JAB_PROC_SIGFRAMES_H

#include "proc/proc.h"

struct saved_pc {
	taddr slot;	/* address of the saved program counter */
	uint64_t pc;
	pid_t tid;	/* the thread on whose stack the frame is; 0: on no thread's stack (hidden.c) */
	bool exact;	/* every word is as the kernel writes it */
	bool remains;	/* most likely the old frame of a handler that has returned: no hit is counted for it */
};

struct sigframes {
	VEC(uint64_t) restorers;	/* addresses of code that calls rt_sigreturn */
	VEC(struct saved_pc) saved;	/* result of sigframes_find() */
	uint8_t *buf;			/* copy of the part of a stack that is being searched */
	size_t cap, used;		/* its first `used` bytes have been written to */
	uint64_t lo, hi;		/* target addresses of the bytes in buf */
	bool maps_fresh;		/* p->maps was read again since sigframes_prepare() */
	VEC(struct gap) suspects;	/* result of hidden_search(): sigframes_find() searches these ranges as well */
	size_t hits;			/* how many frames that search has found */
	const struct gap *ranges;	/* only frames with a PC in these were searched for; NULL: every frame */
	size_t n_ranges;
};

/* Search for restorers, with the target running: slow the first time. */
int sigframes_prepare(struct sigframes *s, struct proc *p);

/* While stopped: fill s->saved with the program counters of all threads' signal frames, inner frames first. */
int sigframes_find(struct sigframes *s, struct proc *p);

/*
 * Load and store the registers of an exact frame. -EAGAIN: it is not exact. The program counter may differ
 * from s->pc: a frame is found twice if two threads are on one stack, and may be changed already. The thread pointer
 * is not part of a frame and stays 0.
 */
struct cpu;
int sigframe_load(struct proc *p, const struct saved_pc *s, struct cpu *ret_cpu);
int sigframe_store(struct proc *p, const struct saved_pc *s, const struct cpu *before,
		   const struct cpu *after);

/* hidden.c: frames on stacks that no thread uses now. */
enum hidden_risk {
	HIDDEN_NEVER,		/* no signal handler is likely to switch stacks */
	HIDDEN_UNLIKELY,	/* only handlers of signals that are not used for preemption, in a small program */
	HIDDEN_LIKELY,		/* a signal that may be used for preemption has a handler */
};
enum hidden_risk hidden_risk(struct proc *p);

/*
 * With the target running: find memory that holds frames with a PC in these ranges, or copies of the registers of such
 * frames; NULL: every frame. s keeps the pointer to the ranges. -ETIME: the budget (CPU time) was not enough for all memory.
 */
int hidden_search(struct sigframes *s, struct proc *p, const struct gap *ranges, size_t n, uint64_t budget_ns);
void hidden_find(struct sigframes *s, struct proc *p);	/* while stopped: adds to s->saved */

/* The exact frame at an address. -ENOENT: there is none. */
struct hidden_frame {
	uint64_t pc, alt, alt_len;	/* alt: the alternate stack that was set then */
	bool exact, disarms;		/* disarms: SS_AUTODISARM, the kernel has disabled that stack for the handler */
};
int sigframe_at(struct proc *p, uint64_t at, struct hidden_frame *ret_frame);

void sigframes_free(struct sigframes *s);

#endif
