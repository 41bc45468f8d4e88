/* SPDX-License-Identifier: MIT */
/* Several system calls, made by a borrowed thread from a table without a stop in between. */
#ifndef JAB_PROC_BATCH_H
#define JAB_PROC_BATCH_H

#include "proc/proc.h"

struct batch {
	VEC(struct batch_call) calls;
	VEC(const char *) steps;	/* for the tests, see proc_step() */
	size_t need;			/* the first `need` calls matter; the others are left out where each call needs stops of its own */
	bool (*made)(struct proc *p);	/* if not NULL: called when the needed calls are made, before the others are */
};

void batch_add(struct batch *b, const char *step, uint64_t want, long nr, uint64_t x, uint64_t y, uint64_t z,
	       uint64_t u, uint64_t v, uint64_t w);
void batch_free(struct batch *b);

/* Memory of batch_size() bytes that is executable in the target and writable by the tracer. */
struct desk { taddr at; uint8_t *here; };
size_t batch_size(size_t calls);
void batch_write(const struct batch *b, uint8_t *here);	/* before batch_run() */

/*
 * While held. Makes the calls until one has another result than the one wanted. *ret_done: how many had the wanted
 * result; *ret_value: the result of the last call made. Both are read from the target's stack, which it can write; only
 * the range of *ret_done is checked. But made() is called only if the thread's registers show that the needed calls were made.
 */
int batch_run(struct proc *p, const struct batch *b, const struct desk *desk, size_t *ret_done,
	      int64_t *ret_value);

#endif
