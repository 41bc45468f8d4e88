/* SPDX-License-Identifier: MIT */
#ifndef JAB_PROC_KEEPER_H
#define JAB_PROC_KEEPER_H

#include "proc/proc.h"

struct keeper;

/* Stores the calling thread's tid in a u32 of the arena, as a robust futex: if the thread dies, the kernel sets FUTEX_OWNER_DIED. */
int keeper_open(struct arena *a, taddr word, struct keeper **ret_keeper);
void keeper_close(struct keeper *k);

#endif
