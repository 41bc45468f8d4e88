/* SPDX-License-Identifier: MIT */
/* One aggregation of more than a word in shared memory; see aggs.c. Offsets are for the first copy. */
#ifndef JAB_GEN_AGG_WORDS_H
#define JAB_GEN_AGG_WORDS_H

#include "lang/agg.h"

#define AGG_COPY 64		/* from the first to the second */
#define AGG_COUNT 8
#define AGG_SUM 16
#define AGG_MIN 24
#define AGG_MAX 32
#define AGG_EPOCH 40
#define AGG_SIZE 112

static inline bool agg_has_flip(const struct ir_map *m)
{
	return m->kind != IR_MAP_COUNT && m->kind != IR_MAP_HIST && m->kind != IR_MAP_LHIST && m->kind != IR_MAP_VALUE;
}

#endif
