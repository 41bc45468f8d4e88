/* SPDX-License-Identifier: MIT */
/*
 * Every thread that the tracer wakes wants a CPU, maybe the tracer's own; the other threads would then stay stopped until
 * the tracer runs again. So during the loop the tracer has a real-time priority, if that is permitted.
 */
#include "proc/internal.h"

void burst_begin(struct burst *b, size_t threads)
{
	const struct sched_param first = { .sched_priority = 1 };

	b->policy = threads > 1 ? sched_getscheduler(0) : -1;
	if (b->policy < 0 || b->policy == SCHED_FIFO || b->policy == SCHED_RR ||
	    sched_getparam(0, &b->param) < 0 || sched_setscheduler(0, SCHED_FIFO, &first) < 0)
		b->policy = -1;
}

void burst_end(const struct burst *b)
{
	if (b->policy >= 0)
		sched_setscheduler(0, b->policy, &b->param);
}
