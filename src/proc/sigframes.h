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
	pid_t tid;	/* whose stack it is on */
	bool exact;	/* laid out to the last word as the kernel does it */
};

struct sigframes {
	VEC(uint64_t) restorers;	/* addresses of `mov $15, %rax; syscall` */
	VEC(struct saved_pc) saved;	/* out of sigframes_find() */
	uint8_t *buf;			/* part of the stack that is being looked at */
	size_t cap;
	uint64_t lo, hi;		/* target addresses of what buf holds */
	bool maps_fresh;
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

void sigframes_free(struct sigframes *s);

#endif
