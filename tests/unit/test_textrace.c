/* SPDX-License-Identifier: MIT */
/*
 * Jumps put in and taken out again and again under threads that run through the window all the time,
 * with and without signals that interrupt them there; and how long the threads stand still for it.
 */
#define MANY 5000
#include "text_target.h"

static void rounds(void (*body)(struct control *), int n, int slot, int gentle)
{
	struct control *c = control_new();
	pid_t pid = target_start(body, c);
	struct look before;
	struct text_report rep;
	uint64_t hits = 0;
	struct rig r;
	int i;

	c->gentle = gentle;
	before = look_at(pid);
	for (i = 0; i < n; i++) {
		must(rig_open(&r, pid, 10));
		add_hot(&r);
		must(text_apply(r.p, r.a, &r.patch));
		if (i % 16 == 0)
			assert_works(c, slot);
		hits += *rig_counter(&r, 0);
		must(text_remove(r.p, r.a, &rep));
		assert_true(rep.verified);
		assert_false(rep.arena_left);
		rig_close(&r);
	}
	assert_true(hits > 0);
	assert_works(c, slot);
	assert_same(pid, &before);
	look_free(&before);
	target_end(pid, c);
}

static void test_threads(void **state)
{
	rounds(body_spin4, 250, 3, 1);
}

static volatile long caught;

static void on_alarm(int sig)
{
	long x = caught++;
	int i;

	for (i = 0; i < 1000; i++)	/* so long that we often stop it here */
		if (hot(x) != 2 * (x + 1))
			abort();
}

static void storm(struct control *c, int flags)
{
	struct itimerval every = { { 0, 100 }, { 0, 100 } };
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = flags | SA_RESTART };
	static char stack[65536];
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };

	sigaltstack(&ss, NULL);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	c->ready = READY;
	spin_forever(c, 0);
}

static void body_storm(struct control *c) { storm(c, 0); }
static void body_storm_alternate(struct control *c) { storm(c, SA_ONSTACK); }

static void test_signals(void **state)
{
	rounds(body_storm, 120, 0, 0);
}

static void test_signals_alternate(void **state)
{
	rounds(body_storm_alternate, 130, 0, 0);
}

/*
 * The pause, best of some rounds: other work on the machine makes single ones longer, and what counts
 * is that nothing is computed in it.
 */
static uint64_t best_pause(pid_t pid, size_t sites, uint64_t *ret_arena, uint64_t *ret_remove)
{
	uint64_t best = ~0ull;
	struct text_report rep;
	struct rig r;
	size_t k;
	int i;

	*ret_arena = *ret_remove = ~0ull;
	for (i = 0; i < 12; i++) {
		must(rig_open(&r, pid, sites));
		*ret_arena = MIN(*ret_arena, r.p->pause_ns);
		for (k = 0; k < sites; k++)
			add_site(&r, many + k * MANY_STEP, 6, 3, 0);
		r.p->pause_ns = 0;
		must(text_apply(r.p, r.a, &r.patch));
		best = MIN(best, r.p->pause_ns);
		r.p->pause_ns = 0;
		must(text_remove(r.p, r.a, &rep));
		assert_int_equal(rep.restored, sites);
		assert_true(rep.verified);
		*ret_remove = MIN(*ret_remove, r.p->pause_ns);
		rig_close(&r);
	}
	return best;
}

static void pause_of(void (*body)(struct control *), size_t sites, uint64_t limit_us)
{
	struct control *c = control_new();
	pid_t pid = target_start(body, c);
	uint64_t best, arena, removal;

	c->gentle = 1;
	best = best_pause(pid, sites, &arena, &removal);
	print_message("%zu sites: pause %" PRIu64 " us (arena %" PRIu64 ", removal %" PRIu64 ")\n", sites,
		      best / 1000, arena / 1000, removal / 1000);
	assert_true(best / 1000 <= limit_us);
	assert_works(c, 0);
	target_end(pid, c);
}

static void test_pause_one(void **state)
{
	pause_of(body_spin1, 1, 300);
}

static void test_pause_many(void **state)
{
	look_len = text_end - (char *)hot;
	pause_of(body_spin8, MANY, 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_signals_alternate),
		cmocka_unit_test(test_pause_one),
		cmocka_unit_test(test_pause_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
