/* SPDX-License-Identifier: MIT */
/*
 * Where the threads of a process spend their time: samples of them and their children, by a perf event
 * (task clock), one for each millisecond that a thread runs. Between two samples the threads are not slowed down.
 */
#ifndef JAB_PROC_METER_H
#define JAB_PROC_METER_H

#include "proc/proc.h"

struct meter;

#define METER_STACK 512		/* bytes above the stack pointer that are sampled, as far as they can be read */

struct meter_sample {
	uint32_t pid, tid;
	uint64_t ip;			/* in user space: after the system-call instruction, if it is in a system call */
	const uint64_t *stack;
	size_t nstack;			/* words */
};

/* -EPERM, -ENOENT ... with a message if the kernel does not permit it. */
int meter_new(struct proc *p, struct meter **ret_meter);
void meter_free(struct meter *m);

/* Calls each() for all samples since the last call. */
void meter_read(struct meter *m, void (*each)(void *arg, const struct meter_sample *s), void *arg);

#endif
