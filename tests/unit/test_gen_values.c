/* SPDX-License-Identifier: MIT */
/*
 * Maps of numbers by numeric keys (gen/values.c): beside the interpreter, where keys have the same home and tables are nearly full; and
 * with another thread that changes the entry after each single instruction.
 */
#include "gen_world.h"

#include "blob/table.h"

#define KEYS 8

/* rsi % 6 says what is done with the key (`nkeys` times rdi) and the value rsi; what is read is an event. */
static struct world *world_of_all(uint32_t nkeys, uint32_t max_keys)
{
	static const uint8_t ops[] = { IR_MAP_SET, IR_MAP_ADD, IR_MAP_DEL, IR_MAP_GET, IR_MAP_HAS, IR_MAP_DEL };
	struct world *w = world_new();
	uint32_t rdi = reg_of(w, RDI), rsi = reg_of(w, RSI), out[6], what, number, is;
	struct ir_ins *i;

	gen_map(&w->u, IR_MAP_VALUE, IR_U64, nkeys)->max_keys = max_keys;
	for (int k = 0; k < 6; k++) {
		i = gen_ins(w->p, IR_CONST);
		i->imm = 5;
		out[k] = i->dst = gen_reg(w->p, IR_I);
	}
	i = gen_ins(w->p, IR_CONST);
	i->imm = 6;
	number = i->dst = gen_reg(w->p, IR_I);
	i = gen_ins(w->p, IR_MOD);
	i->a = rsi;
	i->b = number;
	what = i->dst = gen_reg(w->p, IR_I);
	for (uint32_t k = 0; k < ARRAY_SIZE(ops); k++) {
		i = gen_ins(w->p, IR_CONST);
		i->imm = k;
		number = i->dst = gen_reg(w->p, IR_I);
		i = gen_ins(w->p, IR_EQ);
		i->a = what;
		i->b = number;
		is = i->dst = gen_reg(w->p, IR_I);
		i = gen_ins(w->p, IR_JZ);
		i->a = is;
		i->label = k;
		i = gen_ins(w->p, ops[k]);
		i->map = 0;
		for (uint32_t n = 0; n < nkeys; n++)
			gen_arg(w->p, i, IR_U64, rdi, 0);
		i->nkeys = nkeys;
		i->dst = ops[k] == IR_MAP_SET || k == 2 ? IR_NONE : out[k];
		if (ops[k] == IR_MAP_ADD)
			i->a = rsi;
		else if (ops[k] == IR_MAP_SET || ops[k] == IR_MAP_GET)
			gen_arg(w->p, i, IR_U64, k ? out[0] : rsi, 0);
		i = gen_ins(w->p, IR_LABEL);
		i->label = k;
	}
	emit_numbers(w, out, 6);
	w->p->nlabels = ARRAY_SIZE(ops);
	return w;
}

static void as_the_interpreter_does(void **state)
{
	for (uint32_t way = 0; way < 12; way++) {
		uint32_t nkeys = way % 3, most = way / 3 % 2 ? KEYS : 256;
		struct world *w = world_of_all(nkeys, most);

		world_start(w, way & 1);
		for (int k = 0; k < 1500; k++) {
			hit(w, random_word() % (k % 200 < 100 ? 3 : KEYS), random_word() % 100, k == 70 || k == 90 ? machine_run_stepped : machine_run);
			if (k % 100 == 99)
				same_maps(w);
		}
		maps_reader_ops.clear(w->r, 0);
		store_ops.clear(w->store, 0);
		for (int k = 0; k < 100; k++)
			hit(w, random_word() % KEYS, random_word() % 100, machine_run);
		same_maps(w);
		world_free(w);
	}
}

/* ---- another thread ---- */

#define OURS 1000		/* the value of the operation in the pad */
#define FIRST 50		/* the value that was there */
#define THEIRS 7
#define OTHERS 9		/* the other key's */

static struct world *w;
static struct prog_shape shape;
static struct prog_table *t;
static uint64_t key, other;		/* they have the same home */
static uint32_t home;

static struct prog_entry *entry(uint32_t far)
{
	return prog_entry(t, &shape, (home + far) & shape.mask);
}

static void begin(enum ir_op op)
{
	uint32_t rdi, rsi, got[2];
	struct ir_ins *i;

	w = world_new();
	rdi = reg_of(w, RDI);
	rsi = reg_of(w, RSI);
	gen_map(&w->u, IR_MAP_VALUE, IR_U64, 1)->max_keys = 64;
	for (int k = 0; k < 2; k++) {
		i = gen_ins(w->p, IR_CONST);
		got[k] = i->dst = gen_reg(w->p, IR_I);
	}
	i = map_ins(w, op, 0, rdi);
	i->dst = op == IR_MAP_SET ? IR_NONE : got[0];
	if (op == IR_MAP_ADD)
		i->a = rsi;
	if (op == IR_MAP_SET || op == IR_MAP_GET)
		gen_arg(w->p, i, IR_U64, op == IR_MAP_GET ? got[1] : rsi, 0);
	emit_numbers(w, got, 2);
	world_start(w, true);
	shape = maps_shape(&w->u.maps.v[0], &w->l->maps[0]);
	t = (struct prog_table *)(gen_maps_memory + w->l->maps[0].table);
}

static void choose_keys(bool at_the_end)
{
	key = 1;
	while ((prog_hash(&key, 1) & shape.mask) != (at_the_end ? shape.mask : 3))
		key++;
	other = key + 1;
	while ((prog_hash(&other, 1) & shape.mask) != (prog_hash(&key, 1) & shape.mask))
		other++;
	home = prog_hash(&key, 1) & shape.mask;
}

static void put(uint64_t k, uint64_t value)
{
	uint64_t seen;
	bool made;

	assert_true(table_make(t, &shape, &k, value, NULL, &seen, &made) >= 0 && made);
}

/* As a pad deletes. */
static void vacate(struct prog_entry *e)
{
	uint64_t s = e->state;

	if ((s & PROG_STATE) != PROG_READY)
		return;
	assert_true(table_change(e, s, table_next(s, PROG_VACANT, s)));
	t->vacant = 1;
}

/* What the other thread does; it is done when it returns. */
static uint64_t claimed;
static uint32_t theirs;			/* how much it has added */

static void nothing(void) { }

static void change_value(void)
{
	uint64_t s = entry(0)->state, old = entry(0)->value;

	if ((s & PROG_STATE) == PROG_READY && entry(0)->key[0] == key && table_exchange(entry(0), s, &old, old + THEIRS))
		theirs = THEIRS;
}

static void delete_it(void)
{
	vacate(entry(0));
}

/* The entry gets another key. */
static void replace_it(void)
{
	uint64_t s = entry(0)->state;

	if ((s & PROG_STATE) == PROG_READY)
		table_delete_at(t, &shape, home, s);
	put(other, OTHERS);
}

/* The same key again, with another value. */
static void make_anew(void)
{
	uint64_t s = entry(0)->state;

	if ((s & PROG_STATE) == PROG_READY)
		table_delete_at(t, &shape, home, s);
	put(key, THEIRS);
}

/* It has claimed the entry next to home while home was in use, and adds to the key. */
static void claim_next(void)
{
	claimed = table_next(0, PROG_CLAIMED, prog_hash(&key, 1));
	assert_true(table_change(entry(1), 0, claimed));
	table_count(t, 1);
}

static void finish_next(void)
{
	uint64_t s, old;
	bool made;
	int64_t at = table_put(t, &shape, (home + 1) & shape.mask, 1, claimed, prog_hash(&key, 1), &key, THEIRS, NULL, &s, &made);

	theirs = THEIRS;
	if (made)
		return;
	old = prog_entry(t, &shape, at)->value;
	assert_true(table_exchange(prog_entry(t, &shape, at), s, &old, old + THEIRS));
}

static void insert_next(void)
{
	if (entry(1)->state)
		return;
	claim_next();
	finish_next();
}

/*
 * A run by single steps notes the addresses of all instructions. Another run acts before the instruction number act_at, where it
 * has a breakpoint: steps are slow.
 */
static uint64_t steps[512];
static int nsteps, act_at;
static bool acted;
static void (*act)(void);
static uint8_t covered;

static void on_step(int sig, siginfo_t *si, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	if (act_at) {
		code_rw[steps[act_at - 1] - (uint64_t)code_rx] = covered;
		regs[REG_RIP] = steps[act_at - 1];
		acted = true;
		act();
	} else if (regs[REG_RIP] - (uint64_t)code_rx < CODE_SIZE && nsteps < (int)ARRAY_SIZE(steps)) {
		steps[nsteps++] = regs[REG_RIP];
	} else if (regs[REG_RIP] == (greg_t)machine_landing || regs[REG_RIP] == (greg_t)machine_landing_2) {
		regs[REG_EFL] &= ~(greg_t)FLAG_TF;
	}
}

static void machine_run_watched(void)
{
	const struct sigaction step = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	uint8_t *at = act_at ? &code_rw[steps[act_at - 1] - (uint64_t)code_rx] : NULL;
	struct sigaction old;

	sigaction(SIGTRAP, &step, &old);
	acted = false;
	if (at) {
		covered = *at;
		*at = 0xcc;
		machine_run();
		*at = covered;
	} else {
		nsteps = 0;
		machine_in.flags |= FLAG_TF;
		machine_run();
		machine_in.flags &= ~FLAG_TF;
	}
	sigaction(SIGTRAP, &old, NULL);
}

/* Returns what the operation has found: whether the key was there or the value before; and the value of a read. */
static const uint64_t *run_slowly(void)
{
	theirs = 0;
	gen_machine(random_word(), 64);
	machine_in.gpr[RDI] = key;
	machine_in.gpr[RSI] = OURS;
	assert_null(gen_run(machine_run_watched));
	assert_int_equal(gen_native.n, 1);
	return (const uint64_t *)gen_native.payload;
}

/* Each key is there once, and the count is the number of seats. */
static uint64_t check_table(uint64_t *ret_value)
{
	uint32_t n = 0, seats = 0, others = 0;

	*ret_value = 0;
	for (uint32_t i = 0; i <= shape.mask; i++) {
		const struct prog_entry *e = prog_entry(t, &shape, i);
		uint32_t s = e->state & PROG_STATE;

		seats += s == PROG_READY || s == PROG_VACANT || s == PROG_CLAIMED;
		if (s == PROG_READY && e->key[0] == other) {
			assert_int_equal(e->value, OTHERS);
			others++;
		} else if (s == PROG_READY) {
			assert_int_equal(e->key[0], key);
			*ret_value = e->value;
			n++;
		}
	}
	assert_true(n < 2 && others < 2);
	assert_int_equal(t->count, seats);
	table_sweep(t, &shape);
	assert_int_equal(t->count, n + others);
	return n;
}

enum before { ABSENT, VACANT, READY };

static void prepare(enum before before)
{
	memset(t, 0, sizeof(*t) + (uint64_t)shape.stride * (shape.mask + 1));
	if (before != ABSENT)
		put(key, FIRST);
	if (before == VACANT)
		vacate(entry(0));
}

static void check_one(enum ir_op op, enum before before, void (*what)(void), const uint64_t *got)
{
	uint64_t value, n = check_table(&value);

	if (op == IR_MAP_ADD && (what == insert_next || what == change_value)) {
		assert_int_equal(n, 1);
		assert_int_equal(value, (before == READY ? FIRST : 0) + OURS + theirs);
	}
	if (what == nothing && (op == IR_MAP_SET || op == IR_MAP_ADD)) {
		assert_int_equal(n, 1);
		assert_int_equal(value, op == IR_MAP_ADD && before == READY ? FIRST + OURS : OURS);
	}
	if (op == IR_MAP_ADD)
		assert_true(got[0] == 0 || got[0] == FIRST || got[0] == THEIRS || got[0] == FIRST + THEIRS);
	else if (op != IR_MAP_SET)
		assert_true(got[0] < 2);
	if (op == IR_MAP_SET)
		assert_true(!n || value == OURS || value == OURS + THEIRS || value == THEIRS);
	if (op == IR_MAP_GET)
		assert_true(got[1] == (got[0] ? got[1] : 0) && (!got[0] || got[1] == FIRST || got[1] == THEIRS || got[1] == FIRST + THEIRS));
	if (op == IR_MAP_DEL && what != make_anew && what != insert_next && before == READY)
		assert_int_equal(n, 0);
}

static void act_everywhere(enum ir_op op, enum before before, void (*what)(void))
{
	bool is_set = op == IR_MAP_SET;

	if (what == make_anew && (before != READY || is_set))
		return;			/* two threads set at once: either value is right */
	if (what == insert_next && before == READY)
		return;			/* it would have found the key */
	act = what;
	for (act_at = 1; act_at <= nsteps; act_at++) {
		prepare(before);
		check_one(op, before, what, run_slowly());
	}
}

static void after_each_instruction(void **state)
{
	static const uint8_t ops[] = { IR_MAP_GET, IR_MAP_HAS, IR_MAP_SET, IR_MAP_ADD, IR_MAP_DEL };
	static void (*const whats[])(void) = { change_value, delete_it, replace_it, make_anew, insert_next };

	for (uint32_t o = 0; o < ARRAY_SIZE(ops); o++) {
		begin(ops[o]);
		for (uint32_t k = 0; k < 3 * 2; k++) {
			choose_keys(k / 3);
			act_at = 0;
			prepare(k % 3);
			check_one(ops[o], k % 3, nothing, run_slowly());
			assert_in_range(nsteps, 20, 400);
			for (uint32_t n = 0; n < ARRAY_SIZE(whats); n++)
				act_everywhere(ops[o], k % 3, whats[n]);
		}
		world_free(w);
	}
}

/* A thread that has claimed the entry next to home goes on after any instruction of ours. */
static void claimed_next_to_home(void **state)
{
	begin(IR_MAP_ADD);
	for (int end = 0; end < 2; end++) {
		choose_keys(end);
		act = finish_next;
		act_at = 0;
		prepare(VACANT);
		claim_next();
		run_slowly();
		for (act_at = 1; act_at <= nsteps; act_at++) {
			uint64_t value;

			prepare(VACANT);
			claim_next();
			run_slowly();
			if (!acted)
				finish_next();
			assert_int_equal(check_table(&value), 1);
			assert_int_equal(value, OURS + THEIRS);
		}
	}
	world_free(w);
}

/* ---- vacant entries ---- */

/* The same key comes back without the blob: its seat was kept. */
static void a_vacant_entry_keeps_its_seat(void **state)
{
	uint64_t value;

	begin(IR_MAP_DEL);
	choose_keys(false);
	act_at = 0;
	prepare(READY);
	assert_int_equal(run_slowly()[0], 1);
	assert_int_equal(entry(0)->state & PROG_STATE, PROG_VACANT);
	assert_int_equal(t->count, 1);
	assert_int_equal(run_slowly()[0], 0);
	assert_int_equal(check_table(&value), 0);
	world_free(w);
}

/* Where the table is nearly full, entries are deleted for good. */
static void none_in_a_table_that_is_nearly_full(void **state)
{
	begin(IR_MAP_DEL);
	choose_keys(false);
	act_at = 0;
	prepare(READY);
	t->count = 64 - 64 / 8;
	assert_int_equal(run_slowly()[0], 1);
	assert_int_equal(entry(0)->state & PROG_STATE, PROG_DELETED);
	world_free(w);
}

/* Another key takes the entry with its seat. */
static void a_seat_is_taken_over(void **state)
{
	begin(IR_MAP_SET);
	choose_keys(false);
	prepare(VACANT);
	put(other, OTHERS);
	assert_int_equal(entry(0)->key[0], other);
	assert_int_equal(t->count, 1);
	world_free(w);
}

/* Seats of vacant entries are given to new keys when there is no other room. */
static void vacant_entries_make_room(void **state)
{
	uint64_t seen, k;
	bool made;

	begin(IR_MAP_SET);
	choose_keys(false);
	prepare(READY);
	for (k = key + 1; t->count < 64; k++)
		put(k, 1);
	k++;
	assert_int_equal(table_make(t, &shape, &k, 1, NULL, &seen, &made), -1);
	vacate(entry(0));
	assert_true(table_make(t, &shape, &k, 1, NULL, &seen, &made) >= 0 && made);
	assert_int_equal(t->count, 64);
	k++;
	assert_int_equal(table_make(t, &shape, &k, 1, NULL, &seen, &made), -1);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(as_the_interpreter_does),
		test(after_each_instruction),
		test(claimed_next_to_home),
		test(a_vacant_entry_keeps_its_seat),
		test(none_in_a_table_that_is_nearly_full),
		test(a_seat_is_taken_over),
		test(vacant_entries_make_room),
	};

	return cmocka_run_group_tests_name("gen_values", tests, NULL, NULL);
}
