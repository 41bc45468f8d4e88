/* SPDX-License-Identifier: MIT */
/* Several system calls of the target, one after the other, up to the first that fails. */
#include "proc/batch.h"

#include "proc/internal.h"

size_t batch_run(struct proc *p, const batch *b, int64_t *ret_value)
{
	size_t i;
	int r;

	for (i = 0; i < b->n; i++) {
		r = proc_syscall(p, b->v[i].nr, b->v[i].args, ret_value);
		if (r < 0)
			*ret_value = r;
		if (r < 0 || (uint64_t)*ret_value != b->v[i].want)
			break;
		proc_step(b->v[i].step);
	}
	return i;
}
