/* SPDX-License-Identifier: MIT */
/* Maps, and what writes to maps and variables. Both hold what was first written to them. */
#include "lang/check.h"

#include <string.h>

/* ---- maps ---- */

static bool same_keys(const struct map_info *m, const struct vtype *const *keys, uint32_t n)
{
	uint32_t i;

	if (m->nkeys != n)
		return false;
	for (i = 0; i < n; i++)
		if (!v_same(m->keys[i], keys[i]))
			return false;
	return true;
}

static void wrong_keys(struct checker *c, struct expr *e, const struct map_info *m, const struct vtype *const *keys, uint32_t n)
{
	struct pool *p = c->l->pool;

	if (!n || !m->keyed)
		check_error(c, e, m->keyed ? "%s has keys elsewhere: %s[...]" : "%s has no keys elsewhere", m->name, m->name);
	else
		check_error(c, e, "the key of %s is %s elsewhere, but %s here", m->name, m->nkeys == 1 ? v_name(p, m->keys[0]) : v_name(p, v_tuple(p, m->keys, m->nkeys)),
			    n == 1 ? v_name(p, keys[0]) : v_name(p, v_tuple(p, keys, n)));
}

/* The keys of a map; a single tuple is the same as its elements. */
const struct vtype *check_keys(struct checker *c, struct expr *e)
{
	struct map_info *m = map_find(c->l, e->name, e->at);
	const struct vtype **keys, *t;
	uint32_t i, n = e->nlist;
	bool bad = false;

	e->ref = m;
	keys = pool_alloc(c->l->pool, (n + 1) * sizeof(*keys));
	for (i = 0; i < n; i++) {
		keys[i] = stored_type(c, check_value(c, e->list[i]));
		bad |= keys[i]->kind == V_ERROR;
		if (keys[i]->kind == V_STRUCT && !keys[i]->size)
			check_error(c, e->list[i], "this can't be a key");
	}
	if (bad)
		return &v_error;
	if (n == 1 && keys[0]->kind == V_TUPLE && !keys[0]->fields) {
		t = keys[0];
		keys = (const struct vtype **)t->elems;
		n = t->n;
	}
	if (!m->has_keys) {
		m->has_keys = true;
		m->keyed = e->has_keys;
		m->keys = keys;
		m->nkeys = n;
		c->l->changed = true;
	} else if (m->keyed != e->has_keys || !same_keys(m, keys, n)) {
		wrong_keys(c, e, m, keys, n);
		return &v_error;
	}
	return &v_void;
}

/* A map that is read. */
const struct vtype *check_map(struct checker *c, struct expr *e)
{
	struct map_info *m = map_find(c->l, e->name, e->at);

	if (check_keys(c, e)->kind == V_ERROR)
		return &v_error;
	if (!m->value && c->hopeful)
		return &v_i64;
	if (!m->value) {
		check_error(c, e, "%s is read, but never written", m->name);
		return &v_error;
	}
	if (m->value->kind != V_AGG)
		return m->value;
	if (m->value->agg < IR_MAP_STATS)
		return m->num == IR_F64 ? &v_f64 : m->num == IR_U64 ? &v_u64 : &v_i64;
	check_error(c, e, "%s holds %s, which has no single value; print it", m->name, v_name(c->l->pool, m->value));
	return &v_error;
}

/* ---- what a variable or map holds that is written more than once ---- */

static bool is_plain_int(const struct vtype *t)
{
	return t->kind == V_INT && !t->is_bool && !t->types && !t->enums && !t->is_raw;
}

/* A number as it is written, without a sign: it fits whatever else is assigned. */
static bool is_flexible(const struct expr *e)
{
	return e->kind == E_INT && e->value <= INT64_MAX;
}

/*
 * As bpftrace has it: a literal takes the type of what else is assigned, and where signs differ the result has one.
 * literals: nothing else was assigned so far. False: the two don't go together.
 */
bool check_merge(const struct vtype **type, bool *literals, const struct vtype *t, const struct expr *value)
{
	const struct vtype *old = *type;
	bool literal = is_flexible(value);

	if (!v_same(old, t))
		return false;
	if (old->kind == V_INT && t->kind == V_INT && old->is_bool != t->is_bool)
		return false;
	if (is_plain_int(old) && is_plain_int(t) && old->size == 8 && old->is_signed != t->is_signed && !literal)
		*type = t->is_signed || *literals ? t : old;
	*literals &= literal;
	return true;
}

static const struct vtype *set_map(struct checker *c, struct expr *map, const struct vtype *type, const struct expr *value)
{
	const struct vtype *old;
	struct map_info *m;

	if (check_keys(c, map)->kind == V_ERROR)
		return &v_error;
	m = map->ref;
	type = stored_type(c, type);
	if (type->kind == V_ERROR)
		return type;
	if (!m->value) {
		m->value = type;
		m->literals = is_flexible(value);
		c->l->changed = true;
	}
	old = m->value;
	if (!check_merge(&m->value, &m->literals, type, value)) {
		check_error(c, value, "%s holds %s, but this is %s", m->name, v_name(c->l->pool, m->value),
			    v_name(c->l->pool, type));
		return &v_error;
	}
	c->l->changed |= m->value != old;
	map->type = m->value;
	return m->value;
}

/* ---- assignments ---- */

/* The type of old op= by: floats win, pointers stay. */
static const struct vtype *updated_type(struct checker *c, uint8_t op, const struct vtype *old, const struct vtype *by)
{
	if (!c->c_rules && op == '-' && old && old->kind == V_INT && by->kind == V_INT)
		return &v_i64;
	return old && v_is_number(old) && v_is_number(by) ? (old->kind == V_FLOAT ? old : common_type(c, old, by)) : by;
}

static const struct vtype *assign_variable(struct checker *c, struct expr *e, const struct vtype *b)
{
	struct variable *v = variable_find(c, e->a->name, !e->op);
	const struct vtype *t, *declared;
	bool good;

	e->a->ref = v;
	if (!v) {
		check_error(c, e->a, "$%s is read before it is written", e->a->name);
		return &v_error;
	}
	t = stored_type(c, e->op ? updated_type(c, e->op, v->type, b) : b);
	if (!v->type || v->type->kind == V_ERROR) {
		v->type = t;
		v->first = e->b;
		v->literals = is_flexible(e->b);
	}
	declared = v->type;
	good = check_merge(&v->type, &v->literals, t, e->b);
	if (v->declared)
		v->type = declared;
	if (!good) {
		check_error(c, e->b, "$%s holds %s, but this is %s", e->a->name, v_name(c->l->pool, v->type),
			    v_name(c->l->pool, t));
	}
	return e->a->type = v->type;
}

const struct vtype *check_assign(struct checker *c, struct expr *e)
{
	const struct vtype *b;

	if (e->a->kind == E_MAP && e->b->kind == E_CALL) {
		const struct vtype *t = check_aggregate(c, e->a, e->b);

		if (t) {
			if (e->op)
				check_error(c, e, "aggregations are assigned with a plain '='");
			e->b->type = t;
			return t->kind == V_ERROR ? t : &v_void;
		}
	}
	b = check_value(c, e->b);
	if (e->op && !v_is_number(b) && b->kind != V_ERROR)
		return check_no_operator(c, e, b, NULL);
	if (e->a->kind == E_VAR)
		return assign_variable(c, e, b);
	if (e->a->kind == E_MAP)
		return set_map(c, e->a, e->op ? updated_type(c, e->op, map_find(c->l, e->a->name, e->a->at)->value, b) : b, e->b);
	if (e->a->kind == E_NAME && strcmp(e->a->name, "_") == 0)
		return &v_void;
	check_error(c, e->a, "only variables ($x) and maps (@x) can be written; the program's memory is never changed");
	return &v_error;
}

const struct vtype *check_step(struct checker *c, struct expr *e)
{
	const struct vtype *t;

	if (e->a->kind == E_MAP) {
		t = map_find(c->l, e->a->name, e->a->at)->value;
		t = set_map(c, e->a, t && e->op == '+' && t->kind == V_INT ? t : &v_i64, e->a);
	} else if (e->a->kind == E_VAR) {
		t = check_variable(c, e->a);
		if (e->op == '-' && is_plain_int(t) && t->size == 8 && !((struct variable *)e->a->ref)->declared)
			t = ((struct variable *)e->a->ref)->type = &v_i64;
		e->a->type = t;
	} else {
		check_error(c, e, "'%c%c' works on variables and maps only", e->op, e->op);
		return &v_error;
	}
	if (t->kind != V_ERROR && t->kind != V_INT && t->kind != V_PTR)
		return check_no_operator(c, e, t, NULL);
	return t;
}
