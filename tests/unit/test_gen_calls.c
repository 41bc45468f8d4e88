/* SPDX-License-Identifier: MIT */
/* Calls that are paired: by the stack pointer, at any length, and with whoever else wants the same slot. */
#include "gen_world.h"

#include <signal.h>
#include <ucontext.h>

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

struct call_world { struct world *w; struct ir_prog *exit; struct gen_env env; uint64_t calls; };

static struct call_world calls_begin(void)
{
	struct call_world c = { .w = world_new(), .env = gen_make_env(true, NULL) };

	make_calls(c.w, &c.exit);
	memset(gen_unpaired, 0, sizeof(gen_unpaired));
	memset(gen_pairs, 0, sizeof(gen_pairs));
	return c;
}

static void calls_end(struct call_world *c)
{
	ir_unit_free(&c->w->u);
	free(c->w);
}

/* The one that is used; of few saved values. */
static uint64_t *the_slot(void)
{
	for (size_t i = 0; i < sizeof(gen_pairs); i += GEN_PAIR_SIZE)
		if (*(uint64_t *)(gen_pairs + i))
			return (uint64_t *)(gen_pairs + i);
	fail();
	return NULL;
}

/* rsp that far below the top of our stack. At an entry rdi is what is saved, 0: it is not watched. */
static void run_part(struct call_world *c, const struct ir_prog *p, uint64_t below, uint64_t rdi)
{
	assert_true(gen_place(&c->w->u, p, &c->env, 0) > 0);
	gen_machine(random_word(), below);
	machine_in.gpr[RDI] = rdi;
	assert_null(gen_run(machine_run));
}

static void enter(struct call_world *c, uint64_t below, uint64_t rdi)
{
	run_part(c, c->w->p, below, rdi);
}

/* What was saved; 0: the entry was not found. */
static uint64_t leave(struct call_world *c, uint64_t below)
{
	run_part(c, c->exit, below, 1);
	return gen_native.n ? *(uint64_t *)gen_native.payload : 0;
}

static void what_never_returned_is_not_found_by_others(void **state)
{
	static uint32_t enabled[64] = { GEN_ON }, missed;
	struct call_world c = calls_begin();

	enter(&c, 64, 7);
	enter(&c, 64, 0);
	assert_int_equal(leave(&c, 64), 0);
	enter(&c, 64, 8);
	enter(&c, 64, 9);
	assert_int_equal(leave(&c, 64), 9);
	assert_int_equal(leave(&c, 64), 0);
	c.env.enabled = (uint64_t)enabled;
	gen_at.missed = (uint64_t)&missed;
	for (int k = 0; k < 3; k++) {
		enter(&c, 64, 10);
		assert_int_equal(leave(&c, 64), 10);
		enter(&c, 64, 11);
		enabled[0] += k < 2 ? GEN_SWITCHED : 0;	/* nobody looked for a while */
		missed += k > 0;
		assert_int_equal(leave(&c, 64), 0);
		c.env.enabled = k ? 0 : c.env.enabled;
	}
	gen_at.missed = 0;
	calls_end(&c);
}

/* Two slots with one key: the first one was taken by another when the second was made. */
static void all_that_was_left_is_forgotten(void **state)
{
	struct call_world c = calls_begin();
	uint64_t *slot;

	enter(&c, 64, 7);
	slot = the_slot();
	memcpy((uint8_t *)slot + GEN_PAIR_SIZE * 2, slot, GEN_PAIR_SIZE);
	enter(&c, 64, 0);
	assert_int_equal(leave(&c, 64), 0);
	*slot = 12345;					/* another takes the first one, which is free now */
	assert_int_equal(leave(&c, 64), 0);
	calls_end(&c);
}

#define SLOT_FREE 0x80000000u

static uint32_t *slot_high(uint64_t *slot)
{
	return (uint32_t *)slot + 3;
}

/* A slot is found again as it was left; one that is taken by another is not touched, one that another has left is. */
static void slots_have_owners(void **state)
{
	struct call_world c = calls_begin();
	uint64_t *slot, key;

	enter(&c, 64, 7);
	slot = the_slot();
	key = *slot;
	assert_int_not_equal(*slot_high(slot), SLOT_FREE);
	assert_int_equal(leave(&c, 64), 7);
	assert_int_equal(*slot, key);
	assert_int_equal(*slot_high(slot), SLOT_FREE);
	assert_int_equal(leave(&c, 64), 0);
	enter(&c, 64, 8);
	assert_int_equal(*slot, key);
	assert_int_equal(leave(&c, 64), 8);
	*slot = 12345;
	*slot_high(slot) = 1;
	enter(&c, 64, 9);
	assert_int_equal(*slot, 12345);
	assert_int_equal(slot[GEN_PAIR_SIZE / 8], key);
	assert_int_equal(leave(&c, 64), 9);
	*slot_high(slot) = SLOT_FREE;
	slot[GEN_PAIR_SIZE / 8] = 0;
	enter(&c, 64, 10);				/* rather one that is nobody's */
	assert_int_equal(*slot, 12345);
	assert_int_equal(slot[GEN_PAIR_SIZE / 8], key);
	assert_int_equal(leave(&c, 64), 10);
	for (int k = 1; k < GEN_PAIR_WAYS; k++) {
		slot[k * GEN_PAIR_SIZE / 8] = 12345;
		*slot_high(slot + k * GEN_PAIR_SIZE / 8) = k == 2 ? SLOT_FREE : 1;
	}
	*slot_high(slot) = 1;
	enter(&c, 64, 10);
	assert_int_equal(slot[2 * GEN_PAIR_SIZE / 8], key);
	assert_int_equal(leave(&c, 64), 10);
	for (int k = 0; k < GEN_PAIR_WAYS; k++) {
		slot[k * GEN_PAIR_SIZE / 8] = 12345;
		*slot_high(slot + k * GEN_PAIR_SIZE / 8) = 1;
	}
	enter(&c, 64, 11);
	assert_int_equal(*slot, key);
	assert_int_equal(gen_unpaired[64], 1);
	assert_int_equal(leave(&c, 64), 11);
	calls_end(&c);
}

/* A value that was written by another than the time or the key is nobody's. */
static void mixed_slots_are_nobodys(void **state)
{
	struct call_world c = calls_begin();
	uint64_t *slot;

	enter(&c, 64, 7);
	slot = the_slot();
	for (int k = 2; k < 5; k++) {
		slot[k] ^= 4;
		gen_unpaired[0] = 0;
		assert_int_equal(leave(&c, 64), 0);
		assert_int_equal(gen_unpaired[0], 1);
		slot[k] ^= 4;
	}
	assert_int_equal(leave(&c, 64), 7);
	calls_end(&c);
}

static __thread struct { uint64_t lo, hi; } *go_g;

static void calls_are_found_on_stacks_that_moved(void **state)
{
	__typeof__(*go_g) one, two;
	struct call_world c = calls_begin();
	char *tls = __builtin_thread_pointer();

	gen_at.g_off = (char *)&go_g - tls;
	go_g = &one;
	one.hi = two.hi = 0x7000;
	enter(&c, 64, 7);
	go_g = &two;
	assert_int_equal(leave(&c, 64), 0);
	enter(&c, 64, 8);
	go_g = &one;
	one.hi -= 512;
	assert_int_equal(leave(&c, 64), 0);
	assert_int_equal(leave(&c, 64 + 512), 7);
	assert_int_equal(leave(&c, 64 + 512), 0);
	go_g = &two;
	assert_int_equal(leave(&c, 64), 8);
	go_g = NULL;
	enter(&c, 64, 9);
	assert_int_equal(leave(&c, 72), 0);
	assert_int_equal(leave(&c, 64), 9);
	gen_at.g_off = 0;
	assert_int_equal(gen_unpaired[0], 4);
	calls_end(&c);
}

/* ---- durations ---- */

static void make_durations(struct world *w, struct ir_prog **ret_exit, uint32_t nsaved)
{
	struct ir_prog *exit = ir_prog_new(&w->u, IR_WHERE_EXIT, 0);
	uint32_t ns = gen_reg(exit, IR_I), record = gen_record(&w->u, 1, UINT32_MAX, false);
	struct ir_ins *i = gen_ins(exit, IR_CTX);

	w->p->where = IR_WHERE_ENTRY;
	w->p->nsaved = exit->nsaved = nsaved;
	w->p->timed = exit->timed = true;
	i->imm = IR_CTX_DURATION;
	i->dst = ns;
	i = gen_ins(exit, IR_EMIT);
	i->record = record;
	gen_arg(exit, i, IR_U64, ns, 0);
	gen_ins(w->p, IR_RET);
	gen_ins(exit, IR_RET);
	*ret_exit = exit;
}

/* The entry was that many ticks ago; what does the exit say? */
static void one_duration(struct call_world *c, int64_t ticks)
{
	uint64_t *slot, said;
	double want, most;

	enter(c, 64, 1);
	slot = the_slot();
	slot[1] = __builtin_ia32_rdtsc() - ticks;
	said = leave(c, 64);
	want = ticks < 0 ? 0 : ticks * (double)c->env.mult / 4294967296.0;
	most = (ticks < 0 ? 0 : 1e9) * (double)c->env.mult / 4294967296.0;	/* a second may pass in between */
	if (said < want - 2 - want * 1e-12 || said > want + most)
		fail_msg("%lld ticks are %g ns, not %llu", (long long)ticks, want, (unsigned long long)said);
}

static void durations_of_all_lengths(void **state)
{
	static const uint64_t mults[] = { 1u << 30, 0x6f4de9bd, 3u << 30, UINT32_MAX, 1ull << 32, 5ull << 31 };
	static const int64_t ticks[] = { 0, 1000000, 3000000000, 1ll << 32, (1ll << 32) + 5, 1ll << 40, 1ll << 50, -3000000000, -(1ll << 40) };

	for (uint32_t nsaved = 0; nsaved < 2; nsaved++) {
		struct call_world c = { .w = world_new(), .env = gen_make_env(true, NULL) };

		make_durations(c.w, &c.exit, nsaved);
		memset(gen_pairs, 0, sizeof(gen_pairs));
		memset(gen_unpaired, 0, sizeof(gen_unpaired));
		for (size_t m = 0; m < sizeof(mults) / sizeof(*mults); m++) {
			c.env.mult = mults[m];
			for (size_t k = 0; k < sizeof(ticks) / sizeof(*ticks); k++)
				one_duration(&c, ticks[k]);
		}
		assert_int_equal(gen_unpaired[0], 0);
		leave(&c, 64);
		assert_int_equal(gen_native.n, 0);
		assert_int_equal(gen_unpaired[0], 1);
		calls_end(&c);
	}
}

/* ---- histograms of them: the highest bit is taken from a product that is not shifted ---- */

static struct call_world histograms_begin(bool has_rseq)
{
	struct call_world c = { .w = world_new() };
	struct ir_prog *exit = ir_prog_new(&c.w->u, IR_WHERE_EXIT, 0);
	uint32_t ns = gen_reg(exit, IR_I);
	struct ir_ins *i = gen_ins(exit, IR_CTX);

	gen_map(&c.w->u, IR_MAP_HIST, IR_I64, 0);
	c.w->p->where = IR_WHERE_ENTRY;
	c.w->p->timed = exit->timed = true;
	i->imm = IR_CTX_DURATION;
	i->dst = ns;
	i = gen_ins(exit, IR_MAP_AGG);
	i->a = ns;
	gen_ins(exit, IR_RET);
	c.exit = exit;
	world_start(c.w, has_rseq);
	c.env = gen_make_env(has_rseq, c.w->l);
	memset(gen_pairs, 0, sizeof(gen_pairs));
	memset(gen_unpaired, 0, sizeof(gen_unpaired));
	return c;
}

static uint64_t in_bucket(const struct call_world *c, uint32_t bucket)
{
	struct map_entry e;

	return maps_reader_ops.get(c->w->r, 0, &(struct bytes){ 0 }, &e) ? e.agg->buckets[bucket] : 0;
}

/* So long ago that what passes until the exit reads the clock makes no difference. */
static void one_in_a_histogram(struct call_world *c, int64_t ticks, void (*run)(void))
{
	int64_t ns = ticks < 0 ? 0 : (unsigned __int128)ticks * c->env.mult >> 32;
	uint32_t bucket = hist_bucket(ns, 0);
	uint64_t before = in_bucket(c, bucket), all = 0;

	enter(c, 64, 1);
	the_slot()[1] = __builtin_ia32_rdtsc() - ticks;
	assert_true(gen_place(&c->w->u, c->exit, &c->env, 0) > 0);
	gen_machine(random_word(), 64);
	assert_null(gen_run(run));
	if (in_bucket(c, bucket) != before + 1)
		fail_msg("%lld ticks are %lld ns, but bucket %u has got none of them", (long long)ticks, (long long)ns, bucket);
	for (uint32_t k = 0; k < agg_buckets(&c->w->u.maps.v[0]); k++)
		all += in_bucket(c, k);
	assert_int_equal(all, ++c->calls);
}

static void histograms_of_durations(void **state)
{
	static const uint64_t mults[] = { 2, 4, 8, 1u << 16, 0x6f4de9bd, 3u << 30, UINT32_MAX, 1ull << 32, 5ull << 31 };

	for (int how = 0; how < 4; how++) {
		struct call_world c = histograms_begin(how & 1);

		gen_fill = how & 2;
		for (size_t m = 0; m < ARRAY_SIZE(mults); m++) {
			c.env.mult = mults[m];
			for (int bit = mults[m] < 16 ? 20 : 30; bit < 60; bit++)	/* down to nearly nothing */
				one_in_a_histogram(&c, (1ll << bit) + (1ll << (bit - 1)), bit % 7 ? machine_run : machine_run_stepped);
			one_in_a_histogram(&c, -(1ll << 33), machine_run);
			one_in_a_histogram(&c, -(1ll << 40), machine_run);
		}
		assert_int_equal(gen_unpaired[0], 0);
		run_part(&c, c.exit, 64, 1);		/* of a slot that is free */
		assert_int_equal(gen_unpaired[0], 1);
		gen_fill = false;
		world_free(c.w);
	}
}

/* ---- another takes the slot in the middle of an entry ---- */

static int steps, steal_at;
static uint64_t *steal, old_key;

static void on_step(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;

	if (uc->uc_mcontext.gregs[REG_RIP] - (uint64_t)code_rx < CODE_SIZE) {
		if (++steps == steal_at && *slot_high(steal) == SLOT_FREE) {
			*steal = 12345;
			*slot_high(steal) = 0;
		}
	} else if (steps) {
		uc->uc_mcontext.gregs[REG_EFL] &= ~0x100ll;
	}
}

/* An entry, one instruction at a time. Returns how many there were. */
static int enter_slowly(struct call_world *c, void (*at_step)(int sig, siginfo_t *si, void *context))
{
	const struct sigaction step = { .sa_sigaction = at_step, .sa_flags = SA_SIGINFO }, plain = { .sa_handler = SIG_DFL };

	steps = 0;
	assert_true(gen_place(&c->w->u, c->w->p, &c->env, 0) > 0);
	gen_machine(random_word(), 64);
	machine_in.gpr[RDI] = 7;
	machine_in.flags |= 0x100;
	sigaction(SIGTRAP, &step, NULL);
	machine_run();
	sigaction(SIGTRAP, &plain, NULL);
	return steps;
}

/* Whoever comes back to a slot while another takes it finds that out, or the other does; nobody gets what is not his. */
static void who_is_slow_frees_the_slot(void **state)
{
	for (uint32_t nsaved = 0; nsaved <= 2; nsaved += 2) {
		struct call_world c = calls_begin();
		int n, stolen = 0, spoilt = 0;

		if (!nsaved) {
			calls_end(&c);
			c.w = world_new();
			make_durations(c.w, &c.exit, 0);
		}
		enter(&c, 64, 7);
		steal = the_slot();
		old_key = *steal;
		leave(&c, 64);
		steal_at = 0;
		n = enter_slowly(&c, on_step);
		assert_in_range(n, 20, 200);
		assert_int_equal(*steal, old_key);
		for (steal_at = 1; steal_at <= n; steal_at++) {
			*steal = old_key;
			*slot_high(steal) = SLOT_FREE;
			enter_slowly(&c, on_step);
			if (*steal == 12345 && *slot_high(steal))
				assert_int_equal(*slot_high(steal), SLOT_FREE);
			stolen += *steal == 12345;
			spoilt += *steal == 12345 && *slot_high(steal);
			leave(&c, 64);
			assert_int_equal(gen_native.n, *steal == old_key || !*slot_high(steal));
		}
		assert_true(spoilt > 2 && stolen > spoilt && n > stolen);
		calls_end(&c);
	}
}

static bool has_stolen;

static void on_claim(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;

	if (uc->uc_mcontext.gregs[REG_RIP] - (uint64_t)code_rx < CODE_SIZE) {
		if (++steps == steal_at && !*steal) {
			has_stolen = true;
			*steal = 12345;
			*slot_high(steal) = 0;
		}
	} else if (steps) {
		uc->uc_mcontext.gregs[REG_EFL] &= ~0x100ll;
	}
}

/* Two threads claim a free slot, the other one at any moment: that one keeps it, and our call is in another slot. */
static void a_slot_is_given_once(void **state)
{
	struct call_world c = calls_begin();
	uint64_t key;
	int n, stolen = 0;

	enter(&c, 64, 7);
	steal = the_slot();
	key = *steal;
	leave(&c, 64);
	memset(gen_pairs, 0, sizeof(gen_pairs));
	steal_at = 0;
	n = enter_slowly(&c, on_claim);
	assert_int_equal(*steal, key);
	for (steal_at = 1; steal_at <= n; steal_at++) {
		memset(gen_pairs, 0, sizeof(gen_pairs));
		has_stolen = false;
		enter_slowly(&c, on_claim);
		stolen += has_stolen;
		assert_int_equal(*steal, has_stolen ? 12345 : key);
		assert_int_equal(leave(&c, 64), 7);
	}
	assert_true(stolen > 5 && stolen < n);
	calls_end(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(calls_are_paired),
		test(what_never_returned_is_not_found_by_others),
		test(all_that_was_left_is_forgotten),
		test(slots_have_owners),
		test(mixed_slots_are_nobodys),
		test(calls_are_found_on_stacks_that_moved),
		test(durations_of_all_lengths),
		test(histograms_of_durations),
		test(who_is_slow_frees_the_slot),
		test(a_slot_is_given_once),
	};

	return cmocka_run_group_tests_name("gen_calls", tests, NULL, NULL);
}
