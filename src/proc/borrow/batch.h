/* SPDX-License-Identifier: MIT */
/* Several system calls, made by a borrowed thread from a table without a stop in between. */
#ifndef JAB_PROC_BATCH_H
#define JAB_PROC_BATCH_H

#include "proc/proc.h"

struct batch {
	VEC(struct batch_call) calls;
	VEC(const char *) steps;	/* for the tests, see proc_step() */
	size_t need;			/* the others are left out if each takes its time */
	bool (*made)(struct proc *p);	/* if not NULL: called once when those are made, and then the others are made */
	bool (*look)(const void *arg);	/* if not NULL: whether they are made, seen from outside while the thread goes on */
	const void *arg;
};

void batch_add(struct batch *b, const char *step, uint64_t want, long nr, uint64_t x, uint64_t y, uint64_t z,
	       uint64_t u, uint64_t v, uint64_t w);
void batch_free(struct batch *b);

/* Memory of batch_size() bytes that is executable in the target and writable by the tracer. */
struct desk { taddr at; uint8_t *here; };
size_t batch_size(size_t calls);
void batch_write(const struct batch *b, uint8_t *here);	/* before batch_run() */

/*
 * While held. Makes the calls until one has another result than the one wanted. Says how many were as
 * wanted, and the result of the last one made; both come from the target's stack, the first within its bounds. That the calls
 * that are needed are made, before made() is called, is known from the thread's registers, or by look().
 */
int batch_run(struct proc *p, const struct batch *b, const struct desk *desk, size_t *ret_done,
	      int64_t *ret_value);

#endif
