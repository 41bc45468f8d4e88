/* SPDX-License-Identifier: MIT */
/* What aggregations have in shared memory; see aggs.c, and blob/program.h for where. */
#ifndef JAB_GEN_AGG_WORDS_H
#define JAB_GEN_AGG_WORDS_H

#include "blob/program.h"
#include "lang/agg.h"

static inline bool agg_has_flip(const struct ir_map *m)
{
	return m->kind != IR_MAP_COUNT && m->kind != IR_MAP_HIST && m->kind != IR_MAP_LHIST && m->kind != IR_MAP_VALUE;
}

/* Words that only grow. */
static inline uint32_t agg_counters(const struct ir_map *m)
{
	return m->kind == IR_MAP_COUNT ? 1 : agg_buckets(m);
}

#endif
