/* SPDX-License-Identifier: MIT */
/* Bytes, branches and operands. */
#include "gen/emit.h"

#include <string.h>

void g_bytes(struct gen *g, const uint8_t *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		*vec_add(&g->code) = b[i];
}

void g_u32(struct gen *g, uint32_t v)
{
	g_bytes(g, (const uint8_t *)&v, 4);
}

void g_u64(struct gen *g, uint64_t v)
{
	g_bytes(g, (const uint8_t *)&v, 8);
}

void g_rsp(struct gen *g, int reg, int32_t off)
{
	if (off >= -128 && off < 128) {
		op(g, 0x44 | (reg & 7) << 3, 0x24, off);
	} else {
		op(g, 0x84 | (reg & 7) << 3, 0x24);
		g_u32(g, off);
	}
}

void g_mem(struct gen *g, int reg, int base, int32_t off)
{
	op(g, 0x80 | (reg & 7) << 3 | (base & 7));
	g_u32(g, off);
}

size_t g_later(struct gen *g)
{
	g_u32(g, 0);
	return g->code.n - 4;
}

void g_land(struct gen *g, size_t branch, size_t target)
{
	int32_t rel = (int32_t)(target - (branch + 4));

	memcpy(g->code.v + branch, &rel, 4);
}

static void jump_later(struct gen *g, uint32_t label)
{
	size_t branch = g_later(g);

	*vec_add(&g->jumps) = (__typeof__(*g->jumps.v)){ branch, label };
}

void g_to_label(struct gen *g, uint32_t label)
{
	jump_later(g, label);
}

void g_to_out(struct gen *g)
{
	jump_later(g, UINT32_MAX);
}

void g_jcc(struct gen *g, int cc, uint32_t label)
{
	op(g, 0x0f, 0x80 | cc);
	g_to_label(g, label);
}

void g_mov_imm(struct gen *g, int reg, uint64_t v)
{
	if (!v) {
		if (reg & 8)
			op(g, 0x45, 0x31, 0xc0 | (reg & 7) * 9);
		else
			op(g, 0x31, 0xc0 | reg * 9);		/* xor  %reg,%reg */
	} else if (v <= UINT32_MAX) {
		if (reg & 8)
			op(g, 0x41);
		op(g, 0xb8 | (reg & 7));		/* mov  $v,%reg32 */
		g_u32(g, v);
	} else if ((int64_t)v == (int32_t)v) {
		op(g, 0x48 | reg >> 3, 0xc7, 0xc0 | (reg & 7));	/* mov  $v,%reg, extended */
		g_u32(g, v);
	} else {
		g_address(g, reg, v);
	}
}

void g_address(struct gen *g, int reg, uint64_t v)
{
	op(g, 0x48 | reg >> 3, 0xb8 | (reg & 7));	/* movabs $v,%reg */
	g_u64(g, v);
}

struct cold *g_cold(struct gen *g, void (*put)(struct gen *, struct cold *))
{
	struct cold *c = vec_add(&g->cold);

	c->put = put;
	return c;
}

/*
 * What follows is behind the cold parts then, so the branch that is taken here, where one is needed anyway, is the one that leads
 * over them, and the code ends where the room does. How long they are is known when all has been written once: generate()
 * does it again then. Not where some of them are aligned, or others want to be at the end.
 */
void g_cold_unless(struct gen *g, int cc, struct cold *c)
{
	size_t over;

	if (g->calls || g->to_early.n || g->hole) {
		op(g, 0x0f, 0x80 | (cc ^ 1));		/* jncc c */
		c->from[0] = g_later(g);
		return;
	}
	op(g, 0x0f, 0x80 | cc);				/* jcc  1f */
	over = g_later(g);
	op(g, 0xe9);					/* jmp  c */
	c->from[0] = g_later(g);
	g->hole = g->code.n;
	for (size_t k = 0; k < g->hole_size; k++)
		op(g, 0xcc);
	g_land(g, over, g->code.n);			/* 1: */
}

/* Flags may change, rax stays. */
void g_error(struct gen *g, const struct ir_ins *i, enum ir_error e)
{
	if (i->flags & IR_QUIET)
		return;
	g_address(g, RCX, g->env->errors + 8 * ((uint64_t)IR_ERRORS * g->p->clause + e));
	op(g, 0xf0, 0x48, 0xff, 0x01);			/* lock incq (%rcx) */
}

void g_load_word(struct gen *g, int reg, int32_t off)
{
	op(g, 0x48 | (reg & 8) >> 1, 0x8b);		/* mov  off(%rsp),%reg */
	g_rsp(g, reg, off);
}

void g_store_word(struct gen *g, int reg, int32_t off)
{
	op(g, 0x48 | (reg & 8) >> 1, 0x89);		/* mov  %reg,off(%rsp) */
	g_rsp(g, reg, off);
}

void g_load(struct gen *g, int reg, uint32_t r)
{
	const struct place *w = &g->places[r];

	if (g->acc == r) {
		if (reg != RAX)
			op(g, 0x48, 0x89, 0xc0 | reg);	/* mov  %rax,%reg */
	} else if (w->home == HOME_IMM) {
		g_mov_imm(g, reg, w->imm);
	} else if (w->home == HOME_REG) {
		op(g, 0x48 | (w->reg & 8) >> 1, 0x89, 0xc0 | (w->reg & 7) << 3 | reg);
	} else {
		g_load_word(g, reg, w->off);
	}
	if (reg == RAX)
		g->acc = r;
}

void g_store(struct gen *g, uint32_t r)
{
	if (g->places[r].home == HOME_WORD)
		g_store_word(g, RAX, g->places[r].off);
	g->acc = r;
}

/* Does the next instruction begin with its operand a in rax? */
static bool takes_rax(const struct gen *g, const struct ir_ins *i)
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

	if (next && g->reads[r] == 1 && g->defs[r] == 1 && next->a == r && next->b != r && takes_rax(g, next))
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

/* movq: a constant goes through rax. */
void g_load_f(struct gen *g, int xmm, uint32_t r)
{
	const struct place *w = &g->places[r];

	if (w->home == HOME_IMM) {
		g_mov_imm(g, RAX, w->imm);
		g->acc = IR_NONE;
		op(g, 0x66, 0x48, 0x0f, 0x6e, 0xc0 | xmm << 3);	/* movq %rax,%xmm */
	} else {
		op(g, 0xf2, 0x0f, 0x10);		/* movsd off(%rsp),%xmm */
		g_rsp(g, xmm, w->off);
	}
}

void g_store_f(struct gen *g, int xmm, uint32_t r)
{
	if (g->places[r].home != HOME_WORD)
		return;
	op(g, 0xf2, 0x0f, 0x11);			/* movsd %xmm,off(%rsp) */
	g_rsp(g, xmm, g->places[r].off);
}

void g_arg(struct gen *g, const struct ir_arg *a, int32_t off)
{
	const struct place *w = &g->places[a->reg];
	int32_t imm;

	if (g_is_imm32(g, a->reg, &imm)) {
		op(g, 0x48, 0xc7);			/* movq $imm,off(%rsp) */
		g_rsp(g, 0, off);
		g_u32(g, imm);
	} else if (w->home == HOME_REG) {
		g_store_word(g, w->reg, off);
	} else {
		g_load(g, RAX, a->reg);
		g_store_word(g, RAX, off);
	}
}
