/* SPDX-License-Identifier: MIT */
/* Room for pads: what is given lies in the gaps, never overlaps, and comes back when released. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "pad/room.h"

#include <cmocka.h>

#define MIB (1ull << 20)

static struct room *room_of(uint64_t lo, uint64_t hi)
{
	struct gap g = { lo, hi };

	return room_create(&g, 1);
}

static size_t count_areas(const struct room *r, uint64_t *ret_bytes)
{
	area_list areas = { 0 };
	size_t n;

	room_areas(r, &areas);
	*ret_bytes = 0;
	for (size_t i = 0; i < areas.n; i++) {
		*ret_bytes += areas.v[i].hi - areas.v[i].lo;
		assert_int_equal(areas.v[i].lo % 4096, 0);
		if (i)
			assert_true(areas.v[i].lo > areas.v[i - 1].hi);
	}
	n = areas.n;
	vec_free(&areas);
	return n;
}

static void pads_are_packed(void **state)
{
	struct room *r = room_of(16 * MIB, 64 * MIB);
	uint64_t last = 0, bytes;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t at = room_alloc(r, 100, 0, 1ull << 40);

		assert_int_equal(at % 16, 0);
		assert_true(at >= 16 * MIB && at + 100 <= 64 * MIB);
		if (last && at > last)
			assert_true(at >= last + 100);
		last = at;
	}
	assert_true(count_areas(r, &bytes) <= 2);	/* the last block may not touch the others yet */
	assert_true(bytes < 1000 * 112 + 2 * 4096);
	room_free(r);
}

static void reach_is_kept(void **state)
{
	struct gap gaps[] = { { 16 * MIB, 17 * MIB }, { 64 * MIB, 65 * MIB }, { 200 * MIB, 300 * MIB } };
	struct room *r = room_create(gaps, 3);

	(void)state;
	assert_in_range(room_alloc(r, 64, 0, 20 * MIB), 16 * MIB, 17 * MIB - 64);
	assert_in_range(room_alloc(r, 64, 60 * MIB, 70 * MIB), 64 * MIB, 65 * MIB - 64);
	assert_int_equal(room_alloc(r, 64, 20 * MIB, 60 * MIB), 0);
	assert_int_equal(room_alloc(r, 2 * MIB, 0, 70 * MIB), 0);
	/* The middle is the module: its nearest gap is taken. */
	assert_in_range(room_alloc(r, 64, 40 * MIB, 100 * MIB), 64 * MIB, 65 * MIB);
	room_free(r);
}

static void exact_places(void **state)
{
	struct room *r = room_of(16 * MIB, 32 * MIB);
	uint64_t bytes;

	(void)state;
	assert_int_equal(room_alloc_at(r, 50, 0x1234567, 0x1234568, 0, 1), 0x1234567);
	assert_int_equal(room_alloc_at(r, 50, 0x1234567, 0x1234568, 0, 1), 0);
	assert_int_equal(room_alloc_at(r, 5, 0x1234567 - 4, 0x1234567, 0, 1), 0);
	assert_int_equal(room_alloc_at(r, 5, 0x1234567 - 5, 0x1234567, 0, 1), 0x1234567 - 5);
	assert_int_equal(room_alloc_at(r, 5, 0x1234567, 0x1234667, 0, 1), 0x1234567 + 50);
	assert_int_equal(room_alloc_at(r, 16, 20 * MIB, 21 * MIB, 0x42, 256) % 256, 0x42);
	assert_int_equal(room_alloc_at(r, 16, 8 * MIB, 9 * MIB, 0, 1), 0);
	/* Across the end of a page both pages are taken; at the end of the gap nothing is. */
	assert_int_equal(room_alloc_at(r, 32, 0x1300ff0, 0x1300ff1, 0, 1), 0x1300ff0);
	assert_int_equal(room_alloc_at(r, 32, 32 * MIB - 16, 32 * MIB, 0, 1), 0);
	assert_int_equal(count_areas(r, &bytes), 3);
	assert_int_equal(bytes, 4 * 4096);
	room_free(r);
}

static void taken_pages_come_first(void **state)
{
	struct room *r = room_of(16 * MIB, 64 * MIB);
	uint64_t first = room_alloc_at(r, 100, 40 * MIB, 40 * MIB + 1, 0, 1), bytes;

	(void)state;
	assert_int_equal(first, 40 * MIB);
	for (int i = 0; i < 30; i++)
		assert_true(room_alloc_at(r, 100, 32 * MIB, 48 * MIB, 0, 16));
	assert_int_equal(count_areas(r, &bytes), 1);
	assert_int_equal(bytes, 4096);
	room_free(r);
}

static void released_room_comes_back(void **state)
{
	struct room *r = room_of(16 * MIB, 16 * MIB + 65536);
	uint64_t at, bytes;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		at = room_alloc(r, 6000, 0, 1 << 30);
		assert_true(at);
		room_release(r, at, 6000);
	}
	assert_int_equal(count_areas(r, &bytes), 0);
	at = room_alloc_at(r, 100, 16 * MIB + 5, 16 * MIB + 6, 0, 1);
	assert_int_equal(at, 16 * MIB + 5);
	room_release(r, at, 100);
	assert_int_equal(room_alloc_at(r, 200, 16 * MIB + 5, 16 * MIB + 6, 0, 1), 16 * MIB + 5);
	room_free(r);
}

/* Random requests against a map with a byte for every byte. */
static void nothing_overlaps(void **state)
{
	enum { SIZE = 1 << 20 };
	struct { uint64_t at; size_t size; } held[512] = { { 0, 0 } };
	struct room *r = room_of(16 * MIB, 16 * MIB + SIZE);
	uint8_t *map = xcalloc(SIZE, 1);
	unsigned int seed = 3;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		int k = (seed = seed * 1103515245 + 12345) >> 8 & 511;
		size_t size = 1 + (seed >> 17) % 700;
		uint64_t lo = 16 * MIB + (seed >> 4) % SIZE;

		if (held[k].at) {
			memset(map + (held[k].at - 16 * MIB), 0, held[k].size);
			room_release(r, held[k].at, held[k].size);
			held[k].at = 0;
			continue;
		}
		held[k].at = i & 1 ? room_alloc(r, size, 0, 1 << 30) :
				     room_alloc_at(r, size, lo, lo + 1 + (seed >> 20), seed % 7, 1 + seed % 9);
		held[k].size = size;
		if (!held[k].at)
			continue;
		assert_true(held[k].at >= 16 * MIB && held[k].at + size <= 16 * MIB + SIZE);
		assert_null(memchr(map + (held[k].at - 16 * MIB), 1, size));
		memset(map + (held[k].at - 16 * MIB), 1, size);
	}
	free(map);
	room_free(r);
}

static void mappings_are_limited(void **state)
{
	struct room *r = room_of(16 * MIB, 1ull << 40);
	int got = 0;

	(void)state;
	for (uint64_t i = 0; i < ROOM_MAX_AREAS + 100; i++) {
		uint64_t at = 32 * MIB + i * 8192;

		got += room_alloc_at(r, 16, at, at + 1, 0, 1) != 0;
	}
	assert_int_equal(got, ROOM_MAX_AREAS);
	assert_true(room_full(r));
	/* Pages that are taken can still be filled. */
	assert_true(room_alloc_at(r, 16, 32 * MIB + 100, 32 * MIB + 101, 0, 1));
	room_free(r);
}

static void many_are_quick(void **state)
{
	struct room *r = room_of(1ull << 32, 1ull << 34);
	clock_t start = clock(), ns;		/* of our own CPU time: others may run meanwhile */

	(void)state;
	for (int i = 0; i < 50000; i++)
		assert_true(room_alloc(r, 200, 1ull << 32, 1ull << 34));
	ns = (clock() - start) * (1000000000 / CLOCKS_PER_SEC);
	print_message("50000 pads in %.1f ms\n", ns / 1e6);
	assert_true(ns < 500000000);
	room_free(r);
}

static void assumed_layouts(void **state)
{
	struct module fixed = { .path = "a", .is_exec = true, .lo = 0x400000, .hi = 0x500000 };
	struct module pie = { .path = "/bin/a", .lo = 0, .hi = 0x500000 };
	struct module lib = { .path = "/lib/liba.so.1", .lo = 0, .hi = 0x500000 };
	const struct module *all[] = { &fixed, &pie, &lib };

	(void)state;
	assert_int_equal(room_assume_bias(&fixed), 0);
	assert_true(room_assume_bias(&pie) < room_assume_bias(&lib));
	for (int i = 0; i < 3; i++) {
		uint64_t bias = room_assume_bias(all[i]);
		gap_list gaps = { 0 };

		room_assume(all[i], &gaps);
		assert_int_equal(gaps.n, 2);
		assert_true(gaps.v[0].lo < gaps.v[0].hi && gaps.v[0].hi <= all[i]->lo + bias);
		assert_true(gaps.v[1].lo >= all[i]->hi + bias && gaps.v[1].lo < gaps.v[1].hi);
		vec_free(&gaps);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pads_are_packed),
		cmocka_unit_test(reach_is_kept),
		cmocka_unit_test(exact_places),
		cmocka_unit_test(taken_pages_come_first),
		cmocka_unit_test(released_room_comes_back),
		cmocka_unit_test(nothing_overlaps),
		cmocka_unit_test(mappings_are_limited),
		cmocka_unit_test(many_are_quick),
		cmocka_unit_test(assumed_layouts),
	};

	return cmocka_run_group_tests_name("room", tests, NULL, NULL);
}
