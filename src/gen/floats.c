/* SPDX-License-Identifier: MIT */
/*
 * Floating point, in V0 and V1. The traced program's rounding mode, exception masks and sticky flags are saved and replaced
 * while clause code with floats runs: the program may have enabled a signal for each inexact result.
 */
#include "gen/emit.h"

static void put_round(struct gen *g, uint8_t type)
{
	if (type != IR_F32)
		return;
	ins(g, narrow, ASM_V0, ASM_V0);
	ins(g, widen, ASM_V0, ASM_V0);
}

static void put_arith(struct gen *g, const struct ir_ins *i)
{
	static const uint8_t how[] = { [IR_ADD] = ASM_FADD, [IR_MUL] = ASM_FMUL, [IR_SUB] = ASM_FSUB, [IR_DIV] = ASM_FDIV };

	g_load_f(g, ASM_V0, i->a);
	if (i->op == IR_NEG) {
		ins(g, vget, ASM_64, ASM_A, ASM_V0);
		ins(g, bit_flip, ASM_A, 63);
		ins(g, vset, ASM_64, ASM_V0, ASM_A);
		g->acc = IR_NONE;
	} else {
		g_load_f(g, ASM_V1, i->b);
		ins(g, farith, how[i->op], ASM_V0, ASM_V1);
	}
	put_round(g, i->type);
	g_store_f(g, ASM_V0, i->dst);
}

/* ASM_FGT and ASM_FGE are false if an operand is a NaN, so a < b is compiled as b > a. */
static void put_compare(struct gen *g, const struct ir_ins *i)
{
	bool swap = i->op == IR_LT || i->op == IR_LE;

	g_load_f(g, ASM_V0, swap ? i->b : i->a);
	g_load_f(g, ASM_V1, swap ? i->a : i->b);
	ins(g, fcmp, ASM_V0, ASM_V1);
	if (i->op == IR_EQ || i->op == IR_NE) {
		ins(g, fset_equal, true);
		if (i->op == IR_NE)
			ins(g, alu_imm, ASM_XOR, ASM_8, asm_in(ASM_A), 1);
	} else {
		ins(g, set, i->op == IR_LT || i->op == IR_GT ? ASM_FGT : ASM_FGE, ASM_A);
	}
	ins(g, extend, ASM_U8, ASM_A, ASM_A);
	g_store(g, i->dst);
}

static void put_from_unsigned(struct gen *g, const struct ir_ins *i)
{
	g_load(g, ASM_A, i->a);
	g->acc = IR_NONE;
	ins(g, from_unsigned, i->type == IR_F32);
	g_store_f(g, ASM_V0, i->dst);
}

static void put_from_int(struct gen *g, const struct ir_ins *i)
{
	g_load(g, ASM_A, i->a);
	ins(g, from_int, i->type == IR_F32);
	g_store_f(g, ASM_V0, i->dst);
}

static void put_to_int(struct gen *g, const struct ir_ins *i)
{
	g_load_f(g, ASM_V0, i->a);
	g->acc = IR_NONE;
	if (i->type == IR_BOOL) {
		ins(g, fzero, ASM_V1);
		ins(g, fcmp, ASM_V0, ASM_V1);
		ins(g, fset_equal, false);
		ins(g, extend, ASM_U8, ASM_A, ASM_A);
	} else if (i->type == IR_U64) {
		ins(g, to_unsigned);
	} else {
		ins(g, to_int);
		g_wrap(g, i->type);
	}
	g_store(g, i->dst);
}

/* A double is kept as its 8 bytes: clause code that only moves doubles does not use vector registers. */
static void put_from_raw(struct gen *g, const struct ir_ins *i)
{
	g_load(g, ASM_A, i->a);
	if (i->type == IR_F32) {
		ins(g, vset, ASM_32, ASM_V0, ASM_A);
		ins(g, widen, ASM_V0, ASM_V0);
		g_store_f(g, ASM_V0, i->dst);
	} else if (g->places[i->dst].home == HOME_WORD) {
		g_store_word(g, ASM_A, g->places[i->dst].off);
	}
}

static void put_to_raw(struct gen *g, const struct ir_ins *i)
{
	g->acc = IR_NONE;				/* g_load_f() and g_store_f() don't keep it up to date */
	if (i->type == IR_F32) {
		g_load_f(g, ASM_V0, i->a);
		ins(g, narrow, ASM_V0, ASM_V0);
		ins(g, vget, ASM_32, ASM_A, ASM_V0);
	} else {
		g_load(g, ASM_A, i->a);
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
		g_load_f(g, ASM_V0, i->a);
		put_round(g, i->type);
		g_store_f(g, ASM_V0, i->dst);
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
