/* SPDX-License-Identifier: MIT */
/*
 * Keys of maps, for pads and for the reader; struct prog_table says how it works. Nobody waits for long. How a table is made up
 * (`shape`) is a constant of the code, and the reader has its own copy: whatever a target or a child of it writes into a table, only
 * its entries are touched, and every loop has an end.
 */
#ifndef JAB_BLOB_TABLE_H
#define JAB_BLOB_TABLE_H

#include "blob/program.h"

#define TABLE_TRIES 16
#define TABLE_SPINS 200

static inline uint64_t table_state(const struct prog_entry *e)
{
	return __atomic_load_n(&e->state, __ATOMIC_ACQUIRE);
}

static inline void table_pause(void)
{
	__asm__ volatile("pause");
}

/* A key that is being written will soon be there, unless its writer is dead or is what we interrupted. */
static inline uint64_t table_settled(const struct prog_entry *e, int *spins)
{
	uint64_t s = table_state(e);

	for (; *spins > 0 && (s & PROG_STATE) == PROG_CLAIMED; --*spins) {
		table_pause();
		s = table_state(e);
	}
	return s;
}

static inline bool table_has(const struct prog_shape *shape, const struct prog_entry *e, const uint64_t *key)
{
	for (uint32_t i = 0; i < shape->key_words; i++)
		if (e->key[i] != key[i])
			return false;
	return true;
}

static inline uint32_t table_window(const struct prog_shape *shape)
{
	return shape->mask < PROG_WINDOW ? shape->mask + 1 : PROG_WINDOW;
}

/* Among the entries at these distances from home: its number, and the state that it was seen in; -1: not there. */
static inline int64_t table_find_in(const struct prog_table *t, const struct prog_shape *shape, const uint64_t *key, uint64_t hash,
				    uint32_t from, uint32_t to, uint64_t *ret_state)
{
	int spins = TABLE_SPINS;	/* for all of them: a table may be full of such keys */

	for (uint32_t d = from; d < to; d++) {
		uint32_t i = (hash + d) & shape->mask;
		const struct prog_entry *e = prog_entry(t, shape, i);
		uint64_t s = table_settled(e, &spins);

		if ((s & PROG_STATE) == PROG_FREE)
			return -1;
		if ((s & PROG_STATE) == PROG_READY && !((s ^ hash) & PROG_HASH) && table_has(shape, e, key) &&
		    table_state(e) == s) {
			*ret_state = s;
			return i;
		}
	}
	return -1;
}

static inline int64_t table_find(const struct prog_table *t, const struct prog_shape *shape, const uint64_t *key, uint64_t hash,
				 uint64_t *ret_state)
{
	return table_find_in(t, shape, key, hash, 0, table_window(shape), ret_state);
}

static inline bool table_change(struct prog_entry *e, uint64_t from, uint64_t to)
{
	return __atomic_compare_exchange_n(&e->state, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static inline uint64_t table_next(uint64_t state, enum prog_state to, uint64_t hash)
{
	return to | ((state + PROG_TURN) & PROG_TURNS) | (hash & PROG_HASH);
}

static inline void table_count(struct prog_table *t, int64_t n)
{
	__atomic_fetch_add(&t->count, n, __ATOMIC_RELAXED);
}

static inline bool table_delete_at(struct prog_table *t, const struct prog_shape *shape, uint32_t i, uint64_t state)
{
	if (!table_change(prog_entry(t, shape, i), state, table_next(state, PROG_DELETED, state)))
		return false;
	table_count(t, -1);
	return true;
}

/* One that nobody uses, at distance *ret_far from home; -1: there is none. */
static inline int64_t table_unused(const struct prog_table *t, const struct prog_shape *shape, uint64_t hash, uint64_t *ret_state,
				   uint32_t *ret_far)
{
	for (uint32_t d = 0, n = table_window(shape); d < n; d++) {
		uint32_t i = (hash + d) & shape->mask;
		const struct prog_entry *e = prog_entry(t, shape, i);
		uint64_t s = table_state(e);

		if ((s & PROG_STATE) == PROG_FREE || ((s & PROG_STATE) == PROG_DELETED && shape->reuse &&
						      !(shape->value_words && __atomic_load_n(&e->value, __ATOMIC_ACQUIRE)))) {
			*ret_state = s;
			*ret_far = d;
			return i;
		}
	}
	return -1;
}

/* The entry is ours: its key and its value, which nobody sees yet. */
static inline void table_fill(const struct prog_shape *shape, struct prog_entry *e, const uint64_t *key, uint64_t value,
			      const uint64_t *values)
{
	for (uint32_t i = 0; i < shape->key_words; i++)
		e->key[i] = key[i];
	e->value = value;
	for (uint32_t i = 0; i < shape->value_words; i++)
		e->key[shape->key_words + i] = values ? values[i] : 0;
}

/* State and value of an entry with one number at once, if they are still these. *old: what value was there. */
static inline bool table_replace(struct prog_entry *e, uint64_t from, uint64_t to, uint64_t *old, uint64_t value)
{
	bool done;

	__asm__ volatile("lock cmpxchg16b %0; sete %1" : "+m"(*(char (*)[16])e), "=q"(done), "+a"(from), "+d"(*old)
			 : "b"(to), "c"(value) : "memory", "cc");
	return done;
}

/* The value only, if its state is still this. */
static inline bool table_exchange(struct prog_entry *e, uint64_t state, uint64_t *old, uint64_t value)
{
	return table_replace(e, state, state, old, value);
}

/*
 * A number without a key needs nothing to be written in between: there is no moment in which others would have to
 * wait for somebody who was interrupted just then, or do without, as this table has no other entry.
 */
static inline bool table_begin(struct prog_entry *e, uint64_t unused, uint64_t hash, uint64_t value, uint64_t *ret_state)
{
	uint64_t old = __atomic_load_n(&e->value, __ATOMIC_RELAXED);

	*ret_state = table_next(unused, PROG_READY, hash);
	return table_replace(e, unused, *ret_state, &old, value);
}

/*
 * An entry that was made in vain. One that can be seen stays if it is used already: what was added to it would be lost. (Text is
 * not added to, and who has just set it might as well have come a moment earlier.)
 */
static inline bool table_take_back(struct prog_table *t, const struct prog_shape *shape, struct prog_entry *e, uint64_t state, uint64_t value)
{
	uint64_t deleted = table_next(state, PROG_DELETED, state);

	if (shape->value_words || !shape->reuse ? !table_change(e, state, deleted) : !table_replace(e, state, deleted, &value, value))
		return false;
	table_count(t, -1);
	return true;
}

/* The same key elsewhere in the window. */
static inline int64_t table_twin(const struct prog_table *t, const struct prog_shape *shape, const uint64_t *key, uint64_t hash,
				 uint32_t far, bool beyond, uint64_t *ret_state)
{
	int64_t at = beyond ? -1 : table_find_in(t, shape, key, hash, 0, far, ret_state);

	return at >= 0 || (!beyond && !shape->reuse) ? at :
	       table_find_in(t, shape, key, hash, far + 1, table_window(shape), ret_state);
}

/*
 * Entry `at`, which was claimed, gets the key. Others who wanted it meanwhile could not wait and may have it further on: then
 * it stays there. Where entries are used again, everybody looks whether his entry still is the one he knows, so
 * the same is done once more when it can be seen, and two who give way to each other begin anew. Returns the number of its entry.
 */
static inline __attribute__((always_inline)) int64_t table_put(struct prog_table *t, const struct prog_shape *shape, int64_t at, uint32_t far,
				uint64_t claimed, uint64_t hash, const uint64_t *key, uint64_t value, const uint64_t *values,
				uint64_t *ret_state, bool *ret_made)
{
	struct prog_entry *e = prog_entry(t, shape, at);
	uint64_t other;
	int64_t twin;

	table_fill(shape, e, key, value, values);
	*ret_state = claimed;
	twin = table_twin(t, shape, key, hash, far, true, &other);
	if (twin < 0) {
		*ret_state = table_next(claimed, PROG_READY, hash);
		__atomic_exchange_n(&e->state, *ret_state, __ATOMIC_SEQ_CST);
		twin = table_twin(t, shape, key, hash, far, false, &other);
	}
	*ret_made = twin < 0 || !table_take_back(t, shape, e, *ret_state, value);
	if (*ret_made)
		return at;
	*ret_state = other;
	return twin;
}

/*
 * Find a key or make it. Returns the number of its entry, -1 if there is no room. *ret_made: its value is
 * what was given.
 */
static inline __attribute__((always_inline)) int64_t table_make(struct prog_table *t, const struct prog_shape *shape,
				 const uint64_t *key, uint64_t value, const uint64_t *values, uint64_t *ret_state, bool *ret_made)
{
	uint64_t hash = prog_hash(key, shape->key_words), old, claimed;
	uint32_t far;
	int64_t at;

	*ret_made = false;
	for (int tries = 0; tries < TABLE_TRIES; tries++) {
		at = table_find(t, shape, key, hash, ret_state);
		if (at >= 0)
			return at;
		at = table_unused(t, shape, hash, &old, &far);
		if (at < 0 || __atomic_load_n(&t->count, __ATOMIC_RELAXED) >= shape->max_keys)
			return table_find(t, shape, key, hash, ret_state);	/* somebody may have made it just now */
		if (!shape->key_words && !shape->value_words) {
			if (!table_begin(prog_entry(t, shape, at), old, hash, value, ret_state))
				continue;
			table_count(t, 1);
			*ret_made = true;
			return at;
		}
		claimed = table_next(old, PROG_CLAIMED, hash);
		if (!table_change(prog_entry(t, shape, at), old, claimed))
			continue;
		table_count(t, 1);
		return table_put(t, shape, at, far, claimed, hash, key, value, values, ret_state, ret_made);
	}
	return -1;
}

/* Is it still the same entry? */
static inline bool table_still(const struct prog_entry *e, uint64_t state)
{
	return table_state(e) == state;
}

#endif
