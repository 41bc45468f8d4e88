/* SPDX-License-Identifier: MIT */
/*
 * Native programs with maps: what they leave is what the interpreter leaves, and nothing of the machine
 * changes, not even when every instruction is interrupted. Random programs are in fuzz_gen.c.
 */
#include "gen_world.h"

/* ---- aggregations ---- */

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

/* Where the blob would be there is nothing, so a call of it would be the end. */
static void keys_at_home_need_no_call(void **state)
{
	for (uint32_t nkeys = 1; nkeys <= 3; nkeys++) {
		struct world *w = world_new();
		uint32_t keys[3] = { reg_of(w, RDI), reg_of(w, RSI) };
		struct gen_env env;

		keys[2] = keys[0];
		gen_map(&w->u, IR_MAP_COUNT, IR_U64, nkeys);
		agg_ins(w, 0, IR_NONE, nkeys, keys);
		world_start(w, true);
		hit(w, 5, 6, machine_run);
		env = gen_make_env(true, w->l);
		env.blob = 0;
		assert_true(gen_place(&w->u, w->p, &env, 3) > 0);
		for (int k = 0; k < 10; k++)
			hit(w, 5, 6, k % 5 ? machine_run : machine_run_stepped);
		same_maps(w);
		world_free(w);
	}
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
	for (int k = 0; k < 2; k++) {			/* the second time it is so already */
		hit(w, 0, 0, machine_run);
		assert_int_equal(enabled[1], 1 * GEN_SWITCHED);
	}
	for (int k = 0; k < 2; k++) {
		hit(w, 9, 0, machine_run);
		assert_int_equal(enabled[1], 2 * GEN_SWITCHED + GEN_ON);
	}
	enabled[0] = 70 * GEN_SWITCHED + GEN_ON;
	hit(w, 9, 0, machine_run);
	for (int k = 0; k < 3; k++) {			/* not enabled, thinned, both */
		((uint8_t *)enabled)[0] = k == 1 ? GEN_ON : 0;
		((uint8_t *)enabled)[GEN_THINNED] = k > 0;
		gen_machine(0, 0);
		assert_null(gen_run(machine_run));
		assert_int_equal(gen_native.n, 0);
	}
	enabled[0] = enabled[1] = GEN_ON;
	world_free(w);
}

/* ---- who we are ---- */

/* Noted numbers can't be believed, or there are none: the kernel is asked. */
static void numbers_of_process_and_thread(void **state)
{
	for (int way = 0; way < 4; way++) {
		struct world *w = world_new();
		uint32_t out[2] = { gen_reg(w->p, IR_I), gen_reg(w->p, IR_I) };
		struct gen_env env;

		for (int k = 0; k < 2; k++) {
			struct ir_ins *i = gen_ins(w->p, IR_CTX);

			i->imm = k ? IR_CTX_TID : IR_CTX_PID;
			i->dst = out[k];
		}
		emit_numbers(w, out, 2);
		world_start(w, true);
		env = gen_make_env(true, w->l);
		env.event.has_tid = way != 3;
		assert_true(gen_place(&w->u, w->p, &env, 1) > 0);
		set_fast(way != 1);
		*pid_cell = way == 2 ? 0 : way == 1 ? 99 : getpid();
		for (int k = 0; k < 20; k++)
			hit(w, 1, 2, k % 4 ? machine_run : machine_run_stepped);
		set_fast(true);
		*pid_cell = getpid();
		world_free(w);
	}
}

/* The expected value is what C makes of the time stamp counter, with clocks of less and of more than 1 GHz. */
static void ticks_become_nanoseconds(void **state)
{
	static const uint64_t mult[] = { 1, 1431655765, 1908874353, UINT32_MAX, 1ull << 32, (5ull << 32) / 3, 77ull << 32 };

	for (size_t k = 0; k < ARRAY_SIZE(mult); k++) {
		struct world *w = world_new();
		uint32_t out = gen_reg(w->p, IR_I);
		struct ir_ins *i = gen_ins(w->p, IR_CTX);
		struct gen_env env;

		i->imm = IR_CTX_NSECS;
		i->dst = out;
		emit_numbers(w, &out, 1);
		world_start(w, true);
		env = gen_make_env(true, w->l);
		env.mult = mult[k];
		env.tsc0 = 1000;
		env.ns0 = 5;
		assert_true(gen_place(&w->u, w->p, &env, 1) > 0);
		for (int n = 0; n < 100; n++) {
			uint64_t from = ((unsigned __int128)(__builtin_ia32_rdtsc() - 1000) * mult[k] >> 32) + 5;

			gen_machine(random_word(), 0);
			assert_null(gen_run(machine_run));
			assert_in_range(*(uint64_t *)gen_native.payload, from,
					((unsigned __int128)(__builtin_ia32_rdtsc() - 1000) * mult[k] >> 32) + 5);
		}
		world_free(w);
	}
}

/* ---- what can't be done ---- */

static void refused_with_a_sentence(void **state)
{
	struct world *w = world_new();
	uint32_t rdi = reg_of(w, RDI), regs[128];

	for (int k = 0; k < 100; k++) {
		struct ir_ins *i = gen_ins(w->p, IR_ADD);

		i->a = i->b = rdi;
		regs[k] = i->dst = gen_reg(w->p, IR_I);
	}
	emit_numbers(w, regs, 50);
	emit_numbers(w, regs + 50, 50);
	gen_ins(w->p, IR_RET);
	assert_int_equal(gen_measure(&w->u, w->p), -ENOTSUP);
	assert_non_null(strstr(err_text(), "too many values at once"));
	ir_unit_free(&w->u);
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(aggregations),
		test(aggregations_by_key),
		test(keys_at_home_need_no_call),
		test(aggregations_interrupted),
		test(float_aggregations),
		test(cleared_and_zeroed),
		test(full_maps_are_counted),
		test(values),
		test(deleted_keys_make_room),
		test(cells),
		test(switched_off_is_skipped),
		test(numbers_of_process_and_thread),
		test(ticks_become_nanoseconds),
		test(refused_with_a_sentence),
	};

	return cmocka_run_group_tests_name("gen", tests, NULL, NULL);
}
