/* SPDX-License-Identifier: MIT */
/*
 * Room for pads: free address ranges of the target, the pages in them that are taken, and small allocations in
 * those pages. Live addresses. Bookkeeping only: the areas are mapped later, all at once.
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

/* Allocates `size` bytes in [lo, hi), 16-aligned, in pages already taken if possible; 0: no room. */
uint64_t room_alloc(struct room *r, size_t size, uint64_t lo, uint64_t hi);

/* Allocates `size` bytes at an address x with lo <= x < hi and x == value (mod step); 0: no room. */
uint64_t room_alloc_at(struct room *r, size_t size, uint64_t lo, uint64_t hi, uint64_t value, uint64_t step);

void room_release(struct room *r, uint64_t at, size_t size);
void room_areas(const struct room *r, area_list *ret_areas);	/* merged and sorted */

/* Like room_areas(), with areas joined that are at most `most` bytes apart: fewer mappings, with unused pages in them. */
void room_areas_joined(const struct room *r, uint64_t most, area_list *ret_areas);

/* Whether there may be room in [lo, hi). False is certain: there is no gap. */
bool room_open(const struct room *r, uint64_t lo, uint64_t hi);

/* The parts of the gaps that are in [lo, hi), sorted. */
void room_gaps_in(const struct room *r, uint64_t lo, uint64_t hi, gap_list *ret_gaps);

/* Whether an allocation was refused because there are already ROOM_MAX_AREAS areas. */
bool room_full(const struct room *r);

/*
 * The gaps for a file that is not loaded: as the kernel would map it (PIE, library or fixed), at the bias that
 * room_assume_bias() returns.
 */
void room_assume(const struct module *m, gap_list *ret_gaps);
uint64_t room_assume_bias(const struct module *m);

#endif
