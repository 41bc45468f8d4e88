/* SPDX-License-Identifier: MIT */
/* Integers. Each instruction takes a in rax and leaves its result there. */
#include "gen/emit.h"

/* rax is cut to a type and extended again. */
void g_wrap(struct gen *g, uint8_t type)
{
	switch (type) {
	case IR_I8: case IR_CHAR:
		op(g, 0x48, 0x0f, 0xbe, 0xc0);		/* movsbq %al,%rax */
		break;
	case IR_I16:
		op(g, 0x48, 0x0f, 0xbf, 0xc0);		/* movswq %ax,%rax */
		break;
	case IR_I32:
		op(g, 0x48, 0x98);			/* cltq */
		break;
	case IR_U8:
		op(g, 0x0f, 0xb6, 0xc0);		/* movzbl %al,%eax */
		break;
	case IR_U16:
		op(g, 0x0f, 0xb7, 0xc0);		/* movzwl %ax,%eax */
		break;
	case IR_U32:
		op(g, 0x89, 0xc0);			/* mov  %eax,%eax */
		break;
	case IR_BOOL:
		op(g, 0x48, 0x85, 0xc0);		/* test %rax,%rax */
		op(g, 0x0f, 0x95, 0xc0);		/* setne %al */
		op(g, 0x0f, 0xb6, 0xc0);		/* movzbl %al,%eax */
		break;
	}
}

/* opcode: that of "op r/m,reg"; digit: of the form with an immediate. rax op= b. */
static void put_alu(struct gen *g, uint32_t b, uint8_t opcode, uint8_t digit)
{
	const struct place *w = &g->places[b];
	int32_t imm;

	if (g->acc == b) {			/* both are the same */
		op(g, 0x48, opcode, 0xc0);
	} else if (g_is_imm32(g, b, &imm)) {
		if (imm == (int8_t)imm) {
			op(g, 0x48, 0x83, 0xc0 | digit << 3, imm);
		} else {
			op(g, 0x48, 0x81, 0xc0 | digit << 3);
			g_u32(g, imm);
		}
	} else if (w->home == HOME_REG) {
		op(g, 0x48 | (w->reg & 8) >> 3, opcode, 0xc0 | (w->reg & 7));
	} else if (w->home == HOME_WORD) {
		op(g, 0x48, opcode);
		g_rsp(g, RAX, w->off);
	} else {
		g_load(g, RCX, b);
		op(g, 0x48, opcode, 0xc0 | RCX);
	}
}

static void put_mul(struct gen *g, uint32_t b)
{
	int32_t imm;

	if (g->acc != b && g_is_imm32(g, b, &imm)) {
		op(g, 0x48, 0x69, 0xc0);		/* imul $imm,%rax,%rax */
		g_u32(g, imm);
		return;
	}
	g_load(g, RCX, b);
	op(g, 0x48, 0x0f, 0xaf, 0xc1);			/* imul %rcx,%rax */
}

static void put_shift(struct gen *g, const struct ir_ins *i)
{
	bool narrow = i->type == IR_I32 || i->type == IR_U32;
	uint8_t how = i->op == IR_SHL ? 0xe0 : ir_is_unsigned(i->type) ? 0xe8 : 0xf8;

	if (g->places[i->b].home == HOME_IMM) {
		op(g, 0x48, 0xc1, how, g->places[i->b].imm & (narrow ? 31 : 63));
		return;
	}
	g_load(g, RCX, i->b);
	if (narrow)
		op(g, 0x83, 0xe1, 31);			/* and  $31,%ecx */
	op(g, 0x48, 0xd3, how);
}

/* Behind the end: the answer is 0, and it is counted. */
static void put_div_error(struct gen *g, struct cold *c)
{
	op(g, 0x31, 0xc0);				/* xor  %eax,%eax */
	g_error(g, c->p, IR_ERR_DIV);
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
}

/* What only some divisors need to be looked at for: 0, and -1 of what has no positive counterpart. */
static bool may_be(const struct gen *g, uint32_t r, int64_t v)
{
	const struct place *w = &g->places[r];

	return w->home != HOME_IMM || !w->fixed || w->imm == v;
}

static void put_divide(struct gen *g, const struct ir_ins *i)
{
	bool sign = !ir_is_unsigned(i->type);
	size_t zero = 0, least = 0;

	g_load(g, RCX, i->b);
	if (may_be(g, i->b, 0)) {
		op(g, 0x48, 0x85, 0xc9, 0x0f, 0x84);	/* test %rcx,%rcx; jz error */
		zero = g_later(g);
	}
	if (sign && may_be(g, i->b, -1)) {
		size_t fine;

		op(g, 0x48, 0x83, 0xf9, 0xff, 0x75, 0);	/* cmp $-1,%rcx; jne 1f */
		fine = g->code.n;
		g_mov_imm(g, RDX, i->type == IR_I32 ? (uint64_t)INT32_MIN : (uint64_t)INT64_MIN);
		op(g, 0x48, 0x39, 0xd0, 0x0f, 0x84);	/* cmp  %rdx,%rax; je error */
		least = g_later(g);
		g->code.v[fine - 1] = g->code.n - fine;
	}
	if (sign)
		op(g, 0x48, 0x99, 0x48, 0xf7, 0xf9);	/* 1: cqto; idiv %rcx */
	else
		op(g, 0x31, 0xd2, 0x48, 0xf7, 0xf1);	/* xor  %edx,%edx; div %rcx */
	if (i->op == IR_MOD)
		op(g, 0x48, 0x89, 0xd0);		/* mov  %rdx,%rax */
	if (zero || least) {
		struct cold *c = g_cold(g, put_div_error);

		c->p = i;
		c->from[0] = zero;
		c->from[1] = least;
		c->back = g->code.n;
	}
}

static void put_arith(struct gen *g, const struct ir_ins *i)
{
	g_load(g, RAX, i->a);
	switch (i->op) {
	case IR_ADD: put_alu(g, i->b, 0x03, 0); break;
	case IR_OR:  put_alu(g, i->b, 0x0b, 1); break;
	case IR_AND: put_alu(g, i->b, 0x23, 4); break;
	case IR_SUB: put_alu(g, i->b, 0x2b, 5); break;
	case IR_XOR: put_alu(g, i->b, 0x33, 6); break;
	case IR_MUL: put_mul(g, i->b); break;
	case IR_DIV: case IR_MOD: put_divide(g, i); break;
	case IR_SHL: case IR_SHR: put_shift(g, i); break;
	case IR_NEG: op(g, 0x48, 0xf7, 0xd8); break;	/* neg  %rax */
	case IR_NOT: op(g, 0x48, 0xf7, 0xd0); break;	/* not  %rax */
	}
	g_wrap(g, i->type);
	g_set(g, i->dst);
}

/* Condition code for what holds. */
int g_condition(const struct ir_ins *i)
{
	bool u = ir_is_unsigned(i->type);

	switch (i->op) {
	case IR_EQ: return 4;
	case IR_NE: return 5;
	case IR_LT: return u ? 2 : 12;
	case IR_LE: return u ? 6 : 14;
	case IR_GT: return u ? 7 : 15;
	default: return u ? 3 : 13;
	}
}

/* Set the flags from a - b. A machine register is compared where it is. */
static void put_compare_operands(struct gen *g, const struct ir_ins *i)
{
	const struct place *a = &g->places[i->a];
	int32_t imm;

	if (a->home == HOME_REG && g->acc != i->a && g_is_imm32(g, i->b, &imm)) {
		if (imm == (int8_t)imm) {
			op(g, 0x48 | (a->reg & 8) >> 3, 0x83, 0xf8 | (a->reg & 7), imm);
		} else {
			op(g, 0x48 | (a->reg & 8) >> 3, 0x81, 0xf8 | (a->reg & 7));
			g_u32(g, imm);
		}
		return;
	}
	g_load(g, RAX, i->a);
	put_alu(g, i->b, 0x3b, 7);
}

static void put_compare(struct gen *g, const struct ir_ins *i)
{
	const struct ir_ins *next = g->now + 1 < g->p->ins.n ? &g->p->ins.v[g->now + 1] : NULL;

	put_compare_operands(g, i);
	if (next && (next->op == IR_JZ || next->op == IR_JNZ) && next->a == i->dst && g->reads[i->dst] == 1) {
		g_jcc(g, g_condition(i) ^ (next->op == IR_JZ), next->label);
		g->now++;
		return;
	}
	op(g, 0x0f, 0x90 | g_condition(i), 0xc0);		/* setcc %al */
	op(g, 0x0f, 0xb6, 0xc0);			/* movzbl %al,%eax */
	g_set(g, i->dst);
}

static void put_swap(struct gen *g, const struct ir_ins *i)
{
	g_load(g, RAX, i->a);
	if (i->type == IR_U16)
		op(g, 0x66, 0xc1, 0xc0, 8, 0x0f, 0xb7, 0xc0);	/* rol $8,%ax; movzwl %ax,%eax */
	else if (i->type == IR_U32)
		op(g, 0x0f, 0xc8);			/* bswap %eax */
	else if (i->type == IR_U64)
		op(g, 0x48, 0x0f, 0xc8);		/* bswap %rax */
	g_set(g, i->dst);
}

static void put_bits(struct gen *g, const struct ir_ins *i)
{
	unsigned int lo = i->imm & 63, n = i->imm >> 8 & 127;

	g_load(g, RAX, i->a);
	if (n >= 64) {
		op(g, 0x48, 0xc1, 0xe8, lo);		/* shr  $lo,%rax */
	} else if (lo + n > 64) {
		op(g, 0x48, 0xc1, 0xe8, lo);
		op(g, 0x48, 0xc1, 0xe0, 64 - n);
		op(g, 0x48, 0xc1, ir_is_unsigned(i->type) ? 0xe8 : 0xf8, 64 - n);
	} else {
		op(g, 0x48, 0xc1, 0xe0, 64 - lo - n);	/* shl */
		op(g, 0x48, 0xc1, ir_is_unsigned(i->type) ? 0xe8 : 0xf8, 64 - n);	/* shr, sar */
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
		g_mov_imm(g, RAX, i->imm);
		g_set(g, i->dst);
		return true;
	case IR_MOV:
		g_load(g, RAX, i->a);
		g_set(g, i->dst);
		return true;
	case IR_CAST:
		g_load(g, RAX, i->a);
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
