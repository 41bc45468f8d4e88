/* SPDX-License-Identifier: MIT */
/*
 * Before any code: how often registers are written and read, which of them need a word in the frame and
 * for how long. Words are given back at the last read; what is alive when a loop begins is kept to its end.
 */
#include "gen/emit.h"

#include <string.h>

#include "base/err.h"

typedef void visit(struct gen *g, uint32_t r, bool written, size_t at);

static bool dst_is_written(const struct ir_ins *i)
{
	return i->dst != IR_NONE;
}

static void each_operand(struct gen *g, size_t at, visit *see)
{
	const struct ir_ins *i = &g->p->ins.v[at];
	uint32_t k;

	if (i->a != IR_NONE)
		see(g, i->a, false, at);
	if (i->b != IR_NONE)
		see(g, i->b, false, at);
	for (k = 0; k < i->n; k++) {
		const struct ir_arg *a = &g->p->args.v[i->first + k];

		if (!ir_in_slot(a->type))
			see(g, a->reg, i->op == IR_MAP_GET && k >= i->nkeys, at);
	}
	if (dst_is_written(i))
		see(g, i->dst, true, at);
}

static void count(struct gen *g, uint32_t r, bool written, size_t at)
{
	if (written)
		g->defs[r]++;
	else
		g->reads[r]++;
}

struct range { size_t from, to; };
static __thread struct range *ranges;		/* only while g_analyse() runs */

static void extend(struct gen *g, uint32_t r, bool written, size_t at)
{
	if (ranges[r].from == SIZE_MAX)
		ranges[r].from = at;
	ranges[r].to = at;
}

static void extend_over_loops(struct gen *g)
{
	for (size_t i = 0; i < g->p->ins.n; i++) {
		size_t end = i;

		if (g->p->ins.v[i].op != IR_LOOP)
			continue;
		while (g->p->ins.v[end].op != IR_LOOP_END || g->p->ins.v[end].label != g->p->ins.v[i].label)
			end++;
		for (size_t r = 0; r < g->p->regs.n; r++)
			if (ranges[r].from < i && ranges[r].to > i && ranges[r].to < end)
				ranges[r].to = end;
	}
}

/* A register that is written once may need no word at all. */
static void choose_home(struct gen *g, const struct ir_ins *i)
{
	struct place *w;

	if (i->dst == IR_NONE || g->defs[i->dst] != 1)
		return;
	w = &g->places[i->dst];
	if (i->op == IR_CONST || i->op == IR_FCONST) {
		*w = (struct place){ .home = HOME_IMM, .imm = i->imm };
	} else if (i->op == IR_CTX && i->imm == IR_CTX_SITE) {
		*w = (struct place){ .home = HOME_IMM, .imm = g->site->number };
	} else if (i->op == IR_REG && i->imm == BULK_RIP) {
		*w = (struct place){ .home = HOME_IMM, .imm = g->site->addr };
	} else if (i->op == IR_REG && i->imm < 3) {
		static const int32_t saved[] = { FRAME_RAX, FRAME_RCX, FRAME_RDX };

		*w = (struct place){ .home = HOME_WORD, .off = saved[i->imm] };
	} else if (i->op == IR_REG && i->imm < 16 && i->imm != RSP) {
		*w = (struct place){ .home = HOME_REG, .reg = i->imm };
	}
}

static bool wants_word(const struct gen *g, uint32_t r)
{
	return g->places[r].home == HOME_NONE && ranges[r].from != SIZE_MAX;
}

/* Words that are free at an instruction are those whose last owner ended before it. */
static int32_t give_words(struct gen *g, int32_t base)
{
	VEC(size_t) busy_to = { 0 };

	for (size_t i = 0; i < g->p->ins.n; i++)
		for (uint32_t r = 0; r < g->p->regs.n; r++) {
			size_t k;

			if (!wants_word(g, r) || ranges[r].from != i)
				continue;
			for (k = 0; k < busy_to.n && busy_to.v[k] >= i; k++)
				;
			if (k == busy_to.n)
				vec_add(&busy_to);
			busy_to.v[k] = ranges[r].to;
			g->places[r] = (struct place){ .home = HOME_WORD, .off = base + 8 * k };
		}
	base += 8 * busy_to.n;
	vec_free(&busy_to);
	return base;
}

static bool uses_floats(const struct gen *g, const struct ir_ins *i)
{
	switch (i->op) {
	case IR_I2F: case IR_U2F: case IR_F2F: case IR_F2I:
		return true;
	case IR_XMM: case IR_LOAD: case IR_SLOT_LOAD:
		return i->type == IR_F32;
	case IR_MAP_AGG:
		return i->a != IR_NONE && g->p->regs.v[i->a] == IR_F;
	}
	return i->op >= IR_ADD && i->op <= IR_GE && ir_is_float(i->type);
}

static void look(struct gen *g)
{
	size_t most = 0;

	for (size_t i = 0; i < g->p->ins.n; i++) {
		const struct ir_ins *x = &g->p->ins.v[i];

		if (x->op == IR_READ_STR || x->op == IR_READ_BUF || (x->op == IR_LOAD && !(x->flags & IR_GOOD)))
			g->bits |= 1ull << x->bit;
	}
	for (size_t i = 0; i < g->p->ins.n; i++) {
		const struct ir_ins *x = &g->p->ins.v[i];

		g->floats |= uses_floats(g, x);
		g->calls |= g_is_call(g, x);
		g->heavy |= g_is_heavy(g, x);
		g->changes |= (x->op == IR_MAP_SET || x->op == IR_MAP_ADD) && g_is_heavy(g, x);
		if (x->op == IR_EMIT && g_is_heavy(g, x))
			most = MAX(most, (size_t)g_event_word(g, x, x->n) / 8);
		else if (x->op >= IR_MAP_GET && x->op <= IR_MAP_LEN)
			most = MAX(most, x->n + (x->op == IR_MAP_AGG ? 4u : 1u));
		else if (g_is_call(g, x) || x->op == IR_RATE)
			most = MAX(most, 2u);
	}
	g->nout = most;
}

/* What is kept besides rax, rcx, rdx and the flags. */
static int32_t place_kept(struct gen *g, int32_t off)
{
	if (g->calls) {
		g->ring = off;
		g->keep = off + 8;
		off += 8 + 6 * 8;
	}
	if (g->floats) {
		g->fp = off;
		off += 2 * 16 + 8;
	}
	if (g->p->where == IR_WHERE_ENTRY || g->p->where == IR_WHERE_EXIT) {
		g->pair = off;
		off += 8 * g_pair_words(g);
	}
	g->out = off;
	return off + 8 * g->nout;
}

static int32_t place_slots(struct gen *g)
{
	uint32_t off = PROG_SLOTS;

	for (size_t i = 0; i < g->p->slots.n; i++) {
		if (g->p->slots.v[i].text)
			continue;
		g->slots[i] = off;
		off += (4 + g->p->slots.v[i].cap + 8 + 7) & ~7u;
		if (off > 1 << 20)
			return g_refuse(g, "so much text at once");
	}
	g->scratch = off;
	return 0;
}

int g_analyse(struct gen *g)
{
	size_t n = g->p->regs.n;
	int32_t off;

	g->places = xcalloc(n, sizeof(*g->places));
	g->reads = xcalloc(n, sizeof(*g->reads));
	g->defs = xcalloc(n, sizeof(*g->defs));
	g->labels = xcalloc(g->p->nlabels + 1, sizeof(*g->labels));
	g->heads = xcalloc(g->p->nlabels + 1, sizeof(*g->heads));
	g->rounds = xcalloc(g->p->nlabels + 1, sizeof(*g->rounds));
	g->slots = xcalloc(g->p->slots.n + 1, sizeof(*g->slots));
	g->texts = xcalloc(g->p->slots.n + 1, sizeof(*g->texts));
	ranges = xcalloc(n + 1, sizeof(*ranges));
	for (size_t r = 0; r < n; r++)
		ranges[r].from = SIZE_MAX;
	for (size_t i = 0; i < g->p->ins.n; i++) {
		each_operand(g, i, count);
		each_operand(g, i, extend);
	}
	extend_over_loops(g);
	for (size_t i = 0; i < g->p->ins.n; i++)
		choose_home(g, &g->p->ins.v[i]);
	look(g);
	off = place_kept(g, FRAME_RDX + 8);
	for (size_t i = 0; i < g->p->ins.n; i++) {
		if (g->p->ins.v[i].op == IR_LOOP) {
			g->rounds[g->p->ins.v[i].label] = off;
			off += 8;
		}
	}
	g->frame = give_words(g, off);
	free(ranges);
	ranges = NULL;
	if (g->frame > (g->changes ? FRAME_MOST_CHANGES : g->heavy ? FRAME_MOST_HEAVY : g->calls ? FRAME_MOST_CALLS : FRAME_MOST))
		return g_refuse(g, "so many values at once");
	return place_slots(g);
}

void g_analysis_free(struct gen *g)
{
	free(g->places);
	free(g->reads);
	free(g->defs);
	free(g->labels);
	free(g->heads);
	free(g->rounds);
	free(g->slots);
	free(g->texts);
}
