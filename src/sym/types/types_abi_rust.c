/* SPDX-License-Identifier: MIT */
/*
 * How rustc passes values between Rust functions. It guarantees nothing, but has done this for years: a type that
 * consists of one or two numbers (a slice, an Option of a number) is passed in one or two registers, whatever types
 * are around them; another one of up to 8 bytes in one general register; all others by address. Where optimised
 * code has location lists, these are compared as well (types_func.c).
 */
#include "sym/types/types_priv.h"

#include "arch/arch.h"

enum { NUMBER, SIGNED_NUMBER, POINTER, REAL };
struct scalar { uint64_t off, size; uint8_t kind; bool tag; };
struct layout { struct abi *a; struct scalar v[3]; int n; bool aggregate; int steps; };

static uint8_t kind_of(struct types *t, const struct type *y)
{
	const struct type *beneath = y->kind == TYPE_ENUM && y->ref ? type_get(t, type_strip(t, y->ref)) : y;

	if (y->kind == TYPE_FLOAT)
		return REAL;
	if (y->kind == TYPE_PTR || y->kind == TYPE_REF)
		return POINTER;
	return beneath->flags & TYPE_SIGNED ? SIGNED_NUMBER : NUMBER;
}

/* Whether two variants of an enum have these scalars in the same register. Up to 1.77 only if they are of the same kind. */
static bool share(const struct layout *l, const struct scalar *a, const struct scalar *b)
{
	if (a->off != b->off || a->size != b->size || (a->kind == REAL) != (b->kind == REAL))
		return false;
	return a->kind == b->kind || a->tag || b->tag || l->a->rustc >= 78;
}

static void add_scalar(struct layout *l, uint64_t off, const struct type *y, bool tag)
{
	struct scalar s = { off, y->size, kind_of(l->a->t, y), tag };
	int i;

	/* Variants of an enum overlap each other; so may the discriminant. */
	for (i = 0; i < l->n; i++)
		if (share(l, &l->v[i], &s)) {
			if (l->v[i].tag)
				l->v[i] = s;
			return;
		}
	for (i = 0; i < l->n; i++)
		if (off < l->v[i].off + l->v[i].size && l->v[i].off < off + y->size)
			l->aggregate = true;
	if (l->n == 3)
		l->aggregate = true;
	else
		l->v[l->n++] = s;
}

static void flatten(struct layout *l, type_id id, uint64_t off, bool tag);

/*
 * An enum whose discriminant is in values that a field of one variant never has. It is passed like that variant
 * only if the others are empty.
 */
static bool is_crowded(struct layout *l, const struct type *y)
{
	const struct type_member *discr = NULL;
	bool inside = false;
	uint64_t i, full = 0, lo, hi;
	int k;

	for (i = 0; i < y->n; i++)
		if (y->members[i].flags & MEMBER_DISCR)
			discr = &y->members[i];
	for (i = 0; i < y->n && discr; i++) {
		struct layout v = { .a = l->a, .steps = l->steps };

		if (!(y->members[i].flags & MEMBER_VARIANT))
			continue;
		flatten(&v, y->members[i].type, y->members[i].bit_off / 8, false);
		l->steps = v.steps;
		full += v.n || v.aggregate;
		lo = discr->bit_off / 8;
		hi = lo + type_get(l->a->t, type_strip(l->a->t, discr->type))->size;
		for (k = 0; k < v.n; k++)
			inside |= v.v[k].off < hi && lo < v.v[k].off + v.v[k].size;
	}
	return inside && full > 1;
}

static void flatten(struct layout *l, type_id id, uint64_t off, bool tag)
{
	const struct type *y = type_get(l->a->t, type_strip(l->a->t, id));
	uint64_t i;

	if (!y->size)	/* () and types made of it */
		return;
	if (l->steps++ > 1000) {
		l->aggregate = true;
		return;
	}
	switch (y->kind) {
	case TYPE_INT: case TYPE_FLOAT: case TYPE_PTR: case TYPE_REF: case TYPE_ENUM:
		add_scalar(l, off, y, tag);
		break;
	case TYPE_STRUCT:
		l->aggregate |= is_crowded(l, y);
		for (i = 0; i < y->n && !l->aggregate; i++)
			flatten(l, y->members[i].type, off + y->members[i].bit_off / 8,
				y->members[i].flags & MEMBER_DISCR);
		break;
	default:
		if (y->size)
			l->aggregate = true;
	}
}

static struct layout layout_of(struct abi *a, type_id type)
{
	const struct type *y = type_get(a->t, type_strip(a->t, type));
	struct layout l = { .a = a };
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

bool abi_rust_in_memory(struct abi *a, type_id type)
{
	return layout_of(a, type).aggregate && type_get(a->t, type_strip(a->t, type))->size > 8;
}

const char *abi_rust_returns_oddly(struct abi *a, type_id type)
{
	struct layout l = layout_of(a, type);
	uint64_t words = 0;
	int i;

	for (i = 0; i < l.n && !l.aggregate; i++)
		words += (l.v[i].size + 7) / 8;
	return words > 2 ? "Rust does not say how it returns two numbers of this size" : NULL;
}

/* A number as large as two registers counts as two. */
static struct loc_piece take(struct abi *a, const struct scalar *s, uint64_t part, const uint8_t *ints, size_t nints, int nfloats)
{
	struct loc_piece p = { .size = part };
	struct loc stack;

	if (s->kind == REAL ? a->floats < nfloats : a->ints < nints) {
		p.kind = s->kind == REAL ? LOC_VECTOR : LOC_REG;
		p.reg = s->kind == REAL ? a->floats++ : ints[a->ints++];
		return p;
	}
	stack = abi_on_stack(a, 8, 8);
	p.kind = stack.pieces[0].kind;
	p.reg = stack.pieces[0].reg;
	p.off = stack.pieces[0].off;
	return p;
}

static struct loc in_registers(struct abi *a, type_id type, const struct layout *l, const uint8_t *ints,
			       size_t nints, int nfloats)
{
	uint64_t size = type_get(a->t, type_strip(a->t, type))->size, at = 0, done;
	struct scalar whole = { 0, size, NUMBER, false };
	const struct scalar *v = l->aggregate ? &whole : l->v;
	int n = l->aggregate ? 1 : l->n, i;
	struct pieces p = { 0 };

	for (i = 0; i < n; i++) {
		if (v[i].off > at)
			pieces_add(&p, (struct loc_piece){ .kind = LOC_CONST, .size = v[i].off - at });
		if (v[i].size == 16 && a->ints + 2u > nints && a->rustc >= 78)	/* LLVM 18 */
			a->ints_why = "Rust does not say how it hands over a number of 16 bytes when registers run out";
		if (a->ints_why && v[i].kind != REAL)
			return loc_gone(a->ints_why);
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
	struct layout l = layout_of(a, type);
	uint64_t size = type_get(a->t, type_strip(a->t, type))->size;

	if (!size || (!l.n && !l.aggregate))
		return loc_gone("its type is empty, so it is not handed over");
	if (l.aggregate && size > 8)
		return abi_pointed(a, size);
	return in_registers(a, type, &l, abi_call(a)->args, abi_call(a)->nargs, abi_call(a)->float_args);
}

struct loc abi_rust_return(struct abi *a, type_id type)
{
	struct layout l = layout_of(a, type);
	struct abi fresh = { .t = a->t, .kind = ABI_RUST };

	if (!l.n && !l.aggregate)
		return loc_gone("its type is empty");
	if (abi_rust_returns_oddly(a, type))
		return loc_gone(abi_rust_returns_oddly(a, type));
	return in_registers(&fresh, type, &l, abi_call(a)->rets, abi_call(a)->nrets, abi_call(a)->float_rets);
}
