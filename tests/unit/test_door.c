/* SPDX-License-Identifier: MIT */
/* In which order newcomers of several users are served, and which are let go. Each test goes on with the queue of the one before. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "proc/doorman/door_queue.h"

#define MS 1000000ull
#define SECOND (1000 * MS)

static uint64_t now;
static uint32_t next_id;

static bool add(uint32_t uid)
{
	struct waiting w = { .id = ++next_id, .uid = uid, .fd = -1, .since = now };

	return queue_add(&w, DOOR_MOST_WAITING);
}

/* Answered and done with. */
static void serve(const struct waiting *w)
{
	uint32_t id = w->id;

	queue_forget(w - queue_at(0));
	queue_done(id, true, now);
}

static int start(void **state)
{
	(void)state;
	now += 100 * SECOND;	/* what was remembered is forgotten */
	while (queue_length())
		queue_forget(0);
	queue_next(now);
	return 0;
}

static void two_of_a_user_at_a_time(void **state)
{
	struct waiting *a, *b;

	(void)state;
	for (int i = 0; i < 5; i++)
		assert_true(add(1));
	a = queue_next(now);
	b = queue_next(now);
	assert_true(a && b && a->id < b->id);
	assert_null(queue_next(now));
	serve(a);
	assert_non_null(queue_next(now));
	assert_null(queue_next(now));
}

/* One of another user waits for nothing but those that are under way. */
static void users_take_turns(void **state)
{
	struct waiting *w;
	uint32_t theirs;

	(void)state;
	for (int i = 0; i < 60; i++)
		assert_true(add(1));
	while (queue_next(now))
		;
	assert_true(add(2));
	theirs = next_id;
	w = queue_next(now);
	assert_true(w && w->id == theirs);
	assert_null(queue_next(now));
	serve(w);
	for (int i = 0; i < 3; i++)	/* and again, with the room of the first user free */
		assert_true(add(3) && add(2));
	queue_done(queue_at(0)->id, true, now);
	assert_int_equal(queue_next(now)->uid, 3);
	assert_int_equal(queue_next(now)->uid, 1);
	assert_int_equal(queue_next(now)->uid, 2);
}

static void only_so_many_of_a_user_wait(void **state)
{
	int n = 0;

	(void)state;
	while (n < 1000 && add(1))
		n++;
	assert_int_equal(n, 64);
	assert_true(queue_is_crowded(now) && !queue_is_crowded(now + 3 * SECOND));
	assert_true(add(2));
	assert_false(add(1));
}

static void only_so_many_wait(void **state)
{
	int n = 0;

	(void)state;
	while (n < 10000 && add(1000 + n))
		n++;
	assert_int_equal(n, DOOR_MOST_WAITING);
}

static void nobody_waits_long(void **state)
{
	(void)state;
	assert_true(add(1) && queue_next(now));
	assert_true(!queue_is_old(0, now + 999 * MS) && queue_is_old(0, now + 1001 * MS));
	assert_true(add(1) && queue_next(now) && add(1));	/* the third waits for others of its own user */
	assert_true(!queue_is_old(2, now + 4999 * MS) && queue_is_old(2, now + 5001 * MS));
	assert_true(add(2));					/* not told, and none of its own is under way */
	assert_true(!queue_is_old(3, now + 999 * MS) && queue_is_old(3, now + 1001 * MS));
}

static void a_crowd_keeps_others_for_a_moment_only(void **state)
{
	struct waiting *w;
	size_t n;

	(void)state;
	while (add(1))
		;
	assert_true(add(2) && add(2));
	n = queue_length() - 2;
	assert_true(!queue_is_old(n, now + 39 * MS) && queue_is_old(n, now + 41 * MS));
	w = queue_next(now);
	assert_int_equal(w->uid, 2);
	assert_null(queue_next(now));		/* one of each user then */
	assert_true(!queue_is_old(n, now + 39 * MS) && queue_is_old(n, now + 41 * MS));
}

/* Nothing of his is attached to, since that would keep others; those that wait already go on. */
static void who_makes_a_crowd_is_not_served(void **state)
{
	(void)state;
	while (add(1))
		;
	assert_null(queue_next(now));
	assert_true(queue_is_paused(0, now) && queue_is_paused(63, now));
	while (queue_length())
		queue_forget(0);
	now += SECOND;
	assert_false(add(1));
	now += 1001 * MS;
	assert_true(add(1));
	assert_int_equal(queue_next(now)->uid, 1);
}

static void a_flood_that_goes_on_is_a_crowd_that_goes_on(void **state)
{
	(void)state;
	while (add(1))
		;
	while (queue_length())
		queue_forget(0);
	now += 1900 * MS;
	for (int i = 0; i < 64; i++)
		assert_false(add(1));
	now += 1900 * MS;
	assert_true(!add(1) && queue_is_crowded(now));
	now += 101 * MS;
	assert_true(add(1));
}

/* The tracer may have been busy: who was let go meanwhile is not held once more. */
static void who_was_let_go_is_late(void **state)
{
	(void)state;
	assert_true(!door_is_late(now, true, now + 39 * MS) && door_is_late(now, true, now + 41 * MS));
	assert_true(!door_is_late(now, false, now + 4999 * MS) && door_is_late(now, false, now + 5001 * MS));
	assert_false(door_is_late(0, true, now));		/* it does not wait */
}

/* Nothing more is asked about one whose user has too many already, whoever else waits. */
static void a_user_with_too_many_is_known(void **state)
{
	(void)state;
	for (int i = 0; i < 63; i++)
		assert_true(add(1));
	assert_false(queue_is_full(1, DOOR_MOST_WAITING));
	assert_true(add(1) && queue_is_full(1, DOOR_MOST_WAITING));
	assert_false(queue_is_full(2, DOOR_MOST_WAITING));
	assert_true(queue_is_full(2, 64));
}

static void those_that_come_to_nothing_get_a_pause(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct waiting *w;
		uint32_t id;

		assert_true(add(7));
		w = queue_next(now);
		id = w->id;
		queue_forget(w - queue_at(0));
		queue_done(id, false, now);
	}
	assert_false(add(7));
	assert_true(add(8));
	now += 11 * SECOND;
	assert_true(add(7));
}

/* The tracer's word that it has done with one may be lost. */
static void what_is_not_heard_of_is_over(void **state)
{
	(void)state;
	assert_true(add(1) && add(1) && add(1));
	assert_true(queue_next(now) && queue_next(now) && !queue_next(now + SECOND));
	assert_non_null(queue_next(now + 6 * SECOND));
}

int main(void)
{
#define test(f) cmocka_unit_test_setup(f, start)
	const struct CMUnitTest tests[] = {
		test(two_of_a_user_at_a_time),
		test(users_take_turns),
		test(only_so_many_of_a_user_wait),
		test(only_so_many_wait),
		test(nobody_waits_long),
		test(a_crowd_keeps_others_for_a_moment_only),
		test(who_makes_a_crowd_is_not_served),
		test(a_flood_that_goes_on_is_a_crowd_that_goes_on),
		test(who_was_let_go_is_late),
		test(a_user_with_too_many_is_known),
		test(those_that_come_to_nothing_get_a_pause),
		test(what_is_not_heard_of_is_over),
	};

	return cmocka_run_group_tests_name("door", tests, NULL, NULL);
}
