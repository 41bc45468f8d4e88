/* SPDX-License-Identifier: MIT */
/*
 * A window in whose bytes the displacement of another one's jump ends ("leans") stays as it is: if a larger window swallowed it, its
 * bytes would change and the other jump lead anywhere. Plans of real programs hardly come to that, so the windows
 * are put together by hand here.
 */
#include "plan_program.h"

#include "pad/plan_priv.h"

#define TEXT (BASE + TEXT_OFF)
#define FILLER (TEXT + 11)

static const struct gap everywhere[] = { { 0x10000, 0x300000 }, { 0x500000, 0x90000000 } };

struct fix {
	struct module *m;
	struct code *code;
	struct room *room;
	struct plan *p;
};

static int set_up(void **state)
{
	static struct fix x;
	struct program pr;

	/* mov $1,%eax; mov $2,%edx; ret */
	parse("b801000000 ba02000000 c3 / cccccccccccccccccc | 55 c3", &pr);
	x.m = make_module(&pr);
	x.room = room_create(everywhere, 2);
	if (code_open(x.m, &x.code) < 0 || plan_create(x.code, x.room, 0, 40, &x.p) < 0)
		return -1;
	*state = &x;
	return 0;
}

static int tear_down(void **state)
{
	struct fix *x = *state;

	plan_free(x->p);
	room_free(x->room);
	code_close(x->code);
	module_close(x->m);
	return 0;
}

static struct line walk(struct fix *x, uint64_t from, size_t over)
{
	struct site s = { .at = from, .f = code_func(x->code, from) };
	struct line l;

	assert_non_null(s.f);
	assert_true(line_walk(x->p, &s, from, over, from, 0, &l));
	return l;
}

/* The second instruction has a window of its own. */
static struct window *second(struct fix *x, enum shape shape)
{
	struct line l = walk(x, TEXT + 5, 5);
	struct window *w = window_new(x->p, &l, shape);

	if (shape == SHAPE_HOP) {
		w->n = 2;
		w->land = FILLER;
	}
	assert_true(window_commit(x->p, &l, w, true));
	return w;
}

/* One for both instructions in its place. */
static bool swallow(struct fix *x, struct window *w)
{
	struct line l = walk(x, TEXT, 10);

	assert_int_equal(l.nmerged, 1);
	assert_ptr_equal(l.merged[0], w);
	return window_commit(x->p, &l, window_new(x->p, &l, SHAPE_JUMP), true);
}

static void stays_while_leaned_on(struct fix *x, struct window *w, uint64_t at, size_t n)
{
	uint8_t before[5];

	for (size_t i = 0; i < n; i++)
		before[i] = plan_byte(x->p, at + i);
	for (size_t i = 0; i < n; i++) {
		plan_lean(x->p, at + i, 1, 1);
		assert_false(swallow(x, w));
		assert_ptr_equal(window_at(x->p, TEXT + 5), w);
		for (size_t k = 0; k < n; k++)
			assert_true(plan_is_written(x->p, at + k) && plan_byte(x->p, at + k) == before[k]);
		plan_lean(x->p, at + i, 1, -1);
	}
}

static void window_that_is_leaned_on(void **state)
{
	struct fix *x = *state;
	struct window *w = second(x, SHAPE_JUMP);

	stays_while_leaned_on(x, w, TEXT + 5, 5);
	assert_true(swallow(x, w));
	assert_null(window_at(x->p, TEXT + 5));
}

static void landing_that_is_leaned_on(void **state)
{
	struct fix *x = *state;
	struct window *w = second(x, SHAPE_HOP);

	stays_while_leaned_on(x, w, TEXT + 5, 2);
	stays_while_leaned_on(x, w, FILLER, 5);
	assert_true(swallow(x, w));
	assert_false(plan_is_written(x->p, FILLER));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(window_that_is_leaned_on, set_up, tear_down),
		cmocka_unit_test_setup_teardown(landing_that_is_leaned_on, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("plan_window", tests, NULL, NULL);
}
