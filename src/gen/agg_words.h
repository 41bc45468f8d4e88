/* SPDX-License-Identifier: MIT */
/* The words of an aggregation in shared memory; aggs.c describes them, blob/program.h has the offsets. */
#ifndef JAB_GEN_AGG_WORDS_H
#define JAB_GEN_AGG_WORDS_H

#include "blob/program.h"
#include "lang/agg.h"

/* It has more than one word that must change together: two copies and the index of the valid one. */
static inline bool agg_has_flip(const struct ir_map *m)
{
	return m->kind != IR_MAP_COUNT && m->kind != IR_MAP_HIST && m->kind != IR_MAP_LHIST && m->kind != IR_MAP_VALUE;
}

/* Number of words that are only ever incremented. */
static inline uint32_t agg_counters(const struct ir_map *m)
{
	return m->kind == IR_MAP_COUNT ? 1 : agg_buckets(m);
}

#endif
