/* SPDX-License-Identifier: MIT */
/*
 * The analysis before any code is written: how often IR registers are written and read, which of them need a word in the
 * frame and for how long. A word is free again after the last use; a register that is live at the start of a loop keeps its
 * word to the end of the loop.
 */
#include "gen/emit.h"

#include <string.h>

#include "base/err.h"
#include "blob/blob.h"

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

/* Whether it reads a machine register that the door saves (A, B or C). */
static bool is_saved(const struct gen *g, const struct ir_ins *i)
{
	return i->op == IR_REG && i->imm < g->a.ops->nregs && g_is_work(g->a.ops->site(i->imm));
}

/* An IR register that is written once may need no word. */
static void choose_home(struct gen *g, const struct ir_ins *i)
{
	enum asm_reg r = ASM_A;
	struct place *w;

	if (i->dst == IR_NONE || g->defs[i->dst] != 1)
		return;
	w = &g->places[i->dst];
	if (i->op == IR_REG && i->imm < g->a.ops->nregs)
		r = g->a.ops->site(i->imm);
	if (i->op == IR_CONST || i->op == IR_FCONST) {
		*w = (struct place){ .home = HOME_IMM, .imm = i->imm, .fixed = true };
	} else if (i->op == IR_CTX && i->imm == IR_CTX_SITE) {
		*w = (struct place){ .home = HOME_IMM, .imm = g->site->number };
	} else if (i->op == IR_REG && i->imm == reg_pc(g->arch->regs)) {
		*w = (struct place){ .home = HOME_IMM, .imm = g->site->addr };
	} else if (is_saved(g, i)) {
		*w = (struct place){ .home = HOME_WORD };	/* place_head() sets the offset */
	} else if (r >= ASM_SITE) {
		*w = (struct place){ .home = HOME_REG, .reg = i->imm };
	}
}

static bool wants_word(const struct gen *g, uint32_t r)
{
	return g->places[r].home == HOME_NONE && ranges[r].from != SIZE_MAX;
}

/* Assigns words. A word can be reused by a register whose range begins after the range of its last user has ended. */
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
	case IR_VECTOR: case IR_LOAD: case IR_SLOT_LOAD: case IR_RAW2F: case IR_F2RAW:
		return i->type == IR_F32;
	case IR_MAP_AGG:
		return i->a != IR_NONE && g->p->regs.v[i->a] == IR_F;
	case IR_MAP_GET: case IR_MAP_HAS: case IR_MAP_DEL: case IR_MAP_LEN:
		return g->u->maps.v[i->map].kind != IR_MAP_VALUE && g->u->maps.v[i->map].num == IR_F64;
	}
	return i->op >= IR_ADD && i->op <= IR_GE && ir_is_float(i->type);
}

/* At the exit of a call, a fault bit that is tested but set by no read of the exit's program is one of the entry's reads. */
static void look_for_faults(struct gen *g)
{
	uint64_t asked = 0;

	for (size_t i = 0; i < g->p->ins.n; i++) {
		const struct ir_ins *x = &g->p->ins.v[i];

		if (x->op == IR_READ_STR || x->op == IR_READ_BUF || x->op == IR_FRAMES || (x->op == IR_LOAD && !(x->flags & IR_GOOD)))
			g->bits |= 1ull << x->bit;
		asked |= x->mask;
	}
	for (size_t i = 0; i < g->p->args.n; i++)
		asked |= g->p->args.v[i].mask;
	if (g->p->where == IR_WHERE_EXIT && g->p->nsaved)
		g->entry_bits = asked & ~g->bits;
	g->bits |= g->entry_bits;
}

static uint32_t words_of_call(const struct gen *g, const struct ir_ins *x)
{
	if (x->op == IR_EMIT)
		return g_is_heavy(g, x) ? g_event_word(g, x, x->n) / 8 : 0;
	if (x->op == IR_MAP_AGG)
		return g_agg_words(g, x);
	if (x->op >= IR_MAP_GET && x->op <= IR_MAP_LEN)
		return x->n + 1 + (g_is_value(g, x) ? VALUE_WORDS : 0);
	return g_is_call(g, x) || x->op == IR_RATE ? 2 : 0;
}

static enum blob_work work_of_call(const struct ir_ins *x)
{
	if (x->op >= IR_MAP_GET && x->op <= IR_MAP_LEN)
		return BLOB_MAPS;
	return x->op == IR_STACK || x->op == IR_FRAMES ? BLOB_STACKS : x->op == IR_CTX ? BLOB_IDS : BLOB_OTHER_WORK;
}

static int32_t below_blob(enum blob_work work)
{
	return BELOW_BLOB + (int32_t)blob_depth(work);
}

static int32_t stack_of_call(const struct gen *g, const struct ir_ins *x)
{
	if (x->op == IR_REG)
		return x->imm == reg_flags(g->arch->regs) ? BELOW_FLAGS : 0;
	if (x->op == IR_EXIT || (x->op == IR_EMIT && g_is_plain_event(g, x)))
		return BELOW_EVENT;
	return g_is_call(g, x) ? below_blob(work_of_call(x)) : 0;
}

/* Finds out which features the clause program uses. */
static void find_features(struct gen *g)
{
	uint32_t most = 0;

	if (g->entry_bits) {			/* put_exit_faults() calls the blob */
		g->calls = g->heavy = true;
		g->below = below_blob(BLOB_OTHER_WORK);
	}
	for (size_t i = 0; i < g->p->ins.n; i++) {
		const struct ir_ins *x = &g->p->ins.v[i];

		g->floats |= uses_floats(g, x);
		g->calls |= g_is_call(g, x);
		g->heavy |= g_is_heavy(g, x);
		g->stacks |= x->op == IR_STACK || x->op == IR_FRAMES;
		g->below = MAX(g->below, stack_of_call(g, x));
		most = MAX(most, words_of_call(g, x));
	}
	g->nout = most;
}

/* The words below the IR registers: ring, kept registers, floating-point state, call probe, operands. */
static int32_t place_kept(struct gen *g, int32_t off)
{
	if (g->calls) {
		g->ring = off;
		g->keep = off + 8;
		off += 8 + 8 * g->a.ops->nkept;
	}
	if (g->floats) {
		g->fp = off;
		off += g->a.ops->float_room;
	}
	if (g->p->where == IR_WHERE_ENTRY || g->p->where == IR_WHERE_EXIT) {
		g->pair = off;
		off += 8 * g_pair_words(g);
	}
	g->out = off;
	return off + 8 * g->nout;
}

/* At an exit the IR register of a saved value is the word that put_saved_values() stores it in. */
static void place_saved(struct gen *g)
{
	for (size_t i = 0; i < g->p->ins.n; i++) {
		const struct ir_ins *x = &g->p->ins.v[i];

		if (x->op == IR_SAVED && g->defs[x->dst] == 1 && (uint64_t)x->imm < g->p->nsaved)
			g->places[x->dst] = (struct place){ .home = HOME_WORD, .off = g_pair_word(g, x->imm) };
	}
}

static uint32_t area_of(const struct gen *g, const struct ir_ins *i)
{
	const struct ir_map *m;
	uint32_t words = 0;

	if (i->op == IR_STACK || i->op == IR_FRAMES)
		return 8 * PROG_STACKS_FRAMES + 512 + 4096;
	if (i->op == IR_EMIT && g_is_heavy(g, i))
		return g_event_len(g, i);
	if (i->op != IR_MAP_SET)
		return 0;
	m = &g->u->maps.v[i->map];
	for (uint32_t k = 0; k < m->nvalues; k++)
		words += maps_part_words(&m->values[k]);
	return 8 * words;
}

static int place_slots(struct gen *g)
{
	uint32_t off = PROG_SLOTS, most = 0;

	for (size_t i = 0; i < g->p->slots.n; i++) {
		if (g->p->slots.v[i].text)
			continue;
		g->slots[i] = off;
		off += (4 + g->p->slots.v[i].cap + 8 + 7) & ~7u;
		if (off >= PROG_SLOT_LIMIT)
			return fail(-ENOTSUP, "a clause has more than %u KiB of text at once: give str() and buf() lower limits",
				    PROG_SLOT_LIMIT >> 10);
	}
	for (size_t i = 0; i < g->p->ins.n; i++)
		most = MAX(most, area_of(g, &g->p->ins.v[i]));
	g->area = off;
	g->scratch = off + ((most + 7) & ~7u);
	return 0;
}

static void count_and_extend(struct gen *g, size_t n)
{
	ranges = xcalloc(n + 1, sizeof(*ranges));
	for (size_t r = 0; r < n; r++)
		ranges[r].from = SIZE_MAX;
	for (size_t i = 0; i < g->p->ins.n; i++) {
		each_operand(g, i, count);
		each_operand(g, i, extend);
	}
	extend_over_loops(g);
}

/* The head is written first, so it is at the top. ask_room needs ASK_SIZE bytes below it. */
static void place_head(struct gen *g, int32_t off)
{
	g->head = MAX(off, ASK_SIZE);
	g->frame = g->head + HEAD_SIZE;
	for (size_t i = 0; i < g->p->ins.n; i++) {
		const struct ir_ins *x = &g->p->ins.v[i];

		if (is_saved(g, x) && g->defs[x->dst] == 1)
			g->places[x->dst].off = g_work_word(g, g->a.ops->site(x->imm));
	}
}

static void place_words(struct gen *g)
{
	int32_t off = place_kept(g, 0);

	if (g->p->where == IR_WHERE_EXIT)
		place_saved(g);
	for (size_t i = 0; i < g->p->ins.n; i++) {
		if (g->p->ins.v[i].op == IR_LOOP) {
			g->rounds[g->p->ins.v[i].label] = off;
			off += 8;
		}
	}
	place_head(g, give_words(g, off));
}

/* The frame begins below the red zone. */
int32_t g_stack(const struct gen *g)
{
	return g->a.ops->red_zone + g->frame + g->below;
}

int g_analyse(struct gen *g)
{
	int32_t most = g->env->stack_max ? g->env->stack_max : GEN_STACK_MAX;
	size_t n = g->p->regs.n;

	g->places = xcalloc(n, sizeof(*g->places));
	g->reads = xcalloc(n, sizeof(*g->reads));
	g->defs = xcalloc(n, sizeof(*g->defs));
	g->labels = xcalloc(g->p->nlabels + 1, sizeof(*g->labels));
	g->heads = xcalloc(g->p->nlabels + 1, sizeof(*g->heads));
	g->rounds = xcalloc(g->p->nlabels + 1, sizeof(*g->rounds));
	g->slots = xcalloc(g->p->slots.n + 1, sizeof(*g->slots));
	g->texts = xcalloc(g->p->slots.n + 1, sizeof(*g->texts));
	if (g->p->nsaved > GEN_SAVED_MAX)
		return fail(-ENOTSUP, "the exit of a call uses %u values of its entry; at most %u are possible", g->p->nsaved,
			    GEN_SAVED_MAX);
	count_and_extend(g, n);
	for (size_t i = 0; i < g->p->ins.n; i++)
		choose_home(g, &g->p->ins.v[i]);
	look_for_faults(g);
	find_features(g);
	place_words(g);
	free(ranges);
	ranges = NULL;
	if (g_stack(g) > most)
		return fail(-ENOTSUP, "a clause needs %d bytes of the program's stack, and may take %d: it uses too many values at once; "
			    "two clauses on the same probe may do", g_stack(g), most);
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
