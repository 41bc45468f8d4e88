/* SPDX-License-Identifier: MIT */
/*
 * Native programs with maps, text and events: what they leave is what the interpreter leaves, and nothing of
 * the machine changes, not even when every instruction is interrupted. Random programs are in fuzz_gen.c.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>

#include <stdlib.h>

#pragma push_macro("fail")
#undef fail
#include "base/err.h"
#pragma pop_macro("fail")
#include "gen_run.h"

#define RDI 7
#define RSI 6

/* ---- one world for both ---- */

struct world {
	struct ir_unit u;
	struct ir_prog *p;
	struct maps_layout *l;
	struct maps_reader *r;
	struct store *store;
	struct interp in;
};

static struct world *world_new(void)
{
	struct world *w = xcalloc(1, sizeof(*w));

	w->p = ir_prog_new(&w->u, IR_WHERE_SITE, 0);
	return w;
}

static uint32_t reg_of(struct world *w, int number)
{
	struct ir_ins *i = gen_ins(w->p, IR_REG);

	i->imm = number;
	return i->dst = gen_reg(w->p, IR_I);
}

/* Its programs are complete. */
static void world_start(struct world *w, bool has_rseq)
{
	struct gen_env env;

	gen_ins(w->p, IR_RET);
	if (ir_verify(&w->u, w->p))
		fail_msg("%s", ir_verify(&w->u, w->p));
	assert_int_equal(maps_layout_new(&w->u, ncpus, &w->l), 0);
	assert_true(w->l->size <= GEN_MAPS);
	memset(gen_maps_memory, 0, w->l->size);
	memset(gen_errors, 0, sizeof(gen_errors));
	memset(gen_cells, 0, sizeof(gen_cells));
	maps_init(&w->u, w->l, gen_maps_memory);
	w->r = maps_reader_new(&w->u, w->l, gen_maps_memory);
	w->store = store_new(&w->u);
	w->in = (struct interp){ .unit = &w->u, .ops = &store_ops, .store = w->store, .cells = xcalloc(256, 8) };
	env = gen_make_env(has_rseq, w->l);
	if (gen_place(&w->u, w->p, &env, 16) < 0)
		fail_msg("%s", err_text());
}

static void world_free(struct world *w)
{
	maps_reader_free(w->r);
	store_free(w->store);
	free(w->l);
	free(w->in.cells);
	ir_unit_free(&w->u);
	free(w);
}

/* Both ways once, with these values of rdi and rsi. */
static void hit(struct world *w, uint64_t rdi, uint64_t rsi, void (*run)(void))
{
	const char *what;

	gen_machine(random_word(), random_word() % 16);
	machine_in.gpr[RDI] = rdi;
	machine_in.gpr[RSI] = rsi;
	what = gen_run(run);
	if (what)
		fail_msg("%s has changed", what);
	gen_judge(&w->in, w->p);
	assert_int_equal(gen_native.n, gen_judged.n);
	assert_int_equal(gen_native.len, gen_judged.len);
	assert_memory_equal(gen_native.payload, gen_judged.payload, gen_judged.len);
	assert_memory_equal(gen_errors[0], w->in.errors, sizeof(w->in.errors));
}

static void same_entry(const struct ir_map *m, const struct map_entry *a, const struct map_entry *b)
{
	uint32_t n = agg_buckets(m);

	assert_int_equal(a->value_len, b->value_len);
	if (a->value_len)
		assert_memory_equal(a->value, b->value, a->value_len);
	if (!a->agg)
		return;
	assert_int_equal(a->agg->count, b->agg->count);
	if (m->kind >= IR_MAP_SUM && m->kind <= IR_MAP_STATS) {
		assert_int_equal(a->agg->sum.u, b->agg->sum.u);
		assert_int_equal(a->agg->min.u, b->agg->min.u);
		assert_int_equal(a->agg->max.u, b->agg->max.u);
	}
	for (uint32_t i = 0; i < n; i++)
		if (a->agg->buckets[i] != b->agg->buckets[i])
			fail_msg("kind %d, %d bits, bucket %u: %d, not %d", m->kind, m->bits, i, (int)a->agg->buckets[i],
				 (int)b->agg->buckets[i]);
}

static void same_maps(struct world *w)
{
	for (uint32_t map = 0; map < w->u.maps.n; map++) {
		struct map_list list = { 0 };

		store_ops.list(w->store, map, &list);
		assert_int_equal(maps_reader_ops.len(w->r, map), list.n);
		for (size_t i = 0; i < list.n; i++) {
			struct bytes key = { (uint8_t *)list.v[i].key, list.v[i].key_len, 0 };
			struct map_entry e;

			assert_true(maps_reader_ops.get(w->r, map, &key, &e));
			same_entry(&w->u.maps.v[map], &e, &list.v[i]);
		}
		vec_free(&list);
	}
}

/* ---- aggregations ---- */

static void agg_ins(struct world *w, uint32_t map, uint32_t value, uint32_t nkeys, const uint32_t *keys)
{
	struct ir_ins *i = gen_ins(w->p, IR_MAP_AGG);

	i->map = map;
	i->a = w->u.maps.v[map].kind == IR_MAP_COUNT ? IR_NONE : value;
	for (uint32_t k = 0; k < nkeys; k++)
		gen_arg(w->p, i, IR_U64, keys[k], 0);
	i->nkeys = nkeys;
}

static const uint8_t kinds[] = { IR_MAP_COUNT, IR_MAP_SUM, IR_MAP_AVG, IR_MAP_MIN, IR_MAP_MAX, IR_MAP_STATS, IR_MAP_HIST, IR_MAP_HIST,
				 IR_MAP_LHIST, IR_MAP_QUANTILE };

static struct world *world_of_aggs(uint8_t num, uint32_t nkeys)
{
	struct world *w = world_new();
	uint32_t value = reg_of(w, RSI), keys[2] = { reg_of(w, RDI), 0 };

	keys[1] = keys[0];
	for (uint32_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct ir_map *m = gen_map(&w->u, kinds[k], num, nkeys);

		m->max_keys = 64;
		m->bits = k == 7 ? 3 : 0;
		m->lo = -10;
		m->hi = 100;
		m->step = 7;
		agg_ins(w, k, value, nkeys, keys);
	}
	return w;
}

static uint64_t any_value(void)
{
	static const uint64_t odd[] = { 0, 1, -1ull, 2, 3, 4, 7, 8, 9, 99, 100, -10ull, -11ull, 1ull << 63, (1ull << 63) - 1, 1ull << 62 };

	return random_word() % 2 ? odd[random_word() % ARRAY_SIZE(odd)] : random_word() >> random_word() % 64;
}

static void run_aggs(uint8_t num, uint32_t nkeys, bool has_rseq, int hits, void (*run)(void))
{
	struct world *w = world_of_aggs(num, nkeys);

	world_start(w, has_rseq);
	for (int i = 0; i < hits; i++)
		hit(w, random_word() % 50, any_value(), run);
	same_maps(w);
	world_free(w);
}

static void aggregations(void **state)
{
	run_aggs(IR_I64, 0, true, 300, machine_run);
	run_aggs(IR_U64, 0, true, 300, machine_run);
	run_aggs(IR_I64, 0, false, 300, machine_run);
	run_aggs(IR_U64, 0, false, 300, machine_run);
}

static void aggregations_by_key(void **state)
{
	run_aggs(IR_I64, 1, true, 300, machine_run);
	run_aggs(IR_U64, 2, false, 300, machine_run);
}

/* Each sequence is aborted. */
static void aggregations_interrupted(void **state)
{
	run_aggs(IR_I64, 0, true, 20, machine_run_stepped);
	run_aggs(IR_I64, 1, true, 20, machine_run_stepped);
}

static void float_aggregations(void **state)
{
	for (int way = 0; way < 3; way++) {
		struct world *w = world_new();
		uint32_t value = gen_reg(w->p, IR_F), from = reg_of(w, RSI);
		struct ir_ins *i = gen_ins(w->p, IR_I2F);

		i->type = IR_F64;
		i->a = from;
		i->dst = value;
		for (uint32_t k = IR_MAP_SUM; k <= IR_MAP_STATS; k++) {
			gen_map(&w->u, k, IR_F64, 0);
			agg_ins(w, k - IR_MAP_SUM, value, 0, NULL);
		}
		world_start(w, way != 1);
		for (int k = 0; k < 50; k++)		/* whole numbers: their sum does not depend on the order */
			hit(w, 0, random_word() % 2001 - 1000, way == 2 ? machine_run_stepped : machine_run);
		same_maps(w);
		world_free(w);
	}
}

/* Nothing of before is left, and what comes then is all there. */
static void cleared_and_zeroed(void **state)
{
	for (int keyed = 0; keyed < 2; keyed++) {
		struct world *w = world_of_aggs(IR_I64, keyed);

		world_start(w, true);
		for (int round = 0; round < 4; round++) {
			for (int i = 0; i < 60; i++)
				hit(w, random_word() % 9, any_value(), machine_run);
			same_maps(w);
			for (uint32_t map = 0; map < w->u.maps.n; map++) {
				maps_reader_ops.clear(w->r, map);
				store_ops.clear(w->store, map);
			}
			same_maps(w);
		}
		world_free(w);
	}
}

static void full_maps_are_counted(void **state)
{
	struct world *w = world_new();
	uint32_t key = reg_of(w, RDI);

	gen_map(&w->u, IR_MAP_COUNT, IR_U64, 1)->max_keys = 8;
	agg_ins(w, 0, IR_NONE, 1, &key);
	world_start(w, true);
	for (int i = 0; i < 100; i++)
		hit(w, i % 20, 0, machine_run);
	same_maps(w);
	assert_int_equal(gen_errors[0][IR_ERR_MAP_FULL], 60);
	world_free(w);
}

/* ---- values ---- */

static struct ir_ins *map_ins(struct world *w, enum ir_op op, uint32_t map, uint32_t key)
{
	struct ir_ins *i = gen_ins(w->p, op);

	i->map = map;
	if (w->u.maps.v[map].nkeys && op != IR_MAP_LEN) {
		gen_arg(w->p, i, IR_U64, key, 0);
		i->nkeys = 1;
	}
	return i;
}

static void emit_numbers(struct world *w, const uint32_t *regs, uint32_t n)
{
	uint32_t record = gen_record(&w->u, n, UINT32_MAX, false);
	struct ir_ins *i = gen_ins(w->p, IR_EMIT);

	i->record = record;
	for (uint32_t k = 0; k < n; k++)
		gen_arg(w->p, i, IR_U64, regs[k], 0);
}

/* @m[rdi] = rsi or += rsi, delete, get, has, len: as the upper bits of rsi say. */
static struct world *world_of_values(uint32_t nkeys)
{
	struct world *w = world_new();
	uint32_t key = reg_of(w, RDI), value = reg_of(w, RSI), what, one, out[6], label = 0;
	struct ir_ins *i;

	gen_map(&w->u, IR_MAP_VALUE, IR_U64, nkeys);
	for (int k = 0; k < 6; k++) {
		out[k] = gen_reg(w->p, IR_I);
		gen_ins(w->p, IR_CONST)->dst = out[k];
	}
	for (int bit = 0; bit < 4; bit++) {
		one = gen_reg(w->p, IR_I);
		what = gen_reg(w->p, IR_I);
		i = gen_ins(w->p, IR_CONST);
		i->imm = 1 << bit;
		i->dst = one;
		i = gen_ins(w->p, IR_AND);
		i->a = value;
		i->b = one;
		i->dst = what;
		i = gen_ins(w->p, IR_JZ);
		i->a = what;
		i->label = label;
		i = map_ins(w, (enum ir_op[]){ IR_MAP_SET, IR_MAP_ADD, IR_MAP_GET, IR_MAP_DEL }[bit], 0, key);
		if (bit == 0)
			gen_arg(w->p, i, IR_U64, value, 0);
		if (bit == 1) {
			i->a = value;
			i->dst = out[0];
		}
		if (bit == 2) {
			i->dst = out[1];
			gen_arg(w->p, i, IR_U64, out[2], 0);
		}
		if (bit == 3)
			i->dst = key % 2 ? out[3] : IR_NONE;
		gen_ins(w->p, IR_LABEL)->label = label++;
	}
	map_ins(w, IR_MAP_HAS, 0, key)->dst = out[4];
	map_ins(w, IR_MAP_LEN, 0, key)->dst = out[5];
	emit_numbers(w, out, 6);
	w->p->nlabels = label;
	return w;
}

static void values(void **state)
{
	for (uint32_t way = 0; way < 4; way++) {
		struct world *w = world_of_values(way & 1);

		world_start(w, way & 2);
		for (int i = 0; i < 1000; i++)
			hit(w, random_word() % 30, random_word(), machine_run);
		for (int i = 0; i < 10; i++)
			hit(w, random_word() % 30, random_word(), machine_run_stepped);
		same_maps(w);
		world_free(w);
	}
}

/* Ten thousand keys that come and go in a map for 64: entries are used again. */
static void deleted_keys_make_room(void **state)
{
	struct world *w = world_of_values(1);

	w->u.maps.v[0].max_keys = 64;
	world_start(w, true);
	for (int i = 0; i < 10000; i++) {
		hit(w, i, 1, machine_run);
		if (i >= 40)
			hit(w, i - 40, 8, machine_run);
	}
	assert_int_equal(gen_errors[0][IR_ERR_MAP_FULL], 0);
	same_maps(w);
	world_free(w);
}

/* ---- text ---- */

static uint32_t slot(struct world *w, uint32_t cap, const char *text)
{
	struct ir_slot *s = vec_add(&w->p->slots);

	*s = (struct ir_slot){ text ? strlen(text) : cap, text ? xstrdup(text) : NULL };
	return w->p->slots.n - 1;
}

static void text(void **state)
{
	static char *page;
	struct world *w = world_new();
	uint32_t s = slot(w, 64, NULL), b = slot(w, 16, NULL), c = slot(w, 8, NULL), word = slot(w, 0, "needle"), cut = slot(w, 4, NULL);
	uint32_t addr = reg_of(w, RDI), n = reg_of(w, RSI), out[4], record;
	struct ir_ins *i;

	if (!page)
		page = map_or_die(8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	munmap(page + 4096, 4096);
	for (int k = 0; k < 4; k++)
		out[k] = gen_reg(w->p, IR_I);
	i = gen_ins(w->p, IR_READ_STR);
	i->slot = s;
	i->a = addr;
	i->imm = 64;
	i->bit = 3;
	i = gen_ins(w->p, IR_READ_BUF);
	i->slot = b;
	i->a = addr;
	i->b = n;
	i->imm = 16;
	i->bit = 4;
	i = gen_ins(w->p, IR_SLOT_COPY);
	i->slot = cut;
	i->slot2 = s;
	i = gen_ins(w->p, IR_SLOT_COPY);
	i->slot = c;
	i->slot2 = word;
	i = gen_ins(w->p, IR_STR_CMP);
	i->slot = s;
	i->slot2 = word;
	i->dst = out[0];
	i = gen_ins(w->p, IR_STR_LEN);
	i->slot = s;
	i->dst = out[1];
	i = gen_ins(w->p, IR_STR_FIND);
	i->slot = s;
	i->slot2 = word;
	i->dst = out[2];
	i = gen_ins(w->p, IR_SLOT_LOAD);
	i->slot = b;
	i->type = IR_I16;
	i->imm = 6;
	i->dst = out[3];
	record = gen_record(&w->u, 9, 4, true);
	i = gen_ins(w->p, IR_EMIT);
	i->record = record;
	for (int k = 0; k < 4; k++)
		gen_arg(w->p, i, IR_U64, out[k], k == 3 ? 1 << 4 : 1 << 3);
	for (int k = 0; k < 5; k++)
		gen_arg(w->p, i, IR_STR, k, k < 2 ? 1 << (3 + k) : 0);
	world_start(w, true);
	for (int k = 0; k < 200; k++) {
		const char *texts[] = { "", "needle", "a needle in it", "needles", "needl", "much longer than what there is room for in any of these slots, really" };
		const char *t = texts[k % 6];
		char *at = page + 4096 - strlen(t) - 1 - random_word() % 40;

		memset(page, 'x', 4096);
		strcpy(at, t);
		hit(w, (uint64_t)at, random_word() % 20, k % 10 ? machine_run : machine_run_stepped);
		hit(w, (uint64_t)page + 4096 - random_word() % 30, random_word() % 20, machine_run);
		hit(w, any_value(), 5, machine_run);
	}
	world_free(w);
}

/* @m[str, rdi] = (rsi, str) */
static void text_in_maps(void **state)
{
	static const char *const names[] = { "one", "two", "", "a much longer name than fits" };
	struct world *w = world_new();
	uint32_t s = slot(w, 16, NULL), t = slot(w, 16, NULL), key = reg_of(w, RDI), addr = reg_of(w, RSI), got = gen_reg(w->p, IR_I), record;
	struct ir_map *m = gen_map(&w->u, IR_MAP_VALUE, IR_U64, 2);
	struct ir_ins *i;

	m->keys[0] = (struct ir_part){ .type = IR_STR, .cap = 16 };
	m->values = xrealloc(m->values, 2 * sizeof(*m->values));
	m->values[0] = (struct ir_part){ .type = IR_U64 };
	m->values[1] = (struct ir_part){ .type = IR_STR, .cap = 16 };
	m->nvalues = 2;
	m = gen_map(&w->u, IR_MAP_COUNT, IR_U64, 1);
	m->keys[0] = (struct ir_part){ .type = IR_STR, .cap = 8 };
	i = gen_ins(w->p, IR_READ_STR);
	i->slot = s;
	i->a = addr;
	i->imm = 16;
	for (int k = 0; k < 2; k++) {
		i = gen_ins(w->p, k ? IR_MAP_SET : IR_MAP_GET);
		gen_arg(w->p, i, IR_STR, s, 0);
		gen_arg(w->p, i, IR_U64, key, 0);
		i->nkeys = 2;
		gen_arg(w->p, i, IR_U64, k ? addr : got, 0);
		gen_arg(w->p, i, IR_STR, k ? s : t, 0);
	}
	i = gen_ins(w->p, IR_MAP_AGG);
	i->map = 1;
	gen_arg(w->p, i, IR_STR, s, 0);
	i->nkeys = 1;
	record = gen_record(&w->u, 2, 1, false);
	i = gen_ins(w->p, IR_EMIT);
	i->record = record;
	gen_arg(w->p, i, IR_U64, got, 0);
	gen_arg(w->p, i, IR_STR, t, 0);
	world_start(w, true);
	for (int k = 0; k < 300; k++)
		hit(w, random_word() % 5, (uint64_t)names[random_word() % 4], k % 50 ? machine_run : machine_run_stepped);
	same_maps(w);
	world_free(w);
}

static void name_of_the_thread(void **state)
{
	struct world *w = world_new();
	uint32_t s = slot(w, 16, NULL), record = gen_record(&w->u, 1, 0, false);
	struct ir_ins *i = gen_ins(w->p, IR_COMM);
	char old[16];

	prctl(PR_GET_NAME, old);
	prctl(PR_SET_NAME, "comm");
	i->slot = s;
	i = gen_ins(w->p, IR_EMIT);
	i->record = record;
	gen_arg(w->p, i, IR_STR, s, 0);
	world_start(w, true);
	hit(w, 1, 2, machine_run);
	prctl(PR_SET_NAME, old);
	world_free(w);
}

/* ---- cells, switches ---- */

static void cells(void **state)
{
	struct world *w = world_new();
	uint32_t out[3] = { gen_reg(w->p, IR_I), gen_reg(w->p, IR_I), gen_reg(w->p, IR_I) };
	struct ir_ins *i = gen_ins(w->p, IR_EVERY);
	struct gen_env env;

	w->u.ncells = 3;
	i->imm = 3;
	i->dst = out[0];
	i = gen_ins(w->p, IR_LIMIT);
	i->imm = 5;
	i->dst = out[1];
	i->cell = 1;
	i = gen_ins(w->p, IR_RATE);
	i->imm = 7;
	i->dst = out[2];
	i->cell = 2;
	emit_numbers(w, out, 3);
	world_start(w, true);
	env = gen_make_env(true, w->l);
	env.mult = 0;			/* time stands still, as it does for the interpreter */
	assert_true(gen_place(&w->u, w->p, &env, 0) > 0);
	for (int k = 0; k < 20; k++)
		hit(w, 0, 0, machine_run);
	assert_int_equal((uint32_t)gen_cells[2], 7);
	env.ns0 = 5000000000;		/* another second, another seven */
	assert_true(gen_place(&w->u, w->p, &env, 0) > 0);
	for (int k = 0; k < 20; k++) {
		gen_machine(0, 0);
		assert_null(gen_run(machine_run));
		assert_int_equal(((uint64_t *)gen_native.payload)[2], k < 7);
	}
	world_free(w);
}

static void switched_off_is_skipped(void **state)
{
	static uint32_t enabled[2] = { 1, 1 };
	struct world *w = world_new();
	uint32_t rdi = reg_of(w, RDI);
	struct ir_ins *i = gen_ins(w->p, IR_ENABLE);
	struct gen_env env;

	i->imm = 1;
	i->a = rdi;
	emit_numbers(w, &rdi, 1);
	world_start(w, true);
	env = gen_make_env(true, w->l);
	env.enabled = (uint64_t)enabled;
	assert_true(gen_place(&w->u, w->p, &env, 3) > 0);
	hit(w, 0, 0, machine_run);
	assert_int_equal(enabled[1], 0);
	hit(w, 9, 0, machine_run);
	assert_int_equal(enabled[1], 1);
	enabled[0] = 0;
	gen_machine(0, 0);
	assert_null(gen_run(machine_run));
	assert_int_equal(gen_native.n, 0);
	world_free(w);
}

/* ---- threads and signals ---- */

#define NTHREADS 8
#define NHITS 20000

typedef void hit_fn(uint64_t key, uint64_t value);
static hit_fn *storm_hit;
static volatile int in_storm;
static uint64_t signal_hits;

static void on_alarm(int sig)
{
	storm_hit(signal_hits % 100, 1);
	__atomic_fetch_add(&signal_hits, 1, __ATOMIC_RELAXED);
}

static void *storm(void *arg)
{
	for (uint64_t i = 0; i < NHITS; i++)
		storm_hit(i % 100, 1);
	return NULL;
}

static void place_function(struct world *w, bool has_rseq)
{
	struct gen_env env = gen_make_env(has_rseq, w->l);
	struct gen_site site = { GEN_SITE, 77, false, GEN_SITE };
	int len = gen_emit(&w->u, w->p, &env, &site, (uint64_t)code_rx + BODY_OFF, code_rw + BODY_OFF);

	assert_true(len > 0);
	code_rw[BODY_OFF + len] = 0xc3;
	storm_hit = (hit_fn *)(code_rx + BODY_OFF);
}

static void sums_are_exact(bool has_rseq)
{
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction sa = { .sa_handler = on_alarm }, old;
	struct world *w = world_new();
	uint32_t key = reg_of(w, RDI), value = reg_of(w, RSI);
	pthread_t threads[NTHREADS];
	struct map_list list = { 0 };
	struct map_entry e;
	struct bytes none = { 0 };
	uint64_t total, sum = 0;

	gen_map(&w->u, IR_MAP_COUNT, IR_U64, 0);
	gen_map(&w->u, IR_MAP_STATS, IR_U64, 0);
	gen_map(&w->u, IR_MAP_COUNT, IR_U64, 1);
	gen_map(&w->u, IR_MAP_VALUE, IR_U64, 1);
	gen_map(&w->u, IR_MAP_HIST, IR_I64, 0);
	agg_ins(w, 0, IR_NONE, 0, NULL);
	agg_ins(w, 1, value, 0, NULL);
	agg_ins(w, 2, IR_NONE, 1, &key);
	map_ins(w, IR_MAP_ADD, 3, key)->a = value;
	agg_ins(w, 4, value, 0, NULL);
	world_start(w, has_rseq);
	place_function(w, has_rseq);
	signal_hits = 0;
	sigaction(SIGALRM, &sa, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < NTHREADS; i++)
		pthread_create(&threads[i], NULL, storm, NULL);
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(threads[i], NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	total = NTHREADS * NHITS + signal_hits;
	assert_true(signal_hits > 0);
	assert_true(maps_reader_ops.get(w->r, 0, &none, &e));
	assert_int_equal(e.agg->count, total);
	assert_true(maps_reader_ops.get(w->r, 1, &none, &e));
	assert_int_equal(e.agg->count, total);
	assert_int_equal(e.agg->sum.u, total);
	assert_true(maps_reader_ops.get(w->r, 4, &none, &e));
	assert_int_equal(e.agg->buckets[2], total);
	maps_reader_ops.list(w->r, 2, &list);
	for (size_t i = 0; i < list.n; i++)
		sum += list.v[i].agg->count;
	assert_int_equal(list.n, 100);
	assert_int_equal(sum, total);
	list.n = 0;
	sum = 0;
	maps_reader_ops.list(w->r, 3, &list);
	for (size_t i = 0; i < list.n; i++)
		sum += *(const uint64_t *)list.v[i].value;
	assert_int_equal(sum + gen_errors[0][IR_ERR_MAP_FULL], total);
	vec_free(&list);
	world_free(w);
}

static uint64_t whole_events, bad_events;
static char storm_text[] = "a string that everybody can read";

static void check_text(int ring, const struct event_head *e, const uint64_t *fields)
{
	uint32_t len = fields[1];

	whole_events++;
	bad_events += fields[0] != 0 || len != sizeof(storm_text) - 1 || memcmp((const uint8_t *)(fields + 1) + 4, storm_text, len) != 0;
}

static void *text_storm(void *arg)
{
	for (int i = 0; i < 3000; i++)
		storm_hit((uint64_t)storm_text, 0);
	return NULL;
}

static void on_text_alarm(int sig)
{
	storm_hit((uint64_t)storm_text, 0);
	__atomic_fetch_add(&signal_hits, 1, __ATOMIC_RELAXED);
}

/* Each event is whole or counted as lost. */
static void text_is_whole(void **state)
{
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction sa = { .sa_handler = on_text_alarm }, old;
	struct world *w = world_new();
	uint32_t s = slot(w, 64, NULL), addr = reg_of(w, RDI), record = gen_record(&w->u, 1, 0, true);
	struct ir_ins *i = gen_ins(w->p, IR_READ_STR);
	pthread_t threads[NTHREADS];

	i->slot = s;
	i->a = addr;
	i->imm = 64;
	i = gen_ins(w->p, IR_EMIT);
	i->record = record;
	gen_arg(w->p, i, IR_STR, s, 1);
	world_start(w, true);
	place_function(w, true);
	signal_hits = whole_events = bad_events = 0;
	sigaction(SIGALRM, &sa, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int k = 0; k < NTHREADS; k++)
		pthread_create(&threads[k], NULL, text_storm, NULL);
	for (int k = 0; k < NTHREADS; k++) {
		drain(check_text);
		pthread_join(threads[k], NULL);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	drain(check_text);
	assert_int_equal(bad_events, 0);
	assert_true(whole_events > 0);
	assert_int_equal(whole_events + lost_of_probe(), NTHREADS * 3000 + signal_hits);
	world_free(w);
}

static void exact_per_cpu(void **state) { sums_are_exact(true); }
static void exact_shared(void **state) { sums_are_exact(false); }

/* ---- calls ---- */

/* The values of rdi at the entry and at the exit, and what was a double between them. */
static void make_calls(struct world *w, struct ir_prog **ret_exit)
{
	struct ir_prog *exit = ir_prog_new(&w->u, IR_WHERE_EXIT, 0);
	uint32_t out[4], rdi = reg_of(w, RDI), f = gen_reg(w->p, IR_F), record = gen_record(&w->u, 3, UINT32_MAX, false);
	struct ir_ins *i = gen_ins(w->p, IR_I2F);

	w->p->where = IR_WHERE_ENTRY;
	w->p->nsaved = exit->nsaved = 2;
	i->type = IR_F64;
	i->a = rdi;
	i->dst = f;
	for (int k = 0; k < 2; k++) {
		i = gen_ins(w->p, IR_SAVE);
		i->imm = k;
		i->a = k ? f : rdi;
	}
	gen_ins(w->p, IR_RET)->a = rdi;		/* 0: not watched */
	for (int k = 0; k < 3; k++)
		out[k] = gen_reg(exit, k == 1 ? IR_F : IR_I);
	for (int k = 0; k < 2; k++) {
		i = gen_ins(exit, IR_SAVED);
		i->imm = k;
		i->dst = out[k];
	}
	i = gen_ins(exit, IR_REG);
	i->imm = RDI;
	i->dst = out[2];
	i = gen_ins(exit, IR_EMIT);
	i->record = record;
	for (int k = 0; k < 3; k++)
		gen_arg(exit, i, k == 1 ? IR_F64 : IR_U64, out[k], 0);
	gen_ins(exit, IR_RET);
	*ret_exit = exit;
}

static void one_call(struct world *w, const struct ir_prog *exit, struct gen_env *env, uint64_t rdi)
{
	uint64_t sp, *fields = (uint64_t *)gen_native.payload;
	double f = (int64_t)rdi;

	assert_true(gen_place(&w->u, w->p, env, 0) > 0);
	gen_machine(random_word(), 8 * (random_word() % 100));
	machine_in.gpr[RDI] = rdi;
	sp = machine_in.gpr[4];
	assert_null(gen_run(machine_run));
	assert_true(gen_place(&w->u, exit, env, 5) > 0);
	gen_machine(random_word(), 0);
	machine_in.gpr[4] = sp;
	assert_null(gen_run(machine_run));
	assert_int_equal(gen_native.n, rdi != 0);
	if (rdi) {
		assert_int_equal(fields[0], rdi);
		assert_memory_equal(&fields[1], &f, 8);
		assert_int_equal(fields[2], machine_in.gpr[RDI]);
		assert_null(gen_run(machine_run));	/* once only */
		assert_int_equal(gen_native.n, 0);
	}
}

static void calls_are_paired(void **state)
{
	struct world *w = world_new();
	struct ir_prog *exit;
	struct gen_env env = gen_make_env(true, NULL);

	make_calls(w, &exit);
	memset(gen_unpaired, 0, sizeof(gen_unpaired));
	for (int k = 0; k < 300; k++)
		one_call(w, exit, &env, k % 4 ? random_word() : 0);
	assert_int_equal(gen_unpaired[0], 300);
	ir_unit_free(&w->u);
	free(w);
}

/* ---- what can't be done ---- */

static void refused_with_a_sentence(void **state)
{
	struct world *w = world_new();
	struct ir_ins *i = gen_ins(w->p, IR_STACK);

	i->dst = gen_reg(w->p, IR_I);
	gen_ins(w->p, IR_RET);
	assert_int_equal(gen_measure(&w->u, w->p), -ENOTSUP);
	assert_non_null(strstr(err_text(), "a stack"));
	ir_unit_free(&w->u);
	free(w);
}

static int start(void **state)
{
	gen_set_up();
	return 0;
}

int main(void)
{
#define test(f) cmocka_unit_test_setup(f, start)
	const struct CMUnitTest tests[] = {
		test(aggregations),
		test(aggregations_by_key),
		test(aggregations_interrupted),
		test(float_aggregations),
		test(cleared_and_zeroed),
		test(full_maps_are_counted),
		test(values),
		test(deleted_keys_make_room),
		test(text),
		test(text_in_maps),
		test(name_of_the_thread),
		test(cells),
		test(switched_off_is_skipped),
		test(exact_per_cpu),
		test(exact_shared),
		test(text_is_whole),
		test(calls_are_paired),
		test(refused_with_a_sentence),
	};

	return cmocka_run_group_tests_name("gen", tests, NULL, NULL);
}
