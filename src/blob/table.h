/* SPDX-License-Identifier: MIT */
/*
 * The hash table of a map's keys, for pads and for the reader; the states of an entry are described at enum
 * prog_state. No loop waits without a limit. The table's dimensions (`shape`) are constants of the code, and the
 * reader has its own copy: whatever the target or a child of it writes into a table, only entries of that table are
 * touched, and every loop ends.
 */
#ifndef JAB_BLOB_TABLE_H
#define JAB_BLOB_TABLE_H

#include "blob/cpu.h"
#include "blob/program.h"

#define TABLE_TRIES 16
#define TABLE_SPINS 200

/*
 * Pairs with the SEQ_CST exchange in table_put() and the one in table_replace(): a thread that sees READY
 * also sees the key and the value.
 */
static inline uint64_t table_state(const struct prog_entry *e)
{
	return __atomic_load_n(&e->state, __ATOMIC_ACQUIRE);
}

/*
 * Waits, for at most *spins rounds, while the entry is CLAIMED: it will be READY soon, unless the thread that
 * claimed it is dead or was interrupted by the signal handler that runs this code.
 */
static inline uint64_t table_settled(const struct prog_entry *e, int *spins)
{
	uint64_t s = table_state(e);

	for (; *spins > 0 && (s & PROG_STATE) == PROG_CLAIMED; --*spins) {
		spin();
		s = table_state(e);
	}
	return s;
}

/*
 * The words of a key that say which one it is. Room for text is as long as the longest one; what is behind the end of a text
 * that is the last part is not looked at, and in an entry may be what another key has left there.
 */
static inline uint32_t table_words(const struct prog_shape *shape, const uint64_t *key)
{
	uint64_t words;

	if (!shape->text)
		return shape->key_words;
	words = shape->text - 1 + (4 + (uint64_t)(uint32_t)key[shape->text - 1] + 7) / 8;
	return words < shape->key_words ? words : shape->key_words;
}

static inline uint64_t table_hash(const struct prog_shape *shape, const uint64_t *key)
{
	return prog_hash(key, table_words(shape, key));
}

static inline bool table_has(const struct prog_shape *shape, const struct prog_entry *e, const uint64_t *key)
{
	uint32_t n = table_words(shape, key);

	for (uint32_t i = 0; i < n; i++)
		if (e->key[i] != key[i])
			return false;
	return true;
}

static inline uint32_t table_window(const struct prog_shape *shape)
{
	return shape->mask < PROG_WINDOW ? shape->mask + 1 : PROG_WINDOW;
}

/*
 * Finds the key among the entries at the distances `from` to `to` - 1 from its home. Returns the entry's number and
 * the state in which it was seen, or -1. A key counts as equal only if the state is still the same after the
 * comparison.
 */
static inline int64_t table_find_in(const struct prog_table *t, const struct prog_shape *shape, const uint64_t *key, uint64_t hash,
				    uint32_t from, uint32_t to, uint64_t *ret_state)
{
	int spins = TABLE_SPINS;	/* for the whole search: many entries may be CLAIMED by dead threads */

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

/* SEQ_CST: one total order of all changes of state. Pairs with the acquire load in table_state(). */
static inline bool table_change(struct prog_entry *e, uint64_t from, uint64_t to)
{
	return __atomic_compare_exchange_n(&e->state, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static inline uint64_t table_next(uint64_t state, enum prog_state to, uint64_t hash)
{
	return to | ((state + PROG_TURN) & PROG_TURNS) | (hash & PROG_HASH);
}

/* Relaxed: the count only limits the number of keys and is shown; no other memory depends on it. */
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

/*
 * Makes vacant entries deleted. False: there were none. Code in pads makes an entry vacant first and then sets the flag if it is
 * clear. The exchange, a full barrier, comes before the search, so either the search finds the entry or the flag is set again.
 */
static __attribute__((noinline, unused)) bool table_sweep(struct prog_table *t, const struct prog_shape *shape)
{
	if (!__atomic_exchange_n(&t->vacant, 0, __ATOMIC_SEQ_CST))
		return false;
	for (uint32_t i = 0; i <= shape->mask; i++) {
		uint64_t s = table_state(prog_entry(t, shape, i));

		if ((s & PROG_STATE) == PROG_VACANT)
			table_delete_at(t, shape, i, s);
	}
	return true;
}

static inline bool table_is_unused(const struct prog_shape *shape, const struct prog_entry *e, uint64_t s)
{
	switch (s & PROG_STATE) {
	case PROG_FREE:
		return true;
	case PROG_DELETED:
		return shape->reuse && !(shape->value_words && __atomic_load_n(&e->value, __ATOMIC_ACQUIRE));
	case PROG_VACANT:
		return shape->reuse && !shape->value_words;
	}
	return false;
}

/*
 * Finds an entry that can be claimed, at the distance *ret_far from home; -1: there is none. A deleted entry whose
 * value is locked can't be: the acquire load of the lock pairs with the release store that unlocks it (map_get(),
 * map_set()).
 */
static inline int64_t table_unused(const struct prog_table *t, const struct prog_shape *shape, uint64_t hash, uint64_t *ret_state,
				   uint32_t *ret_far)
{
	for (uint32_t d = 0, n = table_window(shape); d < n; d++) {
		uint32_t i = (hash + d) & shape->mask;
		const struct prog_entry *e = prog_entry(t, shape, i);
		uint64_t s = table_state(e);

		if (table_is_unused(shape, e, s)) {
			*ret_state = s;
			*ret_far = d;
			return i;
		}
	}
	return -1;
}

/*
 * Writes key and value into an entry that this thread has claimed. Plain stores: other threads read them only after
 * they have seen READY, see table_state().
 */
static inline void table_fill(const struct prog_shape *shape, struct prog_entry *e, const uint64_t *key, uint64_t value,
			      const uint64_t *values)
{
	for (uint32_t i = 0, n = table_words(shape, key); i < n; i++)
		e->key[i] = key[i];
	e->value = value;
	for (uint32_t i = 0; i < shape->value_words; i++)
		e->key[shape->key_words + i] = values ? values[i] : 0;
}

/*
 * For entries whose value is one number: replaces state and value in one step if they are `from` and *old. On
 * failure *old is the value that was found. Pairs with the acquire load in table_state().
 */
static inline bool table_replace(struct prog_entry *e, uint64_t from, uint64_t to, uint64_t *old, uint64_t value)
{
	return replace_pair(e, from, old, to, value);
}

/* Replaces the value if the state is still `state` and the value *old. */
static inline bool table_exchange(struct prog_entry *e, uint64_t state, uint64_t *old, uint64_t value)
{
	return table_replace(e, state, state, old, value);
}

/*
 * Inserts into a map without keys whose value is one number: from unused to READY in one step, without CLAIMED in
 * between. This table has one entry only, so threads that met CLAIMED could neither wait for an interrupted writer
 * nor use another entry. The relaxed load is only the expected value of the cmpxchg16b.
 */
static inline bool table_begin(struct prog_entry *e, uint64_t unused, uint64_t hash, uint64_t value, uint64_t *ret_state)
{
	uint64_t old = __atomic_load_n(&e->value, __ATOMIC_RELAXED);

	*ret_state = table_next(unused, PROG_READY, hash);
	return table_replace(e, unused, *ret_state, &old, value);
}

/*
 * Deletes an entry that this thread has inserted although the key is in another entry, too. If the value is one
 * number that another thread has changed since, the entry stays (false): what was added would be lost. (Other
 * values of maps are only set, never added to: a value that was set in the meantime counts as overwritten.)
 */
static inline bool table_take_back(struct prog_table *t, const struct prog_shape *shape, struct prog_entry *e, uint64_t state, uint64_t value)
{
	uint64_t deleted = table_next(state, PROG_DELETED, state);

	if (shape->value_words || !shape->reuse ? !table_change(e, state, deleted) : !table_replace(e, state, deleted, &value, value))
		return false;
	table_count(t, -1);
	return true;
}

/*
 * Finds the same key in another entry of the window: further from home than `far` if `beyond` is set; otherwise
 * nearer to home, and in tables that reuse entries further from home as well.
 */
static inline int64_t table_twin(const struct prog_table *t, const struct prog_shape *shape, const uint64_t *key, uint64_t hash,
				 uint32_t far, bool beyond, uint64_t *ret_state)
{
	int64_t at = beyond ? -1 : table_find_in(t, shape, key, hash, 0, far, ret_state);

	return at >= 0 || (!beyond && !shape->reuse) ? at :
	       table_find_in(t, shape, key, hash, far + 1, table_window(shape), ret_state);
}

/*
 * Inserts the key into entry `at`, which this thread has claimed. Threads that found `at` CLAIMED may have inserted
 * the same key further from home: then that entry wins and ours is released. Otherwise ours becomes READY, and the
 * window is searched again: an entry nearer to home wins. In tables that reuse entries every thread checks the
 * state of its entry again before it uses it (table_still()), so there an entry further from home wins as well, and
 * two threads that release their entries for each other's sake both start again.
 *
 * The exchange to READY pairs with the acquire load in table_state(). As a full barrier it also comes before the
 * second search: of two threads that insert one key at the same time, at least one sees the other's entry.
 *
 * Returns the number of the entry that has the key.
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
 * Finds a key or inserts it with this value. Returns the number of its entry, or -1 if there is no room. *ret_made:
 * the key was inserted by this call.
 */
static inline __attribute__((always_inline)) int64_t table_make(struct prog_table *t, const struct prog_shape *shape,
				 const uint64_t *key, uint64_t value, const uint64_t *values, uint64_t *ret_state, bool *ret_made)
{
	uint64_t hash = table_hash(shape, key), old, claimed;
	bool has_seat;
	uint32_t far;
	int64_t at;

	*ret_made = false;
	for (int tries = 0; tries < TABLE_TRIES; tries++) {
		at = table_find(t, shape, key, hash, ret_state);
		if (at >= 0)
			return at;
		at = table_unused(t, shape, hash, &old, &far);
		has_seat = at >= 0 && (old & PROG_STATE) == PROG_VACANT;
		if (at < 0 || (!has_seat && __atomic_load_n(&t->count, __ATOMIC_RELAXED) >= shape->max_keys)) {
			if (at >= 0 && table_sweep(t, shape))
				continue;
			return table_find(t, shape, key, hash, ret_state);	/* it may have been inserted just now */
		}
		if (!shape->key_words && !shape->value_words) {
			if (!table_begin(prog_entry(t, shape, at), old, hash, value, ret_state))
				continue;
			if (!has_seat)
				table_count(t, 1);
			*ret_made = true;
			return at;
		}
		claimed = table_next(old, PROG_CLAIMED, hash);
		if (!table_change(prog_entry(t, shape, at), old, claimed))
			continue;
		if (!has_seat)
			table_count(t, 1);
		return table_put(t, shape, at, far, claimed, hash, key, value, values, ret_state, ret_made);
	}
	return -1;
}

/* Whether the entry has not changed since it was found: any change of state also changes the turn count. */
static inline bool table_still(const struct prog_entry *e, uint64_t state)
{
	return table_state(e) == state;
}

#endif
