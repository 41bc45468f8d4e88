/* SPDX-License-Identifier: MIT */
/* Several system calls of the target, one after the other. */
#ifndef JAB_PROC_BATCH_H
#define JAB_PROC_BATCH_H

#include "proc/proc.h"

struct batch_call {
	long nr;
	uint64_t args[6];
	uint64_t want;		/* the only result with which the next call is made */
	const char *step;	/* for the tests, see proc_step() */
};
typedef VEC(struct batch_call) batch;

/*
 * While held. Returns how many calls had the result that was wanted; if that is not all of them,
 * ret_value is the result of the next one, or why it could not be made.
 */
size_t batch_run(struct proc *p, const batch *b, int64_t *ret_value);

#endif
