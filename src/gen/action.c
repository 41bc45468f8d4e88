/* SPDX-License-Identifier: MIT */
/* Events that consist of numbers, and the cells of every(), limit() and rate(). */
#include "gen/emit.h"

#include "base/err.h"

static bool has_text(const struct gen *g, const struct ir_ins *i)
{
	for (uint32_t k = 0; k < i->n; k++)
		if (ir_in_slot(g->p->args.v[i->first + k].type))
			return true;
	return false;
}

static bool depends_on_faults(const struct gen *g, const struct ir_ins *i)
{
	for (uint32_t k = 0; k < i->n; k++)
		if (g->p->args.v[i->first + k].mask & g->bits)
			return true;
	return false;
}

/* An event without text and without values whose read may have failed: written in line, to the CPU's ring. */
bool g_is_plain_event(const struct gen *g, const struct ir_ins *i)
{
	return !has_text(g, i) && !depends_on_faults(g, i);
}

static struct event_field field_of(struct gen *g, uint32_t r)
{
	const struct place *w = &g->places[r];

	if (w->home == HOME_IMM)
		return (struct event_field){ EVENT_IMM, 0, 8, w->imm };
	if (w->home == HOME_REG)
		return (struct event_field){ EVENT_REG, w->reg, 8, 0 };
	return (struct event_field){ EVENT_STACK, 0, 8, w->off - g->a.ops->red_zone };
}

/*
 * The event code skips a red zone below SP. So SP is moved up by a red zone around it: the part of the frame below SP is then
 * in that red zone, and no stack is wasted.
 */
static void put_event(struct gen *g, uint32_t id, const struct event_field *fields, uint32_t n)
{
	struct event_spec spec = g->env->event;
	uint8_t out[EVENT_CODE_MAX];
	int len;

	spec.id = id;
	spec.fields = fields;
	spec.nfields = n;
	g_move_sp(g, g->a.ops->red_zone);
	len = g->arch->emit_event(out, g->a.at + g->a.code.n, &spec);
	if (len < 0)
		g->error = g_refuse(g, "an event of so many values");
	else
		asm_bytes(&g->a, out, len);
	g_move_sp(g, -g->a.ops->red_zone);
}

static void put_emit(struct gen *g, const struct ir_ins *i)
{
	struct event_field fields[EVENT_FIELDS_MAX + 1];
	uint32_t n = 0;

	if (i->n >= EVENT_FIELDS_MAX) {
		g->error = g_refuse(g, "an event of so many values");
		return;
	}
	if (g->u->records.v[i->record].faulty)
		fields[n++] = (struct event_field){ EVENT_IMM, 0, 8, 0 };
	for (uint32_t k = 0; k < i->n; k++)
		fields[n++] = field_of(g, g->p->args.v[i->first + k].reg);
	put_event(g, gen_event_id(g->env, g->site, i->record), fields, n);
}

static void put_faulty_emit(struct gen *g, struct cold *c)
{
	g->now = c->n[0];
	g_call(g, c->p);
	ins(g, jump, c->then);
}

/* An event of numbers whose read may have failed. If no ring was taken so far, no read failed, and the in-line code is used. */
static void put_emit_either(struct gen *g, const struct ir_ins *i)
{
	struct cold *c = g_cold(g, put_faulty_emit);

	c->p = i;
	c->n[0] = g->now;
	ins(g, alu_imm, ASM_CMP, ASM_64, asm_at(ASM_SP, g->ring), 0);
	ins(g, branch, ASM_NE, c->here);
	put_emit(g, i);
	asm_bind(&g->a, c->then);
	g->acc = IR_NONE;
}

static void put_exit(struct gen *g, const struct ir_ins *i)
{
	put_emit(g, i);
	ins(g, jump, g->to_out);
	g->acc = IR_NONE;
}

static uint64_t cell(const struct gen *g, const struct ir_ins *i)
{
	return g->env->cells + 8ull * i->cell;
}

/* A = the cell before one was added to it */
static void put_add_one(struct gen *g)
{
	ins(g, imm, ASM_A, 1);
	ins(g, atomic_fetch_add, asm_at(ASM_B, 0), ASM_A);
}

static void put_every(struct gen *g, const struct ir_ins *i)
{
	ins(g, address, ASM_B, cell(g, i));
	put_add_one(g);
	ins(g, unary, ASM_INC, ASM_64, asm_in(ASM_A));
	ins(g, imm, ASM_C, 0);
	ins(g, imm, ASM_B, i->imm);
	ins(g, udiv, ASM_B);
	ins(g, imm, ASM_A, 0);
	ins(g, alu, ASM_TEST, ASM_64, ASM_C, ASM_C);
	ins(g, set, ASM_EQ, ASM_A);
	g_set(g, i->dst);
}

static void put_limit(struct gen *g, const struct ir_ins *i)
{
	asm_label over = asm_new_label(&g->a);

	ins(g, address, ASM_B, cell(g, i));
	ins(g, imm, ASM_C, i->imm);
	ins(g, load, ASM_U64, ASM_A, asm_at(ASM_B, 0));
	ins(g, alu, ASM_CMP, ASM_64, ASM_A, ASM_C);
	ins(g, branch_short, ASM_UGE, over);
	put_add_one(g);
	asm_bind(&g->a, over);
	ins(g, alu, ASM_CMP, ASM_64, ASM_A, ASM_C);
	ins(g, set, ASM_ULT, ASM_A);
	ins(g, extend, ASM_U8, ASM_A, ASM_A);
	g_set(g, i->dst);
}

/*
 * Upper half of the cell: the current second; lower half: hits let through in it. A: the cell as loaded; C: the cell with the
 * current second, before this hit is added.
 */
static void put_rate(struct gen *g, const struct ir_ins *i)
{
	uint32_t most = i->imm > UINT32_MAX ? UINT32_MAX : (uint32_t)i->imm;
	asm_label again = asm_new_label(&g->a), same = asm_new_label(&g->a), now = asm_new_label(&g->a);
	asm_label no = asm_new_label(&g->a), done = asm_new_label(&g->a);

	g_clock(g, 0);
	ins(g, imm, ASM_C, 0);
	ins(g, imm, ASM_B, 1000000000);
	ins(g, udiv, ASM_B);
	ins(g, shift, ASM_SHL, ASM_64, ASM_A, 32);
	g_store_word(g, ASM_A, g->out);
	ins(g, address, ASM_B, cell(g, i));
	ins(g, load, ASM_U64, ASM_A, asm_at(ASM_B, 0));
	asm_bind(&g->a, again);
	ins(g, move, ASM_64, ASM_C, ASM_A);
	ins(g, alu_from, ASM_XOR, ASM_64, ASM_C, asm_at(ASM_SP, g->out));
	ins(g, shift, ASM_SHR, ASM_64, ASM_C, 32);
	ins(g, branch_short, ASM_EQ, same);
	g_load_word(g, ASM_C, g->out);
	ins(g, jump_short, now);
	asm_bind(&g->a, same);
	ins(g, move, ASM_64, ASM_C, ASM_A);
	asm_bind(&g->a, now);
	ins(g, alu_wide, ASM_CMP, ASM_32, ASM_C, most);
	ins(g, branch_short, ASM_UGE, no);
	ins(g, unary, ASM_INC, ASM_64, asm_in(ASM_C));
	ins(g, atomic_cas, asm_at(ASM_B, 0), ASM_C);
	ins(g, branch_short, ASM_NE, again);
	ins(g, imm, ASM_A, 1);
	ins(g, jump_short, done);
	asm_bind(&g->a, no);
	ins(g, imm, ASM_A, 0);
	asm_bind(&g->a, done);
	g->acc = IR_NONE;
	g_set(g, i->dst);
}

static void put_enable(struct gen *g, const struct ir_ins *i)
{
	asm_label same = asm_new_label(&g->a);

	g_load(g, ASM_A, i->a);
	ins(g, imm, ASM_C, 0);
	ins(g, alu, ASM_TEST, ASM_64, ASM_A, ASM_A);
	ins(g, set, ASM_NE, ASM_C);
	ins(g, address, ASM_B, g->env->enabled + 4ull * i->imm);
	ins(g, alu_to, ASM_CMP, ASM_8, asm_at(ASM_B, 0), ASM_C);
	ins(g, branch_short, ASM_EQ, same);
	ins(g, atomic_add_imm, asm_at(ASM_B, 0), GEN_SWITCHED);
	ins(g, store, ASM_8, ASM_C, asm_at(ASM_B, 0));
	asm_bind(&g->a, same);
}

bool g_action(struct gen *g, const struct ir_ins *i)
{
	switch (i->op) {
	case IR_EMIT:
		if (g_is_plain_event(g, i))
			put_emit(g, i);
		else if (!has_text(g, i) && i->n < EVENT_FIELDS_MAX)
			put_emit_either(g, i);
		else
			return false;
		return true;
	case IR_EXIT:
		put_exit(g, i);
		return true;
	case IR_EVERY:
		put_every(g, i);
		return true;
	case IR_LIMIT:
		put_limit(g, i);
		return true;
	case IR_RATE:
		put_rate(g, i);
		return true;
	case IR_ENABLE:
		put_enable(g, i);
		return true;
	}
	return false;
}
