/* SPDX-License-Identifier: MIT */
/* Branches and loops. */
#include "gen/emit.h"

static void put_test(struct gen *g, const struct ir_ins *i)
{
	const struct place *w = &g->places[i->a];

	if (w->home == HOME_REG && g->acc != i->a) {
		ins(g, alu, ASM_TEST, ASM_64, ASM_SITE + w->reg, ASM_SITE + w->reg);
	} else {
		g_load(g, ASM_A, i->a);
		ins(g, alu, ASM_TEST, ASM_64, ASM_A, ASM_A);
	}
	ins(g, branch, i->op == IR_JZ ? ASM_EQ : ASM_NE, g_label(g, i->label));
}

static void put_fault(struct gen *g, struct cold *c)
{
	const struct ir_ins *i = c->p;

	g_error(g, i, IR_ERR_FAULT);
	ins(g, jump, g_label(g, i->label));
}

/* Without a ring there were no faults. */
static void put_if_fault(struct gen *g, const struct ir_ins *i)
{
	asm_label none;
	struct cold *c;

	if (!(i->mask & g->bits))
		return;
	none = asm_new_label(&g->a);
	g->acc = IR_NONE;
	g_load_word(g, ASM_B, g->ring);
	ins(g, alu, ASM_TEST, ASM_64, ASM_B, ASM_B);
	ins(g, branch, ASM_EQ, none);
	ins(g, load, ASM_U64, ASM_B, asm_far(ASM_B, offsetof(struct ring_ref, scratch)));
	ins(g, address, ASM_A, i->mask);
	ins(g, alu_to, ASM_TEST, ASM_64, asm_far(ASM_B, PROG_RUN + offsetof(struct prog_run, faults)), ASM_A);
	c = g_cold(g, put_fault);
	c->p = i;
	ins(g, branch, ASM_NE, c->here);
	asm_bind(&g->a, none);
}

static void put_loop(struct gen *g, const struct ir_ins *i)
{
	g_zero_word(g, g->rounds[i->label]);
	g->heads[i->label] = asm_new_label(&g->a);
	asm_bind(&g->a, g->heads[i->label]);
	g->acc = IR_NONE;
}

static void put_loop_end(struct gen *g, const struct ir_ins *i)
{
	uint64_t most = 0;

	for (size_t k = 0; k < g->now; k++)
		if (g->p->ins.v[k].op == IR_LOOP && g->p->ins.v[k].label == i->label)
			most = g->p->ins.v[k].imm;
	g->acc = IR_NONE;
	g_load_word(g, ASM_A, g->rounds[i->label]);
	ins(g, unary, ASM_INC, ASM_64, asm_in(ASM_A));
	g_store_word(g, ASM_A, g->rounds[i->label]);
	ins(g, imm, ASM_B, most);
	ins(g, alu, ASM_CMP, ASM_64, ASM_A, ASM_B);
	ins(g, branch, ASM_ULT, g->heads[i->label]);
	g_error(g, i, IR_ERR_LOOP);
	asm_bind(&g->a, g_label(g, i->label));
}

bool g_control(struct gen *g, const struct ir_ins *i)
{
	switch (i->op) {
	case IR_LABEL:
		asm_bind(&g->a, g_label(g, i->label));
		g->acc = IR_NONE;
		return true;
	case IR_JMP:
		ins(g, jump, g_label(g, i->label));
		g->acc = IR_NONE;
		return true;
	case IR_JZ: case IR_JNZ:
		put_test(g, i);
		return true;
	case IR_IF_FAULT:
		put_if_fault(g, i);
		return true;
	case IR_LOOP:
		put_loop(g, i);
		return true;
	case IR_LOOP_END:
		put_loop_end(g, i);
		return true;
	case IR_RET:
		if (g->p->where == IR_WHERE_ENTRY)
			g_pair_enter(g, i);
		if (g->now + 1 < g->p->ins.n)
			ins(g, jump, g->to_out);
		g->acc = IR_NONE;
		return true;
	}
	return false;
}
