/* SPDX-License-Identifier: MIT */
/*
 * Fields of events. A trace knows numbers and strings, so what is text in any way becomes a string, a
 * struct becomes its members and an array its elements, each with its own name. Rust's enums become the name of
 * the variant that is there and the members of all of them, which are empty or 0 in those that are not.
 */
#include "lang/lower.h"

#include <string.h>

#include "lang/format.h"

#define MOST_FIELDS LOWER_MOST_FIELDS
#define MOST_OF_VARIANTS 24
#define MOST_DEPTH 4
#define MOST_ELEMENTS 16

/* What one argument becomes. */
struct parts {
	struct lower *w;
	struct ir_record *r;
	arg_list *list;
	uint32_t there;		/* register: 0 if the variant around us is not there. IR_NONE: there is none around us */
};

static void put_part(struct parts *p, const char *name, const struct val *v, int depth);

static bool is_full(const struct parts *p, int depth)
{
	return p->list->n + p->w->reserved >= (p->there == IR_NONE ? MOST_FIELDS : MOST_OF_VARIANTS) || depth >= MOST_DEPTH;
}

static void put_member(struct parts *p, const char *name, const struct val *obj, const struct vmember *m, int depth)
{
	struct val v;

	if (is_full(p, depth) || m->type->kind == V_ERROR || m->type->kind == V_VOID)
		return;
	v = lower_member_of(p->w, obj, m);
	/* what has no name is found through what it is in */
	put_part(p, m->name && *m->name ? pool_printf(p->w->pool, "%s.%s", name, m->name) : name, &v, depth);
}

/* __0 is how Rust calls the first member of what has none with names. */
static const char *member_name(const struct type_member *m)
{
	const char *s = m->name;

	return s && s[0] == '_' && s[1] == '_' && s[2] >= '0' && s[2] <= '9' ? s + 2 : s;
}

static void put_members(struct parts *p, const char *name, const struct val *obj, int depth)
{
	const struct type *t = obj->type->decl ? NULL : type_get(obj->type->types, obj->type->id);
	uint64_t i;

	for (i = 0; obj->type->decl && i < obj->type->nmembers; i++)
		put_member(p, name, obj, &obj->type->members[i], depth);
	if (!t || (t->kind != TYPE_STRUCT && t->kind != TYPE_UNION))
		return;
	for (i = 0; i < t->n; i++) {
		const struct type_member *from = &t->members[i];
		struct vmember m = { .name = from->flags & MEMBER_BASE ? NULL : p->there == IR_NONE ? from->name : member_name(from),
				     .bit_off = from->bit_off, .bit_size = from->bit_size };

		if (from->flags & (MEMBER_VIRTUAL | MEMBER_ARTIFICIAL | MEMBER_VARIANT))
			continue;
		m.type = v_from(p->w->pool, obj->type->types, from->type);
		/* its base is the object itself, not a level more: a std::vector is all bases */
		put_member(p, name, obj, &m, from->flags & MEMBER_BASE ? depth - 1 : depth);
	}
}

/* One of an array whose count is known when it is read: 0 behind the end, which is not looked at. */
static void put_counted(struct parts *p, const char *name, const struct val *array, const struct vmember *m, uint32_t number)
{
	struct val place, v, i = val_const(&v_i64, number);
	uint32_t there, skip;
	size_t mark;

	if (is_full(p, 0))
		return;
	there = lower_pure(p->w, IR_LT, IR_I64, val_in_reg(p->w, &i), array->elems->reg, 0);
	place = place_new(p->w, m->type, true);
	place_zero(p->w, &place);
	mark = p->w->known.n;
	skip = lower_label(p->w);
	lower_jump(p->w, IR_JZ, there, skip);
	v = lower_member_of(p->w, array, m);
	place_set(p->w, &place, &v, p->w->at);
	lower_forget(p->w, mark);
	lower_place_label(p->w, skip);
	lower_field(p->w, p->r, p->list, name, &place);
}

static void put_elements(struct parts *p, const char *name, const struct val *array, int depth)
{
	uint64_t n = MIN(array->type->n, (uint64_t)MOST_ELEMENTS), i;

	if (array->type->counted)
		lower_field(p->w, p->r, p->list, pool_printf(p->w->pool, "%s.count", name), array->elems);
	for (i = 0; i < n; i++) {
		struct vmember m = { .name = NULL, .type = array->type->to, .bit_off = i * array->type->to->size * 8 };

		if (array->type->counted)	/* those behind the end are 0 and not looked at */
			put_counted(p, pool_printf(p->w->pool, "%s[%d]", name, (int)i), array, &m, i);
		else
			put_member(p, pool_printf(p->w->pool, "%s[%d]", name, (int)i), array, &m, depth);
	}
}

/* ---- Rust's enums ---- */

/* The number that tells variants apart, without a sign; false: there is only one of them. */
static bool discriminant(struct parts *p, const struct val *obj, const struct type *t, struct val *ret_value, uint64_t *ret_mask)
{
	for (uint64_t i = 0; i < t->n; i++) {
		struct vmember m = { .bit_off = t->members[i].bit_off };
		struct val v, mask;

		if (!(t->members[i].flags & MEMBER_DISCR))
			continue;
		m.type = v_from(p->w->pool, obj->type->types, t->members[i].type);
		if (!v_is_scalar(m.type) || !m.type->size)
			return false;
		*ret_mask = m.type->size < 8 ? (1ull << 8 * m.type->size) - 1 : ~0ull;
		v = lower_member_of(p->w, obj, &m);
		v.type = &v_u64;
		mask = val_const(&v_u64, (int64_t)*ret_mask);
		*ret_value = lower_math(p->w, '&', &v_u64, &v, &mask);
		return true;
	}
	return false;
}

/* Is it this one? `other`, whose number is not known, is there if none of the others is. */
static uint32_t is_there(struct parts *p, const struct type *t, const struct type_member *which, const struct val *is, uint64_t mask)
{
	struct lower *w = p->w;
	bool other = which->variant == ~0ull;
	uint32_t all = p->there == IR_NONE ? lower_pure(w, IR_CONST, IR_U64, IR_NONE, IR_NONE, 1) : p->there, same;

	for (uint64_t i = 0; i < t->n; i++) {
		const struct type_member *m = &t->members[i];

		if (!(m->flags & MEMBER_VARIANT) || m->variant == ~0ull || (!other && m != which))
			continue;
		same = lower_pure(w, IR_CONST, IR_U64, IR_NONE, IR_NONE, (int64_t)(m->variant & mask));
		same = lower_pure(w, other ? IR_NE : IR_EQ, IR_U64, val_in_reg(w, is), same, 0);
		all = lower_pure(w, IR_AND, IR_U64, all, same, 0);
	}
	return all;
}

/* The place has v where the variant is there. */
static void set_there(struct parts *p, struct val *place, const struct val *v, uint32_t there)
{
	size_t mark = p->w->known.n;
	uint32_t skip = lower_label(p->w);

	lower_jump(p->w, IR_JZ, there, skip);
	place_set(p->w, place, v, p->w->at);
	lower_forget(p->w, mark);
	lower_place_label(p->w, skip);
}

static void put_variants(struct parts *p, const char *name, const struct val *obj, int depth)
{
	const struct type *t = type_get(obj->type->types, obj->type->id);
	struct val is = val_const(&v_u64, 0), what, text, none = lower_text(p->w, "", 0);
	uint64_t mask = 0, longest = 1;
	struct parts in = *p;
	bool many;

	for (uint64_t i = 0; i < t->n; i++)
		if (t->members[i].flags & MEMBER_VARIANT && t->members[i].name)
			longest = MAX(longest, strlen(t->members[i].name));
	what = place_new(p->w, v_text(p->w->pool, longest + 1), false);
	place_set(p->w, &what, &none, p->w->at);
	many = discriminant(p, obj, t, &is, &mask);
	for (uint64_t i = 0; i < t->n; i++) {
		const struct type_member *m = &t->members[i];

		if (!(m->flags & MEMBER_VARIANT) || !m->name || (!many && m->variant != ~0ull))
			continue;
		text = lower_text(p->w, m->name, strlen(m->name));
		set_there(p, &what, &text, is_there(p, t, m, &is, mask));
	}
	what.mask |= is.mask;
	lower_field(p->w, p->r, p->list, name, &what);
	for (uint64_t i = 0; i < t->n; i++) {
		const struct type_member *m = &t->members[i];
		struct val v = *obj;

		if (!(m->flags & MEMBER_VARIANT) || !m->name || (!many && m->variant != ~0ull) || is_full(&in, depth))
			continue;
		in.there = is_there(p, t, m, &is, mask);
		v.off += m->bit_off / 8;
		v.type = v_from(p->w->pool, obj->type->types, m->type);
		if (v.type->kind == V_STRUCT)
			put_part(&in, pool_printf(p->w->pool, "%s.%s", name, m->name), &v, depth);
	}
}

/* ---- each of them ---- */

/* A float in a vector register is recorded as it is there: an event that only has such values needs no work. */
static bool put_raw_float(struct parts *p, const char *name, const struct val *v)
{
	const struct ir_prog *prog = p->w->p;
	struct val raw = *v;

	if (!p->w->c->clause->is_line || v->kind != K_REG || v->type->kind != V_FLOAT || v->type->size != 4)
		return false;
	for (size_t i = 0; i < prog->ins.n; i++) {
		if (prog->ins.v[i].op != IR_VECTOR || prog->ins.v[i].dst != v->reg)
			continue;
		raw.type = &v_f64;
		raw.reg = lower_pure(p->w, IR_VECTOR, IR_F64, IR_NONE, IR_NONE, prog->ins.v[i].imm);
		lower_field(p->w, p->r, p->list, name, &raw);
		p->r->fields[p->r->nfields - 1].type = IR_F32;
		p->r->fields[p->r->nfields - 1].show = IR_SHOW_RAW;
		return true;
	}
	return false;
}

/* What has no parts. In a variant that is not there it is not even looked at. */
static void put_value(struct parts *p, const char *name, const struct val *v, bool is_text)
{
	struct val value = is_text ? (struct val){ .type = v_text(p->w->pool, p->w->l->config.max_strlen) } : *v, place, none;

	if (p->there == IR_NONE) {
		value = is_text ? val_text(p->w, v, p->w->at) : *v;
	} else {
		place = place_new(p->w, value.type, true);
		none = lower_text(p->w, "", 0);
		if (place.kind == K_SLOT && place.type->kind == V_STR)
			place_set(p->w, &place, &none, p->w->at);
		else
			place_zero(p->w, &place);
		set_there(p, &place, v, p->there);
		value = place;
	}
	if (!is_text && p->there == IR_NONE && put_raw_float(p, name, &value))
		return;
	lower_field(p->w, p->r, p->list, name, &value);
}

static void put_part(struct parts *p, const char *name, const struct val *v, int depth)
{
	bool is_text = v->type->kind != V_STR && v_has_text(v->type);

	if (is_text && (v->type->kind != V_ARRAY || v->kind == K_MEM))
		put_value(p, name, v, true);
	else if (v->type->kind == V_STRUCT && v->kind != K_SLOT && format_is_variant(v->type))
		put_variants(p, name, v, depth + 1);
	else if (v->type->kind == V_STRUCT && v->kind != K_SLOT)
		put_members(p, name, v, depth + 1);
	else if (v->type->kind == V_ARRAY && !v->type->held && v->kind != K_SLOT)
		put_elements(p, name, v, depth + 1);
	else
		put_value(p, name, v, false);
}

bool lower_some_fields(struct lower *w, struct ir_record *r, arg_list *list, const char *name, const struct val *v)
{
	struct val o = v->kind == K_SLOT && v_is_object(v->type) && v->type->kind != V_SHOWN ? val_object(w, v) : *v;
	struct parts p = { w, r, list, IR_NONE };
	size_t had = list->n;

	/* a trace takes text that fills its place for one that was cut */
	if (o.kind == K_SLOT && o.type->kind == V_STR && w->p->slots.v[o.slot].text) {
		struct val longer = place_new(w, v_text(w->pool, w->p->slots.v[o.slot].cap + 1), false);

		place_set(w, &longer, &o, w->at);
		o = longer;
	}
	put_part(&p, name, &o, 0);
	if (list->n >= MOST_FIELDS && list->n > had + 1)
		diag_warn(w->l->diags, w->at->at, w->at->len, "only %d fields are recorded; members behind them are left out",
			  MOST_FIELDS);
	return list->n > had;
}

void lower_fields(struct lower *w, struct ir_record *r, arg_list *list, const char *name, const struct val *v)
{
	if (!lower_some_fields(w, r, list, name, v) && !w->failed)
		lower_error(w, w->at, "nothing of this %s can be recorded", v_name(w->pool, v->type));
}
