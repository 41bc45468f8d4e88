/* SPDX-License-Identifier: MIT */
/*
 * Aggregations, in the part of the CPU, by a restartable sequence whose last store is what makes it
 * happen. What has one word (count, a bucket) is one increment. What has more is written to the idle one
 * of two copies, then the word that says which one holds:
 *
 *	u64 current	0 or AGG_COPY
 *	copy[2]		u64 count, sum, least, greatest, epoch
 *
 * A copy whose epoch isn't that of the map is as good as empty: so it is cleared from outside.
 * Who can't use the part of its CPU, or was interrupted, adds to the last part, word by word and locked.
 */
#include "gen/emit.h"

#include "base/err.h"
#include "gen/agg_words.h"

struct agg_site {
	const struct ir_ins *i;
	const struct ir_map *m;
	const struct map_place *place;
	int32_t value;		/* words of the frame */
	int32_t offset;		/* of the entry, where there are keys */
	int32_t rsi, rdi;
	bool floats;
	bool at_hand;		/* its bucket is, counted from HAND_BIT below the first bit's */
};

#define LEN_MOST (1u << 24)	/* words to look at: milliseconds */
#define FIRST_BIT 2		/* of a histogram's buckets: behind those of what is negative and of 0 there is one for each highest bit */

static const struct map_place no_place = { .percpu = true, .value_size = 8, .entries = 1 };

const struct map_place *g_map_place(const struct gen *g, uint32_t map)
{
	return g->layout ? &g->layout->maps[map] : &no_place;
}

/* Behind the keys: where there are any the offset, and for what has more than a word the other three. */
static struct agg_site site_of(const struct gen *g, const struct ir_ins *i)
{
	const struct ir_map *m = &g->u->maps.v[i->map];
	int32_t word = g->out + 8 * i->n, then = word + (m->nkeys ? 8 : 0);

	return (struct agg_site){
		.i = i, .m = m, .place = g_map_place(g, i->map),
		.offset = word, .value = then, .rsi = then + 8, .rdi = then + 16,
		.floats = i->a != IR_NONE && g->p->regs.v[i->a] == IR_F,
		.at_hand = g->at_hand == BIT_AT_HAND && g_is_duration(g, i->a),
	};
}

uint32_t g_agg_words(const struct gen *g, const struct ir_ins *i)
{
	const struct ir_map *m = &g->u->maps.v[i->map];

	return i->n + (m->nkeys ? 1 : 0) + (agg_has_flip(m) ? 3 : 0);
}

/* rcx = block in part `part`; the keyed ones had 16 entries too many added */
static void put_block(struct gen *g, const struct agg_site *s, uint64_t from)
{
	if (s->m->nkeys)
		from -= (uint64_t)PROG_KEY_BIAS * s->place->value_size;
	g_address(g, RAX, from);
	op(g, 0x48, 0x01, 0xc1);			/* add  %rax,%rcx */
	if (s->m->nkeys) {
		op(g, 0x48, 0x03);			/* add  offset(%rsp),%rcx */
		g_rsp(g, RCX, s->offset);
	}
}

static uint64_t part_at(const struct gen *g, const struct agg_site *s, uint32_t part)
{
	return g->env->maps + (g->layout ? g->layout->parts + g->layout->part_size * part : 0) + s->place->values;
}

/* xmm1 = value or what is there, whichever is less (0x5d) or greater (0x5f); a NaN is never */
static void put_float_choice(struct gen *g, uint8_t how, int32_t off)
{
	op(g, 0x0f, 0x28, 0xc8);			/* movaps %xmm0,%xmm1 */
	op(g, 0xf2, 0x0f, how);				/* minsd off(%rdx),%xmm1 */
	g_mem(g, 1, RDX, off);
	op(g, 0xf2, 0x0f, 0x11, 0x8c, 0x01);		/* movsd %xmm1,off(%rcx,%rax) */
	g_u32(g, off);
}

static void put_choice(struct gen *g, uint8_t cmov, int32_t off)
{
	op(g, 0x48, 0x8b);				/* mov  off(%rdx),%rsi */
	g_mem(g, RSI, RDX, off);
	op(g, 0x48, 0x39, 0xf7);			/* cmp  %rsi,%rdi */
	op(g, 0x48, 0x0f, cmov, 0xf7);			/* cmovl %rdi,%rsi */
	op(g, 0x48, 0x89, 0xb4, 0x01);			/* mov  %rsi,off(%rcx,%rax) */
	g_u32(g, off);
}

/* Block in rcx. From the copy that holds (rdx) to the other (rcx + rax), and the store that makes it hold. */
static void put_flip(struct gen *g, const struct agg_site *s)
{
	bool u = s->m->num == IR_U64;

	op(g, 0x8b, 0x01);				/* mov  (%rcx),%eax */
	op(g, 0x83, 0xe0, AGG_COPY);			/* and  $AGG_COPY,%eax: whatever stands there */
	op(g, 0x48, 0x8d, 0x14, 0x01);			/* lea  (%rcx,%rax),%rdx */
	op(g, 0x48, 0x83, 0xf0, AGG_COPY);		/* xor  $AGG_COPY,%rax */
	g_address(g, RSI, g->env->maps + s->place->base);
	op(g, 0x48, 0x8b, 0x3e);			/* mov  (%rsi),%rdi: the epoch */
	op(g, 0x48, 0x3b);				/* cmp  epoch(%rdx),%rdi */
	g_mem(g, RDI, RDX, AGG_EPOCH);
	op(g, 0x48, 0x0f, 0x45, 0xd6);			/* cmovne %rsi,%rdx: an empty copy */
	op(g, 0x48, 0x89, 0xbc, 0x01);			/* mov  %rdi,epoch(%rcx,%rax) */
	g_u32(g, AGG_EPOCH);
	op(g, 0x48, 0x8b);				/* mov  count(%rdx),%rsi */
	g_mem(g, RSI, RDX, AGG_COUNT);
	op(g, 0x48, 0xff, 0xc6);			/* inc  %rsi */
	op(g, 0x48, 0x89, 0xb4, 0x01);			/* mov  %rsi,count(%rcx,%rax) */
	g_u32(g, AGG_COUNT);
	if (s->floats) {
		op(g, 0xf2, 0x0f, 0x10);		/* movsd sum(%rdx),%xmm1 */
		g_mem(g, 1, RDX, AGG_SUM);
		op(g, 0xf2, 0x0f, 0x58, 0xc8);		/* addsd %xmm0,%xmm1 */
		op(g, 0xf2, 0x0f, 0x11, 0x8c, 0x01);	/* movsd %xmm1,sum(%rcx,%rax) */
		g_u32(g, AGG_SUM);
		put_float_choice(g, 0x5d, AGG_MIN);
		put_float_choice(g, 0x5f, AGG_MAX);
	} else {
		g_load_word(g, RDI, s->value);
		op(g, 0x48, 0x8b);			/* mov  sum(%rdx),%rsi */
		g_mem(g, RSI, RDX, AGG_SUM);
		op(g, 0x48, 0x01, 0xfe);		/* add  %rdi,%rsi */
		op(g, 0x48, 0x89, 0xb4, 0x01);		/* mov  %rsi,sum(%rcx,%rax) */
		g_u32(g, AGG_SUM);
		put_choice(g, u ? 0x42 : 0x4c, AGG_MIN);
		put_choice(g, u ? 0x47 : 0x4f, AGG_MAX);
	}
	op(g, 0x48, 0x89, 0x01);			/* mov  %rax,(%rcx) */
}

/* rcx: block. Replace the word at off until nobody else has changed it meanwhile. */
static void put_locked_choice(struct gen *g, const struct agg_site *s, bool least, int32_t off)
{
	size_t again, done;

	op(g, 0x48, 0x8b);				/* mov  off(%rcx),%rax */
	g_mem(g, RAX, RCX, off);
	again = g->code.n;
	if (s->floats) {
		op(g, 0x66, 0x48, 0x0f, 0x6e, 0xc8);	/* movq %rax,%xmm1 */
		if (least)
			op(g, 0x66, 0x0f, 0x2e, 0xc8);	/* ucomisd %xmm0,%xmm1 */
		else
			op(g, 0x66, 0x0f, 0x2e, 0xc1);	/* ucomisd %xmm1,%xmm0 */
		op(g, 0x76, 0);				/* jbe  done */
	} else {
		bool u = s->m->num == IR_U64;

		op(g, 0x48, 0x39, 0xc7);		/* cmp  %rax,%rdi */
		op(g, least ? (u ? 0x73 : 0x7d) : (u ? 0x76 : 0x7e), 0);
	}
	done = g->code.n;
	op(g, 0xf0, 0x48, 0x0f, 0xb1);			/* lock cmpxchg %rdi,off(%rcx) */
	g_mem(g, RDI, RCX, off);
	op(g, 0x75, again - (g->code.n + 2));		/* jne  again */
	g->code.v[done - 1] = g->code.n - done;
}

static void put_locked_flip(struct gen *g, const struct agg_site *s)
{
	g_load_word(g, RDI, s->value);
	if (s->floats) {
		size_t again;

		op(g, 0x48, 0x8b);			/* mov  sum(%rcx),%rax */
		g_mem(g, RAX, RCX, AGG_SUM);
		again = g->code.n;
		op(g, 0x66, 0x48, 0x0f, 0x6e, 0xc8);	/* movq %rax,%xmm1 */
		op(g, 0xf2, 0x0f, 0x58, 0xc8);		/* addsd %xmm0,%xmm1 */
		op(g, 0x66, 0x48, 0x0f, 0x7e, 0xca);	/* movq %xmm1,%rdx */
		op(g, 0xf0, 0x48, 0x0f, 0xb1);		/* lock cmpxchg %rdx,sum(%rcx) */
		g_mem(g, RDX, RCX, AGG_SUM);
		op(g, 0x75, again - (g->code.n + 2));
	} else {
		op(g, 0xf0, 0x48, 0x01);		/* lock add %rdi,sum(%rcx) */
		g_mem(g, RDI, RCX, AGG_SUM);
	}
	put_locked_choice(g, s, true, AGG_MIN);
	put_locked_choice(g, s, false, AGG_MAX);
	op(g, 0xf0, 0x48, 0xff);			/* lock incq count(%rcx) */
	g_mem(g, 0, RCX, AGG_COUNT);
}

/* rdx is the bucket, or there is none */
static void put_increment(struct gen *g, bool locked, bool buckets, int32_t off)
{
	if (locked)
		op(g, 0xf0);
	if (buckets)
		op(g, 0x48, 0xff, 0x84, 0xd1);		/* incq off(%rcx,%rdx,8) */
	else
		op(g, 0x48, 0xff, 0x81);		/* incq off(%rcx) */
	g_u32(g, off);
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

static void put_disarm(struct gen *g)
{
	op(g, 0x64, 0x48, 0xc7, 0x04, 0x25);		/* movq $0,%fs:rseq_cs */
	g_u32(g, g->env->event.rseq_off + RSEQ_CS);
	g_u32(g, 0);
}

static void put_shared(struct gen *g, const struct agg_site *s, enum what what)
{
	g_mov_imm(g, RCX, 0);
	put_block(g, s, part_at(g, s, g->layout ? g->layout->ncpus : 0));
	put_update(g, s, what, true);
}

enum { SEQUENCE, TO_DESCRIPTOR, SLOW, WHAT };	/* two offsets in one word: the second one << 32 */

/*
 * Behind the end: the descriptor, aligned by its address; the way out of the sequence, which disarms it; and where an aborted one
 * goes on, which the kernel has disarmed, and who has not begun one.
 */
static void put_slow(struct gen *g, struct cold *c)
{
	struct agg_site s = site_of(g, c->p);
	uint64_t here = g->at + g->code.n, d = (here + 31) & ~31ull, start = (uint32_t)c->n[SEQUENCE];
	struct rseq_descriptor desc = {
		.start_ip = g->at + start, .post_commit_offset = (c->n[SEQUENCE] >> 32) - start, .abort_ip = here + 31 + 32 + 13 + 2 + 4,
	};

	for (uint64_t k = here; k < here + 31 + 32; k++)
		op(g, k >= d && k < d + 32 ? ((const uint8_t *)&desc)[k - d] : 0xcc);
	g_land(g, c->n[TO_DESCRIPTOR], d - g->at);
	g_land(g, (uint32_t)c->n[SLOW], g->code.n);
	put_disarm(g);
	op(g, 0xeb, 4);					/* jmp  over the signature */
	g_u32(g, g->env->event.rseq_sig);
	g_land(g, c->n[SLOW] >> 32, g->code.n);
	put_shared(g, &s, c->n[WHAT]);
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
}

static void put_sequence(struct gen *g, const struct agg_site *s, enum what what)
{
	const struct gen_env *e = g->env;
	struct cold *c = g_cold(g, put_slow);
	size_t to_descriptor, start, none, end, alike;

	g_address(g, RCX, e->event.fast);
	op(g, 0x83, 0x39, 0);				/* cmpl $0,(%rcx) */
	g_cold_unless(g, 5, c);				/* jne  1f, or slow: mostly the only jump over the cold parts */
	alike = c->from[0];
	op(g, 0x48, 0x8d, 0x05);			/* lea  descriptor(%rip),%rax */
	to_descriptor = g_later(g);
	op(g, 0x64, 0x48, 0x89, 0x04, 0x25);		/* mov  %rax,%fs:rseq_cs */
	g_u32(g, e->event.rseq_off + RSEQ_CS);
	/* Nothing between that store and the start, or a signal there would disarm it unseen. */
	start = g->code.n;
	op(g, 0x64, 0x8b, 0x0c, 0x25);			/* mov  %fs:cpu_id,%ecx */
	g_u32(g, e->event.rseq_off + RSEQ_CPU_ID);
	op(g, 0x81, 0xf9);				/* cmp  $ncpus,%ecx */
	g_u32(g, g->layout ? g->layout->ncpus : 0);
	op(g, 0x0f, 0x83);				/* jae  leave: it has no part, whatever it is */
	none = g_later(g);
	op(g, 0x48, 0x69, 0xc9);			/* imul $part_size,%rcx,%rcx */
	g_u32(g, g->layout ? g->layout->part_size : 0);
	put_block(g, s, part_at(g, s, 0));
	put_update(g, s, what, false);
	end = g->code.n;
	put_disarm(g);					/* the descriptor may be unmapped later */
	*c = (struct cold){ .put = put_slow, .p = s->i, .back = g->code.n,
			    .n = { [SEQUENCE] = start | end << 32, [TO_DESCRIPTOR] = to_descriptor, [SLOW] = none | alike << 32, [WHAT] = what } };
}

static void put_one(struct gen *g, const struct agg_site *s, enum what what)
{
	if (what == FLIP) {
		g_store_word(g, RSI, s->rsi);
		g_store_word(g, RDI, s->rdi);
	}
	if (s->floats && what == FLIP)
		g_load_f(g, 0, s->i->a);
	g->acc = IR_NONE;
	if (g->env->event.has_rseq && s->place->percpu)
		put_sequence(g, s, what);
	else
		put_shared(g, s, what);
	if (what == FLIP) {
		g_load_word(g, RSI, s->rsi);
		g_load_word(g, RDI, s->rdi);
	}
}

/* In rax: the value, not negative. edx = log_index() of it (lang/agg.c) + add. */
static void put_log_index(struct gen *g, unsigned int bits, int32_t add)
{
	size_t small, done;

	op(g, 0x48, 0x3d);				/* cmp  $2^bits,%rax */
	g_u32(g, 1u << bits);
	op(g, 0x72, 0);					/* jb   1f */
	small = g->code.n;
	op(g, 0x48, 0x0f, 0xbd, 0xc8);			/* bsr  %rax,%rcx */
	op(g, 0x83, 0xe9, bits);			/* sub  $bits,%ecx */
	op(g, 0x48, 0xd3, 0xe8);			/* shr  %cl,%rax */
	op(g, 0xc1, 0xe1, bits);			/* shl  $bits,%ecx */
	op(g, 0x8d, 0x94, 0x01);			/* lea  add(%rcx,%rax),%edx */
	g_u32(g, add);
	op(g, 0xeb, 0);					/* jmp  2f */
	done = g->code.n;
	g->code.v[small - 1] = g->code.n - small;
	op(g, 0x8d, 0x90);				/* 1: lea add(%rax),%edx */
	g_u32(g, add);
	g->code.v[done - 1] = g->code.n - done;		/* 2: */
}

static void put_negative(struct gen *g, struct cold *c)
{
	op(g, 0x48, 0xc7, 0xc2);			/* mov  $-FIRST_BIT,%rdx */
	g_u32(g, -FIRST_BIT);
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
}

void g_highest_bit(struct gen *g)
{
	op(g, 0x48, 0x83, 0xca, 0xff);			/* or   $-1,%rdx */
	op(g, 0x48, 0x0f, 0xbd, 0xd0);			/* bsr  %rax,%rdx: of 0 there is none, and rdx stays */
}

bool g_wants_bit(const struct gen *g, const struct ir_ins *i)
{
	const struct ir_map *m = i->op == IR_MAP_AGG ? &g->u->maps.v[i->map] : NULL;

	return m && m->kind == IR_MAP_HIST && !m->bits && !m->nkeys && g->reads[i->a] == 1;
}

/* rdx = the bucket, counted from the first bit's */
static void put_hist_bit(struct gen *g, const struct agg_site *s)
{
	struct cold *c = NULL;

	if (!g_is_duration(g, s->i->a)) {
		op(g, 0x48, 0x85, 0xc0, 0x0f, 0x88);	/* test %rax,%rax; js negative */
		c = g_cold(g, put_negative);
		c->from[0] = g_later(g);
	}
	g_highest_bit(g);
	if (c)
		c->back = g->code.n;
}

static void put_hist_bucket(struct gen *g, const struct agg_site *s)
{
	size_t minus;

	if (!s->m->bits) {
		put_hist_bit(g, s);
		return;
	}
	op(g, 0x31, 0xd2, 0x48, 0x85, 0xc0, 0x78, 0);	/* xor  %edx,%edx; test %rax,%rax; js 1f */
	minus = g->code.n;
	put_log_index(g, s->m->bits, 1);
	g->code.v[minus - 1] = g->code.n - minus;
}

static void put_quantile_bucket(struct gen *g)
{
	size_t plus, done;

	op(g, 0x48, 0x85, 0xc0, 0x79, 0);		/* test %rax,%rax; jns 1f */
	plus = g->code.n;
	op(g, 0x48, 0xf7, 0xd0);			/* not  %rax */
	put_log_index(g, QUANTILE_BITS, 0);
	op(g, 0xf7, 0xda, 0x81, 0xc2);			/* neg  %edx; add $half - 1,%edx */
	g_u32(g, 1023);
	op(g, 0xeb, 0);					/* jmp  2f */
	done = g->code.n;
	g->code.v[plus - 1] = g->code.n - plus;
	put_log_index(g, QUANTILE_BITS, 1024);		/* 1: */
	g->code.v[done - 1] = g->code.n - done;		/* 2: */
}

static void put_lhist_bucket(struct gen *g, const struct agg_site *s)
{
	uint32_t last = lhist_buckets(s->m->lo, s->m->hi, s->m->step) - 1;
	size_t below, above;

	g_address(g, RCX, s->m->lo);
	op(g, 0x31, 0xd2, 0x48, 0x39, 0xc8, 0x7c, 0);	/* xor  %edx,%edx; cmp %rcx,%rax; jl 1f */
	below = g->code.n;
	g_address(g, RDX, s->m->hi);
	op(g, 0x48, 0x39, 0xd0, 0xba);			/* cmp  %rdx,%rax; mov $last,%edx */
	g_u32(g, last);
	op(g, 0x7d, 0);					/* jge  1f */
	above = g->code.n;
	op(g, 0x48, 0x29, 0xc8, 0x31, 0xd2);		/* sub  %rcx,%rax; xor %edx,%edx */
	g_address(g, RCX, s->m->step);
	op(g, 0x48, 0xf7, 0xf1, 0x8d, 0x50, 1);		/* div  %rcx; lea 1(%rax),%edx */
	g->code.v[below - 1] = g->code.n - below;	/* 1: */
	g->code.v[above - 1] = g->code.n - above;
}

/* rax: the value. rdx = its bucket */
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
		g_load(g, RAX, s->i->a);
		put_bucket(g, s);
	}
	put_one(g, s, BUCKET);
}

static void put_agg(struct gen *g, const struct ir_ins *i)
{
	struct agg_site s = site_of(g, i);
	size_t find = s.m->nkeys ? g_agg_key(g, i, s.offset) : 0;

	if (i->a != IR_NONE && s.m->kind != IR_MAP_COUNT && agg_has_flip(s.m)) {
		g_load(g, RAX, i->a);
		g_store_word(g, RAX, s.value);
	}
	if (s.m->kind == IR_MAP_COUNT)
		put_one(g, &s, ONE_WORD);
	else if (agg_has_flip(s.m))
		put_one(g, &s, FLIP);
	if (agg_buckets(s.m))
		put_in_bucket(g, &s);
	g->acc = IR_NONE;
	if (s.m->nkeys)
		g->cold.v[find].n[AGG_KEY_END] = g->code.n;
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
