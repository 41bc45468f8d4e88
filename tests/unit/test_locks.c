/* SPDX-License-Identifier: MIT */
/* Locks of rings, in a recording that is made by hand: that of a thread that has ended is freed, all others stay. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/proc.h"
#include "session/events/rings.h"
#include <cmocka.h>		/* last: it makes fail() a macro */

#define NLOCKED 2
#define NO_THREAD ((1u << 22) + 5)	/* the kernel gives no number above 1 << 22 */

static struct ring_head heads[NLOCKED];
static struct own_ring own[NLOCKED];
static struct rings rings;
static struct proc proc;
static struct target target;

static int reset(void **state)
{
	memset(heads, 0, sizeof(heads));
	memset(own, 0, sizeof(own));
	for (int i = 0; i < NLOCKED; i++) {
		own[i].r.head = &heads[i];
		own[i].live = true;
	}
	proc = (struct proc){ .pid = getpid() };
	rings = (struct rings){ .v = own, .nlocked = NLOCKED, .ns_pid = getpid() };
	target = (struct target){ .proc = &proc, .rings = &rings };
	return 0;
}

static void take(int ring, uint32_t owner)
{
	heads[ring].lock |= owner;
}

static uint32_t owner_of(int ring)
{
	return ring_owner(&own[ring].r);
}

/* It was seen with that lock before: then it has not just been born with the number. */
static void of_an_ended_thread(void **state)
{
	take(1, NO_THREAD);
	rings_free_locks(&target);
	assert_int_equal(owner_of(1), NO_THREAD);
	rings_free_locks(&target);
	assert_int_equal(owner_of(1), 0);
	assert_int_equal(heads[1].lock, 1ull << 32);
	assert_int_equal(heads[0].lock, 0);
	take(1, NO_THREAD + 1);				/* and the next one's */
	rings_free_locks(&target);
	assert_int_equal(owner_of(1), NO_THREAD + 1);
	rings_free_locks(&target);
	assert_int_equal(owner_of(1), 0);
}

static void of_a_living_thread(void **state)
{
	take(0, gettid());
	for (int i = 0; i < 5; i++)
		rings_free_locks(&target);
	assert_int_equal(owner_of(0), gettid());
	assert_int_equal(heads[0].lock >> 32, 0);
}

/* Another owner at each look: none of them was seen twice. */
static void of_changing_threads(void **state)
{
	for (int i = 0; i < 6; i++) {
		heads[0].lock = NO_THREAD + i;
		rings_free_locks(&target);
		assert_int_equal(owner_of(0), NO_THREAD + i);
	}
}

/* Pads can't find it: it may be mapped no longer. */
static void of_a_ring_that_is_not_live(void **state)
{
	own[0].live = false;
	take(0, NO_THREAD);
	for (int i = 0; i < 3; i++)
		rings_free_locks(&target);
	assert_int_equal(owner_of(0), NO_THREAD);
}

/* Held for long by a living thread that writes nothing is stale; with a new event it is not. */
static void slow_owners(void **state)
{
	uint64_t long_ago = now_ns() - 5000000000ull;

	take(0, gettid());
	take(1, gettid());
	rings_free_locks(&target);
	assert_false(own[0].stale || own[1].stale);
	rings.looked_at = now_ns();			/* no closer look yet: it would stop the target */
	rings.look_wait = 60000000000ull;
	own[0].held_since = own[1].held_since = long_ago;
	heads[1].head += 64;
	rings_free_locks(&target);
	assert_true(own[0].stale);
	assert_false(own[1].stale);
	heads[0].lock = gettid() + 1;
	rings_free_locks(&target);
	assert_false(own[0].stale);
}

int main(void)
{
#define test(f) cmocka_unit_test_setup(f, reset)
	const struct CMUnitTest tests[] = {
		test(of_an_ended_thread),
		test(of_a_living_thread),
		test(of_changing_threads),
		test(of_a_ring_that_is_not_live),
		test(slow_owners),
	};

	return cmocka_run_group_tests_name("locks", tests, NULL, NULL);
}
