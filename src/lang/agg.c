/* SPDX-License-Identifier: MIT */
#include "lang/agg.h"

#include <string.h>

/* Index among the buckets of v >= 0. */
static uint32_t log_index(uint64_t v, unsigned int bits)
{
	unsigned int log;

	if (v < 1ull << bits)
		return v;
	log = 63 - __builtin_clzll(v);
	return ((log - bits + 1) << bits) + ((v >> (log - bits)) & ((1u << bits) - 1));
}

/* The least v of an index. */
static uint64_t log_lo(uint32_t index, unsigned int bits)
{
	uint32_t block = index >> bits;

	if (!block)
		return index;
	if (block - 1 + bits > 63)
		return UINT64_MAX;
	return (1ull << (block - 1 + bits)) + ((uint64_t)(index & ((1u << bits) - 1)) << (block - 1));
}

uint32_t hist_bucket(int64_t v, unsigned int bits)
{
	return v < 0 ? 0 : 1 + log_index(v, bits);
}

uint32_t hist_buckets(unsigned int bits)
{
	return hist_bucket(INT64_MAX, bits) + 1;
}

void hist_range(uint32_t bucket, unsigned int bits, int64_t *ret_lo, int64_t *ret_hi)
{
	uint64_t hi;

	*ret_lo = bucket ? log_lo(bucket - 1, bits) : INT64_MIN;
	hi = bucket ? log_lo(bucket, bits) : 0;
	*ret_hi = bucket ? (int64_t)MIN(hi, (uint64_t)INT64_MAX) : 0;
}

uint32_t lhist_buckets(int64_t lo, int64_t hi, int64_t step)
{
	return ((uint64_t)hi - lo + step - 1) / step + 2;
}

uint32_t lhist_bucket(int64_t v, int64_t lo, int64_t hi, int64_t step)
{
	if (v < lo)
		return 0;
	if (v >= hi)
		return lhist_buckets(lo, hi, step) - 1;
	return ((uint64_t)v - lo) / step + 1;
}

#define QUANTILE_HALF 1024	/* index of 0; above log_index(UINT64_MAX, QUANTILE_BITS) */

uint32_t quantile_bucket(int64_t v)
{
	return v < 0 ? QUANTILE_HALF - 1 - log_index(-(uint64_t)v - 1, QUANTILE_BITS) :
	       QUANTILE_HALF + log_index(v, QUANTILE_BITS);
}

static int64_t quantile_middle(uint32_t bucket)
{
	bool minus = bucket < QUANTILE_HALF;
	uint32_t index = minus ? QUANTILE_HALF - 1 - bucket : bucket - QUANTILE_HALF;
	uint64_t lo = log_lo(index, QUANTILE_BITS), hi = log_lo(index + 1, QUANTILE_BITS), mid;

	hi = MIN(hi, 1ull << 63);
	mid = lo + (hi - 1 - lo) / 2;
	return minus ? -(int64_t)mid - 1 : (int64_t)mid;
}

uint32_t agg_buckets(const struct ir_map *m)
{
	switch (m->kind) {
	case IR_MAP_HIST:	return hist_buckets(m->bits);
	case IR_MAP_LHIST:	return lhist_buckets(m->lo, m->hi, m->step);
	case IR_MAP_QUANTILE:	return 2 * QUANTILE_HALF;
	}
	return 0;
}

uint32_t agg_bucket(const struct ir_map *m, int64_t v)
{
	return m->kind == IR_MAP_HIST ? hist_bucket(v, m->bits) :
	       m->kind == IR_MAP_LHIST ? lhist_bucket(v, m->lo, m->hi, m->step) : quantile_bucket(v);
}

bool agg_below(const struct ir_map *m, num a, num b)
{
	return m->num == IR_F64 ? a.f < b.f : m->num == IR_U64 ? a.u < b.u : a.i < b.i;
}

static void add_num(uint8_t type, num *to, num v)
{
	if (type == IR_F64)
		to->f += v.f;
	else
		to->u += v.u;
}

void agg_add(const struct ir_map *m, struct agg *a, num v)
{
	if (!a->count || agg_below(m, v, a->min))
		a->min = v;
	if (!a->count || agg_below(m, a->max, v))
		a->max = v;
	a->count++;
	add_num(m->num, &a->sum, v);
	if (agg_buckets(m)) {
		if (!a->buckets)
			a->buckets = xcalloc(agg_buckets(m), sizeof(*a->buckets));
		a->buckets[agg_bucket(m, v.i)]++;
	}
}

void agg_merge(const struct ir_map *m, struct agg *to, const struct agg *from)
{
	uint32_t i, n = agg_buckets(m);

	if (!from->count)
		return;
	if (!to->count || agg_below(m, from->min, to->min))
		to->min = from->min;
	if (!to->count || agg_below(m, to->max, from->max))
		to->max = from->max;
	to->count += from->count;
	add_num(m->num, &to->sum, from->sum);
	if (from->buckets && !to->buckets)
		to->buckets = xcalloc(n, sizeof(*to->buckets));
	for (i = 0; from->buckets && i < n; i++)
		to->buckets[i] += from->buckets[i];
}

void agg_zero(const struct ir_map *m, struct agg *a)
{
	uint64_t *buckets = a->buckets;

	if (buckets)
		memset(buckets, 0, agg_buckets(m) * sizeof(*buckets));
	*a = (struct agg){ .buckets = buckets };
}

void agg_free(struct agg *a)
{
	free(a->buckets);
	a->buckets = NULL;
}

int64_t agg_divided(int64_t v, uint64_t by)
{
	return by > INT64_MAX ? 0 : v / (int64_t)by;
}

num agg_value(const struct ir_map *m, const struct agg *a)
{
	num v = { 0 };

	switch (m->kind) {
	case IR_MAP_COUNT:	v.u = a->count; break;
	case IR_MAP_MIN:	return a->min;
	case IR_MAP_MAX:	return a->max;
	case IR_MAP_AVG:
		if (!a->count)
			break;
		if (m->num == IR_F64)
			v.f = a->sum.f / a->count;
		else if (m->num == IR_U64)
			v.u = a->sum.u / a->count;
		else
			v.i = agg_divided(a->sum.i, a->count);
		break;
	default:
		return a->sum;
	}
	return v;
}

int64_t agg_quantile(const struct agg *a, double q)
{
	uint64_t rank = (uint64_t)(q * a->count), seen = 0;
	int64_t v = a->max.i;
	uint32_t i;

	if (!a->count || !a->buckets)
		return 0;
	if (rank >= a->count)
		return a->max.i;
	if (q <= 0)
		return a->min.i;
	for (i = 0; i < 2 * QUANTILE_HALF; i++) {
		seen += a->buckets[i];
		if (seen > rank) {
			v = quantile_middle(i);
			break;
		}
	}
	return v < a->min.i ? a->min.i : v > a->max.i ? a->max.i : v;
}
