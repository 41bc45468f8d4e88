/* SPDX-License-Identifier: MIT */
/*
 * The stack that hits take: no more than they promise, and none that isn't there. Programs, plain and bulk events
 * are run on a stack below which nothing is mapped, with any number of bytes left.
 */
#include "gen_world.h"

#define RBP 5
#define PAGE 4096

/* Frame pointers for a walk, from the site on. */
static void make_chain(uint32_t depth)
{
	uint64_t at = (machine_in.gpr[4] + 64) & ~7ull;

	machine_in.gpr[RBP] = at;
	for (uint32_t n = 1; n <= depth; n++, at += 16) {
		uint64_t words[2] = { n == depth ? 0 : at + 16, 0x501000 + n };

		memcpy((void *)at, words, sizeof(words));
	}
}

static void add_stack(struct world *w, uint32_t rdi)
{
	struct ir_ins *i = gen_ins(w->p, IR_STACK);

	i->dst = gen_reg(w->p, IR_I);
	i->imm = 127;
}

static void add_number_in_map(struct world *w, uint32_t rdi)
{
	gen_map(&w->u, IR_MAP_VALUE, IR_U64, 1);
	gen_arg(w->p, map_ins(w, IR_MAP_SET, 0, rdi), IR_U64, rdi, 0);
	map_ins(w, IR_MAP_ADD, 0, rdi)->a = rdi;
}

static void add_agg(struct world *w, uint32_t rdi)
{
	struct ir_ins *i;

	gen_map(&w->u, IR_MAP_AVG, IR_I64, 1);
	agg_ins(w, 0, rdi, 1, &rdi);
	i = map_ins(w, IR_MAP_GET, 0, rdi);
	gen_arg(w->p, i, IR_I64, gen_reg(w->p, IR_I), 0);
	map_ins(w, IR_MAP_LEN, 0, rdi)->dst = gen_reg(w->p, IR_I);
	map_ins(w, IR_MAP_DEL, 0, rdi);
}

static void add_text(struct world *w, uint32_t rdi)
{
	uint32_t s = slot(w, 64, NULL), t = slot(w, 0, "in"), record = gen_record(&w->u, 1, 0, true);
	struct ir_ins *i = gen_ins(w->p, IR_READ_STR);

	i->slot = s;
	i->a = rdi;
	i->imm = 64;
	i = gen_ins(w->p, IR_STR_FIND);
	i->slot = s;
	i->slot2 = t;
	i->dst = gen_reg(w->p, IR_I);
	gen_ins(w->p, IR_COMM)->slot = s;
	i = gen_ins(w->p, IR_EMIT);
	i->record = record;
	gen_arg(w->p, i, IR_STR, s, 1);
}

static void add_text_in_map(struct world *w, uint32_t rdi)
{
	struct ir_map *m = gen_map(&w->u, IR_MAP_VALUE, IR_U64, 1);
	uint32_t s = slot(w, 64, NULL), t = slot(w, 64, NULL);
	struct ir_ins *i = gen_ins(w->p, IR_READ_STR);

	m->keys[0] = m->values[0] = (struct ir_part){ .type = IR_STR, .cap = 64 };
	i->slot = s;
	i->a = rdi;
	i->imm = 64;
	for (int k = 0; k < 3; k++) {
		i = gen_ins(w->p, (enum ir_op[]){ IR_MAP_SET, IR_MAP_GET, IR_MAP_DEL }[k]);
		gen_arg(w->p, i, IR_STR, s, 0);
		i->nkeys = 1;
		if (k < 2)
			gen_arg(w->p, i, IR_STR, t, 0);
	}
}

static void add_text_of_agg(struct world *w, uint32_t rdi)
{
	struct ir_map *m = gen_map(&w->u, IR_MAP_SUM, IR_I64, 1);
	uint32_t s = slot(w, 64, NULL);
	struct ir_ins *i = gen_ins(w->p, IR_READ_STR);

	m->keys[0] = (struct ir_part){ .type = IR_STR, .cap = 64 };
	i->slot = s;
	i->a = rdi;
	i->imm = 64;
	for (int k = 0; k < 3; k++) {
		i = gen_ins(w->p, (enum ir_op[]){ IR_MAP_AGG, IR_MAP_GET, IR_MAP_DEL }[k]);
		i->a = k ? IR_NONE : rdi;
		gen_arg(w->p, i, IR_STR, s, 0);
		i->nkeys = 1;
		if (k == 1)
			gen_arg(w->p, i, IR_I64, gen_reg(w->p, IR_I), 0);
	}
}

/* So many values are needed before and after it. */
static struct world *full_world(void (*add)(struct world *w, uint32_t rdi), uint32_t n)
{
	struct world *w = world_new();
	uint32_t rdi = reg_of(w, RDI), live[100];

	for (uint32_t k = 0; k < n; k++) {
		struct ir_ins *i = gen_ins(w->p, IR_ADD);

		i->a = i->b = rdi;
		live[k] = i->dst = gen_reg(w->p, IR_I);
	}
	add(w, rdi);
	for (uint32_t k = 0; k < n; k += 20)
		emit_numbers(w, live + k, MIN(20, n - k));
	return w;
}

/* With the largest frame that is accepted, no more of the stack is touched than promised. */
static void full_frames(void **state)
{
	static void (*const adds[])(struct world *w, uint32_t rdi) = { add_stack, add_number_in_map, add_agg, add_text, add_text_in_map,
									add_text_of_agg };

	for (size_t k = 0; k < ARRAY_SIZE(adds); k++) {
		uint32_t n = 0;
		struct world *w;
		int len = 1;

		for (; len > 0 && n < 100; n++) {
			w = full_world(adds[k], n + 1);
			gen_ins(w->p, IR_RET);
			len = gen_measure(&w->u, w->p);
			ir_unit_free(&w->u);
			free(w);
		}
		assert_in_range(n - 1, 24, 80);
		w = full_world(adds[k], n - 1);
		world_start(w, true);
		for (int round = 0; round < 12; round++) {
			const char *what;

			gen_machine(random_word(), 8 * (random_word() % 2));
			make_chain(190);
			machine_in.gpr[RDI] = round % 3 ? (uint64_t)"something in it" : any_value();
			what = gen_run(machine_run);
			if (what)
				fail_msg("%zu: %s", k, what);
		}
		world_free(w);
	}
}

/* ---- a stack that ends ---- */

static uint8_t *closed;		/* a page; two of stack are behind it */

static int start_low(void **state)
{
	gen_set_up();
	if (!closed)
		closed = map_or_die(3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	return mprotect(closed, PAGE, PROT_NONE);
}

/* Everything as it was, with so many bytes left; a fault would kill the test. Returns how many events that was. */
static uint64_t run_with(uint32_t left, uint64_t rdi)
{
	static uint8_t before[2 * PAGE];
	uint8_t *stack = closed + PAGE;

	fill_random(stack, 2 * PAGE);
	machine_fill(random_word() % 128, (uint64_t)stack + left);
	machine_in.gpr[RDI] = rdi;
	memcpy(before, stack, sizeof(before));
	memset(&machine_out, 0, sizeof(machine_out));
	machine_run();
	machine_check(stack, before, sizeof(before));
	return drain(gen_look);
}

static void forget(void)
{
	memset(shared->pages, 0, sizeof(shared->pages));
}

static bool is_noted(const uint8_t *at)
{
	return shared->pages[(uint64_t)at / PAGE % STACK_PAGES] == (uint64_t)at / PAGE;
}

/* What takes `need` bytes happens if they are there, and is counted if not; if there is a page more it always happens. */
static void check_body(uint32_t need, uint64_t rdi)
{
	assert_in_range(need, STACK_UNASKED + 1, GEN_STACK_MAX);
	forget();
	for (uint32_t left = STACK_UNASKED; left < PAGE; left += left < need + 64 ? 1 : 97) {
		uint64_t had = shared->no_stack, events = run_with(left, rdi);

		if (events != (left >= need) || shared->no_stack - had != (left < need))
			fail_msg("%u bytes left of %u: %d events", left, need, (int)events);
	}
	assert_false(is_noted(closed));
	assert_int_equal(mprotect(closed, PAGE, PROT_READ | PROT_WRITE), 0);
	for (int known = 0; known < 2; known++) {
		for (uint32_t left = 144; left < need + 64; left++)
			assert_int_equal(run_with(left, rdi), 1);
		assert_true(is_noted(closed));
	}
	assert_int_equal(mprotect(closed, PAGE, PROT_NONE), 0);
	for (int i = ncpus; i < nrings(); i++)
		assert_int_equal(ring_owner(&rings[i]), 0);
}

static struct world *small_world(void (*add)(struct world *w, uint32_t rdi))
{
	struct world *w = full_world(add, 2);

	world_start(w, true);
	return w;
}

static void programs_look_how_much_is_left(void **state)
{
	static void (*const adds[])(struct world *w, uint32_t rdi) = { add_stack, add_number_in_map, add_agg, add_text_in_map };

	for (size_t k = 0; k < ARRAY_SIZE(adds); k++) {
		struct world *w = small_world(adds[k]);

		check_body(gen_need_of(machine_body), (uint64_t)"text");
		world_free(w);
	}
}

/* Entry and exits of a call ask for what the greater of them takes. */
static void programs_ask_for_more(void **state)
{
	struct world *w = world_new();
	uint32_t rdi = reg_of(w, RDI);

	emit_numbers(w, &rdi, 1);
	gen_at.need = 700;
	world_start(w, true);
	gen_at.need = 0;
	check_body(700, 1);
	world_free(w);
}

static void events_look_how_much_is_left(void **state)
{
	static const struct event_field field = { EVENT_REG, RDI, 8, 0 };
	struct event_spec spec = make_spec(false, &field, 1);

	machine_body = (uint64_t)emit_body(0, &spec, machine_back(), MACHINE_BACK);
	check_body(EVENT_STACK_NEED, 1);
	spec = make_spec(true, &field, 1);
	machine_body = (uint64_t)emit_body(0, &spec, machine_back(), MACHINE_BACK);
	for (uint32_t left = 168; left < EVENT_STACK_NEED; left++)
		assert_int_equal(run_with(left, 1), 1);		/* to the ring of its CPU */
}

static void bulk_events_look_how_much_is_left(void **state)
{
	static const struct bulk_field field = { .kind = EVENT_STRING, .reg = RDI, .limit = 32 };
	static uint64_t room[(sizeof(struct bulk_desc) + sizeof(field)) / 8];
	struct bulk_desc *desc = (struct bulk_desc *)room;
	struct bulk_spec spec = {
		.slow = (uint64_t)code_rx, .record = (uint64_t)gen_blob() + blob_offset(BLOB_RECORD), .desc = (uint64_t)desc,
		.lost_shared = (uint64_t)&shared->lost_shared, .no_stack = (uint64_t)&shared->no_stack, .site = GEN_SITE,
	};
	int len;

	*desc = (struct bulk_desc){ .id = 42, .nfields = 1, .max_len = bulk_max_len(&field, 1), .ring_size = ring_size,
				    .lost_index = LOST_INDEX, .flags = BULK_MAY_CALL, .pid_cell = (uint64_t)pid_cell };
	memcpy(desc->fields, &field, sizeof(field));
	len = arch_x86_64.emit_bulk(code_rw + BODY_OFF, &spec);
	assert_true(len > 0);
	memcpy(code_rw + BODY_OFF + len, machine_back(), MACHINE_BACK);
	machine_body = (uint64_t)code_rx + BODY_OFF;
	check_body(BULK_STACK_MAX, (uint64_t)"text");
}

/* A page that nobody has touched yet, of a stack that the kernel makes longer. */
static void stacks_grow(void **state)
{
	struct world *w = small_world(add_number_in_map);
	uint8_t *room = map_or_die(1024 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1), *was = closed;
	uint32_t need = gen_need_of(machine_body);

	munmap(room, 1024 * PAGE);
	closed = mmap(room + 1020 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_GROWSDOWN, -1, 0);
	assert_ptr_equal(closed, room + 1020 * PAGE);
	for (int page = 0; page < 8; page++) {
		closed -= PAGE;
		assert_int_equal(run_with(need - 8, 1), 1);
	}
	assert_int_equal(shared->no_stack, 0);
	munmap(closed, 10 * PAGE);
	closed = was;
	world_free(w);
}

/* Where calls are forbidden, or are since now, nobody asks: it is believed to be there. */
static void not_asked_in_a_sandbox(void **state)
{
	struct world *w = small_world(add_number_in_map);
	uint32_t need = gen_need_of(machine_body);
	struct event_slow_spec slow = make_slow_spec();

	assert_int_equal(mprotect(closed, PAGE, PROT_READ | PROT_WRITE), 0);
	for (int way = 0; way < 2; way++) {
		shared->state.quiet = way == 0;
		slow.may_call = way == 0;
		emit_slow(&slow);
		forget();
		assert_int_equal(run_with(need - 8, 1), 1);
		assert_false(is_noted(closed));
	}
	shared->state.quiet = 0;
	world_free(w);
}

#define test_low(f) cmocka_unit_test_setup(f, start_low)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(full_frames),
		test_low(programs_look_how_much_is_left),
		test_low(programs_ask_for_more),
		test_low(events_look_how_much_is_left),
		test_low(bulk_events_look_how_much_is_left),
		test_low(stacks_grow),
		test_low(not_asked_in_a_sandbox),
	};

	return cmocka_run_group_tests_name("gen_stack", tests, NULL, NULL);
}
