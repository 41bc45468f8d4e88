/* SPDX-License-Identifier: MIT */
/* Values while lowering: constants stay constants, objects stay where they are, until needed. */
#include "lang/lower.h"

#include <string.h>

struct val val_const(const struct vtype *type, int64_t v)
{
	return (struct val){ .kind = K_CONST, .type = type, .k.i = v, .reg = IR_NONE, .slot = IR_NONE };
}

struct val val_reg(const struct vtype *type, uint32_t reg, uint64_t mask)
{
	return (struct val){ .kind = K_REG, .type = type, .reg = reg, .mask = mask, .slot = IR_NONE };
}

static uint32_t const_reg(struct lower *w, const struct val *v)
{
	struct ir_ins *i;

	if (v->kind == K_CONST)
		return lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, v->k.i);
	i = lower_ins(w, IR_FCONST);
	i->fimm = v->k.f;
	return i->dst = lower_reg(w, IR_F);
}

uint32_t val_in_reg(struct lower *w, const struct val *v)
{
	struct val loaded;

	if (v->kind == K_CONST || v->kind == K_FCONST)
		return const_reg(w, v);
	if (v->kind == K_MEM || v->kind == K_SLOT_MEM || v->kind == K_PIECES) {
		loaded = v_is_object(v->type) ? val_address(w, v) : val_load(w, v);
		return val_in_reg(w, &loaded);
	}
	return v->reg == IR_NONE || v->kind != K_REG ? lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, 0) : v->reg;
}

static struct val slot_load(struct lower *w, const struct val *v, uint8_t type)
{
	struct ir_ins *i = lower_ins(w, IR_SLOT_LOAD);
	uint32_t dst = lower_reg(w, ir_is_float(type) ? IR_F : IR_I);

	i->type = type;
	i->slot = v->slot;
	i->a = v->reg;
	i->imm = v->off;
	i->dst = dst;
	return val_reg(v->type, dst, v->mask);
}

/* The load of a number at an address, unless it was done before. */
static struct val mem_load(struct lower *w, const struct val *v, uint8_t type)
{
	uint32_t base = v->reg, dst;
	struct known *k;
	struct ir_ins *i;
	int64_t off = v->off;
	size_t n;

	if (base == IR_NONE) {
		base = lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, off);
		off = 0;
	}
	for (n = 0; n < w->known.n; n++) {
		k = &w->known.v[n];
		if (k->op == IR_LOAD && k->type == type && k->a == base && k->imm == off)
			return val_reg(v->type, k->dst, k->mask);
	}
	dst = lower_reg(w, ir_is_float(type) ? IR_F : IR_I);
	i = lower_ins(w, IR_LOAD);
	i->type = type;
	i->a = base;
	i->imm = off;
	i->dst = dst;
	i->mask = v->mask;
	i->flags = v->good ? IR_GOOD : 0;
	i->bit = v->good ? 0 : lower_bit(w);
	k = vec_add(&w->known);
	*k = (struct known){ .op = IR_LOAD, .type = type, .a = base, .b = IR_NONE, .dst = dst, .imm = off,
			     .mask = v->good ? v->mask : 1ull << i->bit };
	return val_reg(v->type, dst, k->mask);
}

struct val val_load(struct lower *w, const struct val *v)
{
	uint8_t type = v_ir(v->type);

	if (v->kind == K_SLOT_MEM)
		return slot_load(w, v, type);
	if (v->kind == K_PIECES)
		return pieces_load(w, v);
	return v->kind == K_MEM ? mem_load(w, v, type) : *v;
}

struct val val_object(struct lower *w, const struct val *a)
{
	struct val v = *a;

	if (a->kind == K_SLOT) {
		v.kind = K_SLOT_MEM;
		v.reg = IR_NONE;
		return v;
	}
	if (a->kind == K_MEM || a->kind == K_SLOT_MEM || a->kind == K_PIECES)
		return v;
	v = (struct val){ .kind = K_MEM, .type = a->type, .reg = IR_NONE, .slot = IR_NONE, .mask = a->mask };
	if (a->kind == K_CONST)
		v.off = a->k.i;
	else
		v.reg = val_in_reg(w, a);
	return v;
}

struct val val_number(struct lower *w, const struct val *a, uint64_t bytes)
{
	const struct vtype *t = bytes == 1 ? &v_u8 : bytes == 2 ? &v_u16 : bytes == 4 ? &v_u32 : &v_u64;
	struct val v = *a;

	if (v_is_scalar(a->type))
		return val_convert(w, a, t);
	v = val_object(w, a);
	v.type = t;
	return val_load(w, &v);
}

/* ---- conversions ---- */

static int64_t wrap_const(const struct vtype *t, uint64_t v)
{
	unsigned int unused = 64 - 8 * t->size;

	if (t->is_bool)
		return v != 0;
	if (t->size >= 8 || !t->size)
		return v;
	return t->is_signed ? (int64_t)(v << unused) >> unused : (int64_t)(v << unused >> unused);
}

/* Does every value of from, as it is held, look the same as a value of to? */
static bool holds(const struct vtype *from, const struct vtype *to)
{
	if (to->is_bool)
		return from->is_bool;
	if (to->size >= 8)
		return true;
	if (from->is_bool)
		return true;
	if (from->is_signed == to->is_signed)
		return from->size <= to->size;
	return !from->is_signed && from->size < to->size;
}

static struct val convert_const(const struct val *v, const struct vtype *to)
{
	struct val r = *v;
	bool sign = v->type->kind != V_INT || v->type->is_signed;

	r.type = to;
	if (to->kind == V_FLOAT && v->kind == K_CONST) {
		r.kind = K_FCONST;
		r.k.f = to->size == 4 ? (sign ? (float)v->k.i : (float)v->k.u) : sign ? (double)v->k.i : (double)v->k.u;
	} else if (to->kind == V_FLOAT && to->size == 4) {
		r.k.f = (float)v->k.f;
	} else if (v->kind == K_CONST && to->kind == V_INT) {
		r.k.i = wrap_const(to, v->k.u);
	}
	return r;
}

static struct val to_float(struct lower *w, const struct val *v, const struct vtype *to)
{
	bool sign = v->type->kind != V_INT || v->type->is_signed || v->type->size < 8;

	if (v->type->kind != V_FLOAT)
		return val_reg(to, lower_pure(w, sign ? IR_I2F : IR_U2F, v_ir(to), val_in_reg(w, v), IR_NONE, 0), v->mask);
	if (to->size == 4 && v->type->size == 8)
		return val_reg(to, lower_pure(w, IR_F2F, IR_F32, val_in_reg(w, v), IR_NONE, 0), v->mask);
	return val_reg(to, val_in_reg(w, v), v->mask);
}

struct val val_convert(struct lower *w, const struct val *v, const struct vtype *to)
{
	struct val r = *v;

	if (to->kind == V_ARRAY && to->held && v_is_object(v->type)) {
		r = val_number(w, v, to->size);
		r.type = to;
		return r;
	}
	if (v->kind == K_MEM || v->kind == K_SLOT_MEM || v->kind == K_PIECES) {
		if (!v_is_scalar(v->type))
			r = val_address(w, v);
		else
			r = val_load(w, v);
		return val_convert(w, &r, to);
	}
	if ((v->kind == K_CONST || v->kind == K_FCONST) && (v->kind == K_CONST || to->kind == V_FLOAT))
		return convert_const(v, to);
	if (to->kind == V_FLOAT)
		return to_float(w, v, to);
	if (v->type->kind == V_FLOAT)
		return val_reg(to, lower_pure(w, IR_F2I, v_ir(to), val_in_reg(w, v), IR_NONE, 0), v->mask);
	if (to->kind == V_INT && v->type->kind == V_INT && !holds(v->type, to))
		return val_reg(to, lower_pure(w, IR_CAST, v_ir(to), val_in_reg(w, v), IR_NONE, 0), v->mask);
	if (to->kind == V_INT && v->type->kind != V_INT && (to->size < 8 || to->is_bool))
		return val_reg(to, lower_pure(w, IR_CAST, v_ir(to), val_in_reg(w, v), IR_NONE, 0), v->mask);
	r.type = to;
	return r;
}

/* ---- objects ---- */

struct val val_address(struct lower *w, const struct val *v)
{
	if (v->kind == K_MEM && v->reg == IR_NONE)
		return val_const(&v_u64, v->off);
	if (v->kind == K_MEM && v->off)
		return val_reg(&v_u64, lower_pure(w, IR_ADD, IR_U64, v->reg,
			       lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, v->off), 0), v->mask);
	if (v->kind == K_MEM)
		return val_reg(&v_u64, v->reg, v->mask);
	if (v->kind == K_PIECES) {
		lower_error(w, w->at, "this is not in memory here, so it has no address");
		return val_const(&v_u64, 0);
	}
	return *v;
}

static struct val read_slot(struct lower *w, uint8_t op, const struct val *address, const struct val *len, uint32_t most,
			    const struct vtype *type)
{
	uint32_t a = val_in_reg(w, address), b = len ? val_in_reg(w, len) : IR_NONE, slot = lower_slot(w, most, NULL);
	uint64_t mask = address->mask | (len ? len->mask : 0);
	uint32_t bit = lower_bit(w);
	struct ir_ins *i = lower_ins(w, op);

	i->slot = slot;
	i->a = a;
	i->b = b;
	i->imm = most;
	i->mask = mask;
	i->bit = bit;
	return (struct val){ .kind = K_SLOT, .type = type, .slot = slot, .reg = IR_NONE, .mask = 1ull << bit };
}

struct val val_read_bytes(struct lower *w, const struct val *address, uint32_t most, const struct vtype *type)
{
	return read_slot(w, IR_READ_BUF, address, NULL, most, type);
}

struct val val_read_text(struct lower *w, const struct val *address, const struct val *len, uint32_t most)
{
	return read_slot(w, IR_READ_STR, address, len, most, v_text(w->pool, most));
}

/* std::string and its like */
static struct val string_object(struct lower *w, const struct val *v, const struct type_string *s)
{
	struct val ptr = *v, len = *v, p, n;

	ptr.off += s->ptr_off;
	ptr.type = &v_u64;
	len.off += s->len_off;
	len.type = s->len_size == 4 ? &v_u32 : &v_u64;
	p = val_load(w, &ptr);
	n = val_load(w, &len);
	return val_read_text(w, &p, &n, w->l->config.max_strlen);
}

struct val val_text(struct lower *w, const struct val *v, const struct expr *e)
{
	struct type_string s;
	struct val a;

	if (v->kind == K_SLOT && v->type->kind == V_ARRAY)
		lower_error(w, e, "these bytes are a copy; make text of them where they are read: str()");
	if (v->kind == K_SLOT)
		return *v;
	if (v->kind != K_SLOT && v->type->kind == V_STRUCT && v->type->types && type_is_string(v->type->types, v->type->id, &s))
		return string_object(w, v, &s);
	if (v->kind == K_MEM && v->type->kind == V_ARRAY) {
		a = val_address(w, v);
		return val_read_text(w, &a, NULL, MIN(v->type->n ? v->type->n : w->l->config.max_strlen, 65536u));
	}
	if (v->type->kind == V_PTR || v->type->kind == V_INT) {
		a = val_reg(&v_u64, val_in_reg(w, v), v->mask);
		return val_read_text(w, &a, NULL, w->l->config.max_strlen);
	}
	lower_error(w, e, "this text can't be used here");
	return (struct val){ .kind = K_SLOT, .type = v_text(w->pool, 0), .slot = lower_slot(w, 0, ""), .reg = IR_NONE };
}

struct val val_bytes(struct lower *w, const struct val *v)
{
	struct val a;

	if (v->kind == K_SLOT)
		return *v;
	if (v->kind == K_PIECES) {
		lower_error(w, w->at, "this is kept in registers and can't be copied as a whole; use its members");
		return (struct val){ .kind = K_SLOT, .type = v->type, .slot = lower_slot(w, 0, ""), .reg = IR_NONE };
	}
	if (v->kind == K_SLOT_MEM) {
		lower_error(w, w->at, "a part of a stored object can't be copied; use its members");
		return (struct val){ .kind = K_SLOT, .type = v->type, .slot = v->slot, .reg = IR_NONE };
	}
	a = val_address(w, v);
	return read_slot(w, IR_READ_BUF, &a, NULL, MIN(v->type->size, 65536u), v->type);
}

/* ---- places: variables, results of ?: and of map reads ---- */

struct val place_new(struct lower *w, const struct vtype *type, bool in_slot)
{
	struct val v = { .kind = K_REG, .type = type, .reg = IR_NONE, .slot = IR_NONE };
	uint32_t i;

	if (type->kind == V_TUPLE) {
		v.kind = K_TUPLE;
		v.n = type->n;
		v.elems = pool_alloc(w->pool, (type->n + 1) * sizeof(*v.elems));
		for (i = 0; i < type->n; i++)
			v.elems[i] = place_new(w, type->elems[i], in_slot);
	} else if (type->kind == V_STR || type->kind == V_BUF) {
		v.kind = K_SLOT;
		v.slot = lower_slot(w, type->size, NULL);
	} else if (v_is_object(type) && (in_slot || type->kind == V_SHOWN)) {
		v.kind = K_SLOT;
		v.slot = lower_slot(w, MIN(type->size, 65536u), NULL);
	} else if (v_is_object(type)) {
		v.kind = K_MEM;
		v.reg = lower_reg(w, IR_I);
	} else {
		v.reg = lower_reg(w, type->kind == V_FLOAT ? IR_F : IR_I);
	}
	return v;
}

/* What was known of a register that is about to change is wrong from now on. */
static void forget_reg(struct lower *w, uint32_t reg)
{
	size_t i;

	/* they keep their place: marks count them */
	for (i = 0; i < w->known.n; i++)
		if (w->known.v[i].a == reg || w->known.v[i].b == reg || w->known.v[i].dst == reg)
			w->known.v[i].op = IR_NOP;
}

static void set_reg(struct lower *w, struct val *place, const struct val *v)
{
	uint32_t from = val_in_reg(w, v);
	struct ir_ins *i = lower_ins(w, IR_MOV);

	i->a = from;
	i->dst = place->reg;
	forget_reg(w, place->reg);
}

static void set_slot(struct lower *w, const struct val *place, const struct val *v)
{
	struct ir_ins *i = lower_ins(w, IR_SLOT_COPY);

	i->slot = place->slot;
	i->slot2 = v->slot;
}

static void set_mask(struct lower *w, struct val *place, uint64_t mask)
{
	place->mask = w->loop_depth || w->maybe ? place->mask | mask : mask;
}

void place_set(struct lower *w, struct val *place, const struct val *v, const struct expr *e)
{
	struct val c;
	uint32_t i;

	switch (place->kind) {
	case K_TUPLE:
		for (i = 0; i < place->n && v->kind == K_TUPLE && i < v->n; i++)
			place_set(w, &place->elems[i], &v->elems[v_field(v->type, place->type, i)], e);
		return;
	case K_SLOT:
		c = place->type->kind == V_STR ? val_text(w, v, e) : val_bytes(w, v);
		set_slot(w, place, &c);
		break;
	case K_MEM:
		c = val_address(w, v);
		if (c.kind != K_REG && c.kind != K_CONST) {
			lower_error(w, e, "this object can't be kept here");
			return;
		}
		set_reg(w, place, &c);
		break;
	default:
		c = val_convert(w, v, place->type);
		set_reg(w, place, &c);
	}
	set_mask(w, place, c.mask);
}

void place_zero(struct lower *w, const struct val *place)
{
	struct val zero = { .kind = place->type->kind == V_FLOAT ? K_FCONST : K_CONST, .type = place->type };
	uint32_t i;

	if (place->kind == K_TUPLE) {
		for (i = 0; i < place->n; i++)
			place_zero(w, &place->elems[i]);
	} else if (place->kind != K_SLOT) {
		struct val p = *place;

		set_reg(w, &p, &zero);
	}
}

/* ---- operands ---- */

uint64_t val_mask(const struct val *v)
{
	uint64_t mask = v->mask;
	uint32_t i;

	for (i = 0; v->kind == K_TUPLE && i < v->n; i++)
		mask |= val_mask(&v->elems[i]);
	return mask;
}

uint32_t arg_show(struct lower *w, const struct vtype *t)
{
	if (t->kind == V_STACK || t->kind == V_TIME)
		return t->extra;
	if (t->kind == V_STR)
		return t->size == w->l->config.max_strlen ? IR_SHOW_LIMIT : 0;
	return v_is_object(t) || t->show == IR_ENUM ? shown_number(w, t) : 0;
}

uint32_t shown_number(struct lower *w, const struct vtype *t)
{
	size_t i;

	for (i = 0; i < w->u->shown.n; i++)
		if (v_alike(w->u->shown.v[i], t))
			return i;
	*vec_add(&w->u->shown) = t;
	return w->u->shown.n - 1;
}

void arg_add(struct lower *w, arg_list *list, const struct val *v)
{
	struct val b = *v;
	struct ir_arg a;
	uint32_t i;

	if (v->kind == K_TUPLE) {
		for (i = 0; i < v->n; i++)
			arg_add(w, list, &v->elems[i]);
		return;
	}
	if (v_is_object(v->type))
		b = val_bytes(w, v);
	a = (struct ir_arg){ .type = v_shown(v->type), .show = arg_show(w, v->type), .mask = b.mask };
	a.reg = ir_in_slot(a.type) ? b.slot : val_in_reg(w, &b);
	*vec_add(list) = a;
}

/* Hands the list over to the instruction. */
void args_set(struct lower *w, struct ir_ins *i, arg_list *list, uint32_t nkeys)
{
	size_t k;

	i->first = w->p->args.n;
	i->n = list->n;
	i->nkeys = nkeys;
	for (k = 0; k < list->n; k++)
		*vec_add(&w->p->args) = list->v[k];
	vec_free(list);
}
