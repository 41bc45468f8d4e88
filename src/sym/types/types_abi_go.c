/* SPDX-License-Identifier: MIT */
/*
 * Go's register convention (1.17 and later): every basic value inside a parameter gets a register of its own,
 * fields of structs too; a parameter that does not fit completely goes to the stack. Results use the same registers
 * again. Before 1.17 everything was on the stack.
 */
#include "sym/types/types_priv.h"

#include "arch/arch.h"

struct assign { struct abi *a; struct pieces p; uint64_t at; int steps; };

static void pad_to(struct assign *s, uint64_t at)
{
	if (at > s->at)
		pieces_add(&s->p, (struct loc_piece){ .kind = LOC_CONST, .size = at - s->at });
	s->at = MAX(at, s->at);
}

static bool one(struct assign *s, const struct type *y, uint64_t at, bool is_float)
{
	const struct call_abi *call = abi_call(s->a);
	struct loc_piece piece = { .kind = is_float ? LOC_VECTOR : LOC_REG, .size = y->size };

	if (is_float ? s->a->floats >= call->float_args : s->a->ints >= call->nargs)
		return false;
	piece.reg = is_float ? s->a->floats++ : call->args[s->a->ints++];
	pad_to(s, at);
	if (s->p.n == ARRAY_SIZE(s->p.v))
		return false;
	pieces_add(&s->p, piece);
	s->at = at + y->size;
	return true;
}

static bool assign(struct assign *s, type_id id, uint64_t at)
{
	const struct type *y = type_get(s->a->t, type_strip(s->a->t, id)), half = { .size = y->size / 2 };
	uint64_t i;

	if (s->steps++ > 100)
		return false;
	switch (y->kind) {
	case TYPE_FLOAT:
		if (y->flags & TYPE_COMPLEX)
			return one(s, &half, at, true) && one(s, &half, at + half.size, true);
		return one(s, y, at, true);
	case TYPE_ARRAY:
		return y->n == 0 || (y->n == 1 && assign(s, y->ref, at));
	case TYPE_STRUCT:
		for (i = 0; i < y->n; i++)
			if (!assign(s, y->members[i].type, at + y->members[i].bit_off / 8))
				return false;
		return true;
	case TYPE_INT: case TYPE_PTR: case TYPE_ENUM:
		return one(s, y, at, false);
	case TYPE_FUNC:
		return one(s, &(struct type){ .size = 8 }, at, false);
	default:
		return false;
	}
}

struct loc abi_go_param(struct abi *a, type_id type)
{
	const struct type *y = type_get(a->t, type_strip(a->t, type));
	struct assign s = { .a = a };
	uint8_t ints = a->ints, floats = a->floats;

	if (!y->size && y->kind != TYPE_FUNC)
		return loc_gone("its type is empty, so it is not handed over");
	if (a->kind == ABI_GO && assign(&s, type, 0)) {
		pad_to(&s, y->size);
		return pieces_loc(a->t, &s.p);
	}
	a->ints = ints;
	a->floats = floats;
	return abi_on_stack(a, y->size, abi_align(a->t, type));
}
