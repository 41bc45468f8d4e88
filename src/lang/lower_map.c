/* SPDX-License-Identifier: MIT */
/* Maps: keys and values are lists of numbers and texts; tuples are written out. */
#include "lang/lower.h"

#include <string.h>

#include "lang/agg.h"
#include "lang/lex.h"

typedef VEC(struct ir_part) part_list;

static void add_parts(struct lower *w, part_list *list, const struct vtype *t)
{
	uint64_t i;

	if (t->kind == V_TUPLE) {
		for (i = 0; i < t->n; i++)
			add_parts(w, list, t->elems[i]);
		return;
	}
	*vec_add(list) = (struct ir_part){ .type = v_shown(t), .cap = ir_in_slot(v_shown(t)) ? MIN(t->size, 65536u) : 8,
					   .show = arg_show(w, t) };
}

static char *keys_shape(const struct map_info *m)
{
	char *shape = xstrdup(""), *one, *both;
	uint32_t i;

	for (i = 0; i < m->nkeys; i++) {
		one = lower_shape(m->keys[i]);
		both = xasprintf("%s%s%s", shape, i ? ", " : "", one);
		free(one);
		free(shape);
		shape = both;
	}
	return shape;
}

#define KEY_MOST 4608		/* bytes; no longer key is possible */
#define KEYS_UNSAID 4096
#define BUCKETS_UNSAID (20u << 20)	/* bytes; fewer keys before it is more */

/* Nobody who asks for a quantile by thread thinks of a hundred megabytes in each process. */
static uint32_t keys_unsaid(const struct ir_map *m)
{
	uint32_t n = KEYS_UNSAID;

	while (2ull * n * 8 * agg_buckets(m) > BUCKETS_UNSAID)	/* a table is twice as large as its keys are many */
		n /= 2;
	return n;
}

/* The number of a map; the first time it is described to the unit. */
uint32_t lower_map_number(struct lower *w, struct map_info *m)
{
	part_list keys = { 0 }, values = { 0 };
	struct ir_map *im;
	uint32_t i;

	if (m->number != IR_NONE)
		return m->number;
	for (i = 0; i < m->nkeys; i++)
		add_parts(w, &keys, m->keys[i]);
	if (m->value->kind != V_AGG)
		add_parts(w, &values, m->value);
	m->number = w->u->maps.n;
	im = vec_add(&w->u->maps);
	im->name = xstrdup(m->name);
	im->kind = m->value->kind == V_AGG ? m->value->agg : IR_MAP_VALUE;
	im->num = m->num;
	im->keys = keys.v;
	im->nkeys = keys.n;
	im->values = values.v;
	im->nvalues = values.n;
	im->bits = m->bits;
	im->lo = m->lo;
	im->hi = m->hi;
	im->step = m->step;
	im->max_keys = m->max_keys ? m->max_keys : keys_unsaid(im);
	im->key_shape = keys_shape(m);
	im->value_shape = m->value->kind == V_AGG ? NULL : lower_shape(m->value);
	im->nquantiles = m->nquantiles;
	if (m->nquantiles) {
		im->quantiles = xcalloc(m->nquantiles, sizeof(*im->quantiles));
		memcpy(im->quantiles, m->quantiles, m->nquantiles * sizeof(*im->quantiles));
	}
	return m->number;
}

static struct val stored(struct lower *w, const struct val *v, const struct vtype *t, const struct expr *e)
{
	struct val r;
	uint32_t i;

	if (t->kind == V_TUPLE && v->kind == K_TUPLE) {
		r = *v;
		r.type = t;
		r.elems = pool_alloc(w->pool, (v->n + 1) * sizeof(*r.elems));
		for (i = 0; i < v->n && i < t->n; i++)
			r.elems[i] = stored(w, &v->elems[v_field(v->type, t, i)], t->elems[i], e);
		return r;
	}
	if (t->kind == V_STR)
		return val_text(w, v, e);
	if (v_is_object(t) || t->kind == V_BUF)
		return val_bytes(w, v);
	return val_convert(w, v, t);
}

/* ---- padding: nobody writes it, so equal objects may differ there ---- */

static void mark_bits(uint8_t *mask, uint64_t size, uint64_t from, uint64_t n)
{
	for (uint64_t k = from; k < from + n && k / 8 < size; k++)
		mask[k / 8] |= 1u << k % 8;
}

/* The bits of an object that mean something. False: not all is known of it. */
static bool mark_used(struct lower *w, const struct vtype *t, uint64_t at, uint8_t *mask, uint64_t size)
{
	const struct type *of = t->kind == V_STRUCT && !t->decl && t->types ? type_get(t->types, t->id) : NULL;
	uint64_t n = of ? of->n : t->nmembers, i;
	bool known = t->kind != V_ERROR && (t->size || t->kind == V_ARRAY);

	if (t->kind == V_ARRAY && t->to && v_is_object(t->to)) {
		for (i = 0; i < t->n && known; i++)
			known = mark_used(w, t->to, at + i * t->to->size, mask, size);
		return known;
	}
	if (t->kind != V_STRUCT) {
		mark_bits(mask, size, 8 * at, 8 * t->size);
		return known;
	}
	known &= t->decl || (of && (of->kind == TYPE_STRUCT || of->kind == TYPE_UNION));
	for (i = 0; i < n && known; i++) {
		const struct type_member *x = of ? &of->members[i] : NULL;
		struct vmember m = x ? (struct vmember){ NULL, v_from(w->pool, t->types, x->type), x->bit_off, x->bit_size } :
				       t->members[i];

		if (m.bit_size)
			mark_bits(mask, size, 8 * at + m.bit_off, m.bit_size);
		else
			known = !(x && x->flags & MEMBER_VIRTUAL) && mark_used(w, m.type, at + m.bit_off / 8, mask, size);
	}
	return known;
}

static void clear_padding(struct lower *w, const struct val *v)
{
	uint64_t size = v->type->size, i;
	uint8_t *mask;

	for (i = 0; v->kind == K_TUPLE && i < v->n; i++)
		clear_padding(w, &v->elems[i]);
	if (v->kind != K_SLOT || !v_is_object(v->type) || !size || size > KEY_MOST)
		return;
	mask = xcalloc(1, size);
	if (mark_used(w, v->type, 0, mask, size)) {
		for (i = 0; i < size && mask[i] == 0xff; i++)
			;
		if (i < size) {
			uint32_t used = lower_slot(w, size, (const char *)mask);
			struct ir_ins *x = lower_ins(w, IR_SLOT_AND);

			x->slot = v->slot;
			x->slot2 = used;
		}
	}
	free(mask);
}

/* Adds the keys of @m[...] to list. */
void lower_map_keys(struct lower *w, const struct expr *e, arg_list *list, uint64_t *ret_mask)
{
	const struct map_info *m = e->ref;
	const struct vtype all = { .kind = V_TUPLE, .n = m->nkeys, .elems = m->keys };
	struct val v;
	uint32_t i;

	for (i = 0; i < e->nlist; i++) {
		v = lower_expr(w, e->list[i]);
		if (v.kind == K_TUPLE && e->nlist == 1 && !v.type->fields)
			v = stored(w, &v, &all, e->list[i]);
		else if (i < m->nkeys)
			v = stored(w, &v, m->keys[i], e->list[i]);
		clear_padding(w, &v);
		arg_add(w, list, &v);
		*ret_mask |= val_mask(&v);
	}
}

static void taint_all(struct val *v, uint64_t mask)
{
	uint32_t i;

	v->mask |= mask;
	for (i = 0; v->kind == K_TUPLE && i < v->n; i++)
		taint_all(&v->elems[i], mask);
}

struct val lower_map_get(struct lower *w, const struct expr *e)
{
	struct val r = place_new(w, e->type, true);
	struct map_info *m = e->ref;
	arg_list list = { 0 };
	uint64_t mask = 0;
	uint32_t nkeys, map;
	struct ir_ins *i;

	lower_map_keys(w, e, &list, &mask);
	nkeys = list.n;
	arg_add(w, &list, &r);
	map = lower_map_number(w, m);
	i = lower_ins(w, IR_MAP_GET);
	i->map = map;
	args_set(w, i, &list, nkeys);
	taint_all(&r, mask);
	return r;
}

/* Map changes jump over themselves if something could not be read. */
static uint32_t guard(struct lower *w, uint64_t mask)
{
	uint32_t label;

	if (!mask)
		return IR_NONE;
	label = lower_label(w);
	lower_if_fault(w, mask, label);
	return label;
}

static void unguard(struct lower *w, uint32_t label)
{
	if (label != IR_NONE)
		lower_place_label(w, label);
}

static void map_set(struct lower *w, const struct expr *e, const struct val *v)
{
	const struct map_info *m = e->a->ref;
	arg_list list = { 0 };
	struct val s = stored(w, v, m->value, e->b);
	uint64_t mask = val_mask(&s);
	uint32_t nkeys, skip, map = lower_map_number(w, e->a->ref);
	struct ir_ins *i;

	lower_map_keys(w, e->a, &list, &mask);
	nkeys = list.n;
	arg_add(w, &list, &s);
	skip = guard(w, mask);
	i = lower_ins(w, IR_MAP_SET);
	i->map = map;
	args_set(w, i, &list, nkeys);
	unguard(w, skip);
}

static struct val map_add(struct lower *w, const struct expr *map, const struct val *by)
{
	const struct map_info *m = map->ref;
	struct val n = val_convert(w, by, &v_i64), old;
	arg_list list = { 0 };
	uint64_t mask = n.mask;
	uint32_t reg = val_in_reg(w, &n), nkeys, skip, number = lower_map_number(w, map->ref);
	struct ir_ins *i;

	old = place_new(w, m->value, false);
	lower_map_keys(w, map, &list, &mask);
	nkeys = list.n;
	if (mask)
		place_zero(w, &old);
	skip = guard(w, mask);
	i = lower_ins(w, IR_MAP_ADD);
	i->map = number;
	i->a = reg;
	i->dst = old.reg;
	args_set(w, i, &list, nkeys);
	unguard(w, skip);
	old.mask = mask;
	return old;
}

static struct val aggregate(struct lower *w, const struct expr *e)
{
	const struct map_info *m = e->a->ref;
	const struct vtype *as = m->num == IR_F64 ? &v_f64 : m->num == IR_U64 ? &v_u64 : &v_i64;
	uint32_t reg = IR_NONE, skip, map = lower_map_number(w, e->a->ref);
	arg_list list = { 0 };
	uint64_t mask = 0;
	struct ir_ins *i;
	struct val v;

	if (m->value->agg != IR_MAP_COUNT) {
		v = lower_expr(w, e->b->list[0]);
		v = val_convert(w, &v, as);
		mask = v.mask;
		reg = val_in_reg(w, &v);
	}
	lower_map_keys(w, e->a, &list, &mask);
	skip = guard(w, mask);
	i = lower_ins(w, IR_MAP_AGG);
	i->map = map;
	i->a = reg;
	args_set(w, i, &list, list.n);
	unguard(w, skip);
	return (struct val){ .kind = K_VOID, .type = &v_void };
}

/* In a script, as in bpftrace, a division by zero gives 1. The instruction gives 0, so 1 is added then. */
struct val lower_divided(struct lower *w, uint8_t token, const struct vtype *t, const struct val *a, const struct val *b)
{
	struct val v = lower_math(w, token, t, a, b), none, zero = val_const(&v_u64, 0);

	if ((token != '/' && token != '%') || t->kind != V_INT || w->c->c_rules || (b->kind == K_CONST && b->k.u))
		return v;
	none = val_convert(w, b, t);
	none = val_reg(t, lower_pure(w, IR_EQ, IR_U64, val_in_reg(w, &none), val_in_reg(w, &zero), 0), b->mask);
	return lower_math(w, '|', t, &v, &none);
}

/* What `+ 1` adds to a value of this type. */
static uint64_t step_of(struct lower *w, const struct vtype *t)
{
	return t->kind == V_PTR ? MAX(v_pointee(w->pool, t)->size, 1u) : 1;
}

struct val lower_map_assign(struct lower *w, const struct expr *e)
{
	const struct map_info *m = e->a->ref;
	const struct vtype *t = m->value;
	struct val b, old;

	if (t->kind == V_AGG)
		return aggregate(w, e);
	b = lower_expr(w, e->b);
	if ((e->op == '+' || e->op == '-') && (t->kind == V_INT || t->kind == V_PTR)) {
		struct val zero = val_const(&v_i64, 0);

		b = lower_scaled(w, &b, step_of(w, t));
		if (e->op == '-')
			b = lower_math(w, '-', &v_i64, &zero, &b);
		old = map_add(w, e->a, &b);
		return lower_math(w, '+', t->kind == V_PTR ? t : common_type(w->c, t, t), &old, &b);
	}
	if (e->op) {
		struct expr get = *e->a;

		get.type = t;
		old = lower_map_get(w, &get);
		b = lower_divided(w, e->op, update_type(w, e->op, t, b.type), &old, &b);
		b = val_convert(w, &b, t->kind == V_INT ? common_type(w->c, t, t) : t);
	}
	map_set(w, e, &b);
	return b;
}

struct val lower_map_step(struct lower *w, const struct expr *e)
{
	int64_t step = step_of(w, ((const struct map_info *)e->a->ref)->value);
	struct val by = val_const(&v_i64, e->op == '+' ? step : -step), old = map_add(w, e->a, &by);

	return e->prefix ? lower_math(w, '+', old.type, &old, &by) : old;
}
