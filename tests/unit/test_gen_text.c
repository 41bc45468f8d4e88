/* SPDX-License-Identifier: MIT */
/*
 * Native programs with text, and what threads and signals do to them.
 */
#include "gen_world.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>

/* ---- text ---- */

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

/* What a program has put where a bool should be is true, or false: 1 or 0. */
static void bools(void **state)
{
	struct world *w = world_new();
	uint32_t b = slot(w, 4, NULL), addr = reg_of(w, RDI), out[2] = { gen_reg(w->p, IR_I), gen_reg(w->p, IR_I) }, record;
	uint8_t bytes[4] = { 0, 0, 0, 0 };
	struct ir_ins *i;

	i = gen_ins(w->p, IR_LOAD);
	i->type = IR_BOOL;
	i->a = addr;
	i->imm = 1;
	i->dst = out[0];
	i = gen_ins(w->p, IR_READ_BUF);
	i->slot = b;
	i->a = addr;
	i->imm = 4;
	i->bit = 1;
	i = gen_ins(w->p, IR_SLOT_LOAD);
	i->type = IR_BOOL;
	i->slot = b;
	i->imm = 2;
	i->dst = out[1];
	record = gen_record(&w->u, 2, 2, false);
	i = gen_ins(w->p, IR_EMIT);
	i->record = record;
	gen_arg(w->p, i, IR_BOOL, out[0], 0);
	gen_arg(w->p, i, IR_BOOL, out[1], 0);
	world_start(w, true);
	for (int k = 0; k < 256; k += 5) {
		bytes[1] = k;
		bytes[2] = 255 - k;
		hit(w, (uint64_t)bytes, 0, machine_run);
		assert_int_equal(((uint64_t *)gen_native.payload)[0], k != 0);
		assert_int_equal(((uint64_t *)gen_native.payload)[1], k != 255);
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

/* ---- threads and signals ---- */

#define NTHREADS 8
#define NHITS 20000

typedef void hit_fn(uint64_t key, uint64_t value);
static hit_fn *storm_hit;
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
	struct gen_site site = { .addr = GEN_SITE, .number = 77, .func = GEN_SITE };
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
	while (!__atomic_load_n(&signal_hits, __ATOMIC_RELAXED))
		;
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	total = NTHREADS * NHITS + signal_hits;
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
	bad_events += fields[0] != 0 || len != sizeof(storm_text) || memcmp((const uint8_t *)(fields + 1) + 4, storm_text, len) != 0;
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

/* Keys of all lengths, each after a longer one, which is still where keys are made. */
static void keys_end_where_they_end(void **state)
{
	static const char *const texts[] = { "abcdefghijklmnop", "ABCDEFGHIJKLM", "0123456789a", "abcdefg", "ABCDE", "0123", "abc", "A", "" };
	struct world *w = world_new();
	uint32_t s = slot(w, 16, NULL), number = reg_of(w, RSI), addr = reg_of(w, RDI);
	struct ir_map *m = gen_map(&w->u, IR_MAP_VALUE, IR_U64, 2);
	struct ir_ins *i = gen_ins(w->p, IR_READ_STR);

	m->keys[1] = (struct ir_part){ .type = IR_STR, .cap = 16 };
	i->slot = s;
	i->a = addr;
	i->imm = 16;
	i = gen_ins(w->p, IR_MAP_ADD);
	i->a = addr;
	gen_arg(w->p, i, IR_U64, number, 0);
	gen_arg(w->p, i, IR_STR, s, 0);
	i->nkeys = 2;
	world_start(w, true);
	for (int k = 0; k < 200; k++)
		hit(w, (uint64_t)texts[k % ARRAY_SIZE(texts)], k % 2, machine_run);
	for (int k = 0; k < 200; k++)
		hit(w, (uint64_t)texts[random_word() % ARRAY_SIZE(texts)], random_word() % 3, machine_run);
	assert_in_range(maps_reader_ops.len(w->r, 0), 18, 27);
	same_maps(w);
	world_free(w);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(text),
		test(bools),
		test(text_in_maps),
		test(name_of_the_thread),
		test(exact_per_cpu),
		test(exact_shared),
		test(keys_end_where_they_end),
		test(text_is_whole),
	};

	return cmocka_run_group_tests_name("gen_text", tests, NULL, NULL);
}
