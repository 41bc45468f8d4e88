/* SPDX-License-Identifier: MIT */
/*
 * Doubles, in xmm0 and xmm1. The program's own rounding, masks and sticky flags are put away while a
 * program with floats runs: it could have asked for a signal at each inexact result.
 */
#include "gen/emit.h"

static void put_round(struct gen *g, uint8_t type)
{
	if (type != IR_F32)
		return;
	op(g, 0xf2, 0x0f, 0x5a, 0xc0);			/* cvtsd2ss %xmm0,%xmm0 */
	op(g, 0xf3, 0x0f, 0x5a, 0xc0);			/* cvtss2sd %xmm0,%xmm0 */
}

static void put_arith(struct gen *g, const struct ir_ins *i)
{
	static const uint8_t how[] = { [IR_ADD] = 0x58, [IR_MUL] = 0x59, [IR_SUB] = 0x5c, [IR_DIV] = 0x5e };

	g_load_f(g, 0, i->a);
	if (i->op == IR_NEG) {
		op(g, 0x66, 0x48, 0x0f, 0x7e, 0xc0);	/* movq %xmm0,%rax */
		op(g, 0x48, 0x0f, 0xba, 0xf8, 63);	/* btc  $63,%rax */
		op(g, 0x66, 0x48, 0x0f, 0x6e, 0xc0);	/* movq %rax,%xmm0 */
		g->acc = IR_NONE;
	} else {
		g_load_f(g, 1, i->b);
		op(g, 0xf2, 0x0f, how[i->op], 0xc1);	/* op   %xmm1,%xmm0 */
	}
	put_round(g, i->type);
	g_store_f(g, 0, i->dst);
}

/* ucomisd says "unordered" by all of CF, ZF and PF; above and not below are false then. */
static void put_compare(struct gen *g, const struct ir_ins *i)
{
	bool swap = i->op == IR_LT || i->op == IR_LE;

	g_load_f(g, 0, swap ? i->b : i->a);
	g_load_f(g, 1, swap ? i->a : i->b);
	op(g, 0x66, 0x0f, 0x2e, 0xc1);			/* ucomisd %xmm1,%xmm0 */
	if (i->op == IR_EQ || i->op == IR_NE) {
		op(g, 0x0f, 0x9b, 0xc0);		/* setnp %al */
		op(g, 0x0f, 0x94, 0xc1);		/* sete %cl */
		op(g, 0x20, 0xc8);			/* and  %cl,%al */
		if (i->op == IR_NE)
			op(g, 0x34, 1);			/* xor  $1,%al */
	} else {
		op(g, 0x0f, i->op == IR_LT || i->op == IR_GT ? 0x97 : 0x93, 0xc0);	/* seta, setae %al */
	}
	op(g, 0x0f, 0xb6, 0xc0);			/* movzbl %al,%eax */
	g_store(g, i->dst);
}

/* From 2^63 on: half of it, odd kept sticky so that it rounds as the whole would, then doubled. */
static void put_from_unsigned(struct gen *g, const struct ir_ins *i)
{
	bool f32 = i->type == IR_F32;
	uint8_t prefix = f32 ? 0xf3 : 0xf2;
	size_t big, done;

	g_load(g, RAX, i->a);
	g->acc = IR_NONE;
	op(g, 0x48, 0x85, 0xc0, 0x78, 0);		/* test %rax,%rax; js 1f */
	big = g->a.code.n;
	op(g, prefix, 0x48, 0x0f, 0x2a, 0xc0);		/* cvtsi2sd %rax,%xmm0 */
	op(g, 0xeb, 0);					/* jmp  2f */
	done = g->a.code.n;
	g->a.code.v[big - 1] = g->a.code.n - big;
	op(g, 0x48, 0x89, 0xc1);			/* 1: mov %rax,%rcx */
	op(g, 0x48, 0xd1, 0xe8, 0x83, 0xe1, 1);		/* shr  %rax; and $1,%ecx */
	op(g, 0x48, 0x09, 0xc8);			/* or   %rcx,%rax */
	op(g, prefix, 0x48, 0x0f, 0x2a, 0xc0);		/* cvtsi2sd %rax,%xmm0 */
	op(g, prefix, 0x0f, 0x58, 0xc0);		/* addsd %xmm0,%xmm0 */
	g->a.code.v[done - 1] = g->a.code.n - done;
	if (f32)
		op(g, 0xf3, 0x0f, 0x5a, 0xc0);		/* 2: cvtss2sd */
	g_store_f(g, 0, i->dst);
}

static void put_from_int(struct gen *g, const struct ir_ins *i)
{
	bool f32 = i->type == IR_F32;

	g_load(g, RAX, i->a);
	op(g, f32 ? 0xf3 : 0xf2, 0x48, 0x0f, 0x2a, 0xc0);	/* cvtsi2sd %rax,%xmm0 */
	if (f32)
		op(g, 0xf3, 0x0f, 0x5a, 0xc0);		/* cvtss2sd %xmm0,%xmm0 */
	g_store_f(g, 0, i->dst);
}

static void put_to_bool(struct gen *g)
{
	op(g, 0x66, 0x0f, 0xef, 0xc9);			/* pxor %xmm1,%xmm1 */
	op(g, 0x66, 0x0f, 0x2e, 0xc1);			/* ucomisd %xmm1,%xmm0 */
	op(g, 0x0f, 0x9a, 0xc0, 0x0f, 0x95, 0xc1);	/* setp %al; setne %cl */
	op(g, 0x08, 0xc8, 0x0f, 0xb6, 0xc0);		/* or   %cl,%al; movzbl %al,%eax */
}

static void put_to_int(struct gen *g, const struct ir_ins *i)
{
	size_t small, done;

	g_load_f(g, 0, i->a);
	g->acc = IR_NONE;
	if (i->type == IR_BOOL) {
		put_to_bool(g);
	} else if (i->type == IR_U64) {
		g_address(g, RAX, 0x43e0000000000000);	/* 2^63 */
		op(g, 0x66, 0x48, 0x0f, 0x6e, 0xc8);	/* movq %rax,%xmm1 */
		op(g, 0x66, 0x0f, 0x2e, 0xc1, 0x72, 0);	/* ucomisd %xmm1,%xmm0; jb 1f (also a NaN) */
		small = g->a.code.n;
		op(g, 0xf2, 0x0f, 0x5c, 0xc1);		/* subsd %xmm1,%xmm0 */
		op(g, 0xf2, 0x48, 0x0f, 0x2c, 0xc0);	/* cvttsd2si %xmm0,%rax */
		op(g, 0x48, 0x0f, 0xba, 0xf8, 63);	/* btc  $63,%rax */
		op(g, 0xeb, 0);				/* jmp  2f */
		done = g->a.code.n;
		g->a.code.v[small - 1] = g->a.code.n - small;
		op(g, 0xf2, 0x48, 0x0f, 0x2c, 0xc0);	/* 1: cvttsd2si %xmm0,%rax */
		g->a.code.v[done - 1] = g->a.code.n - done;
	} else {
		op(g, 0xf2, 0x48, 0x0f, 0x2c, 0xc0);	/* cvttsd2si %xmm0,%rax */
		g_wrap(g, i->type);
	}
	g_store(g, i->dst);
}

/* A double is its bytes already: a program that only moves them leaves the vector registers alone. */
static void put_from_raw(struct gen *g, const struct ir_ins *i)
{
	g_load(g, RAX, i->a);
	if (i->type == IR_F32) {
		op(g, 0x66, 0x0f, 0x6e, 0xc0);		/* movd %eax,%xmm0 */
		op(g, 0xf3, 0x0f, 0x5a, 0xc0);		/* cvtss2sd %xmm0,%xmm0 */
		g_store_f(g, 0, i->dst);
	} else if (g->places[i->dst].home == HOME_WORD) {
		g_store_word(g, RAX, g->places[i->dst].off);
	}
}

static void put_to_raw(struct gen *g, const struct ir_ins *i)
{
	g->acc = IR_NONE;				/* it follows no floats */
	if (i->type == IR_F32) {
		g_load_f(g, 0, i->a);
		op(g, 0xf2, 0x0f, 0x5a, 0xc0);		/* cvtsd2ss %xmm0,%xmm0 */
		op(g, 0x66, 0x0f, 0x7e, 0xc0);		/* movd %xmm0,%eax */
	} else {
		g_load(g, RAX, i->a);
	}
	g_store(g, i->dst);
}

bool g_float(struct gen *g, const struct ir_ins *i)
{
	switch (i->op) {
	case IR_I2F: put_from_int(g, i); return true;
	case IR_U2F: put_from_unsigned(g, i); return true;
	case IR_F2I: put_to_int(g, i); return true;
	case IR_RAW2F: put_from_raw(g, i); return true;
	case IR_F2RAW: put_to_raw(g, i); return true;
	case IR_F2F:
		g_load_f(g, 0, i->a);
		put_round(g, i->type);
		g_store_f(g, 0, i->dst);
		return true;
	}
	if (!ir_is_float(i->type) || i->op < IR_ADD || i->op > IR_GE)
		return false;
	if (i->op >= IR_EQ)
		put_compare(g, i);
	else
		put_arith(g, i);
	return true;
}
