/* SPDX-License-Identifier: MIT */
/*
 * Aggregations read by clause code: all parts are merged, and what was there at the last clear is subtracted.
 */
#include "blob/program_inside.h"

#define FLIP_TRIES 16

struct sums { uint64_t count, sum, min, max; };

static const struct prog_agg *agg_of(const struct prog_op *op)
{
	return (const struct prog_agg *)op->slot;
}

/*
 * Pairs with the stores of pads (gen/aggs.c): a copy is written before the index that makes it valid, and x86 keeps
 * the order of stores. `cleared`: pairs with the release store in forget_counters().
 */
static uint64_t seen_word(uint64_t at)
{
	return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
}

static uint64_t block_at(const struct prog_agg *a, uint32_t part, uint64_t entry)
{
	return a->parts + a->part_size * part + a->value_size * entry;
}

static bool is_below(const struct prog_agg *a, uint64_t x, uint64_t y)
{
	return a->is_float ? double_below(x, y) : a->is_unsigned ? x < y : (int64_t)x < (int64_t)y;
}

static void merge(const struct prog_agg *a, struct sums *to, const struct sums *from)
{
	if (!from->count)
		return;
	if (!to->count || is_below(a, from->min, to->min))
		to->min = from->min;
	if (!to->count || is_below(a, to->max, from->max))
		to->max = from->max;
	to->count += from->count;
	if (a->is_float)
		add_double(&to->sum, from->sum);
	else
		to->sum += from->sum;
}

/* Reads the valid copy, and again if another copy became valid meanwhile. The shared part has no epoch. */
static void read_flip(const struct prog_agg *a, uint64_t block, bool shared, struct sums *to)
{
	struct sums s;
	uint64_t at, epoch = 0;

	for (int tries = 0; tries < FLIP_TRIES; tries++) {
		at = block + (seen_word(block) & AGG_COPY);
		s = (struct sums){ seen_word(at + AGG_COUNT), seen_word(at + AGG_SUM), seen_word(at + AGG_MIN), seen_word(at + AGG_MAX) };
		epoch = seen_word(at + AGG_EPOCH);
		if (block + (seen_word(block) & AGG_COPY) == at)
			break;
	}
	if (shared || epoch == seen_word(a->base))
		merge(a, to, &s);
}

/* Merges all parts of an entry. Returns whether the entry has a value to show. */
static __attribute__((noinline)) bool read_all(const struct prog_agg *a, uint64_t entry, struct sums *to)
{
	uint64_t cleared = seen_word(a->cleared + 8 * entry), counters = 0;

	*to = (struct sums){ 0, 0, 0, 0 };
	for (uint32_t part = 0; part < a->nparts; part++) {
		uint64_t block = block_at(a, part, entry);

		if (a->flip)
			read_flip(a, block, part == a->nparts - 1, to);
		for (uint32_t i = 0; !a->flip && i < a->ncounters; i++)
			counters += seen_word(block + a->counters + 8 * i);
	}
	if (!a->flip)
		to->count = counters - (cleared & ~AGG_SHOWN);
	return to->count || cleared & AGG_SHOWN;
}

static uint64_t number_of(const struct prog_agg *a, const struct sums *s)
{
	uint64_t sum = s->sum;

	switch (a->number) {
	case AGG_IS_COUNT: return s->count;
	case AGG_IS_MIN: return s->min;
	case AGG_IS_MAX: return s->max;
	case AGG_IS_SUM: return sum;
	}
	if (!s->count)
		return 0;
	if (!a->is_float && !a->is_unsigned)
		return (int64_t)s->count < 0 ? 0 : (int64_t)sum / (int64_t)s->count;	/* INT64_MIN / -1 would trap */
	if (!a->is_float)
		return sum / s->count;
	divide_double(&sum, s->count);
	return sum;
}

/* Finds the entry of the key; -1: there is none. */
static int64_t entry_of(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring, uint64_t *ret_state)
{
	const struct prog_shape *shape = shape_of(op);
	const struct prog_table *t = table_of(op);
	const uint64_t *key;

	if (!op->nkeys)
		return 0;
	key = key_of(frame, op, ring);
	return table_find(t, shape, key, table_hash(shape, key), ret_state);
}

ONE agg_get(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	uint64_t state, *to = word(frame, op->args[op->nkeys].word);
	struct sums s;
	int64_t at = entry_of(frame, op, ring, &state);
	bool there = at >= 0 && read_all(agg_of(op), at, &s);

	*to = there ? number_of(agg_of(op), &s) : 0;
	if (op->dst != PROG_NONE)
		*word(frame, op->dst) = there;
	return PROG_OK;
}

ONE agg_has(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	uint64_t state;
	struct sums s;
	int64_t at = entry_of(frame, op, ring, &state);

	*word(frame, op->dst) = at >= 0 && read_all(agg_of(op), at, &s);
	return PROG_OK;
}

/* Keys stay when a map is cleared, so the value of each one is read. */
ONE agg_len(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	const struct prog_shape *shape = shape_of(op);
	const struct prog_table *t = table_of(op);
	uint64_t n = 0;
	struct sums s;

	if (!op->table)
		n = read_all(agg_of(op), 0, &s);
	for (uint32_t i = 0; op->table && i <= shape->mask; i++)
		n += (table_state(prog_entry(t, shape, i)) & PROG_STATE) == PROG_READY && read_all(agg_of(op), i, &s);
	*word(frame, op->dst) = n;
	return PROG_OK;
}

/*
 * Clears an aggregation without keys, in the same way as the tracer's clear(). The release store pairs with the
 * acquire load in seen_word().
 */
static void forget_counters(const struct prog_agg *a)
{
	uint64_t *before = (uint64_t *)a->before, sum = 0;

	for (uint32_t part = 0; part < a->nparts; part++)
		for (uint32_t i = 0; i < a->ncounters; i++) {
			uint64_t v = seen_word(block_at(a, part, 0) + a->counters + 8 * i);

			sum += v;
			__atomic_store_n(before++, v, __ATOMIC_RELAXED);
		}
	__atomic_store_n((uint64_t *)a->cleared, a->flip ? 0 : sum, __ATOMIC_RELEASE);
}

/*
 * The new epoch makes the copies of all CPUs void: pads (gen/aggs.c) and read_flip() compare it with the epoch of a
 * copy. The shared part has no epoch: its words are exchanged one by one, since pads add to them with locked
 * instructions.
 */
static void forget_flip(const struct prog_agg *a)
{
	uint64_t block = block_at(a, a->nparts - 1, 0);

	__atomic_fetch_add((uint64_t *)a->base, 1, __ATOMIC_SEQ_CST);
	for (int off = AGG_COUNT; off <= AGG_MAX; off += 8)
		__atomic_exchange_n((uint64_t *)(block + off), seen_word(a->base + off), __ATOMIC_SEQ_CST);
}

ONE agg_delete(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	const struct prog_agg *a = agg_of(op);
	uint64_t state;
	struct sums s;
	int64_t at = entry_of(frame, op, ring, &state);
	bool there = at >= 0 && read_all(a, at, &s);

	if (there && op->nkeys) {
		there = table_delete_at(table_of(op), shape_of(op), at, state);
	} else if (there) {
		forget_counters(a);
		if (a->flip)
			forget_flip(a);
	}
	if (op->dst != PROG_NONE)
		*word(frame, op->dst) = there;
	return there ? PROG_OK : PROG_ABSENT;
}
