/* SPDX-License-Identifier: MIT */
/*
 * Aggregations are updated in the CPU's part of the maps, by a restartable sequence whose last store is the commit. An
 * aggregation of one word (a count, a bucket) is incremented. One of several words is written to the idle one of two copies;
 * then the word that selects the valid copy is stored:
 *
 *	u64 current	0 or AGG_COPY
 *	copy[2]		u64 count, sum, least, greatest, epoch
 *
 * A copy whose epoch differs from the map's counts as empty: the tracer clears a map by incrementing the map's epoch. A
 * thread that can't use its CPU's part, or whose sequence was aborted, updates the last part with atomic instructions, word by
 * word.
 */
#include "gen/emit.h"

#include "base/err.h"
#include "gen/agg_words.h"

struct agg_site {
	const struct ir_ins *i;
	const struct ir_map *m;
	const struct map_place *place;
	int32_t value;		/* offset in the frame of the word with the value */
	int32_t offset;		/* with keys: of the word with the offset of the key's value in the part */
	int32_t d, e;		/* of the words that save D and E */
	bool floats;
	bool at_hand;		/* C holds the number of the value's highest bit + HAND_BIT */
};

#define LEN_MOST (1u << 24)	/* words that len() may read: milliseconds */
#define FIRST_BIT 2		/* buckets of a histogram: negative values, 0, then one for each number of the highest bit */

static const struct map_place no_place = { .percpu = true, .value_size = 8, .entries = 1 };

const struct map_place *g_map_place(const struct gen *g, uint32_t map)
{
	return g->layout ? &g->layout->maps[map] : &no_place;
}

/* The words follow those of the keys: `offset` if there are keys; `value`, d and e if the aggregation has two copies. */
static struct agg_site site_of(const struct gen *g, const struct ir_ins *i)
{
	const struct ir_map *m = &g->u->maps.v[i->map];
	int32_t word = g->out + 8 * i->n, then = word + (m->nkeys ? 8 : 0);

	return (struct agg_site){
		.i = i, .m = m, .place = g_map_place(g, i->map),
		.offset = word, .value = then, .d = then + 8, .e = then + 16,
		.floats = i->a != IR_NONE && g->p->regs.v[i->a] == IR_F,
		.at_hand = g->at_hand == BIT_AT_HAND && g_is_duration(g, i->a),
	};
}

uint32_t g_agg_words(const struct gen *g, const struct ir_ins *i)
{
	const struct ir_map *m = &g->u->maps.v[i->map];

	return i->n + (m->nkeys ? 1 : 0) + (agg_has_flip(m) ? 3 : 0);
}

/* B += address of the map's values in a part; with keys also the word at `offset`, which is PROG_KEY_BIAS values too large */
static void put_block(struct gen *g, const struct agg_site *s, uint64_t from)
{
	if (s->m->nkeys)
		from -= (uint64_t)PROG_KEY_BIAS * s->place->value_size;
	ins(g, address, ASM_A, from);
	ins(g, alu, ASM_ADD, ASM_64, ASM_B, ASM_A);
	if (s->m->nkeys)
		ins(g, alu_from, ASM_ADD, ASM_64, ASM_B, asm_at(ASM_SP, s->offset));
}

static uint64_t part_at(const struct gen *g, const struct agg_site *s, uint32_t part)
{
	return g->env->maps + (g->layout ? g->layout->parts + g->layout->part_size * part : 0) + s->place->values;
}

/* A word of the valid copy (at C), and of the idle one (at B + A) */
#define HOLDS(off) asm_far(ASM_C, off)
#define IDLE(off) asm_indexed_far(ASM_B, ASM_A, 1, off)

/* Idle copy = minimum or maximum of the valid copy's word and the value in V0; a NaN is never chosen */
static void put_float_choice(struct gen *g, enum asm_float how, int32_t off)
{
	ins(g, vmove, ASM_V1, ASM_V0);
	ins(g, farith_from, how, ASM_V1, HOLDS(off));
	ins(g, vstore, ASM_V1, IDLE(off));
}

static void put_choice(struct gen *g, enum asm_cond how, int32_t off)
{
	ins(g, load, ASM_U64, ASM_D, HOLDS(off));
	ins(g, alu, ASM_CMP, ASM_64, ASM_E, ASM_D);
	ins(g, select, how, ASM_D, ASM_E);
	ins(g, store, ASM_64, ASM_D, IDLE(off));
}

/*
 * B: address of the aggregation. C = the valid copy, B + A = the idle one; inside of the aggregation whatever value the
 * target has written to `current`. If the valid copy has another epoch than the map, C = the map's empty copy.
 */
static void put_copies(struct gen *g, const struct agg_site *s)
{
	ins(g, load, ASM_U32, ASM_A, asm_at(ASM_B, 0));
	ins(g, alu_imm, ASM_AND, ASM_32, asm_in(ASM_A), AGG_COPY);
	ins(g, lea, ASM_64, ASM_C, asm_indexed(ASM_B, ASM_A, 1));
	ins(g, alu_imm, ASM_XOR, ASM_64, asm_in(ASM_A), AGG_COPY);
	ins(g, address, ASM_D, g->env->maps + s->place->base);
	ins(g, load, ASM_U64, ASM_E, asm_at(ASM_D, 0));			/* the epoch */
	ins(g, alu_from, ASM_CMP, ASM_64, ASM_E, HOLDS(AGG_EPOCH));
	ins(g, select, ASM_NE, ASM_C, ASM_D);
	ins(g, store, ASM_64, ASM_E, IDLE(AGG_EPOCH));
}

/* Writes the updated values to the idle copy; the store to `current` makes it valid. */
static void put_flip(struct gen *g, const struct agg_site *s)
{
	bool u = s->m->num == IR_U64;

	put_copies(g, s);
	ins(g, load, ASM_U64, ASM_D, HOLDS(AGG_COUNT));
	ins(g, unary, ASM_INC, ASM_64, asm_in(ASM_D));
	ins(g, store, ASM_64, ASM_D, IDLE(AGG_COUNT));
	if (s->floats) {
		ins(g, vload, ASM_V1, HOLDS(AGG_SUM));
		ins(g, farith, ASM_FADD, ASM_V1, ASM_V0);
		ins(g, vstore, ASM_V1, IDLE(AGG_SUM));
		put_float_choice(g, ASM_FMIN, AGG_MIN);
		put_float_choice(g, ASM_FMAX, AGG_MAX);
	} else {
		g_load_word(g, ASM_E, s->value);
		ins(g, load, ASM_U64, ASM_D, HOLDS(AGG_SUM));
		ins(g, alu, ASM_ADD, ASM_64, ASM_D, ASM_E);
		ins(g, store, ASM_64, ASM_D, IDLE(AGG_SUM));
		put_choice(g, u ? ASM_ULT : ASM_LT, AGG_MIN);
		put_choice(g, u ? ASM_UGT : ASM_GT, AGG_MAX);
	}
	ins(g, store, ASM_64, ASM_A, asm_at(ASM_B, 0));
}

/* B: address of the aggregation. Atomic minimum or maximum of the word at off, by a compare-and-exchange loop. */
static void put_locked_choice(struct gen *g, const struct agg_site *s, bool least, int32_t off)
{
	asm_label again = asm_new_label(&g->a), done = asm_new_label(&g->a);

	ins(g, load, ASM_U64, ASM_A, asm_far(ASM_B, off));
	asm_bind(&g->a, again);
	if (s->floats) {
		ins(g, vset, ASM_64, ASM_V1, ASM_A);
		ins(g, fcmp, least ? ASM_V1 : ASM_V0, least ? ASM_V0 : ASM_V1);
		ins(g, branch_short, ASM_FLE_UN, done);
	} else {
		bool u = s->m->num == IR_U64;

		ins(g, alu, ASM_CMP, ASM_64, ASM_E, ASM_A);
		ins(g, branch_short, least ? (u ? ASM_UGE : ASM_GE) : (u ? ASM_ULE : ASM_LE), done);
	}
	ins(g, atomic_cas, asm_far(ASM_B, off), ASM_E);
	ins(g, branch_short, ASM_NE, again);
	asm_bind(&g->a, done);
}

static void put_locked_flip(struct gen *g, const struct agg_site *s)
{
	g_load_word(g, ASM_E, s->value);
	if (s->floats) {
		asm_label again = asm_new_label(&g->a);

		ins(g, load, ASM_U64, ASM_A, asm_far(ASM_B, AGG_SUM));
		asm_bind(&g->a, again);
		ins(g, vset, ASM_64, ASM_V1, ASM_A);
		ins(g, farith, ASM_FADD, ASM_V1, ASM_V0);
		ins(g, vget, ASM_64, ASM_C, ASM_V1);
		ins(g, atomic_cas, asm_far(ASM_B, AGG_SUM), ASM_C);
		ins(g, branch_short, ASM_NE, again);
	} else {
		ins(g, atomic_add, asm_far(ASM_B, AGG_SUM), ASM_E);
	}
	put_locked_choice(g, s, true, AGG_MIN);
	put_locked_choice(g, s, false, AGG_MAX);
	ins(g, atomic_inc, asm_far(ASM_B, AGG_COUNT));
}

/* buckets: C is the number of the bucket */
static void put_increment(struct gen *g, bool locked, bool buckets, int32_t off)
{
	struct asm_operand word = buckets ? asm_indexed_far(ASM_B, ASM_C, 8, off) : asm_far(ASM_B, off);

	if (locked)
		ins(g, atomic_inc, word);
	else
		ins(g, unary, ASM_INC, ASM_64, word);
}

enum what { ONE_WORD, BUCKET, FLIP };

static void put_update(struct gen *g, const struct agg_site *s, enum what what, bool locked)
{
	int32_t off = s->m->kind == IR_MAP_QUANTILE ? AGG_SIZE : 0;

	if (s->m->kind == IR_MAP_HIST && !s->m->bits)
		off = 8 * (FIRST_BIT - (s->at_hand ? HAND_BIT : 0));
	if (what != FLIP)
		put_increment(g, locked, what == BUCKET, off);
	else if (locked)
		put_locked_flip(g, s);
	else
		put_flip(g, s);
}

static void put_shared(struct gen *g, const struct agg_site *s, enum what what)
{
	ins(g, imm, ASM_B, 0);
	put_block(g, s, part_at(g, s, g->layout ? g->layout->ncpus : 0));
	put_update(g, s, what, true);
}

enum { LEAVE, WHAT };		/* n[] of struct cold: label for leaving the sequence; enum what */

/* The descriptor of the sequence and its abort handler; and the update of the last part, for aborted or unused sequences. */
static void put_slow(struct gen *g, struct cold *c)
{
	struct agg_site s = site_of(g, c->p);

	ins(g, seq_rest, &c->seq, c->n[LEAVE]);
	asm_bind(&g->a, c->here);
	put_shared(g, &s, c->n[WHAT]);
	ins(g, jump, c->then);
}

static void put_sequence(struct gen *g, const struct agg_site *s, enum what what)
{
	const struct gen_env *e = g->env;
	struct cold *c = g_cold(g, put_slow);

	c->p = s->i;
	c->seq = (struct asm_sequence){ .rseq_off = e->event.rseq_off, .sig = e->event.rseq_sig };
	c->n[LEAVE] = asm_new_label(&g->a);
	c->n[WHAT] = what;
	ins(g, address, ASM_B, e->event.fast);
	ins(g, alu_imm, ASM_CMP, ASM_32, asm_at(ASM_B, 0), 0);
	g_cold_unless(g, ASM_NE, c);			/* else put_slow(); mostly the only jump over the cold parts */
	ins(g, seq_begin, &c->seq);
	ins(g, load, ASM_U32, ASM_B, asm_tls(e->event.rseq_off + RSEQ_CPU_ID));
	ins(g, alu_wide, ASM_CMP, ASM_32, ASM_B, g->layout ? g->layout->ncpus : 0);
	ins(g, branch, ASM_UGE, c->n[LEAVE]);		/* the CPU has no part, or the number is no CPU's */
	ins(g, mul_imm, ASM_64, ASM_B, ASM_B, g->layout ? g->layout->part_size : 0);
	put_block(g, s, part_at(g, s, 0));
	put_update(g, s, what, false);
	ins(g, seq_commit, &c->seq);
	asm_bind(&g->a, c->then);
}

static void put_one(struct gen *g, const struct agg_site *s, enum what what)
{
	if (what == FLIP) {
		g_store_word(g, ASM_D, s->d);
		g_store_word(g, ASM_E, s->e);
	}
	if (s->floats && what == FLIP)
		g_load_f(g, ASM_V0, s->i->a);
	g->acc = IR_NONE;
	if (g->env->event.has_rseq && s->place->percpu)
		put_sequence(g, s, what);
	else
		put_shared(g, s, what);
	if (what == FLIP) {
		g_load_word(g, ASM_D, s->d);
		g_load_word(g, ASM_E, s->e);
	}
}

/* A: the value, not negative. C = log_index(A) (lang/agg.c) + add. */
static void put_log_index(struct gen *g, unsigned int bits, int32_t add)
{
	asm_label small = asm_new_label(&g->a), done = asm_new_label(&g->a);

	ins(g, alu_wide, ASM_CMP, ASM_64, ASM_A, 1u << bits);
	ins(g, branch_short, ASM_ULT, small);
	ins(g, highest_bit, ASM_B, ASM_A);
	ins(g, alu_imm, ASM_SUB, ASM_32, asm_in(ASM_B), bits);
	ins(g, shift_by, ASM_SHR, ASM_A);
	ins(g, shift, ASM_SHL, ASM_32, ASM_B, bits);
	ins(g, lea, ASM_32, ASM_C, asm_indexed_far(ASM_B, ASM_A, 1, add));
	ins(g, jump_short, done);
	asm_bind(&g->a, small);
	ins(g, lea, ASM_32, ASM_C, asm_far(ASM_A, add));
	asm_bind(&g->a, done);
}

static void put_negative(struct gen *g, struct cold *c)
{
	ins(g, imm, ASM_C, (uint64_t)-FIRST_BIT);
	ins(g, jump, c->then);
}

void g_highest_bit(struct gen *g)
{
	ins(g, alu_imm, ASM_OR, ASM_64, asm_in(ASM_C), -1);
	ins(g, highest_bit, ASM_C, ASM_A);
}

bool g_wants_bit(const struct gen *g, const struct ir_ins *i)
{
	const struct ir_map *m = i->op == IR_MAP_AGG ? &g->u->maps.v[i->map] : NULL;

	return m && m->kind == IR_MAP_HIST && !m->bits && !m->nkeys && g->reads[i->a] == 1;
}

/* C = number of the bucket, counted from FIRST_BIT */
static void put_hist_bit(struct gen *g, const struct agg_site *s)
{
	asm_label then = 0;

	if (!g_is_duration(g, s->i->a)) {
		struct cold *c = g_cold(g, put_negative);

		then = c->then;
		ins(g, alu, ASM_TEST, ASM_64, ASM_A, ASM_A);
		ins(g, branch, ASM_NEG, c->here);
	}
	g_highest_bit(g);
	if (then)
		asm_bind(&g->a, then);
}

static void put_hist_bucket(struct gen *g, const struct agg_site *s)
{
	asm_label minus;

	if (!s->m->bits) {
		put_hist_bit(g, s);
		return;
	}
	minus = asm_new_label(&g->a);
	ins(g, imm, ASM_C, 0);
	ins(g, alu, ASM_TEST, ASM_64, ASM_A, ASM_A);
	ins(g, branch_short, ASM_NEG, minus);
	put_log_index(g, s->m->bits, 1);
	asm_bind(&g->a, minus);
}

static void put_quantile_bucket(struct gen *g)
{
	asm_label plus = asm_new_label(&g->a), done = asm_new_label(&g->a);

	ins(g, alu, ASM_TEST, ASM_64, ASM_A, ASM_A);
	ins(g, branch_short, ASM_POS, plus);
	ins(g, unary, ASM_NOT, ASM_64, asm_in(ASM_A));
	put_log_index(g, QUANTILE_BITS, 0);
	ins(g, unary, ASM_MINUS, ASM_32, asm_in(ASM_C));
	ins(g, alu_imm, ASM_ADD, ASM_32, asm_in(ASM_C), 1023);		/* half - 1 */
	ins(g, jump_short, done);
	asm_bind(&g->a, plus);
	put_log_index(g, QUANTILE_BITS, 1024);
	asm_bind(&g->a, done);
}

static void put_lhist_bucket(struct gen *g, const struct agg_site *s)
{
	uint32_t last = lhist_buckets(s->m->lo, s->m->hi, s->m->step) - 1;
	asm_label outside = asm_new_label(&g->a);

	ins(g, address, ASM_B, s->m->lo);
	ins(g, imm, ASM_C, 0);
	ins(g, alu, ASM_CMP, ASM_64, ASM_A, ASM_B);
	ins(g, branch_short, ASM_LT, outside);
	ins(g, address, ASM_C, s->m->hi);
	ins(g, alu, ASM_CMP, ASM_64, ASM_A, ASM_C);
	ins(g, imm32, ASM_C, last);			/* flags stay */
	ins(g, branch_short, ASM_GE, outside);
	ins(g, alu, ASM_SUB, ASM_64, ASM_A, ASM_B);
	ins(g, imm, ASM_C, 0);
	ins(g, address, ASM_B, s->m->step);
	ins(g, udiv, ASM_B);
	ins(g, lea, ASM_32, ASM_C, asm_at(ASM_A, 1));
	asm_bind(&g->a, outside);
}

/* A: the value. C = its bucket */
static void put_bucket(struct gen *g, const struct agg_site *s)
{
	if (s->m->kind == IR_MAP_HIST)
		put_hist_bucket(g, s);
	else if (s->m->kind == IR_MAP_LHIST)
		put_lhist_bucket(g, s);
	else
		put_quantile_bucket(g);
}

static void put_in_bucket(struct gen *g, const struct agg_site *s)
{
	if (!s->at_hand) {
		g_load(g, ASM_A, s->i->a);
		put_bucket(g, s);
	}
	put_one(g, s, BUCKET);
}

static void put_agg(struct gen *g, const struct ir_ins *i)
{
	struct agg_site s = site_of(g, i);
	asm_label end = s.m->nkeys ? g_agg_key(g, i, s.offset) : 0;

	if (i->a != IR_NONE && s.m->kind != IR_MAP_COUNT && agg_has_flip(s.m)) {
		g_load(g, ASM_A, i->a);
		g_store_word(g, ASM_A, s.value);
	}
	if (s.m->kind == IR_MAP_COUNT)
		put_one(g, &s, ONE_WORD);
	else if (agg_has_flip(s.m))
		put_one(g, &s, FLIP);
	if (agg_buckets(s.m))
		put_in_bucket(g, &s);
	g->acc = IR_NONE;
	if (end)
		asm_bind(&g->a, end);
}

bool g_map(struct gen *g, const struct ir_ins *i)
{
	const struct ir_map *m;

	if (i->op < IR_MAP_GET || i->op > IR_MAP_LEN)
		return false;
	m = &g->u->maps.v[i->map];
	if (i->op == IR_MAP_AGG) {
		put_agg(g, i);
		return true;
	}
	if (g_is_value(g, i)) {
		g_value(g, i);
		return true;
	}
	if (i->op == IR_MAP_GET && m->kind > IR_MAP_MAX) {
		g->error = fail(-ENOTSUP, "%s has no single number that could be read", m->name);
		return true;
	}
	if (i->op == IR_MAP_LEN && m->kind != IR_MAP_VALUE && g->layout &&
	    2ull * m->max_keys * (g->layout->ncpus + 1) * (agg_has_flip(m) ? 4 : agg_counters(m)) > LEN_MOST) {
		g->error = fail(-ENOTSUP, "len(%s): the keys of an aggregation are counted one by one, and with up to %u that takes too long",
				m->name, m->max_keys);
		return true;
	}
	return false;
}
