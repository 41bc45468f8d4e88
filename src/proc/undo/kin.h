/* SPDX-License-Identifier: MIT */
/* Which processes may have an arena because they are forks of its target. */
#ifndef JAB_PROC_KIN_H
#define JAB_PROC_KIN_H

#include "proc/arena/arena.h"

void kin_begin(struct arena *a);	/* before the arena's memory is made */
void kin_note_sharers(struct arena *a);	/* right after it was made */
int kin_find(const struct arena *a, pid_list *ret_pids);	/* the target is one of them if it runs, the tracer is not */

#endif
