/* SPDX-License-Identifier: MIT */
/*
 * How rustc hands over values between Rust functions. It promises nothing, but has done this for
 * years: a type that is one number or two (a slice, an Option of a number) travels in one or two
 * registers, whatever is around them; another one of up to 8 bytes in one general register; the rest
 * by address. Where optimised code has location lists, these are asked as well (types_func.c).
 */
#include "sym/types_priv.h"

static const uint8_t int_regs[] = { 7, 6, 2, 1, 8, 9 };
#define SSE_REGS 8

struct scalar { uint64_t off, size; bool is_float, tag; };
struct layout { struct types *t; struct scalar v[3]; int n; bool aggregate; int steps; };

static void add_scalar(struct layout *l, uint64_t off, const struct type *y, bool tag)
{
	bool is_float = y->kind == TYPE_FLOAT;
	int i;

	/* Variants of an enum lie over each other; so may the number that tells them apart. */
	for (i = 0; i < l->n; i++)
		if (l->v[i].off == off && l->v[i].size == y->size && l->v[i].is_float == is_float)
			return;
	for (i = 0; i < l->n; i++)
		if (off < l->v[i].off + l->v[i].size && l->v[i].off < off + y->size)
			l->aggregate = true;
	if (l->n == 3)
		l->aggregate = true;
	else
		l->v[l->n++] = (struct scalar){ off, y->size, is_float, tag };
}

static void flatten(struct layout *l, type_id id, uint64_t off, bool tag)
{
	const struct type *y = type_get(l->t, type_strip(l->t, id));
	uint64_t i;

	if (l->steps++ > 200) {
		l->aggregate = true;
		return;
	}
	switch (y->kind) {
	case TYPE_INT: case TYPE_FLOAT: case TYPE_PTR: case TYPE_REF: case TYPE_ENUM:
		add_scalar(l, off, y, tag);
		break;
	case TYPE_STRUCT:
		for (i = 0; i < y->n && !l->aggregate; i++)
			flatten(l, y->members[i].type, off + y->members[i].bit_off / 8,
				y->members[i].flags & MEMBER_DISCR);
		break;
	default:
		if (y->size)
			l->aggregate = true;
	}
}

static struct layout layout_of(struct types *t, type_id type)
{
	const struct type *y = type_get(t, type_strip(t, type));
	struct layout l = { .t = t };
	struct scalar swap;

	flatten(&l, type, 0, false);
	if (l.n == 2 && l.v[0].off > l.v[1].off) {
		swap = l.v[0];
		l.v[0] = l.v[1];
		l.v[1] = swap;
	}
	if (l.n > 2 || (l.n == 1 && l.v[0].size != y->size))
		l.aggregate = true;
	return l;
}

bool abi_rust_in_memory(struct types *t, type_id type)
{
	return layout_of(t, type).aggregate && type_get(t, type_strip(t, type))->size > 8;
}

/* A number as large as two registers counts as two. */
static struct loc_piece take(struct abi *a, const struct scalar *s, uint64_t part, const uint8_t *ints, size_t nints, int nfloats)
{
	struct loc_piece p = { .size = part };
	struct loc stack;

	if (s->is_float ? a->floats < nfloats : a->ints < nints) {
		p.kind = s->is_float ? LOC_XMM : LOC_REG;
		p.reg = s->is_float ? a->floats++ : ints[a->ints++];
		return p;
	}
	stack = abi_on_stack(a, 8, 8);
	p.kind = LOC_MEM;
	p.reg = stack.pieces[0].reg;
	p.off = stack.pieces[0].off;
	return p;
}

static struct loc in_registers(struct abi *a, type_id type, const struct layout *l, const uint8_t *ints,
			       size_t nints, int nfloats)
{
	uint64_t size = type_get(a->t, type_strip(a->t, type))->size, at = 0, done;
	struct scalar whole = { 0, size, false, false };
	const struct scalar *v = l->aggregate ? &whole : l->v;
	int n = l->aggregate ? 1 : l->n, i;
	struct pieces p = { 0 };

	for (i = 0; i < n; i++) {
		if (v[i].off > at)
			pieces_add(&p, (struct loc_piece){ .kind = LOC_CONST, .size = v[i].off - at });
		for (done = 0; done < v[i].size && done < 16; done += 8)
			pieces_add(&p, take(a, &v[i], MIN(v[i].size - done, 8u), ints, nints, nfloats));
		at = v[i].off + v[i].size;
	}
	if (size > at)
		pieces_add(&p, (struct loc_piece){ .kind = LOC_CONST, .size = size - at });
	return pieces_loc(a->t, &p);
}

struct loc abi_rust_param(struct abi *a, type_id type)
{
	struct layout l = layout_of(a->t, type);
	uint64_t size = type_get(a->t, type_strip(a->t, type))->size;

	if (!size || (!l.n && !l.aggregate))
		return loc_gone("its type is empty, so it is not handed over");
	if (l.aggregate && size > 8)
		return abi_pointed(a, size);
	return in_registers(a, type, &l, int_regs, ARRAY_SIZE(int_regs), SSE_REGS);
}

struct loc abi_rust_return(struct abi *a, type_id type)
{
	static const uint8_t ret_regs[] = { 0, 2 };
	struct layout l = layout_of(a->t, type);
	struct abi fresh = { .t = a->t, .kind = ABI_RUST };

	if (!l.n && !l.aggregate)
		return loc_gone("its type is empty");
	return in_registers(&fresh, type, &l, ret_regs, ARRAY_SIZE(ret_regs), 2);
}
