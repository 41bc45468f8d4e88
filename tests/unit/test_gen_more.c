/* SPDX-License-Identifier: MIT */
/*
 * Native programs with stacks, aggregations that are read, faults and many values at the entry of calls, and
 * long texts.
 */
#include "gen_world.h"

#include "blob/table.h"

/* ---- stacks ---- */

#define RBP 5
#define DEEPEST 200

/* @[stack, rdi] = count(), and an event with its number */
static struct world *world_of_stacks(uint32_t limit)
{
	struct world *w = world_new();
	uint32_t keys[2] = { gen_reg(w->p, IR_I), 0 };
	struct ir_ins *i = gen_ins(w->p, IR_STACK);

	i->dst = keys[0];
	i->imm = limit;
	keys[1] = reg_of(w, RDI);
	gen_map(&w->u, IR_MAP_COUNT, IR_U64, 2);
	agg_ins(w, 0, IR_NONE, 2, keys);
	emit_numbers(w, keys, 1);
	return w;
}

/* A chain of frame pointers from the site on; which one it is says `kind`. Returns how many frames. */
static uint32_t make_chain(uint32_t kind, uint32_t depth, uint64_t *frames)
{
	uint64_t at = (machine_in.gpr[4] + 64) & ~7ull, *words;
	uint32_t n = 1;

	frames[0] = GEN_SITE;
	machine_in.gpr[RBP] = depth ? at : 0;
	for (; n <= depth; n++) {
		uint64_t next = at + 16 + 8 * (n % 3);

		words = (uint64_t *)at;
		words[0] = n == depth ? 0 : next;
		words[1] = frames[n] = 0x500000 + 0x1000 * kind + n;
		at = next;
	}
	return n;
}

static uint64_t stack_hit(struct world *w, uint32_t kind, uint32_t depth, uint32_t limit, void (*run)(void))
{
	uint64_t frames[DEEPEST + 1], have[PROG_STACKS_FRAMES + 1], number;
	uint32_t n;
	const char *what;

	gen_machine(random_word(), random_word() % 2 * 8);
	machine_in.gpr[RDI] = kind % 3;
	n = MIN(make_chain(kind, depth, frames), limit);
	what = gen_run(run);
	if (what)
		fail_msg("%s has changed", what);
	number = *(uint64_t *)gen_native.payload;
	assert_int_equal(gen_native.n, 1);
	assert_int_equal(maps_reader_stack(w->r, number, have, ARRAY_SIZE(have)), n);
	assert_memory_equal(have, frames, 8 * n);
	gen_stack_number = number;
	gen_judge(&w->in, w->p);
	return number;
}

static void stacks(void **state)
{
	static const uint32_t limits[] = { 127, 3, 1, 128 };

	for (int way = 0; way < 4; way++) {
		struct world *w = world_of_stacks(limits[way]);
		uint64_t known[10][8];

		memset(known, 0, sizeof(known));
		world_start(w, way != 2);
		for (int k = 0; k < 400; k++) {
			uint32_t kind = random_word() % 10, deep = random_word() % 8;
			uint64_t number = stack_hit(w, kind, deep == 7 ? 150 : deep, limits[way],
						    k == 50 ? machine_run_stepped : machine_run);

			assert_true(!known[kind][deep] || known[kind][deep] == number);
			known[kind][deep] = number;
		}
		same_maps(w);
		assert_int_equal(maps_reader_stack(w->r, 0, NULL, 0), 0);
		assert_int_equal(maps_reader_stack(w->r, 1ull << 40, NULL, 0), 0);
		world_free(w);
	}
}

/* At the first instruction of a function, the return address is what rsp points to. */
static void stack_at_an_entry(void **state)
{
	struct world *w = world_of_stacks(3);
	struct gen_env env;
	struct gen_site site = { .addr = GEN_SITE, .at_entry = true };
	uint64_t frames[3];
	int len;

	world_start(w, true);
	env = gen_make_env(true, w->l);
	len = gen_emit(&w->u, w->p, &env, &site, machine_body, code_rw + (machine_body - (uint64_t)code_rx));
	assert_true(len > 0);
	memcpy(code_rw + (machine_body - (uint64_t)code_rx) + len, (const uint8_t[]){ 0xff, 0x25, 0, 0, 0, 0 }, 6);
	memcpy(code_rw + (machine_body - (uint64_t)code_rx) + len + 6, &(uint64_t){ (uint64_t)machine_landing }, 8);
	gen_machine(0, 0);
	machine_in.gpr[RBP] = 0;
	*(uint64_t *)machine_in.gpr[4] = 0x777777;
	assert_null(gen_run(machine_run));
	assert_int_equal(maps_reader_stack(w->r, *(uint64_t *)gen_native.payload, frames, 3), 2);
	assert_int_equal(frames[0], GEN_SITE);
	assert_int_equal(frames[1], 0x777777);
	world_free(w);
}

/* More than there is room for is counted, and all that was there is still right. */
static void too_many_stacks_are_counted(void **state)
{
	struct world *w = world_of_stacks(127);
	struct prog_stacks *s;
	uint64_t first, frames[PROG_STACKS_FRAMES];

	world_start(w, true);
	s = (struct prog_stacks *)(gen_maps_memory + w->l->stacks);
	first = stack_hit(w, 1, 5, 127, machine_run);
	s->used = w->l->stack_words - 7;
	stack_hit(w, 2, 5, 127, machine_run);
	for (int k = 0; k < 3; k++) {
		gen_machine(0, 0);
		make_chain(3 + k, 5, frames);
		assert_null(gen_run(machine_run));
		assert_int_equal(*(uint64_t *)gen_native.payload, 0);
	}
	assert_int_equal(gen_errors[0][IR_ERR_MAP_FULL], 3);
	assert_int_equal(stack_hit(w, 1, 5, 127, machine_run), first);
	world_free(w);
}

/*
 * The program may write into the index. A number there that leads out of the pool, or to a stack that would reach beyond its
 * end, is none, even if the words there are those of the stack that is looked for.
 */
static void numbers_outside_the_pool(void **state)
{
	static const int32_t places[] = { -6, -5, -1, 0, 7 };	/* from the end; the first is good */
	struct world *w = world_of_stacks(127);
	struct prog_stacks *s;
	uint64_t *pool, *entry = NULL, frames[PROG_STACKS_FRAMES], number;
	uint32_t words, n;

	world_start(w, true);
	words = w->l->stack_words;
	s = (struct prog_stacks *)(gen_maps_memory + w->l->stacks);
	pool = s->index + w->l->stack_index;
	stack_hit(w, 1, 4, 127, machine_run);
	for (uint32_t i = 0; i < w->l->stack_index; i++)
		entry = s->index[i] ? &s->index[i] : entry;
	assert_non_null(entry);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		uint64_t *at = pool + words + places[i], kept[6];

		memcpy(kept, at, sizeof(kept));
		*entry = (*entry & ~0ull << 32) | (words + places[i] + 1);
		gen_machine(0, 0);
		n = make_chain(1, 4, frames);
		assert_int_equal(n, 5);
		at[0] = n;
		memcpy(at + 1, frames, 8 * n);
		assert_null(gen_run(machine_run));
		number = *(uint64_t *)gen_native.payload;
		if (i)
			assert_in_range(number, 1, words - n);
		else
			assert_int_equal(number, words + places[i] + 1);
		memcpy(at, kept, sizeof(kept));
	}
	world_free(w);
}

/* ---- aggregations, read ---- */

static const uint8_t kinds[] = { IR_MAP_COUNT, IR_MAP_SUM, IR_MAP_AVG, IR_MAP_MIN, IR_MAP_MAX, IR_MAP_STATS, IR_MAP_HIST,
				 IR_MAP_LHIST, IR_MAP_QUANTILE };
#define NKINDS ARRAY_SIZE(kinds)

/* Each map is added to if rsi is even, else a key is deleted; all is read and recorded. */
static struct world *world_of_reads(uint8_t num, uint32_t kind, uint32_t nkeys)
{
	struct world *w = world_new();
	uint32_t key = reg_of(w, RDI), value = reg_of(w, RSI), is_float = num == IR_F64 && kind, out[5], one, odd, what = value;
	struct ir_map *m = gen_map(&w->u, kinds[kind], num, nkeys);
	struct ir_ins *i;

	m->max_keys = 64;
	m->hi = 100;
	m->step = 7;
	for (int k = 0; k < 5; k++) {
		out[k] = gen_reg(w->p, k == 4 && is_float ? IR_F : IR_I);
		i = gen_ins(w->p, k == 4 && is_float ? IR_FCONST : IR_CONST);
		i->dst = out[k];
	}
	if (is_float) {
		i = gen_ins(w->p, IR_I2F);
		i->type = IR_F64;
		i->a = value;
		what = i->dst = gen_reg(w->p, IR_F);
	}
	i = gen_ins(w->p, IR_CONST);
	i->imm = 1;
	one = i->dst = gen_reg(w->p, IR_I);
	i = gen_ins(w->p, IR_AND);
	i->a = value;
	i->b = one;
	odd = i->dst = gen_reg(w->p, IR_I);
	i = gen_ins(w->p, IR_JNZ);
	i->a = odd;
	agg_ins(w, 0, what, nkeys, &key);
	gen_ins(w->p, IR_LABEL);
	i = gen_ins(w->p, IR_JZ);
	i->a = odd;
	i->label = 1;
	map_ins(w, IR_MAP_DEL, 0, key)->dst = out[0];
	map_ins(w, IR_MAP_DEL, 0, key);
	gen_ins(w->p, IR_LABEL)->label = 1;
	map_ins(w, IR_MAP_HAS, 0, key)->dst = out[1];
	map_ins(w, IR_MAP_LEN, 0, key)->dst = out[2];
	if (kinds[kind] <= IR_MAP_MAX) {
		i = map_ins(w, IR_MAP_GET, 0, key);
		i->dst = out[3];
		gen_arg(w->p, i, is_float ? IR_F64 : num, out[4], 0);
	}
	emit_numbers(w, out, 5);
	w->p->args.v[w->p->args.n - 1].type = is_float ? IR_F64 : IR_U64;
	w->p->nlabels = 2;
	return w;
}

static void read_aggs(uint8_t num, uint32_t kind, uint32_t nkeys, bool has_rseq)
{
	struct world *w = world_of_reads(num, kind, nkeys);

	world_start(w, has_rseq);
	for (int k = 0; k < 160; k++) {
		uint64_t value = num == IR_F64 ? random_word() % 2001 - 1000 : any_value();
		bool step = k == 30 && has_rseq && nkeys && num == IR_I64 && kinds[kind] <= IR_MAP_MAX;

		hit(w, random_word() % 7, k % 11 ? value & ~1ull : value | 1, step ? machine_run_stepped : machine_run);
		if (k % 50 == 49) {
			same_maps(w);
			(k % 100 == 49 ? maps_reader_ops.clear : maps_reader_ops.zero)(w->r, 0);
			(k % 100 == 49 ? store_ops.clear : store_ops.zero)(w->store, 0);
			same_maps(w);
		}
	}
	same_maps(w);
	world_free(w);
}

static void aggregations_are_read(void **state)
{
	static const uint8_t nums[] = { IR_I64, IR_U64, IR_F64 };

	for (uint32_t way = 0; way < 4; way++)
		for (uint32_t num = 0; num < 3; num++)
			for (uint32_t kind = 0; kind < NKINDS; kind++)
				if (num == 0 || (kind && kinds[kind] <= IR_MAP_MAX))
					read_aggs(nums[num], kind, way & 1, way & 2);
}

/* Whatever stands there is divided by. */
static void damaged_numbers_are_divided(void **state)
{
	struct ir_map avg = { .kind = IR_MAP_AVG, .num = IR_I64 };
	struct agg a = { .count = UINT64_MAX, .sum.i = INT64_MIN };

	assert_int_equal(agg_value(&avg, &a).i, 0);
	a.count = 4;
	assert_int_equal(agg_value(&avg, &a).i, INT64_MIN / 4);
	assert_int_equal(agg_divided(INT64_MIN, UINT64_MAX), 0);
	assert_int_equal(agg_divided(-7, 2), -3);
}

/* ---- keys ---- */

/*
 * Somebody claims a place for a key and is interrupted. Others who want the key don't wait for him; when he goes on there is
 * one entry with it, and all that was counted is in there.
 */
static void keys_whose_maker_was_interrupted(void **state)
{
	for (int kind = 0; kind < 2; kind++) {
		struct world *w = world_new();
		uint32_t rdi = reg_of(w, RDI), rsi = reg_of(w, RSI);
		struct prog_shape shape;
		struct prog_table *t;

		gen_map(&w->u, kind ? IR_MAP_SUM : IR_MAP_VALUE, IR_U64, 1)->max_keys = 64;
		if (kind)
			agg_ins(w, 0, rsi, 1, &rdi);
		else
			map_ins(w, IR_MAP_ADD, 0, rdi)->a = rsi;
		world_start(w, true);
		shape = maps_shape(&w->u.maps.v[0], &w->l->maps[0]);
		t = (struct prog_table *)(gen_maps_memory + w->l->maps[0].table);
		for (uint64_t key = 0; key < 40; key++) {
			uint64_t hash = prog_hash(&key, 1), old = 0, claimed, seen;
			uint32_t far = 0;
			int64_t at = table_unused(t, &shape, hash, &old, &far), twin;
			bool made = false;

			claimed = table_next(old, PROG_CLAIMED, hash);
			assert_true(table_change(prog_entry(t, &shape, at), old, claimed));
			table_count(t, 1);
			hit(w, key, key + 3, machine_run);
			twin = table_put(t, &shape, at, far, claimed, hash, &key, 0, NULL, &seen, &made);
			assert_true(!made && twin >= 0 && twin != at && table_still(prog_entry(t, &shape, twin), seen));
			hit(w, key, 7, machine_run);
			same_maps(w);
		}
		assert_int_equal(t->count, 40);
		world_free(w);
	}
}

/* ---- calls ---- */

/* What the entry reads through rdi, and so many other values, are seen at the exit. */
static struct ir_prog *make_call(struct world *w, uint32_t n)
{
	struct ir_prog *exit = ir_prog_new(&w->u, IR_WHERE_EXIT, 0);
	uint32_t rdi = reg_of(w, RDI), got = gen_reg(w->p, IR_I), sum, record;
	struct ir_ins *i = gen_ins(w->p, IR_LOAD);

	w->p->where = IR_WHERE_ENTRY;
	w->p->nsaved = exit->nsaved = n;
	i->a = rdi;
	i->dst = got;
	i->bit = 5;
	for (uint32_t k = 0; k < n; k++) {
		if (k) {
			i = gen_ins(w->p, IR_ADD);
			i->a = rdi;
			i->b = k == 1 ? rdi : sum;
			sum = i->dst = gen_reg(w->p, IR_I);
		}
		i = gen_ins(w->p, IR_SAVE);
		i->imm = k;
		i->a = k ? sum : got;
	}
	gen_ins(w->p, IR_RET);
	record = gen_record(&w->u, n, UINT32_MAX, true);
	for (uint32_t k = 0; k < n; k++) {
		i = gen_ins(exit, IR_SAVED);
		i->imm = k;
		i->dst = gen_reg(exit, IR_I);
	}
	i = gen_ins(exit, IR_EMIT);
	i->record = record;
	for (uint32_t k = 0; k < n; k++)
		gen_arg(exit, i, IR_U64, k, k ? 0 : 1 << 5);
	gen_ins(exit, IR_RET);
	return exit;
}

static void one_call(struct world *w, const struct ir_prog *exit, uint64_t rdi, void (*run)(void))
{
	struct gen_env env = gen_make_env(true, NULL);
	struct interp in = { .unit = &w->u, .emit = gen_emitted, .read = gen_read };
	struct interp_site site;
	uint64_t sp;

	assert_true(gen_place(&w->u, w->p, &env, 0) > 0);
	gen_machine(random_word(), 8 * (random_word() % 100));
	machine_in.gpr[RDI] = rdi;
	sp = machine_in.gpr[4];
	site = gen_interp_site();
	assert_null(gen_run(run));
	assert_int_equal(interp_run(&in, w->p, &site), 1);
	assert_true(gen_place(&w->u, exit, &env, 5) > 0);
	gen_machine(random_word(), 0);
	machine_in.gpr[4] = sp;
	assert_null(gen_run(run));
	memset(&gen_judged, 0, offsetof(struct gen_seen, payload));
	interp_run(&in, exit, &site);
	assert_int_equal(gen_native.n, 1);
	assert_int_equal(gen_native.len, gen_judged.len);
	assert_memory_equal(gen_native.payload, gen_judged.payload, gen_judged.len);
}

static void entries_read_and_save(void **state)
{
	static uint64_t good = 0x1122334455667788;

	for (uint32_t n = 1; n <= GEN_SAVED_MAX; n += n == 1 ? 12 : n == 13 ? 5 : 14) {
		struct world *w = world_new();
		struct ir_prog *exit = make_call(w, n);

		assert_null(ir_verify(&w->u, w->p));
		assert_null(ir_verify(&w->u, exit));
		for (int k = 0; k < 40; k++)
			one_call(w, exit, k % 3 ? (uint64_t)&good : any_value(), k == 7 || k == 9 ? machine_run_stepped : machine_run);
		ir_unit_free(&w->u);
		free(w);
	}
}

static void more_saved_values_are_refused(void **state)
{
	struct world *w = world_new();

	make_call(w, GEN_SAVED_MAX + 1);
	assert_int_equal(gen_measure(&w->u, w->p), -ENOTSUP);
	assert_non_null(strstr(err_text(), "33 values of its entry; at most 32"));
	ir_unit_free(&w->u);
	free(w);
}

/* ---- chains ---- */

struct node { struct node *next; uint64_t a; uint32_t b; int16_t c; };

/* rdi->next->next->a; then a, b and c of rdi: whatever is read ahead, it is what each would read itself. */
static struct world *world_of_chains(void)
{
	static const uint8_t types[] = { IR_U64, IR_U32, IR_I16 };
	static const uint8_t offsets[] = { offsetof(struct node, a), offsetof(struct node, b), offsetof(struct node, c) };
	struct world *w = world_new();
	uint32_t rdi = reg_of(w, RDI), at = rdi, out[6], record = gen_record(&w->u, 6, UINT32_MAX, true);
	struct ir_ins *i;

	for (int k = 0; k < 6; k++) {
		out[k] = gen_reg(w->p, IR_I);
		i = gen_ins(w->p, IR_LOAD);
		i->a = k < 3 ? at : rdi;
		i->type = k < 3 ? IR_U64 : types[k - 3];
		i->imm = k < 2 ? 0 : k == 2 ? (int)offsetof(struct node, a) : offsets[k - 3];
		i->bit = k;
		i->mask = k && k < 3 ? 1ull << (k - 1) : 0;
		at = i->dst = out[k];
	}
	i = gen_ins(w->p, IR_EMIT);
	i->record = record;
	for (int k = 0; k < 6; k++)
		gen_arg(w->p, i, IR_U64, out[k], 1ull << k);
	return w;
}

static void chains(void **state)
{
	struct world *w = world_of_chains();
	uint8_t *page = map_or_die(8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct node *nodes = (struct node *)(page + 4096 - 8 * sizeof(*nodes) - 16);	/* the last one is half there */

	munmap(page + 4096, 4096);
	world_start(w, true);
	for (int k = 0; k < 600; k++) {
		fill_random(page, 4096);
		for (int n = 0; n < 8; n++)
			nodes[n].next = random_word() % 8 ? &nodes[random_word() % 9] : (struct node *)any_value();
		hit(w, (uint64_t)&nodes[k % 4 ? 1 : random_word() % 9], 0, k == 77 ? machine_run_stepped : machine_run);
		hit(w, machine_in.gpr[RDI], 0, machine_run);
	}
	munmap(page, 4096);
	world_free(w);
}

/* ---- long texts ---- */

static struct world *world_of_texts(uint32_t cap)
{
	struct world *w = world_new();
	uint32_t s = slot(w, cap, NULL), addr = reg_of(w, RDI), n = reg_of(w, RSI), record = gen_record(&w->u, 1, 0, true);
	struct ir_ins *i = gen_ins(w->p, IR_READ_BUF);

	w->u.records.v[record].fields[0] = (struct ir_field){ .type = IR_BUF, .cap = cap };
	i->slot = s;
	i->a = addr;
	i->b = n;
	i->imm = cap;
	i = gen_ins(w->p, IR_EMIT);
	i->record = record;
	gen_arg(w->p, i, IR_BUF, s, 1);
	return w;
}

static void long_texts(void **state)
{
	static uint8_t bytes[70000];
	struct world *w = world_of_texts(65000);

	reset_rings(1 << 18);
	gen_set_up_scratch();
	for (int i = 0; i < nrings(); i++)
		ring_allow(&rings[i], EVENT_LONG_MAX);
	fill_random(bytes, sizeof(bytes));
	world_start(w, true);
	assert_true(gen_scratch(&w->u, w->p) > 2 * 65000 && gen_scratch(&w->u, w->p) < (int)GEN_SCRATCH);
	assert_in_range(gen_event_max(&w->u, w->p), 65000, EVENT_LONG_MAX);
	for (int k = 0; k < 20; k++) {
		hit(w, (uint64_t)bytes + random_word() % 5000, k == 0 ? 65000 : random_word() % 65000, machine_run);
		hit(w, k, 60000, machine_run);
	}
	world_free(w);
}

static void too_long_is_refused(void **state)
{
	struct world *w = world_of_texts(65000);
	struct gen_env env;
	uint8_t *out = xcalloc(GEN_CODE_MAX, 1);
	struct gen_site site = { .addr = GEN_SITE };

	gen_ins(w->p, IR_RET);
	env = gen_make_env(true, NULL);
	assert_int_equal(gen_emit(&w->u, w->p, &env, &site, 0, out), -ENOTSUP);
	assert_non_null(strstr(err_text(), "needs buffers of twice that"));
	env.event.ring_size = 1 << 20;
	assert_true(gen_emit(&w->u, w->p, &env, &site, 0, out) > 0);
	env.event.overwrite = true;
	assert_int_equal(gen_emit(&w->u, w->p, &env, &site, 0, out), -ENOTSUP);
	assert_non_null(strstr(err_text(), "4096 are possible"));
	env.event.overwrite = false;
	env.scratch_size = 64 << 10;
	assert_int_equal(gen_emit(&w->u, w->p, &env, &site, 0, out), -ENOTSUP);
	assert_non_null(strstr(err_text(), "there are 64"));
	ir_unit_free(&w->u);
	free(w);
	free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(stacks),
		test(numbers_outside_the_pool),
		test(stack_at_an_entry),
		test(too_many_stacks_are_counted),
		test(aggregations_are_read),
		test(damaged_numbers_are_divided),
		test(keys_whose_maker_was_interrupted),
		test(entries_read_and_save),
		test(more_saved_values_are_refused),
		test(chains),
		test(long_texts),
		test(too_long_is_refused),
	};

	return cmocka_run_group_tests_name("gen_more", tests, NULL, NULL);
}
