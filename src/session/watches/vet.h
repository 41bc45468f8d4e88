/* SPDX-License-Identifier: MIT */
#ifndef JAB_SESSION_VET_H
#define JAB_SESSION_VET_H

#include "arch/known.h"
#include "proc/proc.h"

/*
 * Which of these ranges consist of private anonymous memory only of which every page can be read now: no guard page, no protection key, no
 * userfaultfd, nothing that a fork loses, no device.
 */
void vet_ranges(struct proc *p, const struct known_range *ranges, uint32_t n, bool *ret_good);
bool vet_has_ring(struct proc *p);	/* an io_uring; true also if that is not known */

#endif
