/* SPDX-License-Identifier: MIT */
/* Maps of values, and the keys of all maps. */
#include "blob/program_inside.h"

/* is_last: nothing behind the text will be looked at (table_words()). */
static uint64_t *pack(uint8_t *frame, const struct prog_arg *a, const struct ring_ref *ring, uint64_t *to, bool is_last)
{
	uint32_t len, words;
	const struct text *t;

	if (!a->slot) {
		*to = *word(frame, a->word);
		return to + 1;
	}
	t = text_at(ring, a->slot);
	len = text_len(t, a->cap < a->slot_cap ? a->cap : a->slot_cap);
	words = (4 + a->cap + 7) / 8;
	if (is_last)
		to[(4 + len + 7) / 8 - 1] = 0;
	else
		memset(to, 0, 8 * words);
	*(uint32_t *)to = len;
	memcpy((uint8_t *)to + 4, t->bytes, len);
	return to + words;
}

__attribute__((noinline)) const uint64_t *pack_key(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	uint64_t *to = run_of(ring)->key;

	for (uint32_t k = 0; k < op->nkeys; k++)
		to = pack(frame, &op->args[k], ring, to, shape_of(op)->text && k == op->nkeys - 1u);
	return run_of(ring)->key;
}

/*
 * Locks a value of more than one number. The acquire exchange pairs with the release stores of 0 that unlock it,
 * here and in map_get() and map_set().
 */
static bool lock_value(struct prog_entry *e, uint64_t state, uint32_t tid)
{
	for (int i = 0; i < TABLE_SPINS; i++) {
		uint64_t none = 0;

		if (!table_still(e, state))
			return false;
		if (__atomic_compare_exchange_n(&e->value, &none, tid, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return table_still(e, state) || (__atomic_store_n(&e->value, 0, __ATOMIC_RELEASE), false);
		spin();
	}
	return false;
}

/* Not inlined, so that finding an existing key takes few registers. */
static ONE make_key(struct prog_table *t, const struct prog_shape *shape, const uint64_t *key)
{
	uint64_t state;
	bool made;

	return table_make(t, shape, key, 0, 0, &state, &made);
}

ONE map_key(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	const struct prog_shape *shape = shape_of(op);
	struct prog_table *t = table_of(op);
	const uint64_t *key = key_of(frame, op, ring);
	uint64_t state;
	int64_t at = table_find(t, shape, key, table_hash(shape, key), &state);

	if (at < 0)
		at = make_key(t, shape, key);
	return at < 0 ? PROG_FULL : at + PROG_KEY_BIAS;
}

static void unpack(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring, const uint64_t *from)
{
	for (uint32_t k = op->nkeys; k < op->n; k++) {
		const struct prog_arg *a = &op->args[k];
		const struct text *have = (const struct text *)from;
		uint32_t len;
		struct text *t;

		if (!a->slot) {
			*word(frame, a->word) = from ? *from++ : 0;
			continue;
		}
		t = text_at(ring, a->slot);
		len = from ? text_len(have, a->cap < a->slot_cap ? a->cap : a->slot_cap) : 0;
		memcpy(t->bytes, have->bytes, len);
		t->len = len;
		from += from ? (4 + a->cap + 7) / 8 : 0;
	}
}

ONE map_get(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	const struct prog_shape *shape = shape_of(op);
	struct prog_table *t = table_of(op);
	const uint64_t *key = key_of(frame, op, ring);
	uint64_t state, value, hash = table_hash(shape, key);
	bool there = false;

	for (int tries = 0; tries < TABLE_TRIES && !there; tries++) {
		int64_t at = table_find(t, shape, key, hash, &state);
		struct prog_entry *e = prog_entry(t, shape, at);

		if (at < 0)
			break;
		if (!shape->value_words) {
			/*
			 * Pairs with the cmpxchg16b in table_replace(): the value belongs to the state seen before
			 * if that is unchanged.
			 */
			value = __atomic_load_n(&e->value, __ATOMIC_ACQUIRE);
			there = table_still(e, state);
		} else if (lock_value(e, state, context(ring)->tid)) {
			unpack(frame, op, ring, e->key + shape->key_words);
			__atomic_store_n(&e->value, 0, __ATOMIC_RELEASE);
			there = true;
		}
	}
	if (!there)
		unpack(frame, op, ring, 0);
	else if (!shape->value_words)
		unpack(frame, op, ring, &value);
	if (op->dst != PROG_NONE)
		*word(frame, op->dst) = there;
	return PROG_OK;
}

ONE map_set(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	const struct prog_shape *shape = shape_of(op);
	struct prog_table *t = table_of(op);
	const uint64_t *key = key_of(frame, op, ring);
	uint64_t state, old, *values = 0, value = 0;
	bool made;

	if (shape->value_words) {
		uint64_t *to = values = (uint64_t *)area_of(ring, op);

		for (uint32_t k = op->nkeys; k < op->n; k++)
			to = pack(frame, &op->args[k], ring, to, false);
	} else {
		value = *word(frame, op->args[op->nkeys].word);
	}
	for (int tries = 0; tries < TABLE_TRIES; tries++) {
		int64_t at = table_make(t, shape, key, value, values, &state, &made);
		struct prog_entry *e = prog_entry(t, shape, at);

		if (at < 0)
			return PROG_FULL;
		if (made)
			return PROG_OK;
		if (!values) {
			old = e->value;
			for (int i = 0; i < TABLE_SPINS && table_still(e, state); i++)
				if (table_exchange(e, state, &old, value))
					return PROG_OK;
		} else if (lock_value(e, state, context(ring)->tid)) {
			for (uint32_t i = 0; i < shape->value_words; i++)
				e->key[shape->key_words + i] = values[i];
			__atomic_store_n(&e->value, 0, __ATOMIC_RELEASE);
			return PROG_OK;
		}
	}
	return PROG_FULL;
}

ONE map_add(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	const struct prog_shape *shape = shape_of(op);
	struct prog_table *t = table_of(op);
	const uint64_t *key = key_of(frame, op, ring);
	uint64_t state, old = 0, by = *word(frame, op->a);
	bool made, done = false;

	for (int tries = 0; tries < TABLE_TRIES && !done; tries++) {
		int64_t at = table_make(t, shape, key, by, 0, &state, &made);
		struct prog_entry *e = prog_entry(t, shape, at);

		if (at < 0)
			break;
		old = made ? 0 : e->value;
		done = made;
		for (int i = 0; i < TABLE_SPINS * TABLE_SPINS && !done && table_still(e, state); i++)
			done = table_exchange(e, state, &old, old + by);
	}
	if (op->dst != PROG_NONE)
		*word(frame, op->dst) = done ? old : 0;
	return done ? PROG_OK : PROG_FULL;
}

ONE map_delete(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	const struct prog_shape *shape = shape_of(op);
	struct prog_table *t = table_of(op);
	const uint64_t *key = key_of(frame, op, ring);
	uint64_t state;
	int64_t at = table_find(t, shape, key, table_hash(shape, key), &state);
	bool there = at >= 0 && table_delete_at(t, shape, at, state);

	if (op->dst != PROG_NONE)
		*word(frame, op->dst) = there;
	return there ? PROG_OK : PROG_ABSENT;
}

ONE map_has(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	const struct prog_shape *shape = shape_of(op);
	struct prog_table *t = table_of(op);
	const uint64_t *key = key_of(frame, op, ring);
	uint64_t state;

	*word(frame, op->dst) = table_find(t, shape, key, table_hash(shape, key), &state) >= 0;
	return PROG_OK;
}

ONE map_len(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	struct prog_table *t = table_of(op);

	(void)ring;
	/* No vacant entries are made in a map that a clause program counts (gen/values.c), unless that program is newer. */
	if (__atomic_load_n(&t->vacant, __ATOMIC_RELAXED))
		table_sweep(t, shape_of(op));
	*word(frame, op->dst) = __atomic_load_n(&t->count, __ATOMIC_RELAXED);
	return PROG_OK;
}
