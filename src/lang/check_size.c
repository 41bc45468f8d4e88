/* SPDX-License-Identifier: MIT */
/*
 * sizeof() as bpftrace has it. Variables hold 64 bits here and strings have room for the longest one, but a script that asks
 * for a size means what it wrote: a variable is as large as what was first assigned to it, a string in a tuple
 * as long as it is written, and tuples are laid out as structs of C.
 */
#include "lang/check.h"

#define COMM_SIZE 16

struct room { uint64_t size, align; };

static void room_add(struct room *all, struct room it)
{
	all->size = (all->size + it.align - 1) & -it.align;
	all->size += it.size;
	all->align = it.align > all->align ? it.align : all->align;
}

static struct room room_end(struct room all)
{
	all.size = (all.size + all.align - 1) & -all.align;
	return all;
}

static struct room room_of_type(const struct vtype *t)
{
	struct room all = { 0, 1 };
	uint32_t i;

	if (t->kind == V_STR || t->kind == V_BUF)
		return (struct room){ t->size, 1 };
	if (t->kind != V_TUPLE)
		return (struct room){ t->size, v_align(t) };
	for (i = 0; i < t->n; i++)
		room_add(&all, room_of_type(t->elems[i]));
	return room_end(all);
}

/* The smallest signed type that holds it; beyond those, unsigned. */
static struct room room_of_number(int64_t v, bool is_unsigned)
{
	uint64_t size = v == (int8_t)v ? 1 : v == (int16_t)v ? 2 : v == (int32_t)v ? 4 : 8;

	return is_unsigned ? (struct room){ 8, 8 } : (struct room){ size, size };
}

static struct room room_of(const struct expr *e, const struct vtype *t)
{
	int64_t value;

	const struct variable *v = e->ref;
	struct room all = { 0, 1 };
	uint32_t i;

	switch (e->kind) {
	case E_STR:	/* it has its NUL, as in C */
		return (struct room){ e->text_len + 1, 1 };
	case E_NAME:
		return e->meaning == B_COMM ? (struct room){ COMM_SIZE, 1 } : room_of_type(t);
	case E_VAR:
		return v && v->first ? room_of(v->first, v->first->type) : room_of_type(t);
	case E_INT:
		return room_of_number(e->value, t == &v_u64);
	case E_UNARY:
		return e->op == '-' && const_int(e, &value) ? room_of_number(value, false) : room_of_type(t);
	case E_TUPLE:
		for (i = 0; i < e->nlist; i++)
			room_add(&all, room_of(e->list[i], e->list[i]->type));
		return room_end(all);
	default:
		return room_of_type(t);
	}
}

uint64_t check_size(const struct checker *c, const struct expr *e, const struct vtype *t)
{
	if (c->c_rules && e->kind != E_STR)
		return t->size;
	return t->kind == V_ERROR ? t->size : room_of(e, t).size;
}
