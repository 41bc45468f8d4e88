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

/* Each area is one mapping of the target, and the kernel allows a process 65530 of them. */
#define ROOM_MAX_AREAS 16000

struct room *room_create(const struct gap *gaps, size_t n);
void room_free(struct room *r);

/* `size` bytes somewhere in [lo, hi), 16-aligned, in pages already taken if possible; 0: no room. */
uint64_t room_alloc(struct room *r, size_t size, uint64_t lo, uint64_t hi);

/* `size` bytes at an address x with lo <= x < hi and x == value (mod step); 0: no room. */
uint64_t room_alloc_at(struct room *r, size_t size, uint64_t lo, uint64_t hi, uint64_t value, uint64_t step);

void room_release(struct room *r, uint64_t at, size_t size);
void room_areas(const struct room *r, area_list *ret_areas);	/* merged and sorted */

/* The same with areas joined that are at most so far apart: fewer mappings, with unused pages in them. */
void room_areas_joined(const struct room *r, uint64_t most, area_list *ret_areas);

/* Might anything in [lo, hi) be had? False is certain: there is no gap. */
bool room_open(const struct room *r, uint64_t lo, uint64_t hi);

/* The parts of the gaps that are in [lo, hi), sorted. */
void room_gaps_in(const struct room *r, uint64_t lo, uint64_t hi, gap_list *ret_gaps);

/* Was something refused because there are ROOM_MAX_AREAS areas already? */
bool room_full(const struct room *r);

/*
 * Gaps for a file that is not loaded: as the kernel would lay it out (PIE, library or fixed), at the
 * bias that room_assume_bias() gives.
 */
void room_assume(const struct module *m, gap_list *ret_gaps);
uint64_t room_assume_bias(const struct module *m);

#endif
