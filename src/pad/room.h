/* SPDX-License-Identifier: MIT */
/*
 * Room for pads: address ranges of the target that are free, the pages of them that are taken, and
 * small allocations in those pages. Live addresses. Pure bookkeeping: mapping is done later, once,
 * from the list of areas.
 */
#ifndef JAB_PAD_ROOM_H
#define JAB_PAD_ROOM_H

#include "proc/proc.h"
#include "sym/sym.h"

struct room;
struct area { uint64_t lo, hi; };	/* page-aligned, to be mapped RX */
typedef VEC(struct area) area_list;

struct room *room_create(const struct gap *gaps, size_t n);
void room_free(struct room *r);

/* `size` bytes somewhere in [lo, hi), 16-aligned, in pages already taken if possible; 0: no room. */
uint64_t room_alloc(struct room *r, size_t size, uint64_t lo, uint64_t hi);

/* `size` bytes at an address x with lo <= x < hi and x == value (mod step); 0: no room. */
uint64_t room_alloc_at(struct room *r, size_t size, uint64_t lo, uint64_t hi, uint64_t value, uint64_t step);

void room_release(struct room *r, uint64_t at, size_t size);
void room_areas(const struct room *r, area_list *ret_areas);	/* merged and sorted */

/* Gaps for a file that is not loaded: as the kernel would lay it out (PIE, library or fixed). */
void room_assume(const struct module *m, gap_list *ret_gaps);

#endif
