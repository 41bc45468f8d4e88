/* SPDX-License-Identifier: MIT */
/*
 * The prologue, and the short epilogue. Many hits end at once, because the clause is switched off or its first condition is
 * false. The door tests that while little has to be restored: the flags are in A, as flags_take left them, and at most B has
 * been stored besides. Only hits that pass store the rest of the head of the frame.
 *
 * The conditions that the door can test compare the site's machine registers with each other or with constants, without
 * another register; a constant that is no 32-bit immediate is placed after the code.
 *
 * Then the door checks that the stack has room. The head of the frame is used without a check. If the whole frame and what
 * called routines need are in the same page as the head, there is room; otherwise EVENT_ROOM is called, which knows the mapped
 * pages (arch/event.h: STACK_PAGES). A hit without room increments the site's no_stack counter and does nothing else.
 */
#include "gen/emit.h"

#include "base/err.h"

enum where { NOWHERE, IN_REG, IN_FRAME, CONSTANT };

struct operand {
	enum where where;
	enum asm_reg reg;
	int32_t off;
	int64_t imm;
};

static bool reads_time(const struct gen *g)
{
	if (g->p->timed && (g->p->where == IR_WHERE_ENTRY || g->p->where == IR_WHERE_EXIT))
		return true;
	for (size_t i = 0; i < g->p->ins.n; i++) {
		const struct ir_ins *x = &g->p->ins.v[i];

		if (x->op == IR_RATE || (x->op == IR_CTX && (x->imm == IR_CTX_NSECS || x->imm == IR_CTX_ELAPSED || x->imm == IR_CTX_RAND)))
			return true;
	}
	return false;
}

static void put_free_b(struct gen *g)
{
	if (!g->b_used)
		g_store_word(g, ASM_B, FRAME_B(g));
	g->b_used = true;
}

/* Whether every hit writes an event: no branch or end comes before it, and at an exit the entry lets every call be watched. */
static bool always_emits(const struct gen *g)
{
	if (g->p->choosy)
		return false;
	for (size_t i = 0; i < g->p->ins.n; i++) {
		uint8_t o = g->p->ins.v[i].op;

		if (o == IR_EMIT)
			return true;
		if (o == IR_JMP || o == IR_JZ || o == IR_JNZ || o == IR_IF_FAULT || o == IR_RET)
			return false;
	}
	return false;
}

static void put_out(struct gen *g)
{
	if (g->b_used)
		g_load_word(g, ASM_B, FRAME_B(g));
	ins(g, flags_give);
	g_load_word(g, ASM_A, FRAME_A(g));
	g_move_sp(g, g->a.ops->red_zone + g->frame);
}

static void put_lost(struct gen *g, struct cold *c)
{
	(void)c;
	g_count(g, ASM_B, g->env->event.lost_shared);
	put_out(g);
	ins(g, jump, g->to_end);
}

/*
 * If the clause reads the time stamp counter while process_state.timeless forbids it, the hit ends here. It counts as a lost
 * event only if it would certainly have written one.
 */
static void put_timeless(struct gen *g)
{
	struct cold *c;

	if (!g->env->timeless || !reads_time(g))
		return;
	put_free_b(g);
	ins(g, address, ASM_B, g->env->timeless);
	ins(g, alu_imm, ASM_CMP, ASM_32, asm_at(ASM_B, 0), 0);
	if (!always_emits(g)) {
		ins(g, branch, ASM_NE, g->to_early);
		return;
	}
	c = g_cold(g, put_lost);
	ins(g, branch, ASM_NE, c->here);
}

/* Ends the hit if the clause is switched off. */
static void put_enabled(struct gen *g)
{
	if (!g->env->enabled)
		return;
	put_free_b(g);
	ins(g, address, ASM_B, g->env->enabled + 4ull * g->p->clause);
	ins(g, alu_imm, ASM_CMP, ASM_16, asm_at(ASM_B, 0), GEN_ON);
	ins(g, branch, ASM_NE, g->to_early);
}

static struct operand operand(const struct gen *g, uint32_t r)
{
	const struct place *w = &g->places[r];

	if (w->home == HOME_IMM)
		return (struct operand){ .where = CONSTANT, .imm = w->imm };
	if (w->home == HOME_REG)
		return (struct operand){ .where = IN_REG, .reg = ASM_SITE + w->reg };
	if (w->home != HOME_WORD)
		return (struct operand){ .where = NOWHERE };
	if (w->off == FRAME_C(g))
		return (struct operand){ .where = IN_REG, .reg = ASM_C };
	if (w->off == FRAME_B(g) && !g->b_used)
		return (struct operand){ .where = IN_REG, .reg = ASM_B };
	return (struct operand){ .where = w->off == FRAME_A(g) || w->off == FRAME_B(g) ? IN_FRAME : NOWHERE, .off = w->off };
}

static struct asm_operand asm_of(const struct operand *o)
{
	return o->where == IN_REG ? asm_in(o->reg) : asm_at(ASM_SP, o->off);
}

static void put_compare_constant(struct gen *g, const struct operand *a, int64_t imm)
{
	asm_label l;

	if (imm == (int32_t)imm) {
		ins(g, alu_imm, ASM_CMP, ASM_64, asm_of(a), imm);
		return;
	}
	l = asm_new_label(&g->a);
	ins(g, alu_from, ASM_CMP, ASM_64, a->reg, asm_const(l));
	*vec_add(&g->constants) = (__typeof__(*g->constants.v)){ l, imm };
}

/* Sets the flags from a - b. False, and no code is written: these operands can't be compared without a register. */
static bool compares(struct gen *g, const struct operand *a, const struct operand *b)
{
	if (a->where == NOWHERE || a->where == CONSTANT || b->where == NOWHERE)
		return false;
	if (b->where == CONSTANT) {
		if (a->where == IN_FRAME && b->imm != (int32_t)b->imm)
			return false;
		put_compare_constant(g, a, b->imm);
	} else if (b->where == IN_REG) {
		ins(g, alu_to, ASM_CMP, ASM_64, asm_of(a), b->reg);
	} else if (a->where == IN_REG) {
		ins(g, alu_from, ASM_CMP, ASM_64, a->reg, asm_of(b));
	} else {
		return false;
	}
	return true;
}

/* Whether the clause program ends at that label. */
static bool is_end(const struct gen *g, uint32_t label)
{
	bool found = false;

	for (size_t i = 0; i < g->p->ins.n; i++) {
		const struct ir_ins *x = &g->p->ins.v[i];

		if (x->op == IR_LABEL && x->label == label)
			found = true;
		else if (found && x->op != IR_LABEL && x->op != IR_NOP && x->op != IR_RET)
			return false;
	}
	return found;
}

/* Whether the instruction needs no code: its result is a constant or a machine register of the site, and is used directly. */
static bool is_given(const struct gen *g, const struct ir_ins *i)
{
	if (i->op == IR_NOP)
		return true;
	if (i->op != IR_CONST && (i->op != IR_REG || i->imm >= g->a.ops->nregs || g->a.ops->site(i->imm) == ASM_SP))
		return false;
	return g->places[i->dst].home != HOME_NONE && g->defs[i->dst] == 1;
}

/* Compiles the condition at instruction n. Returns how many instructions it covers; 0: it is not one that the door can test. */
static int put_condition(struct gen *g, size_t n)
{
	const struct ir_ins *i = &g->p->ins.v[n], *next = n + 1 < g->p->ins.n ? i + 1 : NULL;
	const struct operand zero = { .where = CONSTANT };
	struct operand a, b;

	if (i->op == IR_JZ || i->op == IR_JNZ) {
		a = operand(g, i->a);
		if (!is_end(g, i->label) || !compares(g, &a, &zero))
			return 0;
		ins(g, branch, i->op == IR_JZ ? ASM_EQ : ASM_NE, g->to_early);
		return 1;
	}
	if (i->op < IR_EQ || i->op > IR_GE || ir_is_float(i->type) || !next || (next->op != IR_JZ && next->op != IR_JNZ) ||
	    next->a != i->dst || g->reads[i->dst] != 1 || !is_end(g, next->label))
		return 0;
	a = operand(g, i->a);
	b = operand(g, i->b);
	if (!compares(g, &a, &b))
		return 0;
	ins(g, branch, next->op == IR_JZ ? asm_not(g_condition(i)) : g_condition(i), g->to_early);
	return 2;
}

/* Only the page of the head is known to be mapped; EVENT_ROOM checks the pages below it. */
static void put_ask(struct gen *g, struct cold *c)
{
	ins(g, ask_room, g->env->event.slow + EVENT_ROOM, g->a.ops->red_zone + g->frame - (int32_t)c->n[0], g->head - ASK_SIZE);
	ins(g, branch, ASM_EQ, c->then);
	g_count(g, ASM_B, g->site->no_stack);
	g_load_head(g);
	ins(g, jump, g->to_end);
}

/* Continues only if the stack has as much room as the clause code needs. */
static void put_stack(struct gen *g)
{
	const int32_t stored = g->a.ops->red_zone + HEAD_SIZE;
	int32_t need = MAX(g->site->need, g_stack(g));
	struct cold *c;

	if (need <= STACK_UNASKED)
		return;
	g_in_page(g, g->head, need - stored);
	c = g_cold(g, put_ask);
	c->n[0] = need;
	ins(g, branch, ASM_ULT, c->here);
	asm_bind(&g->a, c->then);
}

size_t g_door(struct gen *g)
{
	size_t n = 0, done = 0;
	int len = 1;

	g_move_sp(g, -(g->a.ops->red_zone + g->frame));
	g_store_word(g, ASM_A, FRAME_A(g));
	ins(g, flags_take);
	if (g->p->where == IR_WHERE_ENTRY || g->p->where == IR_WHERE_EXIT)
		len = 0;
	put_enabled(g);
	put_timeless(g);
	while (len && n < g->p->ins.n) {
		if (is_given(g, &g->p->ins.v[n])) {
			n++;
			continue;
		}
		len = put_condition(g, n);
		n += len;
		done = len ? n : done;
	}
	g_store_word(g, ASM_A, FRAME_FLAGS(g));
	if (!g->b_used)
		g_store_word(g, ASM_B, FRAME_B(g));
	g_store_word(g, ASM_C, FRAME_C(g));
	put_stack(g);
	return done;
}

void g_load_head(struct gen *g)
{
	g_load_word(g, ASM_B, FRAME_B(g));
	g_load_word(g, ASM_C, FRAME_C(g));
	g_load_word(g, ASM_A, FRAME_FLAGS(g));
	ins(g, flags_give);
	g_load_word(g, ASM_A, FRAME_A(g));
	g_move_sp(g, g->a.ops->red_zone + g->frame);
}

static void put_constants(struct gen *g)
{
	for (size_t k = 0; k < g->constants.n; k++) {
		asm_bind(&g->a, g->constants.v[k].label);
		asm_u64(&g->a, g->constants.v[k].value);
	}
}

/* It is placed at the very end of the site's room for code, so that it needs no jump. */
void g_early(struct gen *g)
{
	size_t begin, len = 0;

	put_constants(g);
	begin = g->a.code.n;
	if (asm_is_used(&g->a, g->to_early)) {
		put_out(g);
		len = g->a.code.n - begin;
		g->a.code.n = begin;
	}
	if (begin + len < g->site->size)
		asm_fill(&g->a, g->site->size - (begin + len));
	if (!len)
		return;
	asm_bind(&g->a, g->to_early);
	put_out(g);
}
