/* SPDX-License-Identifier: MIT */
/* A parked thread goes on when its tracer is dead, and does not park where there is none. By the blob's own code, in this process. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "arch/park.h"
#include "blob/blob.h"

#define ENOUGH 50	/* wake-ups of a parked thread; at the limit of 2 s it would have 42 whole slices, which signals cut short */

static struct park park;
static struct park_keeper keeper;
static void (*blob_park)(const struct park_keeper *k, uint32_t kind, uint64_t arg0, uint64_t arg1);
static volatile sig_atomic_t woken;
static int over;

static void on_signal(int sig)
{
	(void)sig;
	woken = woken + 1;
}

static void *parks(void *arg)
{
	blob_park(&keeper, PARK_EXEC, 1, 2);
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	return arg;
}

static int set_up(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal };
	uint8_t *code = mmap(NULL, blob_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (code == MAP_FAILED)
		return -1;
	memcpy(code, blob_image, blob_size);
	*(void **)&blob_park = code + blob_offset(BLOB_PARK);
	sigaction(SIGUSR1, &sa, NULL);
	return mprotect(code, blob_size, PROT_READ | PROT_EXEC);
}

static int start(void **state)
{
	(void)state;
	memset(&park, 0, sizeof(park));
	keeper = (struct park_keeper){ .open = 1, .tid = 1, .park = (uint64_t)&park };
	woken = over = 0;
	return 0;
}

static pthread_t park_one(void)
{
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, parks, NULL), 0);
	while (__atomic_load_n(&park.slots[0].state, __ATOMIC_ACQUIRE) != PARK_WAITING)
		usleep(100);
	return t;
}

/* A signal ends its sleep early each time, so the limit, which counts whole slices, is not what ends it. */
static void wake_until_over(pthread_t t)
{
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE) && woken < ENOUGH) {
		pthread_kill(t, SIGUSR1);
		usleep(1000);
	}
}

static void goes_on_when_the_tracer_dies(void **state)
{
	pthread_t t = park_one();
	int was_over;

	(void)state;
	__atomic_or_fetch(&keeper.tid, PARK_OWNER_DIED, __ATOMIC_SEQ_CST);
	wake_until_over(t);
	was_over = over;
	__atomic_store_n(&park.slots[0].state, PARK_GO, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	assert_true(was_over);
}

static void goes_on_when_nobody_listens(void **state)
{
	pthread_t t = park_one();
	int was_over;

	(void)state;
	__atomic_store_n(&keeper.open, 0, __ATOMIC_SEQ_CST);
	wake_until_over(t);
	was_over = over;
	__atomic_store_n(&park.slots[0].state, PARK_GO, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	assert_true(was_over);
}

static void does_not_park_without_a_tracer(void **state)
{
	(void)state;
	keeper.tid |= PARK_OWNER_DIED;
	blob_park(&keeper, PARK_EXEC, 1, 2);
	assert_true(park.bell == 0 && park.slots[0].pid == 0);
	keeper.tid = 1;
	keeper.open = 0;
	blob_park(&keeper, PARK_EXEC, 1, 2);
	assert_true(park.bell == 0 && park.slots[0].pid == 0);
}

static void all_slots_are_taken(void **state)
{
	(void)state;
	for (int i = 0; i < PARK_SLOTS; i++)
		park.slots[i].state = PARK_WAITING;
	blob_park(&keeper, PARK_EXEC, 1, 2);
	assert_true(park.missed == 1 && park.missed_loads == 0 && park.bell == 0);
	blob_park(&keeper, PARK_LOADED, 0, 0);
	assert_true(park.missed == 1 && park.missed_loads == 1 && park.bell == 0);
}

static void is_counted_when_nobody_comes(void **state)
{
	(void)state;
	blob_park(&keeper, PARK_EXEC, 1, 2);
	assert_true(park.missed == 1 && park.bell == 1 && park.slots[0].state == PARK_FREE);
}

static void is_not_counted_when_served(void **state)
{
	pthread_t t = park_one();

	(void)state;
	__atomic_store_n(&park.slots[0].state, PARK_GO, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	assert_true(park.missed == 0 && park.slots[0].state == PARK_FREE);
}

int main(void)
{
#define test(f) cmocka_unit_test_setup(f, start)
	const struct CMUnitTest tests[] = {
		test(goes_on_when_the_tracer_dies),
		test(goes_on_when_nobody_listens),
		test(does_not_park_without_a_tracer),
		test(all_slots_are_taken),
		test(is_counted_when_nobody_comes),
		test(is_not_counted_when_served),
	};

	return cmocka_run_group_tests_name("park", tests, set_up, NULL);
}
