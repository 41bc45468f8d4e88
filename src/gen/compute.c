/* SPDX-License-Identifier: MIT */
/* Integer instructions. Each takes its operand a in A and leaves its result in A. */
#include "gen/emit.h"

/* Truncates A to a type and extends it to 64 bits. */
void g_wrap(struct gen *g, uint8_t type)
{
	switch (type) {
	case IR_I8: case IR_CHAR:
		ins(g, extend, ASM_I8, ASM_A, ASM_A);
		break;
	case IR_I16:
		ins(g, extend, ASM_I16, ASM_A, ASM_A);
		break;
	case IR_I32:
		ins(g, extend, ASM_I32, ASM_A, ASM_A);
		break;
	case IR_U8:
		ins(g, extend, ASM_U8, ASM_A, ASM_A);
		break;
	case IR_U16:
		ins(g, extend, ASM_U16, ASM_A, ASM_A);
		break;
	case IR_U32:
		ins(g, extend, ASM_U32, ASM_A, ASM_A);
		break;
	case IR_BOOL:
		ins(g, alu, ASM_TEST, ASM_64, ASM_A, ASM_A);
		ins(g, set, ASM_NE, ASM_A);
		ins(g, extend, ASM_U8, ASM_A, ASM_A);
		break;
	}
}

/* A op= b */
static void put_alu(struct gen *g, uint32_t b, enum asm_alu op)
{
	const struct place *w = &g->places[b];
	int32_t imm;

	if (g->acc == b)			/* both operands are the same register */
		ins(g, alu_from, op, ASM_64, ASM_A, asm_in(ASM_A));
	else if (g_is_imm32(g, b, &imm))
		ins(g, alu_imm, op, ASM_64, asm_in(ASM_A), imm);
	else if (w->home == HOME_REG)
		ins(g, alu_from, op, ASM_64, ASM_A, asm_in(ASM_SITE + w->reg));
	else if (w->home == HOME_WORD) {
		ins(g, alu_from, op, ASM_64, ASM_A, asm_at(ASM_SP, w->off));
	} else {
		g_load(g, ASM_B, b);
		ins(g, alu_from, op, ASM_64, ASM_A, asm_in(ASM_B));
	}
}

static void put_mul(struct gen *g, uint32_t b)
{
	int32_t imm;

	if (g->acc != b && g_is_imm32(g, b, &imm)) {
		ins(g, mul_imm, ASM_64, ASM_A, ASM_A, imm);
		return;
	}
	g_load(g, ASM_B, b);
	ins(g, mul, ASM_A, ASM_B);
}

static void put_shift(struct gen *g, const struct ir_ins *i)
{
	bool narrow = i->type == IR_I32 || i->type == IR_U32;
	enum asm_shift how = i->op == IR_SHL ? ASM_SHL : ir_is_unsigned(i->type) ? ASM_SHR : ASM_SAR;

	if (g->places[i->b].home == HOME_IMM) {
		ins(g, shift, how, ASM_64, ASM_A, g->places[i->b].imm & (narrow ? 31 : 63));
		return;
	}
	g_load(g, ASM_B, i->b);
	if (narrow)
		ins(g, alu_imm, ASM_AND, ASM_32, asm_in(ASM_B), 31);
	ins(g, shift_by, how, ASM_A);
}

/* Cold part: the result is 0, and an error is counted. */
static void put_div_error(struct gen *g, struct cold *c)
{
	ins(g, imm, ASM_A, 0);
	g_error(g, c->p, IR_ERR_DIV);
	ins(g, jump, c->then);
}

/* Whether register r may have the value v: if so, a divisor is compared with 0, and with -1 because INT_MIN / -1 overflows. */
static bool may_be(const struct gen *g, uint32_t r, int64_t v)
{
	const struct place *w = &g->places[r];

	return w->home != HOME_IMM || !w->fixed || w->imm == v;
}

static void put_divide(struct gen *g, const struct ir_ins *i)
{
	bool sign = !ir_is_unsigned(i->type), by_zero = may_be(g, i->b, 0), by_minus_one = sign && may_be(g, i->b, -1);
	struct cold c = { 0 };

	g_load(g, ASM_B, i->b);
	if (by_zero || by_minus_one) {
		c = *g_cold(g, put_div_error);
		g->cold.v[g->cold.n - 1].p = i;
	}
	if (by_zero) {
		ins(g, alu, ASM_TEST, ASM_64, ASM_B, ASM_B);
		ins(g, branch, ASM_EQ, c.here);
	}
	if (by_minus_one) {
		asm_label fine = asm_new_label(&g->a);

		ins(g, alu_imm, ASM_CMP, ASM_64, asm_in(ASM_B), -1);
		ins(g, branch_short, ASM_NE, fine);
		ins(g, imm, ASM_C, i->type == IR_I32 ? (uint64_t)INT32_MIN : (uint64_t)INT64_MIN);
		ins(g, alu, ASM_CMP, ASM_64, ASM_A, ASM_C);
		ins(g, branch, ASM_EQ, c.here);
		asm_bind(&g->a, fine);
	}
	if (sign) {
		ins(g, div, ASM_B);
	} else {
		ins(g, imm, ASM_C, 0);
		ins(g, udiv, ASM_B);
	}
	if (i->op == IR_MOD)
		ins(g, move, ASM_64, ASM_A, ASM_C);
	if (c.then)
		asm_bind(&g->a, c.then);
}

static void put_arith(struct gen *g, const struct ir_ins *i)
{
	g_load(g, ASM_A, i->a);
	switch (i->op) {
	case IR_ADD: put_alu(g, i->b, ASM_ADD); break;
	case IR_OR: put_alu(g, i->b, ASM_OR); break;
	case IR_AND: put_alu(g, i->b, ASM_AND); break;
	case IR_SUB: put_alu(g, i->b, ASM_SUB); break;
	case IR_XOR: put_alu(g, i->b, ASM_XOR); break;
	case IR_MUL: put_mul(g, i->b); break;
	case IR_DIV: case IR_MOD: put_divide(g, i); break;
	case IR_SHL: case IR_SHR: put_shift(g, i); break;
	case IR_NEG: ins(g, unary, ASM_MINUS, ASM_64, asm_in(ASM_A)); break;
	case IR_NOT: ins(g, unary, ASM_NOT, ASM_64, asm_in(ASM_A)); break;
	}
	g_wrap(g, i->type);
	g_set(g, i->dst);
}

enum asm_cond g_condition(const struct ir_ins *i)
{
	bool u = ir_is_unsigned(i->type);

	switch (i->op) {
	case IR_EQ: return ASM_EQ;
	case IR_NE: return ASM_NE;
	case IR_LT: return u ? ASM_ULT : ASM_LT;
	case IR_LE: return u ? ASM_ULE : ASM_LE;
	case IR_GT: return u ? ASM_UGT : ASM_GT;
	default: return u ? ASM_UGE : ASM_GE;
	}
}

/* Set the flags from a - b. A machine register is compared where it is. */
static void put_compare_operands(struct gen *g, const struct ir_ins *i)
{
	const struct place *a = &g->places[i->a];
	int32_t imm;

	if (a->home == HOME_REG && g->acc != i->a && g_is_imm32(g, i->b, &imm)) {
		ins(g, alu_imm, ASM_CMP, ASM_64, asm_in(ASM_SITE + a->reg), imm);
		return;
	}
	g_load(g, ASM_A, i->a);
	put_alu(g, i->b, ASM_CMP);
}

static void put_compare(struct gen *g, const struct ir_ins *i)
{
	const struct ir_ins *next = g->now + 1 < g->p->ins.n ? &g->p->ins.v[g->now + 1] : NULL;
	enum asm_cond holds = g_condition(i);

	put_compare_operands(g, i);
	if (next && (next->op == IR_JZ || next->op == IR_JNZ) && next->a == i->dst && g->reads[i->dst] == 1) {
		ins(g, branch, next->op == IR_JZ ? asm_not(holds) : holds, g_label(g, next->label));
		g->now++;
		return;
	}
	ins(g, set, holds, ASM_A);
	ins(g, extend, ASM_U8, ASM_A, ASM_A);
	g_set(g, i->dst);
}

static void put_swap(struct gen *g, const struct ir_ins *i)
{
	g_load(g, ASM_A, i->a);
	if (i->type == IR_U16)
		ins(g, swap, ASM_16, ASM_A);
	else if (i->type == IR_U32)
		ins(g, swap, ASM_32, ASM_A);
	else if (i->type == IR_U64)
		ins(g, swap, ASM_64, ASM_A);
	g_set(g, i->dst);
}

static void put_bits(struct gen *g, const struct ir_ins *i)
{
	unsigned int lo = i->imm & 63, n = i->imm >> 8 & 127;
	enum asm_shift down = ir_is_unsigned(i->type) ? ASM_SHR : ASM_SAR;

	g_load(g, ASM_A, i->a);
	if (n >= 64) {
		ins(g, shift, ASM_SHR, ASM_64, ASM_A, lo);
	} else if (lo + n > 64) {
		ins(g, shift, ASM_SHR, ASM_64, ASM_A, lo);
		ins(g, shift, ASM_SHL, ASM_64, ASM_A, 64 - n);
		ins(g, shift, down, ASM_64, ASM_A, 64 - n);
	} else {
		ins(g, shift, ASM_SHL, ASM_64, ASM_A, 64 - lo - n);
		ins(g, shift, down, ASM_64, ASM_A, 64 - n);
	}
	g_set(g, i->dst);
}

bool g_compute(struct gen *g, const struct ir_ins *i)
{
	if (ir_is_float(i->type) && i->op >= IR_ADD && i->op <= IR_GE)
		return false;
	switch (i->op) {
	case IR_NOP:
		return true;
	case IR_CONST: case IR_FCONST:
		if (g->places[i->dst].home == HOME_IMM)
			return true;
		ins(g, imm, ASM_A, i->imm);
		g_set(g, i->dst);
		return true;
	case IR_MOV:
		g_load(g, ASM_A, i->a);
		g_set(g, i->dst);
		return true;
	case IR_CAST:
		g_load(g, ASM_A, i->a);
		g_wrap(g, i->type);
		g_set(g, i->dst);
		return true;
	case IR_BSWAP:
		put_swap(g, i);
		return true;
	case IR_BITS:
		put_bits(g, i);
		return true;
	case IR_EQ: case IR_NE: case IR_LT: case IR_LE: case IR_GT: case IR_GE:
		put_compare(g, i);
		return true;
	}
	if (i->op < IR_ADD || i->op > IR_NOT)
		return false;
	put_arith(g, i);
	return true;
}
