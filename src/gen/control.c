/* SPDX-License-Identifier: MIT */
/* Branches and loops. */
#include "gen/emit.h"

static void put_test(struct gen *g, const struct ir_ins *i)
{
	const struct place *w = &g->places[i->a];

	if (w->home == HOME_REG && g->acc != i->a) {
		op(g, w->reg & 8 ? 0x4d : 0x48, 0x85, 0xc0 | (w->reg & 7) * 9);	/* test %reg,%reg */
	} else {
		g_load(g, RAX, i->a);
		op(g, 0x48, 0x85, 0xc0);		/* test %rax,%rax */
	}
	g_jcc(g, i->op == IR_JZ ? 4 : 5, i->label);
}

static void put_fault(struct gen *g, struct cold *c)
{
	const struct ir_ins *i = c->p;

	g_error(g, i, IR_ERR_FAULT);
	op(g, 0xe9);
	g_to_label(g, i->label);
}

/* No ring, no faults. */
static void put_if_fault(struct gen *g, const struct ir_ins *i)
{
	size_t none;
	struct cold *c;

	if (!(i->mask & g->bits))
		return;
	g->acc = IR_NONE;
	g_load_word(g, RCX, g->ring);
	op(g, 0x48, 0x85, 0xc9, 0x0f, 0x84);		/* test %rcx,%rcx; jz 1f */
	none = g_later(g);
	op(g, 0x48, 0x8b);				/* mov  scratch(%rcx),%rcx */
	g_mem(g, RCX, RCX, offsetof(struct ring_ref, scratch));
	g_address(g, RAX, i->mask);
	op(g, 0x48, 0x85);				/* test %rax,faults(%rcx) */
	g_mem(g, RAX, RCX, PROG_RUN + offsetof(struct prog_run, faults));
	c = g_cold(g, put_fault);
	c->p = i;
	op(g, 0x0f, 0x85);				/* jnz */
	c->from[0] = g_later(g);
	g_land(g, none, g->code.n);
}

static void put_loop(struct gen *g, const struct ir_ins *i)
{
	op(g, 0x48, 0xc7);				/* movq $0,rounds(%rsp) */
	g_rsp(g, 0, g->rounds[i->label]);
	g_u32(g, 0);
	g->heads[i->label] = g->code.n;
	g->acc = IR_NONE;
}

static void put_loop_end(struct gen *g, const struct ir_ins *i)
{
	uint64_t most = 0;

	for (size_t k = 0; k < g->now; k++)
		if (g->p->ins.v[k].op == IR_LOOP && g->p->ins.v[k].label == i->label)
			most = g->p->ins.v[k].imm;
	g->acc = IR_NONE;
	g_load_word(g, RAX, g->rounds[i->label]);
	op(g, 0x48, 0xff, 0xc0);			/* inc  %rax */
	g_store_word(g, RAX, g->rounds[i->label]);
	g_mov_imm(g, RCX, most);
	op(g, 0x48, 0x39, 0xc8, 0x0f, 0x82);		/* cmp  %rcx,%rax; jb head */
	g_land(g, g_later(g), g->heads[i->label]);
	g_error(g, i, IR_ERR_LOOP);
	g->labels[i->label] = g->code.n;
}

bool g_control(struct gen *g, const struct ir_ins *i)
{
	switch (i->op) {
	case IR_LABEL:
		g->labels[i->label] = g->code.n;
		g->acc = IR_NONE;
		return true;
	case IR_JMP:
		op(g, 0xe9);
		g_to_label(g, i->label);
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
		if (g->now + 1 < g->p->ins.n) {
			op(g, 0xe9);
			g_to_out(g);
		}
		g->acc = IR_NONE;
		return true;
	}
	return false;
}
