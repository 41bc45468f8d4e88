/* SPDX-License-Identifier: MIT */
#ifndef JAB_SESSION_GOOD_H
#define JAB_SESSION_GOOD_H

#include "gen/gen.h"
#include "proc/proc.h"

/*
 * Memory of a live process that stays readable as long as it runs. Looks at its mappings anew. What can't be
 * proven isn't in there; at worst it is all zeros.
 */
void good_find(struct proc *p, struct gen_good *ret_good);

#endif
