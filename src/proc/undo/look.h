/* SPDX-License-Identifier: MIT */
/* Arenas of other processes, without waiting for a process whose mappings are locked. */
#ifndef JAB_PROC_LOOK_H
#define JAB_PROC_LOOK_H

#include "proc/undo/clean.h"

/* Appends the holders among these processes; *stuck gets those that could not be read in time. */
void look_for_holders(const pid_list *pids, bool descriptors, holder_list *list, pid_list *stuck);

/* For tests: what reads the mappings of one process, NULL: as usual. */
extern void (*look_reads)(pid_t pid, bool descriptors, holder_list *list);

#endif
