/* SPDX-License-Identifier: MIT */
/*
 * The tracer's access to maps. Each operation first makes a list of the map's entries: keys that are ready, with the values of
 * all parts merged. Counters only grow while pads run; clear() keeps their values at that time, which are subtracted: here, and
 * as a sum per entry by clause code (map_place.cleared). A key whose count is 0 since then is not shown, unless zero() has set
 * AGG_SHOWN.
 */
#include "gen/maps.h"

#include <string.h>

#include "blob/table.h"
#include "gen/agg_words.h"
#include "lang/key_index.h"

struct row {
	struct bytes key, value;
	struct agg agg;
	uint32_t entry;
};

struct view {
	VEC(struct row) rows;
	struct key_index index;	/* of the keys of the first `indexed` rows */
	size_t indexed;
	uint64_t *before;	/* counters of all parts at the last clear; NULL: no clear yet, or kept in shared memory */
};

struct maps_reader {
	const struct ir_unit *u;
	const struct maps_layout *l;
	uint8_t *memory;
	struct view *views;
	struct prog_shape *shapes;	/* of the maps' tables */
};

struct maps_reader *maps_reader_new(const struct ir_unit *u, const struct maps_layout *l, uint8_t *memory)
{
	struct maps_reader *r = xcalloc(1, sizeof(*r));

	*r = (struct maps_reader){ u, l, memory, xcalloc(l->nmaps, sizeof(*r->views)), xcalloc(l->nmaps, sizeof(*r->shapes)) };
	for (uint32_t i = 0; i < l->nmaps; i++)
		r->shapes[i] = maps_shape(&u->maps.v[i], &l->maps[i]);
	return r;
}

static void forget(struct view *v)
{
	for (size_t i = 0; i < v->rows.n; i++) {
		bytes_free(&v->rows.v[i].key);
		bytes_free(&v->rows.v[i].value);
		agg_free(&v->rows.v[i].agg);
	}
	v->rows.n = v->indexed = 0;
	key_index_clear(&v->index);
}

void maps_reader_free(struct maps_reader *r)
{
	for (uint32_t i = 0; r && i < r->l->nmaps; i++) {
		forget(&r->views[i]);
		vec_free(&r->views[i].rows);
		key_index_free(&r->views[i].index);
		free(r->views[i].before);
	}
	if (r) {
		free(r->views);
		free(r->shapes);
	}
	free(r);
}

static struct prog_table *table_at(const struct maps_reader *r, uint32_t map)
{
	return (struct prog_table *)(r->memory + r->l->maps[map].table);
}

static uint64_t load(const void *p)
{
	return __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
}

static uint8_t *block_at(const struct maps_reader *r, uint32_t map, uint32_t part, uint32_t entry)
{
	const struct map_place *p = &r->l->maps[map];

	return r->memory + r->l->parts + r->l->part_size * part + p->values + (uint64_t)p->value_size * entry;
}

static uint32_t first_part(const struct maps_reader *r, uint32_t map)
{
	return r->l->maps[map].percpu ? 0 : r->l->ncpus;
}

/* ---- aggregations ---- */

static bool is_counter(const struct ir_map *m)
{
	return m->kind == IR_MAP_COUNT;
}

static uint32_t counters_off(const struct ir_map *m)
{
	return agg_has_flip(m) ? AGG_SIZE : 0;
}

static uint64_t *before_of(const struct maps_reader *r, uint32_t map)
{
	return r->l->maps[map].before ? (uint64_t *)(r->memory + r->l->maps[map].before) : r->views[map].before;
}

static uint64_t *before_at(const struct maps_reader *r, uint32_t map, uint32_t part, uint32_t entry)
{
	const struct map_place *p = &r->l->maps[map];

	part -= p->before ? 0 : first_part(r, map);
	return before_of(r, map) + ((uint64_t)part * p->entries + entry) * agg_counters(&r->u->maps.v[map]);
}

/* Reads the valid copy, again if another one became valid meanwhile; see aggs.c. */
static void read_flip(const struct maps_reader *r, uint32_t map, uint32_t part, uint32_t entry, struct agg *to)
{
	const uint8_t *b = block_at(r, map, part, entry);
	uint64_t epoch = load(r->memory + r->l->maps[map].base), at, own;
	struct agg a;

	for (int tries = 0; tries < 100; tries++) {
		at = load(b) & AGG_COPY;
		a = (struct agg){ load(b + at + AGG_COUNT), { .u = load(b + at + AGG_SUM) }, { .u = load(b + at + AGG_MIN) },
				  { .u = load(b + at + AGG_MAX) }, NULL };
		own = load(b + at + AGG_EPOCH);
		if ((load(b) & AGG_COPY) == at)
			break;
	}
	if (part == r->l->ncpus || own == epoch)
		agg_merge(&r->u->maps.v[map], to, &a);
}

static void read_counters(const struct maps_reader *r, uint32_t map, uint32_t part, uint32_t entry, struct agg *to)
{
	const struct ir_map *m = &r->u->maps.v[map];
	const uint8_t *b = block_at(r, map, part, entry) + counters_off(m);
	uint32_t n = agg_counters(m);

	if (n && !is_counter(m) && !to->buckets)
		to->buckets = xcalloc(n, sizeof(*to->buckets));
	for (uint32_t i = 0; i < n; i++) {
		uint64_t v = load(b + 8 * i) - (before_of(r, map) ? load(before_at(r, map, part, entry) + i) : 0);

		if (is_counter(m) || !agg_has_flip(m))
			to->count += v;
		if (!is_counter(m))
			to->buckets[i] += v;
	}
}

static void read_agg(const struct maps_reader *r, uint32_t map, uint32_t entry, struct agg *to)
{
	const struct ir_map *m = &r->u->maps.v[map];

	for (uint32_t part = first_part(r, map); part <= r->l->ncpus; part++) {
		if (agg_has_flip(m))
			read_flip(r, map, part, entry, to);
		read_counters(r, map, part, entry, to);
	}
}

static uint64_t *cleared_at(const struct maps_reader *r, uint32_t map, uint32_t entry)
{
	return (uint64_t *)(r->memory + r->l->maps[map].cleared) + entry;
}

static uint64_t keep_entry(struct maps_reader *r, uint32_t map, uint32_t entry)
{
	const struct ir_map *m = &r->u->maps.v[map];
	uint64_t sum = 0;

	for (uint32_t part = first_part(r, map); part <= r->l->ncpus; part++)
		for (uint32_t i = 0; i < agg_counters(m); i++) {
			uint64_t v = load(block_at(r, map, part, entry) + counters_off(m) + 8 * i);

			uint64_t *before = before_at(r, map, part, entry) + i;

			sum += v;
			if (load(before) != v)	/* no store, so that unused pages are not allocated */
				__atomic_store_n(before, v, __ATOMIC_RELAXED);
		}
	return sum;
}

static void keep_before(struct maps_reader *r, uint32_t map)
{
	const struct ir_map *m = &r->u->maps.v[map];
	const struct map_place *p = &r->l->maps[map];
	uint32_t n = agg_counters(m);

	if (n && !before_of(r, map))
		r->views[map].before = xcalloc((uint64_t)(r->l->ncpus + 1 - first_part(r, map)) * p->entries, n * sizeof(uint64_t));
	for (uint32_t e = 0; e < p->entries; e++) {
		uint64_t sum = n ? keep_entry(r, map, e) : 0;

		__atomic_store_n(cleared_at(r, map, e), agg_has_flip(m) ? 0 : sum, __ATOMIC_RELEASE);
	}
}

/* The parts of CPUs become empty by a new epoch; the last part has no epoch and is emptied word by word. */
static void empty_flips(struct maps_reader *r, uint32_t map)
{
	const struct map_place *p = &r->l->maps[map];
	const uint8_t *empty = r->memory + p->base;

	__atomic_fetch_add((uint64_t *)(r->memory + p->base), 1, __ATOMIC_SEQ_CST);
	for (uint32_t e = 0; e < p->entries; e++)
		for (int off = AGG_COUNT; off <= AGG_MAX; off += 8)
			__atomic_exchange_n((uint64_t *)(block_at(r, map, r->l->ncpus, e) + off), load(empty + off),
					    __ATOMIC_SEQ_CST);
}

/* ---- entries ---- */

/* From the target's layout of a key or value (parts at fixed offsets) to that of lang/store.h (packed); spread() is the inverse. */
static void compact(const struct ir_part *parts, uint32_t n, const uint64_t *from, struct bytes *to)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = *(const uint32_t *)from;

		if (!ir_in_slot(parts[i].type)) {
			bytes_u64(to, *from);
		} else {
			len = MIN(len, parts[i].cap);
			bytes_add(to, &len, 4);
			bytes_add(to, (const uint8_t *)from + 4, len);
		}
		from += maps_part_words(&parts[i]);
	}
}

static uint64_t *spread(const struct ir_part *parts, uint32_t n, const struct bytes *from)
{
	const uint8_t *p = from->p, *end = from->p + from->n;
	uint32_t words = 0, at = 0;
	uint64_t *to;

	for (uint32_t i = 0; i < n; i++)
		words += maps_part_words(&parts[i]);
	to = xcalloc(words + 1, 8);
	for (uint32_t i = 0; i < n; i++) {
		bool slot = ir_in_slot(parts[i].type);
		uint32_t len = 8;

		if (slot && end - p >= 4) {
			memcpy(&len, p, 4);
			len = 4 + MIN(len, parts[i].cap);
		}
		if (end - p >= len)
			memcpy(to + at, p, len);
		p += MIN(len, end - p);
		at += maps_part_words(&parts[i]);
	}
	return to;
}

static struct row *row_of(struct view *v, const struct bytes *key)
{
	size_t at;

	for (; v->indexed < v->rows.n; v->indexed++)
		key_index_add(&v->index, v->rows.v[v->indexed].key.p, v->rows.v[v->indexed].key.n, v->indexed);
	at = key_index_find(&v->index, key->p, key->n);
	return at == SIZE_MAX ? NULL : &v->rows.v[at];
}

static void add_row(struct maps_reader *r, uint32_t map, uint32_t entry, struct bytes *key, const uint64_t *values)
{
	const struct ir_map *m = &r->u->maps.v[map];
	struct view *v = &r->views[map];
	struct agg a = { 0 };
	struct row *row;

	if (m->kind != IR_MAP_VALUE) {
		read_agg(r, map, entry, &a);
		if (!a.count && !(load(cleared_at(r, map, entry)) & AGG_SHOWN)) {
			agg_free(&a);
			bytes_free(key);
			return;
		}
	}
	row = vec_add(&v->rows);
	row->key = *key;
	row->agg = a;
	row->entry = entry;
	if (values)
		compact(m->values, m->nvalues, values, &row->value);
}

/* Copies an entry that is ready and not being changed. False: there is none. */
static bool copy_entry(const struct prog_shape *shape, const struct prog_entry *e, uint64_t *to)
{
	uint32_t words = 2 + shape->key_words + shape->value_words;

	for (int tries = 0; tries < 1000; tries++) {
		uint64_t s = table_state(e);

		if ((s & PROG_STATE) != PROG_READY)
			return false;
		for (uint32_t i = 0; i < words; i++)
			to[i] = load((const uint64_t *)e + i);
		if (to[0] == s && table_state(e) == s && !(shape->value_words && (to[1] || load(&e->value))))
			return true;
	}
	return false;
}

/* Makes the list of a map's entries. */
static void look(struct maps_reader *r, uint32_t map)
{
	const struct ir_map *m = &r->u->maps.v[map];
	const struct map_place *p = &r->l->maps[map];
	const struct prog_shape *shape = &r->shapes[map];
	const struct prog_table *t = table_at(r, map);
	struct bytes key = { 0 };
	uint64_t *copy;

	forget(&r->views[map]);
	if (!m->nkeys && m->kind != IR_MAP_VALUE) {
		add_row(r, map, 0, &key, NULL);
		return;
	}
	copy = xcalloc(2 + shape->key_words + shape->value_words, 8);
	for (uint32_t i = 0; i < p->entries; i++) {
		struct row *same;

		if (!copy_entry(shape, prog_entry(t, shape, i), copy))
			continue;
		key = (struct bytes){ 0 };
		compact(m->keys, m->nkeys, copy + 2, &key);
		same = shape->reuse ? NULL : row_of(&r->views[map], &key);
		if (same) {
			read_agg(r, map, i, &same->agg);
			bytes_free(&key);
			continue;
		}
		add_row(r, map, i, &key,
			m->kind != IR_MAP_VALUE ? NULL : shape->value_words ? copy + 2 + shape->key_words : copy + 1);
	}
	free(copy);
}

static struct map_entry entry_of(const struct maps_reader *r, uint32_t map, const struct row *row)
{
	return (struct map_entry){ row->key.p, row->key.n, row->value.p, row->value.n,
				   r->u->maps.v[map].kind == IR_MAP_VALUE ? NULL : &row->agg };
}

/* ---- struct map_ops of lang/store.h ---- */

static void list(void *store, uint32_t map, struct map_list *ret_list)
{
	struct maps_reader *r = store;

	look(r, map);
	for (size_t i = 0; i < r->views[map].rows.n; i++)
		*vec_add(ret_list) = entry_of(r, map, &r->views[map].rows.v[i]);
}

static bool get(void *store, uint32_t map, const struct bytes *key, struct map_entry *ret_entry)
{
	struct maps_reader *r = store;
	struct row *row;

	look(r, map);
	row = row_of(&r->views[map], key);
	if (row)
		*ret_entry = entry_of(r, map, row);
	return row;
}

static uint64_t len(void *store, uint32_t map)
{
	struct maps_reader *r = store;

	look(r, map);
	return r->views[map].rows.n;
}

static bool del(void *store, uint32_t map, const struct bytes *key)
{
	struct maps_reader *r = store;
	const struct ir_map *m = &r->u->maps.v[map];
	struct prog_table *t = table_at(r, map);
	const struct prog_shape *shape = &r->shapes[map];
	uint64_t *words, state;
	int64_t at;
	bool there;

	if (!m->nkeys && m->kind != IR_MAP_VALUE) {
		there = len(store, map);
		maps_reader_ops.clear(store, map);
		return there;
	}
	words = spread(m->keys, m->nkeys, key);
	at = table_find(t, shape, words, table_hash(shape, words), &state);
	there = at >= 0 && table_delete_at(t, shape, at, state);
	free(words);
	return there;
}

/* Sets or adds to a value. If pads keep it locked or keep changing it, this gives up after a number of attempts. */
static bool put(struct maps_reader *r, uint32_t map, const struct bytes *key, const uint64_t *values, bool adds, int64_t *ret_old)
{
	const struct ir_map *m = &r->u->maps.v[map];
	struct prog_table *t = table_at(r, map);
	const struct prog_shape *shape = &r->shapes[map];
	uint64_t *words = spread(m->keys, m->nkeys, key), state, old = 0;
	bool made, done = false;

	for (int tries = 0; tries < 1000 && !done; tries++) {
		int64_t at = table_make(t, shape, words, shape->value_words ? 0 : values[0], values, &state, &made);
		struct prog_entry *e = prog_entry(t, shape, at);

		if (at < 0)
			break;
		done = made;
		old = made ? 0 : load(&e->value);
		if (!made && !shape->value_words)
			done = table_exchange(e, state, &old, values[0] + (adds ? old : 0));
		else if (!made && (done = __atomic_compare_exchange_n(&e->value, &(uint64_t){ 0 }, UINT32_MAX, 0,
								       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))) {
			for (uint32_t i = 0; i < shape->value_words; i++)
				e->key[shape->key_words + i] = values[i];
			__atomic_store_n(&e->value, 0, __ATOMIC_RELEASE);
		}
	}
	free(words);
	*ret_old = old;
	return done;
}

static bool set(void *store, uint32_t map, const struct bytes *key, const struct bytes *value)
{
	struct maps_reader *r = store;
	uint64_t *values = spread(r->u->maps.v[map].values, r->u->maps.v[map].nvalues, value);
	int64_t old;
	bool done = put(r, map, key, values, false, &old);

	free(values);
	return done;
}

static bool add(void *store, uint32_t map, const struct bytes *key, int64_t n, int64_t *ret_old)
{
	return put(store, map, key, (const uint64_t *)&n, true, ret_old);
}

static void change_word(const struct ir_map *m, uint64_t *p, num v, int off)
{
	num old = { .u = load(p) }, next;

	do {
		next = v;
		if (off == AGG_SUM && m->num == IR_F64)
			next.f = old.f + v.f;
		else if (off == AGG_SUM)
			next.u = old.u + v.u;
		else if (off == AGG_MIN ? !agg_below(m, v, old) : !agg_below(m, old, v))
			return;
	} while (!__atomic_compare_exchange_n(p, &old.u, next.u, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}

static bool aggregate(void *store, uint32_t map, const struct bytes *key, num v)
{
	struct maps_reader *r = store;
	const struct ir_map *m = &r->u->maps.v[map];
	uint64_t *words = spread(m->keys, m->nkeys, key), state;
	int64_t at = 0;
	uint8_t *b;
	bool made;

	if (m->nkeys)
		at = table_make(table_at(r, map), &r->shapes[map], words, 0, NULL, &state, &made);
	free(words);
	if (at < 0)
		return false;
	b = block_at(r, map, r->l->ncpus, at);
	for (int off = AGG_SUM; agg_has_flip(m) && off <= AGG_MAX; off += 8)
		change_word(m, (uint64_t *)(b + off), v, off);
	if (agg_has_flip(m))
		__atomic_fetch_add((uint64_t *)(b + AGG_COUNT), 1, __ATOMIC_SEQ_CST);
	if (agg_counters(m))
		__atomic_fetch_add((uint64_t *)(b + counters_off(m)) + (is_counter(m) ? 0 : agg_bucket(m, v.i)), 1, __ATOMIC_SEQ_CST);
	return true;
}

static void empty_values(struct maps_reader *r, uint32_t map)
{
	const struct ir_map *m = &r->u->maps.v[map];

	if (m->kind == IR_MAP_VALUE)
		return;
	keep_before(r, map);
	if (agg_has_flip(m))
		empty_flips(r, map);
}

static void clear(void *store, uint32_t map)
{
	struct maps_reader *r = store;
	struct prog_table *t = table_at(r, map);

	empty_values(r, map);
	for (uint32_t i = 0; r->u->maps.v[map].kind == IR_MAP_VALUE && i < r->l->maps[map].entries; i++) {
		uint64_t s = table_state(prog_entry(t, &r->shapes[map], i));

		if ((s & PROG_STATE) == PROG_READY)
			table_delete_at(t, &r->shapes[map], i, s);
	}
}

static void zero(void *store, uint32_t map)
{
	struct maps_reader *r = store;
	struct view *v = &r->views[map];
	struct bytes none = { 0 };

	look(r, map);
	if (r->u->maps.v[map].kind == IR_MAP_VALUE) {
		for (size_t i = 0; i < v->rows.n; i++)
			set(r, map, &v->rows.v[i].key, &none);
		return;
	}
	empty_values(r, map);
	for (size_t i = 0; i < v->rows.n; i++)
		__atomic_fetch_or(cleared_at(r, map, v->rows.v[i].entry), AGG_SHOWN, __ATOMIC_SEQ_CST);
}

uint32_t maps_reader_stack(const struct maps_reader *r, uint64_t number, uint64_t *frames, uint32_t most)
{
	const struct prog_stacks *s = (const struct prog_stacks *)(r->memory + r->l->stacks);
	const uint64_t *pool;
	uint64_t n;

	if (!r->l->stacks || !number || number > r->l->stack_words)
		return 0;
	pool = s->index + r->l->stack_index;
	n = load(pool + number - 1);
	n = MIN(MIN(n, PROG_STACKS_FRAMES), r->l->stack_words - number);
	for (uint32_t i = 0; i < n && i < most; i++)
		frames[i] = load(pool + number + i);
	return MIN(n, most);
}

const struct map_ops maps_reader_ops = {
	.get = get, .set = set, .add = add, .agg = aggregate, .del = del, .len = len, .clear = clear, .zero = zero, .list = list,
};

void maps_reader_clean(struct maps_reader *r, bool (*dead)(void *arg, uint32_t tid), void *arg)
{
	for (uint32_t map = 0; map < r->l->nmaps; map++) {
		const struct prog_shape *shape = &r->shapes[map];
	const struct prog_table *t = table_at(r, map);

		if (r->u->maps.v[map].kind != IR_MAP_VALUE || !shape->value_words)
			continue;
		for (uint32_t i = 0; i < r->l->maps[map].entries; i++) {
			struct prog_entry *e = prog_entry(t, shape, i);
			uint64_t owner = load(&e->value);

			if (owner && dead(arg, owner))
				__atomic_compare_exchange_n(&e->value, &owner, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
		}
	}
}
