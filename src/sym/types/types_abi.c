/* SPDX-License-Identifier: MIT */
/*
 * The C calling convention, by the CPU's registers (arch/call.h). In that of System V a value of up to 16 bytes is classified in
 * two halves of 8 ("eightbytes"); the content of a half decides whether it is passed in a general register, in a vector register or,
 * with everything larger, on the stack. C++ classes that must not be copied bytewise are passed by address.
 */
#include "sym/types/types_priv.h"

#include "arch/arch.h"

enum half { H_NONE, H_INT, H_SSE, H_SSEUP, H_X87, H_X87UP, H_X87_COMPLEX, H_MEMORY };

struct classes {
	struct types *t;
	uint8_t half[2];
	bool wide;		/* one SIMD value of more than 16 bytes */
	int steps;		/* damaged types may contain themselves */
};

const struct call_abi *abi_call(const struct abi *a)
{
	const struct arch *arch = a->t->m->arch;

	return a->kind == ABI_GO || a->kind == ABI_GO_STACK ? arch->go_call : arch->c_call;
}

static bool has_int_left(const struct abi *a)
{
	return a->ints < abi_call(a)->nargs;
}

static uint8_t merge(uint8_t a, uint8_t b)
{
	if (a == b || b == H_NONE)
		return a;
	if (a == H_NONE)
		return b;
	if (a == H_MEMORY || b == H_MEMORY)
		return H_MEMORY;
	if (a == H_INT || b == H_INT)
		return H_INT;
	return a >= H_X87 || b >= H_X87 ? H_MEMORY : H_SSE;
}

static void put(struct classes *c, uint64_t at, uint64_t size, uint8_t first, uint8_t second)
{
	uint64_t i;

	for (i = at / 8; i < 2 && i * 8 < at + size; i++)
		c->half[i] = merge(c->half[i], i == at / 8 ? first : second);
}

static void to_memory(struct classes *c)
{
	c->half[0] = c->half[1] = H_MEMORY;
}

static void classify(struct classes *c, type_id id, uint64_t at);

static void classify_float(struct classes *c, const struct type *y, uint64_t at)
{
	uint64_t part = y->flags & TYPE_COMPLEX ? y->size / 2 : y->size;

	if (part == 16 && !(y->flags & (TYPE_QUAD | TYPE_DECIMAL))) {
		if (y->flags & TYPE_COMPLEX)
			c->half[0] = H_X87_COMPLEX;
		else
			put(c, at, 16, H_X87, H_X87UP);
	} else if (part == 16) {
		put(c, at, 16, H_SSE, H_SSEUP);
	} else {
		put(c, at, y->size, H_SSE, H_SSE);
	}
}

static void classify_array(struct classes *c, const struct type *y, uint64_t at)
{
	uint64_t size = type_get(c->t, y->ref)->size, i;

	if (y->flags & TYPE_VECTOR) {
		c->wide |= y->size > 16;
		/* A vector of less than 8 bytes is passed as an integer. */
		put(c, at, y->size, y->size < 8 ? H_INT : H_SSE, H_SSEUP);
		return;
	}
	for (i = 0; i < y->n && size && at + i * size < 16; i++)
		classify(c, y->ref, at + i * size);
}

static void classify_members(struct classes *c, const struct type *y, uint64_t at)
{
	uint64_t i;

	/* An empty class has one byte. In the debug info of gcc transparent unions have no members; these are pointers. */
	if (!y->n && y->size > 1)
		put(c, at, y->size, H_INT, H_INT);
	for (i = 0; i < y->n; i++) {
		const struct type_member *m = &y->members[i];
		uint64_t where = at + m->bit_off / 8;

		if (m->bit_size) {
			if (m->name)
				put(c, where, (m->bit_off % 8 + m->bit_size + 7) / 8, H_INT, H_INT);
		} else if (where % abi_align(c->t, m->type)) {
			to_memory(c);
		} else {
			classify(c, m->type, where);
		}
	}
}

static void classify(struct classes *c, type_id id, uint64_t at)
{
	const struct type *y = type_get(c->t, type_strip(c->t, id));

	if (c->steps++ > 1000 || c->t->depth >= MOST_DEPTH) {
		to_memory(c);
		return;
	}
	c->t->depth++;
	switch (y->kind) {
	case TYPE_INT: case TYPE_PTR: case TYPE_REF: case TYPE_ENUM: case TYPE_MEMBER_PTR:
		put(c, at, y->size, H_INT, H_INT);
		break;
	case TYPE_FLOAT: classify_float(c, y, at); break;
	case TYPE_ARRAY: classify_array(c, y, at); break;
	case TYPE_STRUCT: case TYPE_UNION: classify_members(c, y, at); break;
	}
	c->t->depth--;
}

static void classify_whole(struct classes *c, type_id id)
{
	uint64_t size = type_get(c->t, type_strip(c->t, id))->size;

	classify(c, id, 0);
	if (c->half[0] == H_X87_COMPLEX || (c->wide && size <= 64))
		return;
	if (size > 16 || c->half[0] == H_MEMORY || c->half[1] == H_MEMORY ||
	    (c->half[1] == H_X87UP && c->half[0] != H_X87))
		to_memory(c);
	if (c->half[1] == H_SSEUP && c->half[0] != H_SSE)
		c->half[1] = H_SSE;
}

/* The alignment that typedefs request for members of their type. */
static uint64_t asked_align(struct types *t, type_id id)
{
	uint64_t least = 1;
	const struct type *y = type_get(t, id);
	int hops;

	for (hops = 0; hops < MOST_DEPTH && (y->kind == TYPE_TYPEDEF || y->kind == TYPE_CONST || y->kind == TYPE_VOLATILE); hops++) {
		least = MAX(least, y->least_align);
		y = type_get(t, y->ref);
	}
	return least;
}

uint64_t abi_align(struct types *t, type_id id)
{
	const struct type *y = type_get(t, type_strip(t, id));
	uint64_t align = y->align ? y->align : 1, i;

	if (t->depth >= 16)
		return 1;
	t->depth++;
	switch (y->kind) {
	case TYPE_STRUCT: case TYPE_UNION:
		/* The debug info has the alignment only if it is not natural; in a packed struct members are not aligned. */
		for (i = 0; i < y->n && i < 256 && !y->align; i++) {
			uint64_t a = y->members[i].bit_size ? 1 : abi_align(t, y->members[i].type);

			if (y->size % a == 0 && (y->members[i].bit_off / 8) % a == 0)
				align = MAX(align, a);
		}
		align = MAX(align, y->least_align);
		break;
	case TYPE_ARRAY:
		align = y->flags & TYPE_VECTOR ? MAX(y->size, 1u) : abi_align(t, y->ref);
		break;
	case TYPE_FLOAT:
		align = y->flags & TYPE_COMPLEX ? y->size / 2 : y->size;
		break;
	case TYPE_INT: case TYPE_ENUM: align = MIN(y->size, 16u); break;
	case TYPE_PTR: case TYPE_REF: case TYPE_MEMBER_PTR: align = 8; break;
	}
	t->depth--;
	align = MAX(align, asked_align(t, id));
	return align && !(align & (align - 1)) ? align : 1;
}

void pieces_add(struct pieces *p, struct loc_piece piece)
{
	if (p->n < ARRAY_SIZE(p->v))
		p->v[p->n++] = piece;
}

struct loc pieces_loc(struct types *t, const struct pieces *p)
{
	struct loc_piece *copy = types_alloc(t, p->n * sizeof(*copy));

	memcpy(copy, p->v, p->n * sizeof(*copy));
	return (struct loc){ .pieces = copy, .n = p->n };
}

struct loc abi_on_stack(struct abi *a, uint64_t size, uint64_t align)
{
	uint64_t at = (a->stack + align - 1) & -align;

	if (a->ints_why || a->floats_why)
		return loc_gone(a->ints_why ? a->ints_why : a->floats_why);
	a->stack = at + size;
	return loc_one(a->t, (struct loc_piece){ .kind = LOC_MEM, .reg = a->t->m->arch->regs->sp, .off = at + abi_call(a)->pushes, .size = size });
}

struct loc abi_pointed(struct abi *a, uint64_t size)
{
	struct loc l;
	struct loc_node *n;

	if (a->ints_why)
		return loc_gone(a->ints_why);
	if (has_int_left(a))
		return loc_one(a->t, (struct loc_piece){ .kind = LOC_MEM, .reg = abi_call(a)->args[a->ints++], .size = size });
	if (a->floats_why)
		return loc_gone(a->floats_why);
	/* The pointer itself is on the stack. */
	n = types_alloc(a->t, 4 * sizeof(*n));
	n[0] = (struct loc_node){ LOP_REG, a->t->m->arch->regs->sp, 0, 0 };
	n[1] = (struct loc_node){ LOP_CONST, 0, 0, a->stack + abi_call(a)->pushes };
	n[2] = (struct loc_node){ LOP_ADD, 0, 1, 0 };
	n[3] = (struct loc_node){ LOP_LOAD, 2, 0, 8 };
	a->stack += 8;
	l = loc_one(a->t, (struct loc_piece){ .kind = LOC_MEM_AT, .node = 3, .size = size });
	l.nodes = n;
	l.nnodes = 4;
	return l;
}

static bool by_reference(struct types *t, type_id id, int *steps)
{
	const struct type *y = type_get(t, type_strip(t, id));
	uint64_t i;

	if (y->kind == TYPE_ARRAY && (*steps)++ < 1000)
		return by_reference(t, y->ref, steps);
	if (y->kind != TYPE_STRUCT && y->kind != TYPE_UNION)
		return false;
	if (y->flags & TYPE_BY_REFERENCE)
		return true;
	for (i = 0; i < y->n && (*steps)++ < 1000; i++) {
		if (y->members[i].flags & MEMBER_VIRTUAL)
			return true;
		if (y->members[i].flags & MEMBER_ARTIFICIAL && y->members[i].name &&
		    strncmp(y->members[i].name, "_vptr", 5) == 0)
			return true;
		if (by_reference(t, y->members[i].type, steps))
			return true;
	}
	return false;
}

static bool is_by_reference(struct types *t, type_id id)
{
	int steps = 0;

	return by_reference(t, id, &steps);
}

static struct loc in_registers(struct abi *a, const struct classes *c, uint64_t size, const uint8_t *ints)
{
	struct pieces p = { 0 };
	int i;

	if (c->half[1] == H_SSEUP) {
		pieces_add(&p, (struct loc_piece){ .kind = LOC_VECTOR, .reg = a->floats++, .size = size });
		return pieces_loc(a->t, &p);
	}
	for (i = 0; i < 2 && i * 8u < size; i++) {
		uint64_t part = MIN(size - i * 8u, 8u);

		if (c->half[i] == H_INT)
			pieces_add(&p, (struct loc_piece){ .kind = LOC_REG, .reg = ints[a->ints++], .size = part });
		else if (c->half[i] == H_SSE)
			pieces_add(&p, (struct loc_piece){ .kind = LOC_VECTOR, .reg = a->floats++, .size = part });
		else	/* only padding */
			pieces_add(&p, (struct loc_piece){ .kind = LOC_CONST, .size = part });
	}
	return pieces_loc(a->t, &p);
}

/*
 * A number of 16 bytes for which there are not two registers left. Before version 18 LLVM passed each half
 * separately; since then a remaining register may count as used or not.
 */
static struct loc half_left(struct abi *a)
{
	struct pieces p = { 0 };
	int i;

	if (!a->clang || a->clang >= 18) {
		if (a->clang && has_int_left(a))
			a->ints_why = "compilers differ in how they hand over what follows a number of 16 bytes";
		return abi_on_stack(a, 16, 16);
	}
	for (i = 0; i < 2; i++) {
		if (has_int_left(a))
			pieces_add(&p, (struct loc_piece){ .kind = LOC_REG, .reg = abi_call(a)->args[a->ints++], .size = 8 });
		else
			pieces_add(&p, abi_on_stack(a, 8, 8).pieces[0]);
	}
	return pieces_loc(a->t, &p);
}

static const char wide_why[] = "whether a vector of more than 16 bytes travels in a register depends on the compiler's options";

static const char scalar_why[] = "only numbers and pointers are known to be handed over in registers on this CPU";

/* Whether it is no more than a number or a pointer, of one register. */
static bool is_scalar(const struct type *y)
{
	return y->size <= 8 && (y->kind == TYPE_INT || y->kind == TYPE_PTR || y->kind == TYPE_REF || y->kind == TYPE_ENUM ||
				(y->kind == TYPE_FLOAT && !(y->flags & TYPE_COMPLEX)));
}

static struct loc c_param(struct abi *a, type_id type, bool by_ref)
{
	const struct type *y = type_get(a->t, type_strip(a->t, type));
	struct classes c = { .t = a->t };
	int ints, floats;

	if (by_ref || is_by_reference(a->t, type))
		return abi_pointed(a, y->size);
	if (!y->size)
		return loc_gone("its type is not known or has no size");
	if (abi_call(a)->rules == CALL_BY_SCALAR && !is_scalar(y))
		return loc_gone(a->ints_why = a->floats_why = scalar_why);
	classify_whole(&c, type);
	if (c.half[0] == H_NONE && c.half[1] == H_NONE)
		return loc_gone("its type is empty, so it is not handed over");
	if (c.half[0] >= H_X87 || c.half[1] >= H_X87)
		return abi_on_stack(a, (y->size + 7) & ~7ull, MAX(8u, abi_align(a->t, type_strip(a->t, type))));
	if (c.wide)
		return loc_gone(a->floats_why = wide_why);
	ints = (c.half[0] == H_INT) + (c.half[1] == H_INT && y->size > 8);
	floats = (c.half[0] == H_SSE) + (c.half[1] == H_SSE && y->size > 8);
	if ((ints && a->ints_why) || (floats && a->floats_why))
		return loc_gone(ints && a->ints_why ? a->ints_why : a->floats_why);
	if (y->kind == TYPE_INT && a->ints + ints > abi_call(a)->nargs && ints == 2)
		return half_left(a);
	if (a->ints + ints > abi_call(a)->nargs || a->floats + floats > abi_call(a)->float_args)
		return abi_on_stack(a, (y->size + 7) & ~7ull, MAX(8u, abi_align(a->t, type_strip(a->t, type))));
	return in_registers(a, &c, y->size, abi_call(a)->args);
}

struct loc abi_param(struct abi *a, type_id type, bool by_ref)
{
	const struct type *y = type_get(a->t, type_strip(a->t, type));
	struct loc l;

	if (a->kind == ABI_GO || a->kind == ABI_GO_STACK)
		return abi_go_param(a, type);
	if (a->kind == ABI_RUST)
		return abi_rust_param(a, type);
	l = c_param(a, type, by_ref);
	/* On the stack it takes whole words, but its size stays the same. */
	if (l.n == 1 && l.pieces[0].kind == LOC_MEM)
		((struct loc_piece *)l.pieces)->size = y->size;
	return l;
}

bool abi_returns_in_memory(struct abi *a, type_id type)
{
	const struct type *y = type_get(a->t, type_strip(a->t, type));
	struct classes c = { .t = a->t };

	if (a->kind == ABI_GO || a->kind == ABI_GO_STACK)
		return false;
	if (a->kind == ABI_RUST)
		return abi_rust_in_memory(a, type);
	if (is_by_reference(a->t, type))
		return true;
	if (!y->size)
		return false;
	classify_whole(&c, type);
	return c.half[0] == H_MEMORY;
}

static bool is_wide(struct abi *a, type_id type)
{
	struct classes c = { .t = a->t };

	if (a->kind != ABI_C || is_by_reference(a->t, type))
		return false;
	classify_whole(&c, type);
	return c.wide && c.half[0] != H_MEMORY;
}

void abi_hidden_result(struct abi *a, type_id type)
{
	if (is_wide(a, type))
		a->ints_why = wide_why;
	else if (a->kind == ABI_RUST && abi_rust_returns_oddly(a, type))
		a->ints_why = abi_rust_returns_oddly(a, type);
	else if (abi_returns_in_memory(a, type) && abi_call(a)->result_to == NO_REG)
		a->ints++;
}

struct loc abi_return(struct abi *a, type_id type)
{
	const struct type *y = type_get(a->t, type_strip(a->t, type));
	struct classes c = { .t = a->t };
	struct abi fresh = { .t = a->t };
	struct pieces p = { 0 };
	int i;

	if (!y->size || y->kind == TYPE_VOID)
		return (struct loc){ 0 };
	if (abi_call(a)->rules == CALL_BY_SCALAR && !is_scalar(y))
		return loc_gone(scalar_why);
	if (is_wide(a, type))
		return loc_gone(wide_why);
	if (abi_returns_in_memory(a, type))
		return abi_call(a)->result_at == NO_REG ? loc_gone("it is in memory, and nothing says where at the return") :
		       loc_one(a->t, (struct loc_piece){ .kind = LOC_MEM, .reg = abi_call(a)->result_at, .size = y->size });
	if (a->kind == ABI_RUST)
		return abi_rust_return(a, type);
	classify_whole(&c, type);
	if (c.half[0] == H_NONE && c.half[1] == H_NONE)
		return loc_gone("its type is empty");
	if (c.half[0] != H_X87 && c.half[0] != H_X87_COMPLEX)
		return in_registers(&fresh, &c, y->size, abi_call(a)->rets);
	for (i = 0; i < (c.half[0] == H_X87 ? 1 : 2); i++)
		pieces_add(&p, (struct loc_piece){ .kind = LOC_ST, .reg = i, .size = 16 });
	return pieces_loc(a->t, &p);
}
