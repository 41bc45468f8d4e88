/* SPDX-License-Identifier: MIT */
/* Members, elements, addresses: where an object is, and its loading at the last moment. */
#include "lang/lower.h"

#include "lang/lex.h"

/* The smallest aligned unit that holds all bits, if it does not reach beyond the object; 0: there is none. */
static unsigned int bit_unit(const struct vmember *m, uint64_t size)
{
	unsigned int bytes;

	for (bytes = 1; bytes <= 8; bytes *= 2)
		if (m->bit_off / (8 * bytes) == (m->bit_off + m->bit_size - 1) / (8 * bytes))
			return m->bit_off / (8 * bytes) * bytes + bytes <= size ? bytes : 0;
	return 0;
}

static struct val number_at(struct lower *w, const struct val *obj, uint64_t off, unsigned int bytes)
{
	struct val part = *obj;

	part.type = bytes == 1 ? &v_u8 : bytes == 2 ? &v_u16 : bytes == 4 ? &v_u32 : &v_u64;
	part.off += off;
	return val_load(w, &part);
}

/* Packed: byte for byte from the one that has its first bit, which becomes bit 0. What is behind them need not be there. */
static struct val packed_bits(struct lower *w, const struct val *obj, const struct vmember *m)
{
	unsigned int lo = m->bit_off % 8, n = (lo + m->bit_size + 7) / 8, at, bytes;
	struct val all = val_const(&v_u64, 0), part, shift;

	for (at = 0; at < n; at += bytes) {
		for (bytes = 8; bytes > n - at; bytes /= 2)
			;
		part = number_at(w, obj, m->bit_off / 8 + at, bytes);
		shift = val_const(&v_u64, at ? 8 * at - lo : lo);
		part = lower_math(w, at ? T_SHL : T_SHR, &v_u64, &part, &shift);
		all = lower_math(w, '|', &v_u64, &all, &part);
	}
	return all;
}

static struct val bit_field(struct lower *w, const struct val *obj, const struct vmember *m)
{
	const struct vtype *in = obj->type->kind == V_PTR ? v_pointee(w->pool, obj->type) : obj->type;
	unsigned int bytes = bit_unit(m, in->size);
	struct val v;

	if (m->bit_size > 64) {
		lower_error(w, w->at, "this bit-field is wider than 8 bytes");
		return val_const(m->type, 0);
	}
	v = bytes ? number_at(w, obj, m->bit_off / (8 * bytes) * bytes, bytes) : packed_bits(w, obj, m);
	return val_reg(m->type, lower_pure(w, IR_BITS, v_ir(m->type), val_in_reg(w, &v), IR_NONE,
					   (bytes ? m->bit_off % (8 * bytes) : 0) | (int64_t)m->bit_size << 8), v.mask);
}

struct val lower_member_of(struct lower *w, const struct val *obj, const struct vmember *m)
{
	struct val v = *obj;

	if (m->bit_size)
		return bit_field(w, obj, m);
	v.off += m->bit_off / 8;
	v.type = m->type;
	return v_is_scalar(m->type) ? val_load(w, &v) : v;
}

struct val lower_member(struct lower *w, const struct expr *e)
{
	struct val a, o;

	if (e->meaning == B_VAR)
		return lower_program_var(w, e);
	if (e->meaning == B_ARG)	/* args.arg0 */
		return lower_usdt_arg(w, e);
	if (e->meaning == B_FIELD)
		return lower_usdt_field(w, e);
	a = lower_expr(w, e->a);
	o = val_object(w, &a);
	return lower_member_of(w, &o, e->ref);
}

struct val lower_element(struct lower *w, const struct expr *e)
{
	struct val a = lower_expr(w, e->a);

	return a.kind == K_TUPLE && e->value < a.n ? a.elems[e->value] : val_const(&v_i64, 0);
}

/* An element of a number that is looked at as an array; 0 behind its end. */
static struct val held_element(struct lower *w, const struct expr *e, const struct val *a, const struct val *b)
{
	struct val n = val_const(&v_u64, a->type->n), width = val_const(&v_u64, 8 * e->type->size), shift, v, in;

	in = val_reg(&v_u64, lower_pure(w, IR_LT, IR_U64, val_in_reg(w, b), val_in_reg(w, &n), 0), b->mask);
	shift = lower_math(w, '*', &v_u64, b, &width);
	v = val_reg(&v_u64, val_in_reg(w, a), a->mask);
	v = lower_math(w, T_SHR, &v_u64, &v, &shift);
	v = lower_math(w, '*', &v_u64, &v, &in);
	return val_convert(w, &v, e->type);
}

/* The element of an array or of what a pointer points to; not loaded. */
static struct val element_object(struct lower *w, const struct expr *e, const struct val *a, const struct val *b)
{
	struct val o = val_object(w, a), s = lower_scaled(w, b, e->type->size), base;

	o.type = e->type;
	if (s.kind == K_CONST) {
		o.off += s.k.i;
		return o;
	}
	if (o.kind == K_SLOT_MEM) {
		base = o.reg == IR_NONE ? val_const(&v_i64, 0) : val_reg(&v_i64, o.reg, o.mask);
		s = lower_math(w, '+', &v_i64, &base, &s);
		o.reg = val_in_reg(w, &s);
		o.mask |= s.mask;
		return o;
	}
	if (o.kind == K_PIECES) {
		lower_error(w, e, "'%s' is not in memory here: its elements have numbers only", e->a->name ? e->a->name : "this");
		return o;
	}
	base = val_address(w, &o);
	s = lower_math(w, '+', &v_u64, &base, &s);
	o = (struct val){ .kind = K_MEM, .type = e->type, .reg = val_in_reg(w, &s), .slot = IR_NONE, .mask = s.mask };
	return o;
}

struct val lower_index(struct lower *w, const struct expr *e)
{
	struct val a = lower_expr(w, e->a), b, o;

	if (a.kind == K_TUPLE)
		return e->value < a.n ? a.elems[e->value] : val_const(&v_i64, 0);
	b = lower_expr(w, e->b);
	if (a.type->kind == V_ARRAY && a.type->held)
		return held_element(w, e, &a, &b);
	o = element_object(w, e, &a, &b);
	return v_is_scalar(e->type) ? val_load(w, &o) : o;
}

struct val lower_object(struct lower *w, const struct expr *e)
{
	struct val a, b;

	if (e->meaning == B_VAR && (e->kind == E_NAME || e->kind == E_MEMBER))
		return lower_var_object(w, e);
	if (e->kind == E_MEMBER && !((const struct vmember *)e->ref)->bit_size) {
		a = lower_expr(w, e->a);
		a = val_object(w, &a);
		a.off += ((const struct vmember *)e->ref)->bit_off / 8;
		a.type = e->type;
		return a;
	}
	if (e->kind == E_INDEX && e->a->type->kind != V_TUPLE) {
		a = lower_expr(w, e->a);
		b = lower_expr(w, e->b);
		return element_object(w, e, &a, &b);
	}
	if (e->kind == E_UNARY && e->op == '*') {
		a = lower_expr(w, e->a);
		a = val_object(w, &a);
		a.type = e->type;
		return a;
	}
	return (struct val){ .kind = K_VOID, .type = &v_void };
}

struct val lower_address(struct lower *w, const struct expr *e)
{
	struct val a = lower_object(w, e->a);

	if (a.kind != K_MEM) {
		lower_error(w, e, "the address of this can't be taken");
		return val_const(&v_i64, 0);
	}
	a = val_address(w, &a);
	a.type = e->type;
	return a;
}
