/* SPDX-License-Identifier: MIT */
/*
 * Loads. An address that lowering knows to be readable (IR_GOOD) is loaded plainly; so is one above the stack pointer, if it
 * is in the same page (above the top of a coroutine's stack the next page may be unmapped). Any other address is compared with
 * the ranges that stay readable as long as the traced program runs (struct gen_good): with the first range in line, with the
 * stack and the other ranges in a cold part. An address in none of them is read by the blob. The CPU predicts these branches,
 * so a chain of pointers waits for its loads only.
 */
#include "gen/emit.h"

#define STACK_ABOVE 2040

/* Integers are sign- or zero-extended; of a float the bits are loaded. */
static enum asm_type load_type(const struct ir_ins *i)
{
	static const uint8_t how[] = {
		[IR_I8] = ASM_I8, [IR_I16] = ASM_I16, [IR_I32] = ASM_I32, [IR_I64] = ASM_U64, [IR_U8] = ASM_U8, [IR_U16] = ASM_U16,
		[IR_U32] = ASM_U32, [IR_U64] = ASM_U64, [IR_F32] = ASM_U32, [IR_F64] = ASM_U64,
	};
	uint8_t type = i->type == IR_BOOL ? IR_U8 : i->type == IR_CHAR ? IR_I8 : i->type > IR_F64 ? IR_U64 : i->type;

	return how[type];
}

/* A = the value at A + off. */
static void put_load(struct gen *g, const struct ir_ins *i, int32_t off)
{
	ins(g, load, load_type(i), ASM_A, asm_far(ASM_A, off));
}

/* A: the loaded value. */
static void put_result(struct gen *g, const struct ir_ins *i)
{
	if (i->type == IR_BOOL)
		g_wrap(g, IR_BOOL);
	if (!ir_is_float(i->type)) {
		g_set(g, i->dst);
		return;
	}
	g->acc = IR_NONE;
	if (i->type == IR_F64) {
		g_store_word(g, ASM_A, g->places[i->dst].off);
		return;
	}
	ins(g, vset, ASM_32, ASM_V0, ASM_A);
	ins(g, widen, ASM_V0, ASM_V0);
	g_store_f(g, ASM_V0, i->dst);
}

static void put_plain(struct gen *g, const struct ir_ins *i)
{
	g_load(g, ASM_A, i->a);
	if (i->imm != (int32_t)i->imm) {
		ins(g, address, ASM_B, i->imm);
		ins(g, alu, ASM_ADD, ASM_64, ASM_A, ASM_B);
	}
	put_load(g, i, i->imm == (int32_t)i->imm ? i->imm : 0);
	put_result(g, i);
}

/* A: the pointer. The blob reads, and stores the value in the word of the destination. */
static void put_checked(struct gen *g, const struct ir_ins *i)
{
	g_store_word(g, ASM_A, g->out);
	g_heavy(g, i);
	g_load_word(g, ASM_A, g->places[i->dst].off);
}

/* B: a range. C = offset in the range of the address to load from. ULT: it is in the range. */
static void put_is_in(struct gen *g, const struct ir_ins *i)
{
	ins(g, lea, ASM_64, ASM_C, asm_far(ASM_A, i->imm));
	ins(g, alu_from, ASM_SUB, ASM_64, ASM_C, asm_at(ASM_B, 0));
	ins(g, alu_from, ASM_CMP, ASM_64, ASM_C, asm_at(ASM_B, 8));
}

static uint64_t range_at(const struct gen *g, uint32_t k)
{
	return g->env->good + offsetof(struct gen_good, range) + 16 * k;
}

/* Branches to `load` if the address is in the first thread's stack at or above SP, and SP is in that stack. */
static void put_is_in_stack(struct gen *g, const struct ir_ins *i, asm_label load)
{
	asm_label no = asm_new_label(&g->a);

	ins(g, address, ASM_B, range_at(g, GEN_GOOD_STACK));
	put_is_in(g, i);
	ins(g, branch_short, ASM_UGE, no);
	ins(g, alu_from, ASM_ADD, ASM_64, ASM_C, asm_at(ASM_B, 0));
	ins(g, alu, ASM_CMP, ASM_64, ASM_C, ASM_SP);
	ins(g, branch_short, ASM_ULT, no);
	ins(g, alu_from, ASM_CMP, ASM_64, ASM_SP, asm_at(ASM_B, 0));
	ins(g, branch, ASM_UGE, load);
	asm_bind(&g->a, no);
}

/* Branches to `load` if the address is in a range from GEN_GOOD - 1 down to 1. */
static void put_is_in_others(struct gen *g, const struct ir_ins *i, asm_label load)
{
	asm_label again = asm_new_label(&g->a);

	ins(g, address, ASM_B, range_at(g, GEN_GOOD_STACK));
	asm_bind(&g->a, again);
	ins(g, alu_imm, ASM_SUB, ASM_64, asm_in(ASM_B), 16);
	put_is_in(g, i);
	ins(g, branch, ASM_ULT, load);
	ins(g, alu_wide, ASM_CMP, ASM_32, ASM_B, range_at(g, 1));
	ins(g, branch_short, ASM_NE, again);
}

/* Branches to `faulty` if the pointer comes from a read that failed: then its value means nothing. */
static void put_is_faulty(struct gen *g, const struct ir_ins *i, asm_label look, asm_label faulty)
{
	g_load_word(g, ASM_B, g->ring);
	ins(g, load, ASM_U64, ASM_B, asm_far(ASM_B, offsetof(struct ring_ref, scratch)));
	ins(g, address, ASM_C, i->mask & g->bits);
	ins(g, alu_to, ASM_TEST, ASM_64, asm_far(ASM_B, PROG_RUN + offsetof(struct prog_run, faults)), ASM_C);
	ins(g, branch, ASM_EQ, look);
	ins(g, jump, faulty);
}

/* n[] of struct cold, labels: test for a faulty pointer; comparison with the ranges; plain load. */
enum { FAULTS, LOOK, LOAD };

/* Whether the address is the site's stack pointer + imm: readable if it is in the page of the stack pointer. */
static bool is_above_sp(const struct gen *g, const struct ir_ins *i)
{
	const struct ir_ins *x = g->p->ins.v;

	if (i->imm < 0 || i->imm > STACK_ABOVE || g->defs[i->a] != 1)
		return false;
	for (size_t k = 0; k < g->p->ins.n; k++)
		if (x[k].dst == i->a)
			return x[k].op == IR_REG && g->a.ops->site(x[k].imm) == ASM_SP;
	return false;
}

/* A: the stack pointer. ULT: all bytes of the load are in its page. */
static void put_is_in_page(struct gen *g, const struct ir_ins *i)
{
	uint32_t page = 1u << g->a.ops->page_shift;

	ins(g, move, ASM_32, ASM_B, ASM_A);
	ins(g, alu_imm, ASM_AND, ASM_32, asm_in(ASM_B), page - 1);
	ins(g, alu_wide, ASM_CMP, ASM_32, ASM_B, page - ir_size(i->type) - i->imm + 1);
}

static void put_elsewhere(struct gen *g, struct cold *c)
{
	asm_label faulty = asm_new_label(&g->a);
	const struct ir_ins *i = c->p;

	if (c->n[FAULTS]) {
		asm_bind(&g->a, c->n[FAULTS]);
		put_is_faulty(g, i, c->n[LOOK], faulty);
	}
	asm_bind(&g->a, c->here);
	if (g->env->good)
		put_is_in_stack(g, i, c->n[LOAD]);
	if (g->env->known) {
		g_store_word(g, ASM_A, g->out);
		ins(g, lea, ASM_64, ASM_C, asm_far(ASM_A, i->imm));
		g_load_known(g, load_type(i), c->then);
		g_load_word(g, ASM_A, g->out);
	}
	if (g->env->good)
		put_is_in_others(g, i, c->n[LOAD]);
	asm_bind(&g->a, faulty);
	put_checked(g, i);
	ins(g, jump, c->then);
}

static void put_looked_up(struct gen *g, const struct ir_ins *i)
{
	struct cold *c = g_cold(g, put_elsewhere);

	c->p = i;
	c->n[LOOK] = asm_new_label(&g->a);
	c->n[LOAD] = asm_new_label(&g->a);
	g_load(g, ASM_A, i->a);
	if (i->mask & g->bits) {			/* without a ring there were no faults */
		c->n[FAULTS] = asm_new_label(&g->a);
		ins(g, alu_imm, ASM_CMP, ASM_64, asm_at(ASM_SP, g->ring), 0);
		ins(g, branch, ASM_NE, c->n[FAULTS]);
	}
	asm_bind(&g->a, c->n[LOOK]);
	if (is_above_sp(g, i)) {
		put_is_in_page(g, i);
	} else {
		ins(g, address, ASM_B, range_at(g, 0));
		put_is_in(g, i);
	}
	ins(g, branch, ASM_UGE, c->here);
	asm_bind(&g->a, c->n[LOAD]);
	put_load(g, i, i->imm);
	asm_bind(&g->a, c->then);
	put_result(g, i);
}

bool g_load_memory(struct gen *g, const struct ir_ins *i)
{
	if (i->op != IR_LOAD)
		return false;
	if (i->flags & IR_GOOD) {
		put_plain(g, i);
	} else if ((g->env->good || is_above_sp(g, i)) && i->imm == (int32_t)i->imm) {
		put_looked_up(g, i);
	} else {
		g_load(g, ASM_A, i->a);
		put_checked(g, i);
		put_result(g, i);
	}
	return true;
}
