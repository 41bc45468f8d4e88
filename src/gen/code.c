/* SPDX-License-Identifier: MIT */
/* Branches and operands. */
#include "gen/emit.h"

bool g_is_work(enum asm_reg r)
{
	return r == ASM_A || r == ASM_B || r == ASM_C;
}

int32_t g_work_word(const struct gen *g, enum asm_reg r)
{
	return r == ASM_A ? FRAME_A(g) : r == ASM_B ? FRAME_B(g) : FRAME_C(g);
}

int32_t g_site_sp(const struct gen *g)
{
	return g->frame + g->a.ops->red_zone + 8 * g->site->pushed;
}

asm_label g_label(struct gen *g, uint32_t label)
{
	if (!g->labels[label])
		g->labels[label] = asm_new_label(&g->a);
	return g->labels[label];
}

struct cold *g_cold(struct gen *g, void (*put)(struct gen *, struct cold *))
{
	struct cold *c = vec_add(&g->cold);

	c->put = put;
	c->here = asm_new_label(&g->a);
	c->then = asm_new_label(&g->a);
	return c;
}

/*
 * Places the hole for the cold parts here, if there is none yet: the conditional branch, which is needed anyway, then also
 * jumps over the cold parts, and the hot code ends at the end of the code without a jump. The size of the hole is known after
 * everything was written once, so generate() has a second pass. There is no hole if the clause calls the blob (descriptions
 * are aligned) or uses the short epilogue (which must be at the end).
 */
void g_cold_unless(struct gen *g, enum asm_cond cc, struct cold *c)
{
	asm_label over;

	if (g->calls || asm_is_used(&g->a, g->to_early) || g->hole) {
		ins(g, branch, asm_not(cc), c->here);
		return;
	}
	over = asm_new_label(&g->a);
	ins(g, branch, cc, over);
	ins(g, jump, c->here);
	g->hole = g->a.code.n;
	asm_fill(&g->a, g->hole_size);
	asm_bind(&g->a, over);
}

void g_move_sp(struct gen *g, int32_t by)
{
	ins(g, lea, ASM_64, ASM_SP, asm_at(ASM_SP, by));
}

/* Compares the offset of the word at SP + off in its page with n (unsigned). B changes. */
void g_in_page(struct gen *g, int32_t off, uint32_t n)
{
	ins(g, lea, ASM_32, ASM_B, asm_at(ASM_SP, off));
	ins(g, alu_imm, ASM_AND, ASM_32, asm_in(ASM_B), (1 << g->a.ops->page_shift) - 1);
	ins(g, alu_wide, ASM_CMP, ASM_32, ASM_B, n);
}

void g_count(struct gen *g, enum asm_reg reg, uint64_t counter)
{
	ins(g, address, reg, counter);
	ins(g, atomic_inc, asm_at(reg, 0));
}

/* Flags and B may change. */
void g_error(struct gen *g, const struct ir_ins *i, enum ir_error e)
{
	if (!(i->flags & IR_QUIET))
		g_count(g, ASM_B, g->env->errors + 8 * ((uint64_t)IR_ERRORS * g->p->clause + e));
}

void g_load_word(struct gen *g, enum asm_reg reg, int32_t off)
{
	ins(g, load, ASM_U64, reg, asm_at(ASM_SP, off));
}

void g_store_word(struct gen *g, enum asm_reg reg, int32_t off)
{
	ins(g, store, ASM_64, reg, asm_at(ASM_SP, off));
}

void g_zero_word(struct gen *g, int32_t off)
{
	ins(g, store_imm, ASM_64, asm_at(ASM_SP, off), 0);
}

void g_load(struct gen *g, enum asm_reg reg, uint32_t r)
{
	const struct place *w = &g->places[r];

	if (g->acc == r)
		ins(g, move, ASM_64, reg, ASM_A);
	else if (w->home == HOME_IMM)
		ins(g, imm, reg, w->imm);
	else if (w->home == HOME_REG)
		ins(g, move, ASM_64, reg, ASM_SITE + w->reg);
	else
		g_load_word(g, reg, w->off);
	if (reg == ASM_A)
		g->acc = r;
}

void g_store(struct gen *g, uint32_t r)
{
	if (g->places[r].home == HOME_WORD)
		g_store_word(g, ASM_A, g->places[r].off);
	g->acc = r;
}

/* Whether the code of this instruction begins with its operand a in A. */
static bool takes_acc(const struct gen *g, const struct ir_ins *i)
{
	const struct ir_map *m;

	switch (i->op) {
	case IR_MAP_AGG:
		m = &g->u->maps.v[i->map];
		return !m->nkeys && (m->kind == IR_MAP_HIST || m->kind == IR_MAP_LHIST) && g->p->regs.v[i->a] != IR_F;
	case IR_ADD: case IR_SUB: case IR_MUL: case IR_DIV: case IR_NEG:
		return !ir_is_float(i->type);
	case IR_EQ: case IR_NE: case IR_LT: case IR_LE: case IR_GT: case IR_GE:
		return !ir_is_float(i->type);
	case IR_MOD: case IR_AND: case IR_OR: case IR_XOR: case IR_SHL: case IR_SHR: case IR_NOT:
	case IR_CAST: case IR_BSWAP: case IR_BITS: case IR_JZ: case IR_JNZ: case IR_LOAD:
		return true;
	}
	return false;
}

void g_set(struct gen *g, uint32_t r)
{
	const struct ir_ins *next = g->now + 1 < g->p->ins.n ? &g->p->ins.v[g->now + 1] : NULL;

	if (next && g->reads[r] == 1 && g->defs[r] == 1 && next->a == r && next->b != r && takes_acc(g, next))
		g->acc = r;
	else
		g_store(g, r);
}

bool g_is_imm32(const struct gen *g, uint32_t r, int32_t *ret)
{
	const struct place *w = &g->places[r];

	*ret = w->imm;
	return w->home == HOME_IMM && w->imm == (int32_t)w->imm;
}

/* Changes A if it is a constant. */
void g_load_f(struct gen *g, enum asm_vec v, uint32_t r)
{
	const struct place *w = &g->places[r];

	if (w->home == HOME_IMM) {
		ins(g, imm, ASM_A, w->imm);
		g->acc = IR_NONE;
		ins(g, vset, ASM_64, v, ASM_A);
	} else {
		ins(g, vload, v, asm_at(ASM_SP, w->off));
	}
}

void g_store_f(struct gen *g, enum asm_vec v, uint32_t r)
{
	if (g->places[r].home == HOME_WORD)
		ins(g, vstore, v, asm_at(ASM_SP, g->places[r].off));
}

void g_arg(struct gen *g, const struct ir_arg *a, int32_t off)
{
	const struct place *w = &g->places[a->reg];
	int32_t imm;

	if (g_is_imm32(g, a->reg, &imm)) {
		ins(g, store_imm, ASM_64, asm_at(ASM_SP, off), imm);
	} else if (w->home == HOME_REG) {
		g_store_word(g, ASM_SITE + w->reg, off);
	} else {
		g_load(g, ASM_A, a->reg);
		g_store_word(g, ASM_A, off);
	}
}
