/* SPDX-License-Identifier: MIT */
#ifndef JAB_PROC_KEEPER_H
#define JAB_PROC_KEEPER_H

#include "proc/proc.h"

struct keeper;

/* Put our thread's number into a u32 of the arena; the kernel adds FUTEX_OWNER_DIED when we die. */
int keeper_open(struct arena *a, taddr word, struct keeper **ret_keeper);
void keeper_close(struct keeper *k);

#endif
