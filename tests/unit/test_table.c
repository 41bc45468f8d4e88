/* SPDX-License-Identifier: MIT */
/*
 * The table of keys that pads and the tracer change without locks (blob/table.h). What another thread does in between is done here
 * at a moment that the test chooses: between the steps of an insertion, or at a page fault in the middle of a look-up.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "blob/table.h"

#define ENTRIES 8

/* The first entry's state is at the end of one page, its key at the start of the next. */
static uint8_t *area;
static struct prog_table *t;
static struct prog_shape shape;

static int reset(void **state)
{
	if (!area)
		area = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(area, 0, 2 * PAGE);
	t = (struct prog_table *)(area + PAGE - sizeof(struct prog_entry)) - 1;
	shape = (struct prog_shape){ .max_keys = ENTRIES, .mask = ENTRIES - 1, .stride = 32, .key_words = 1, .reuse = 1 };
	return area == MAP_FAILED;
}

/* A key that belongs into entry 0. */
static uint64_t key_at_home(uint64_t from)
{
	while (prog_hash(&from, 1) & shape.mask)
		from++;
	return from;
}

static int64_t make(uint64_t key, uint64_t value, bool *ret_made)
{
	uint64_t state;

	return table_make(t, &shape, &key, value, NULL, &state, ret_made);
}

static int64_t find(uint64_t key, uint64_t *ret_state)
{
	return table_find(t, &shape, &key, prog_hash(&key, 1), ret_state);
}

static void made_once(void **state)
{
	uint64_t a = key_at_home(1), b = key_at_home(a + 1), s;
	bool made;

	assert_int_equal(make(a, 5, &made), 0);
	assert_true(made);
	assert_int_equal(make(a, 6, &made), 0);
	assert_false(made);
	assert_int_equal(make(b, 7, &made), 1);
	assert_true(made);
	assert_int_equal(find(a, &s), 0);
	assert_int_equal(find(b, &s), 1);
	assert_int_equal(prog_entry(t, &shape, 0)->value, 5);
	assert_int_equal(t->count, 2);
}

/* Claims entry 0 for the key as table_make() does, and is interrupted there. */
static uint64_t claim(uint64_t key)
{
	uint64_t claimed = table_next(0, PROG_CLAIMED, prog_hash(&key, 1));

	assert_true(table_change(prog_entry(t, &shape, 0), 0, claimed));
	table_count(t, 1);
	return claimed;
}

/* Another thread could not wait and has the key one entry further on: that one stays, and ours is taken back. */
static void made_twice_at_once(void **state)
{
	uint64_t key = key_at_home(1), claimed = claim(key), s;
	bool made;

	assert_int_equal(make(key, 7, &made), 1);
	assert_true(made);
	assert_int_equal(table_put(t, &shape, 0, 0, claimed, prog_hash(&key, 1), &key, 5, NULL, &s, &made), 1);
	assert_false(made);
	assert_int_equal(t->count, 1);
	assert_int_equal(find(key, &s), 1);
	assert_int_equal(prog_entry(t, &shape, 1)->value, 7);
	assert_int_equal(prog_entry(t, &shape, 0)->state & PROG_STATE, PROG_DELETED);
}

/* A key that is still being written is not found. */
static void not_ready(void **state)
{
	uint64_t key = key_at_home(1), s;

	claim(key);
	prog_entry(t, &shape, 0)->key[0] = key;
	assert_int_equal(find(key, &s), -1);
}

static void delete_meanwhile(int sig, siginfo_t *info, void *context)
{
	struct prog_entry *e = prog_entry(t, &shape, 0);

	mprotect(area + PAGE, PAGE, PROT_READ | PROT_WRITE);
	table_delete_at(t, &shape, 0, e->state);
}

/* The entry is deleted while its key is compared: what was seen before is not true any more. */
static void deleted_while_compared(void **state)
{
	struct sigaction sa = { .sa_sigaction = delete_meanwhile, .sa_flags = SA_SIGINFO }, old;
	uint64_t key = key_at_home(1), s;
	bool made;

	assert_int_equal(make(key, 5, &made), 0);
	assert_int_equal(find(key, &s), 0);
	sigaction(SIGSEGV, &sa, &old);
	mprotect(area + PAGE, PAGE, PROT_NONE);
	assert_int_equal(find(key, &s), -1);
	sigaction(SIGSEGV, &old, NULL);
	assert_int_equal(t->count, 0);
}

/* An old sight of an entry that was deleted and made again changes nothing. */
static void each_time_is_another(void **state)
{
	uint64_t key = key_at_home(1), s, later;
	bool made;

	assert_int_equal(make(key, 5, &made), 0);
	assert_int_equal(find(key, &s), 0);
	assert_true(table_delete_at(t, &shape, 0, s));
	assert_int_equal(make(key, 6, &made), 0);
	assert_int_equal(find(key, &later), 0);
	assert_int_not_equal(s, later);
	assert_false(table_delete_at(t, &shape, 0, s));
	assert_true(table_still(prog_entry(t, &shape, 0), later));
	assert_int_equal(t->count, 1);
}

/* A thread may still be adding to the values of the old key: entries of aggregations are not used again. */
static void no_reuse(void **state)
{
	uint64_t a = key_at_home(1), b = key_at_home(a + 1), s;
	bool made;

	shape.reuse = 0;
	assert_int_equal(make(a, 5, &made), 0);
	assert_int_equal(find(a, &s), 0);
	assert_true(table_delete_at(t, &shape, 0, s));
	assert_int_equal(make(b, 6, &made), 1);
}

#define TEXT_WORDS 5

static void text_key(uint64_t *to, uint64_t first, const char *text, uint8_t behind)
{
	uint32_t len = strlen(text);

	memset(to, behind, 8 * TEXT_WORDS);
	to[0] = first;
	memset(to + 1, 0, 8 * ((4 + len + 7) / 8));
	memcpy(to + 1, &len, 4);
	memcpy((uint8_t *)(to + 1) + 4, text, len);
}

static int64_t find_text(uint64_t first, const char *text, uint8_t behind)
{
	uint64_t k[TEXT_WORDS], s;

	text_key(k, first, text, behind);
	return table_find(t, &shape, k, table_hash(&shape, k), &s);
}

/* A number and a text. What is behind the end of a text does not count, neither in what is looked for nor in an entry that was used before. */
static void text_ends_where_it_ends(void **state)
{
	uint64_t k[TEXT_WORDS], s = 0;
	bool made;

	shape = (struct prog_shape){ .max_keys = 1, .mask = 0, .stride = 64, .key_words = TEXT_WORDS, .reuse = 1, .text = 2 };
	text_key(k, 7, "abcdefghijklmnopqrstuvwxyz01", 0);
	assert_int_equal(table_make(t, &shape, k, 5, NULL, &s, &made), 0);
	assert_int_equal(find_text(7, "abcdefghijklmnopqrstuvwxyz01", 9), 0);
	assert_int_equal(find_text(8, "abcdefghijklmnopqrstuvwxyz01", 0), -1);
	assert_int_equal(find_text(7, "abcdef", 0), -1);
	assert_true(table_delete_at(t, &shape, 0, s));
	text_key(k, 7, "abcdef", 0);
	assert_int_equal(table_make(t, &shape, k, 6, NULL, &s, &made), 0);
	assert_true(made);
	assert_int_equal(find_text(7, "abcdef", 1), 0);
	assert_int_equal(find_text(7, "abcdefghijklmnopqrstuvwxyz01", 0), -1);
	assert_int_equal(find_text(7, "abcde", 'f'), -1);
	assert_int_equal(find_text(7, "", 0), -1);
}

/* Keys are in memory that the target can write: their lengths lead nowhere. */
static void lengths_of_text_are_limited(void **state)
{
	uint64_t k[TEXT_WORDS] = { 7, ~0ull };

	shape = (struct prog_shape){ .max_keys = 1, .mask = 0, .stride = 64, .key_words = TEXT_WORDS, .reuse = 1, .text = 2 };
	assert_int_equal(table_words(&shape, k), TEXT_WORDS);
	k[1] = 4 * 8 - 4;
	assert_int_equal(table_words(&shape, k), TEXT_WORDS);
	k[1] = 0;
	assert_int_equal(table_words(&shape, k), 2);
}

static void no_more_than_allowed(void **state)
{
	uint64_t key = 0;
	bool made;

	shape.max_keys = 3;
	for (int i = 0; i < 3; i++)
		assert_true(make(++key, 1, &made) >= 0);
	assert_int_equal(make(++key, 1, &made), -1);
	assert_int_equal(t->count, 3);
}

int main(void)
{
#define test(f) cmocka_unit_test_setup(f, reset)
	const struct CMUnitTest tests[] = {
		test(made_once),
		test(made_twice_at_once),
		test(not_ready),
		test(deleted_while_compared),
		test(each_time_is_another),
		test(no_reuse),
		test(text_ends_where_it_ends),
		test(lengths_of_text_are_limited),
		test(no_more_than_allowed),
	};

	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
