/* SPDX-License-Identifier: MIT */
/*
 * The maps of a script as one, wherever they are kept: each target has its own in memory shared with
 * us, those that are gone have left theirs, and the clauses that run in the tracer have theirs.
 *
 * Aggregations are merged, and so are numbers that programs only count up and down. Any other value is that
 * of the newest target that has it; what the tracer sets is set in all of them, and a target that comes later
 * begins with it. What a target leaves is put together at once: of a shell's children there are many.
 */
#include "session/scripts/units.h"

#include <string.h>
#include "lang/key_index.h"

struct unit_maps {
	struct jab *j;
	uint32_t unit;
	uint32_t nmaps;		/* that there were when memory was made */
	struct store *own;
	struct store *past;	/* of targets that are gone; NULL: of none */
	bool *sums;		/* by map: is its value that of all targets together? */
	size_t looked_at;	/* programs, for that */
	/* The last answer. */
	VEC(struct map_entry) rows;
	struct key_index index;	/* of the first rows: */
	size_t indexed;
	VEC(struct agg *) aggs;
	VEC(uint8_t *) keys;
};

static const struct ir_map *map_of(const struct unit_maps *m, uint32_t map)
{
	return &lang_unit(m->j->units.v[m->unit].lang)->maps.v[map];
}

/* Numbered: those that are gone, then the targets. NULL: not there. */
static struct unit_view *view_at(const struct unit_maps *m, size_t i)
{
	struct jab *j = m->j;
	size_t past = j->past_views.n;
	struct unit_view *v = NULL;

	if (i < past)
		v = j->past_views.v[i].unit == m->unit ? &j->past_views.v[i] : NULL;
	else if (i - past < j->targets.n && m->unit < j->targets.v[i - past].nviews)
		v = &j->targets.v[i - past].views[m->unit];
	return v && v->reader ? v : NULL;
}

static size_t views(const struct unit_maps *m)
{
	return m->j->targets.n + m->j->past_views.n;
}

static bool any_view(const struct unit_maps *m)
{
	if (m->past)
		return true;
	for (size_t i = 0; i < views(m); i++)
		if (view_at(m, i))
			return true;
	return false;
}

static void forget(struct unit_maps *m)
{
	for (size_t i = 0; i < m->aggs.n; i++) {
		agg_free(m->aggs.v[i]);
		free(m->aggs.v[i]);
	}
	for (size_t i = 0; i < m->keys.n; i++)
		free(m->keys.v[i]);
	m->aggs.n = m->keys.n = m->rows.n = 0;
	m->indexed = 0;
	key_index_clear(&m->index);
}

struct unit_maps *unit_maps_new(struct jab *j, uint32_t unit)
{
	struct unit_maps *m = xcalloc(1, sizeof(*m));

	m->j = j;
	m->unit = unit;
	m->nmaps = lang_unit(j->units.v[unit].lang)->maps.n;
	m->own = store_new(lang_unit(j->units.v[unit].lang));
	return m;
}

void unit_maps_free(struct unit_maps *m)
{
	if (!m)
		return;
	forget(m);
	vec_free(&m->rows);
	vec_free(&m->aggs);
	vec_free(&m->keys);
	store_free(m->own);
	store_free(m->past);
	key_index_free(&m->index);
	free(m->sums);
	free(m);
}

/* The number of a stack means something in its own target only: the number of that one goes with it. */
#define STACK_BITS 40

static void mark_stacks(const struct ir_part *parts, uint32_t n, uint8_t *at, uint64_t view)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t word;
		uint32_t len;

		if (ir_in_slot(parts[i].type)) {
			memcpy(&len, at, 4);
			at += 4 + len;
			continue;
		}
		memcpy(&word, at, 8);
		if (parts[i].type == IR_USTACK)
			word |= view << STACK_BITS;
		memcpy(at, &word, 8);
		at += 8;
	}
}

static const uint8_t *keep(struct unit_maps *m, const struct ir_part *parts, uint32_t n, const uint8_t *p, size_t len,
			   uint64_t view)
{
	uint8_t *copy = xrealloc(NULL, len + 1);

	if (len)
		memcpy(copy, p, len);
	mark_stacks(parts, n, copy, view);
	*vec_add(&m->keys) = copy;
	return copy;
}

static struct map_entry *row_of(struct unit_maps *m, const struct map_entry *e)
{
	size_t at;

	for (; m->indexed < m->rows.n; m->indexed++)
		key_index_add(&m->index, m->rows.v[m->indexed].key, m->rows.v[m->indexed].key_len, m->indexed);
	at = key_index_find(&m->index, e->key, e->key_len);
	return at == SIZE_MAX ? NULL : &m->rows.v[at];
}

/* ---- numbers that are only counted up and down ---- */

enum { ADDED = 1, SET = 2 };

static void note_uses(const struct ir_prog *p, uint8_t *uses, uint32_t nmaps, bool by_tracer)
{
	for (size_t i = 0; p && i < p->ins.n; i++) {
		const struct ir_ins *x = &p->ins.v[i];

		if (x->op == IR_MAP_ADD && x->map < nmaps)
			uses[x->map] |= by_tracer ? SET : ADDED;	/* it adds in all targets at once */
		else if (x->op == IR_MAP_SET && x->map < nmaps)
			uses[x->map] |= SET;
	}
}

static bool is_sum(struct unit_maps *m, uint32_t map)
{
	const struct jab *j = m->j;
	const struct unit *u = &j->units.v[m->unit];
	uint8_t *uses;

	if (m->sums && m->looked_at == j->programs.n)
		return m->sums[map];
	uses = xcalloc(m->nmaps + 1, 1);
	free(m->sums);
	m->sums = xcalloc(m->nmaps + 1, sizeof(*m->sums));
	m->looked_at = j->programs.n;
	for (size_t i = 0; i < j->programs.n; i++)
		for (int k = 0; k < PARTS && j->programs.v[i].unit == m->unit; k++)
			note_uses(j->programs.v[i].progs[k], uses, m->nmaps, false);
	for (size_t i = 0; i < u->tracer.n; i++)
		note_uses(u->tracer.v[i], uses, m->nmaps, true);
	for (uint32_t i = 0; i < m->nmaps; i++)
		m->sums[i] = uses[i] == ADDED;
	free(uses);
	return m->sums[map];
}

static void add_value(struct map_entry *to, const struct map_entry *from)
{
	uint64_t a, b;

	if (to->value_len != sizeof(a) || from->value_len != sizeof(b))
		return;
	memcpy(&a, to->value, sizeof(a));
	memcpy(&b, from->value, sizeof(b));
	a += b;
	memcpy((uint8_t *)to->value, &a, sizeof(a));	/* our copy */
}

/* ---- all of them together ---- */

static void take(struct unit_maps *m, uint32_t map, const struct map_entry *from, uint64_t view, bool look)
{
	const struct ir_map *ir = map_of(m, map);
	struct map_entry e = *from, *known;

	e.key = keep(m, ir->keys, ir->nkeys, from->key, from->key_len, view);
	known = look ? row_of(m, &e) : NULL;
	if (!known) {
		if (e.agg) {
			struct agg *a = *vec_add(&m->aggs) = xcalloc(1, sizeof(*a));

			agg_merge(ir, a, from->agg);
			e.agg = a;
		} else {
			e.value = keep(m, ir->values, ir->nvalues, from->value, from->value_len, view);
		}
		*vec_add(&m->rows) = e;
	} else if (e.agg) {
		agg_merge(ir, (struct agg *)known->agg, from->agg);
	} else if (is_sum(m, map)) {
		add_value(known, from);
	}
}

static void take_all(struct unit_maps *m, uint32_t map, const struct map_ops *ops, void *store, uint64_t view)
{
	bool look = m->rows.n;
	struct map_list l = { 0 };

	ops->list(store, map, &l);
	for (size_t i = 0; i < l.n; i++)
		take(m, map, &l.v[i], view, look);
	vec_free(&l);
}

static void look(struct unit_maps *m, uint32_t map)
{
	bool is_value = map_of(m, map)->kind == IR_MAP_VALUE;

	forget(m);
	if (map >= m->nmaps)	/* programs with it were refused */
		return;
	for (size_t i = views(m); i-- > 0;)
		if (view_at(m, i))
			take_all(m, map, &maps_reader_ops, view_at(m, i)->reader, i);
	if (m->past)
		take_all(m, map, &store_ops, m->past, 0);
	if (!is_value || !any_view(m))
		take_all(m, map, &store_ops, m->own, 0);
}

static void list(void *store, uint32_t map, struct map_list *ret_list)
{
	struct unit_maps *m = store;

	look(m, map);
	for (size_t i = 0; i < m->rows.n; i++)
		*vec_add(ret_list) = m->rows.v[i];
}

static bool get(void *store, uint32_t map, const struct bytes *key, struct map_entry *ret_entry)
{
	struct unit_maps *m = store;
	struct map_entry want = { .key = key->p, .key_len = key->n }, *e;

	look(m, map);
	e = row_of(m, &want);
	if (e)
		*ret_entry = *e;
	return e;
}

static bool set(void *store, uint32_t map, const struct bytes *key, const struct bytes *value)
{
	struct unit_maps *m = store;
	bool good = store_ops.set(m->own, map, key, value);

	if (m->past)
		good &= store_ops.set(m->past, map, key, value);
	for (size_t i = 0; i < views(m); i++)
		if (view_at(m, i))
			good &= maps_reader_ops.set(view_at(m, i)->reader, map, key, value);
	return good;
}

static bool add(void *store, uint32_t map, const struct bytes *key, int64_t n, int64_t *ret_old)
{
	struct unit_maps *m = store;
	bool good = store_ops.add(m->own, map, key, n, ret_old);

	if (m->past)
		good &= store_ops.add(m->past, map, key, n, ret_old);
	for (size_t i = 0; i < views(m); i++)	/* the newest one says what it was */
		if (view_at(m, i))
			good &= maps_reader_ops.add(view_at(m, i)->reader, map, key, n, ret_old);
	return good;
}

static bool aggregate(void *store, uint32_t map, const struct bytes *key, num v)
{
	return store_ops.agg(((struct unit_maps *)store)->own, map, key, v);
}

static bool del(void *store, uint32_t map, const struct bytes *key)
{
	struct unit_maps *m = store;
	bool was = store_ops.del(m->own, map, key);

	if (m->past)
		was |= store_ops.del(m->past, map, key);
	for (size_t i = 0; i < views(m); i++)
		if (view_at(m, i))
			was |= maps_reader_ops.del(view_at(m, i)->reader, map, key);
	return was;
}

static uint64_t len(void *store, uint32_t map)
{
	look(store, map);
	return ((struct unit_maps *)store)->rows.n;
}

static void clear(void *store, uint32_t map)
{
	struct unit_maps *m = store;

	store_ops.clear(m->own, map);
	if (m->past)
		store_ops.clear(m->past, map);
	for (size_t i = 0; i < views(m); i++)
		if (view_at(m, i))
			maps_reader_ops.clear(view_at(m, i)->reader, map);
}

static void zero(void *store, uint32_t map)
{
	struct unit_maps *m = store;

	store_ops.zero(m->own, map);
	if (m->past)
		store_ops.zero(m->past, map);
	for (size_t i = 0; i < views(m); i++)
		if (view_at(m, i))
			maps_reader_ops.zero(view_at(m, i)->reader, map);
}

const struct map_ops unit_maps_ops = {
	.get = get, .set = set, .add = add, .agg = aggregate, .del = del, .len = len, .clear = clear, .zero = zero, .list = list,
};

void unit_maps_copy(struct unit_maps *m, struct unit_view *v)
{
	const struct ir_unit *u = lang_unit(m->j->units.v[m->unit].lang);

	for (uint32_t map = 0; map < m->nmaps; map++) {
		struct map_list l = { 0 };

		if (u->maps.v[map].kind != IR_MAP_VALUE)
			continue;
		store_ops.list(m->own, map, &l);
		for (size_t i = 0; i < l.n; i++) {
			struct bytes key = { (uint8_t *)l.v[i].key, l.v[i].key_len, 0 };
			struct bytes value = { (uint8_t *)l.v[i].value, l.v[i].value_len, 0 };

			maps_reader_ops.set(v->reader, map, &key, &value);
		}
		vec_free(&l);
	}
}

uint32_t unit_maps_number(const struct unit_maps *m)
{
	return m->unit;
}

void unit_maps_keep(struct unit_maps *m, struct unit_view *v)
{
	if (!m->past)
		m->past = store_new(lang_unit(m->j->units.v[m->unit].lang));
	for (uint32_t map = 0; map < m->nmaps; map++) {
		struct map_list l = { 0 };

		maps_reader_ops.list(v->reader, map, &l);
		for (size_t i = 0; i < l.n; i++)
			store_merge(m->past, map, &l.v[i], is_sum(m, map));
		vec_free(&l);
	}
}

uint32_t unit_maps_stack(struct unit_maps *m, uint64_t id, uint64_t *frames, uint32_t most, pid_t *ret_pid)
{
	struct unit_view *v = view_at(m, id >> STACK_BITS);

	if (!v)
		return 0;
	*ret_pid = v->pid;
	return maps_reader_stack(v->reader, id & ((1ull << STACK_BITS) - 1), frames, most);
}

/* An event has the number as it is in the target's own memory. */
uint32_t unit_event_stack(const struct jab *j, uint32_t unit, uint32_t target, uint64_t id, uint64_t *frames, uint32_t most)
{
	const struct target *t = target < j->targets.n ? &j->targets.v[target] : NULL;

	if (!t || unit >= t->nviews || !t->views[unit].reader)
		return 0;
	return maps_reader_stack(t->views[unit].reader, id, frames, most);
}
