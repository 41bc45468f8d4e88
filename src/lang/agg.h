/* SPDX-License-Identifier: MIT */
/*
 * What count(), hist() and their like keep, wherever it is kept: parts (per CPU, say) are merged
 * with agg_merge() and give the same as if one had seen everything.
 */
#ifndef JAB_LANG_AGG_H
#define JAB_LANG_AGG_H

#include "lang/ir.h"

typedef union { int64_t i; uint64_t u; double f; } num;

#define QUANTILE_BITS 4		/* a bucket is at most 1/16 of its value wide */

struct agg {
	uint64_t count;
	num sum, min, max;
	uint64_t *buckets;	/* agg_buckets() of them; NULL: none yet */
};

/*
 * log2 buckets: 0 holds what is negative, 1 zero, then each power of two in 2^bits parts (whole
 * numbers below 2^bits each have their own). bits 0: [1], [2, 4), [4, 8), ...
 */
uint32_t hist_bucket(int64_t v, unsigned int bits);
uint32_t hist_buckets(unsigned int bits);
void hist_range(uint32_t bucket, unsigned int bits, int64_t *ret_lo, int64_t *ret_hi);	/* [lo, hi), hi 0: none */

/* Linear: 0 is below lo, the last one from hi on. */
uint32_t lhist_bucket(int64_t v, int64_t lo, int64_t hi, int64_t step);
uint32_t lhist_buckets(int64_t lo, int64_t hi, int64_t step);

/* Both signs, for quantiles: small numbers first. */
uint32_t quantile_bucket(int64_t v);

uint32_t agg_buckets(const struct ir_map *m);	/* 0: it has none */
uint32_t agg_bucket(const struct ir_map *m, int64_t v);
bool agg_below(const struct ir_map *m, num a, num b);
void agg_add(const struct ir_map *m, struct agg *a, num v);
void agg_merge(const struct ir_map *m, struct agg *to, const struct agg *from);
void agg_zero(const struct ir_map *m, struct agg *a);
void agg_free(struct agg *a);

/* By a number that comes from the target: 0 if it is too large for one that can be. */
int64_t agg_divided(int64_t v, uint64_t by);

/* The number that stands for it: count, sum, average, least, greatest. */
num agg_value(const struct ir_map *m, const struct agg *a);

/* The value that q of all are not above; 0 <= q <= 1. Exact at both ends. */
int64_t agg_quantile(const struct agg *a, double q);

#endif
