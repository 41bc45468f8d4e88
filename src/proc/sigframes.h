/* SPDX-License-Identifier: MIT */
/*
 * Program counters that no thread shows: those saved in signal frames. A thread inside a handler
 * comes back, through rt_sigreturn, to the instruction that the signal interrupted; if that is in a
 * window or in a pad, the saved counter must be looked at like a thread's own.
 */
#ifndef JAB_PROC_SIGFRAMES_H
#define JAB_PROC_SIGFRAMES_H

#include "proc/proc.h"

struct saved_pc {
	taddr slot;	/* where the counter is kept */
	uint64_t pc;
	pid_t tid;	/* whose stack it is on; 0: no thread's (hidden.c) */
	bool exact;	/* laid out to the last word as the kernel does it */
	bool remains;	/* most likely of a handler that has returned: nothing is counted for it */
};

struct sigframes {
	VEC(uint64_t) restorers;	/* addresses of code that calls rt_sigreturn */
	VEC(struct saved_pc) saved;	/* out of sigframes_find() */
	uint8_t *buf;			/* part of the stack that is being looked at */
	size_t cap, used;		/* its first `used` bytes have held something */
	uint64_t lo, hi;		/* target addresses of what buf holds */
	bool maps_fresh;
	VEC(struct gap) suspects;	/* out of hidden_search(): sigframes_find() looks there as well */
	size_t hits;			/* of that search */
	const struct gap *ranges;	/* of the PCs that it was for; NULL: every frame */
	size_t n_ranges;
};

/* Search for restorers, with the target running: slow the first time. */
int sigframes_prepare(struct sigframes *s, struct proc *p);

/* While stopped: fill s->saved with the counters of all threads' frames, inner ones first. */
int sigframes_find(struct sigframes *s, struct proc *p);

/*
 * The registers of an exact frame, and what becomes of them. -EAGAIN: it is none. The counter may be
 * another than that in s: a frame is found twice where two threads stand on one stack. The thread's own
 * segment is not in a frame and stays 0.
 */
struct cpu;
int sigframe_load(struct proc *p, const struct saved_pc *s, struct cpu *ret_cpu);
int sigframe_store(struct proc *p, const struct saved_pc *s, const struct cpu *before,
		   const struct cpu *after);

/* hidden.c: frames on stacks that no thread uses. */
enum hidden_risk {
	HIDDEN_NEVER,		/* no signal has a handler that could switch stacks */
	HIDDEN_UNLIKELY,	/* handlers only for signals that preempt nothing */
	HIDDEN_LIKELY,
};
enum hidden_risk hidden_risk(struct proc *p);

/*
 * With the target running: find the memory in which there are frames with a PC in these ranges, or
 * copies of such registers; NULL: every frame. They stay the caller's. -ETIME: the budget (CPU time) did not suffice.
 */
int hidden_search(struct sigframes *s, struct proc *p, const struct gap *ranges, size_t n, uint64_t budget_ns);
void hidden_find(struct sigframes *s, struct proc *p);	/* while stopped: adds to s->saved */

/* The exact frame at an address. -ENOENT: there is none. */
struct hidden_frame {
	uint64_t pc, alt, alt_len;	/* alt: the alternate stack in use then */
	bool exact, disarms;		/* disarms: the kernel has switched that stack off for the handler */
};
int sigframe_at(struct proc *p, uint64_t at, struct hidden_frame *ret_frame);

void sigframes_free(struct sigframes *s);

#endif
