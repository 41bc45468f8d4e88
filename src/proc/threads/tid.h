/* SPDX-License-Identifier: MIT */
/* proc_tid_offset() in two parts: tids_note() while stopped, and tids_offset(), which is slow, also while the target runs. */
#ifndef JAB_PROC_TID_H
#define JAB_PROC_TID_H

#include "proc/proc.h"

struct tid_seen { pid_t tid, inside; uint64_t thread_pointer; };	/* inside: the tid in the thread's own pid namespace */
typedef VEC(struct tid_seen) tid_list;

void tids_note(const struct proc *p, tid_list *ret_list);	/* while stopped */
int tids_offset(struct proc *p, tid_list *list, int32_t *ret_off);	/* then or later; threads may end */

#endif
