/* SPDX-License-Identifier: MIT */
/*
 * Where the threads of a process spend their time, by looking at them a thousand times a second of the
 * time they run (perf's clock of a task; its children are looked at, too). What is looked at costs
 * nothing in between.
 */
#ifndef JAB_PROC_METER_H
#define JAB_PROC_METER_H

#include "proc/proc.h"

struct meter;

#define METER_STACK 512		/* bytes above the stack pointer, as far as they could be had */

struct meter_sample {
	uint32_t pid, tid;
	uint64_t ip;			/* in user space: of the system call, if it is in one */
	const uint64_t *stack;
	size_t nstack;			/* words */
};

/* -EPERM, -ENOENT ... with a sentence where the kernel does not let us. */
int meter_new(struct proc *p, struct meter **ret_meter);
void meter_free(struct meter *m);

/* All looks since the last time. */
void meter_read(struct meter *m, void (*each)(void *arg, const struct meter_sample *s), void *arg);

#endif
