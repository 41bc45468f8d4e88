/* SPDX-License-Identifier: MIT */
/*
 * Every thread that we wake wants a CPU, maybe ours; the others would wait stopped until we get it
 * back. So nobody of normal priority may take it while we go through the list, where that is allowed.
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
