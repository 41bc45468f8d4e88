/* SPDX-License-Identifier: MIT */
/*
 * Bulk events, made by the real code in this process: that nothing of the caller's changes, how much
 * stack it takes, and what stands in each kind of field. Pointers that lead nowhere are in
 * test_blob_faults.c, threads and signals in test_blob_storm.c.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <x86intrin.h>

#include "blob_rings.h"
#include "machine.h"

#define FLAGS BULK_MAY_CALL

/* ---- nothing changes ---------------------------------------------------------------------- */

#define STACK_SIZE 65536
#define KEPT 8192

static uint8_t stack[STACK_SIZE], stack_before[STACK_SIZE];
static char text[] = "a string that is longer than some words";
static char *text_pointer = text;
static uint64_t time_before;
static int seen_ring;

#define BAD_ADDRESS 0x10ull

static const struct bulk_field all_kinds[] = {
	{ .kind = EVENT_REG, .reg = 0, .size = 8 }, { .kind = EVENT_REG, .reg = 1, .size = 8 },
	{ .kind = EVENT_REG, .reg = 2, .size = 8 }, { .kind = EVENT_REG, .reg = 3, .size = 8 },
	{ .kind = EVENT_REG, .reg = 4, .size = 8 }, { .kind = EVENT_REG, .reg = 5, .size = 8 },
	{ .kind = EVENT_REG, .reg = 6, .size = 8 }, { .kind = EVENT_REG, .reg = 7, .size = 8 },
	{ .kind = EVENT_REG, .reg = 8, .size = 8 }, { .kind = EVENT_REG, .reg = 9, .size = 8 },
	{ .kind = EVENT_REG, .reg = 10, .size = 8 }, { .kind = EVENT_REG, .reg = 11, .size = 8 },
	{ .kind = EVENT_REG, .reg = 12, .size = 8 }, { .kind = EVENT_REG, .reg = 13, .size = 8 },
	{ .kind = EVENT_REG, .reg = 14, .size = 8 }, { .kind = EVENT_REG, .reg = 15, .size = 8 },
	{ .kind = EVENT_REG, .reg = 16, .size = 8 }, { .kind = EVENT_REG, .reg = 17, .size = 8 },
	{ .kind = EVENT_VECTOR, .reg = 0, .size = 8 }, { .kind = EVENT_VECTOR, .reg = 15, .size = 8 },
	{ .kind = EVENT_IMM, .size = 8, .value = 0x1122334455667788 },
	{ .kind = EVENT_STACK, .size = 8, .value = -128 },
	{ .kind = EVENT_STACK, .size = 8, .value = EVENT_STACK_MAX },
	{ .kind = EVENT_MEM, .size = 8, .reg = BULK_NO_REG, .value = BAD_ADDRESS },
	{ .kind = EVENT_STRING, .reg = BULK_NO_REG, .value = BAD_ADDRESS, .limit = 100 },
	{ .kind = EVENT_STRING, .reg = BULK_NO_REG, .limit = 100 },	/* text */
	{ .kind = EVENT_BYTES, .reg = 4, .limit = 1000 },
	{ .kind = EVENT_BACKTRACE, .limit = 64 },
};

#define NKINDS (sizeof(all_kinds) / sizeof(all_kinds[0]))

static void describe_all(uint32_t flags)
{
	struct bulk_field fields[NKINDS];

	memcpy(fields, all_kinds, sizeof(fields));
	fields[25].value = (uint64_t)text;
	describe(fields, NKINDS, flags);
}

static void check_string(const uint64_t *at, uint32_t i, const void *want, uint32_t want_len)
{
	uint32_t len;
	const uint8_t *p = bulk_at(at, i, &len);

	assert_int_equal(len, want_len);
	assert_memory_equal(p, want, len);
	for (p += len; (uintptr_t)p & 7; p++)
		assert_int_equal(*p, 0);
}

static void check_kinds(const struct event_head *e, const uint64_t *at)
{
	const uint8_t *sp = stack_before + (machine_in.gpr[4] - (uint64_t)stack);
	bool asked = desc->flags & BULK_MAY_CALL;
	uint64_t above = machine_in.gpr[4] + EVENT_STACK_MAX;
	bool beyond = !asked && (above + 7) >> 12 != machine_in.gpr[4] >> 12;	/* in another page: loaded only by asking */
	uint32_t len;

	for (int i = 0; i < 16; i++)
		assert_int_equal(bulk_number(at, i), machine_in.gpr[i]);
	assert_int_equal(bulk_number(at, 16), SITE);
	assert_int_equal(bulk_number(at, 17), machine_in.flags & ~FLAG_TF);
	assert_memory_equal(bulk_at(at, 18, &len), machine_in.fx + 160, 8);
	assert_memory_equal(bulk_at(at, 19, &len), machine_in.fx + 160 + 15 * 16, 8);
	assert_int_equal(bulk_number(at, 20), 0x1122334455667788);
	assert_memory_equal(bulk_at(at, 21, &len), sp - 128, 8);
	if (beyond)
		assert_int_equal(bulk_number(at, 22), above);
	else
		assert_memory_equal(bulk_at(at, 22, &len), sp + EVENT_STACK_MAX, 8);
	assert_int_equal(bulk_number(at, 23), BAD_ADDRESS);
	if (asked) {
		check_string(at, 24, "<fault>\0\x10\0\0\0\0\0\0", 16);
		check_string(at, 25, text, sizeof(text));
		assert_memory_equal(bulk_at(at, 26, &len), sp, 1000);
	} else {
		check_string(at, 24, "<unreadable>\0\x10\0\0\0\0\0\0", 21);
	}
	assert_memory_equal(bulk_at(at, 27, &len), (uint64_t[]){ SITE }, 8);
	/* how far the walk comes depends on rbp */
	assert_int_equal(at[0] & ~(1ull << 27 | 1ull << (32 + 27)), asked ? 3ull << 23 : 0xfull << (32 + 23) | (uint64_t)beyond << (32 + 22));
	assert_int_equal(e->len, sizeof(*e) + bulk_end(at, NKINDS));
}

static void check_event(int ring, const struct event_head *e, const uint64_t *at)
{
	seen_ring = ring;
	assert_true(ring >= ncpus);
	assert_int_equal(e->id, 42);
	assert_int_equal(e->pid, getpid());
	assert_int_equal(e->tid, gettid());
	assert_true(e->time >= time_before && e->time <= __rdtsc());
	check_kinds(e, at);
}

/* How far below the site's rsp something has changed. */
static uint64_t depth(void)
{
	uint64_t at = 0;

	while (stack[at] == stack_before[at])
		at++;
	return machine_in.gpr[4] - (uint64_t)&stack[at];
}

/* Every step-th set of flags. Returns the most stack that it took. */
static uint64_t run_some(uint64_t events, int step, void (*run)(void))
{
	static const int misalign[] = { 0, 8, 1, 13 };
	uint64_t deepest = 0;
	int round = 0;

	for (int f = 0; f < 128; f += step) {
		for (int m = 0; m < 4; m++) {
			machine_body = (uint64_t)emit_bulk_body(round++ % 64, machine_back(), MACHINE_BACK);
			fill_random(stack, sizeof(stack));
			machine_fill(f, (uint64_t)stack + STACK_SIZE - KEPT - misalign[m]);
			memcpy(stack_before, stack, sizeof(stack));
			memset(&machine_out, 0, sizeof(machine_out));
			time_before = __rdtsc();
			run();
			machine_check(stack, stack_before, STACK_SIZE);
			assert_int_equal(drain(check_event), events);
			deepest = depth() > deepest ? depth() : deepest;
		}
	}
	for (int i = 0; i < nrings(); i++) {
		assert_int_equal(rings[i].damaged, 0);
		assert_int_equal(ring_owner(&rings[i]), 0);
	}
	return deepest;
}

#define RUNS (128 * 4)

static uint64_t run_all(uint64_t events)
{
	return run_some(events, 1, machine_run);
}

static int start(void **state)
{
	reset_bulk_rings(RING_SIZE_MIN, true);
	return 0;
}

static void keeps_everything(void **state)
{
	uint64_t deepest;

	describe_all(FLAGS);
	deepest = run_all(1);
	print_message("    %lu bytes of stack\n", deepest);
	assert_in_range(deepest, 128, BULK_STACK_MAX);
}

static void keeps_everything_overwriting(void **state)
{
	describe_all(FLAGS | BULK_OVERWRITE);
	run_all(1);
}

static void keeps_everything_without_calls(void **state)
{
	describe_all(0);
	run_all(1);
}

static void keeps_everything_as_stranger(void **state)
{
	set_fast(false);
	*pid_cell = 99;
	describe_all(FLAGS);
	run_all(1);
}

/* Signals everywhere, also with the direction flag. */
static void keeps_everything_when_stepped(void **state)
{
	describe_all(FLAGS);
	machine_steps = 0;
	run_some(1, 25, machine_run_stepped);
	assert_true(machine_steps > 6 * 4 * 200);
}

static void keeps_everything_when_full(void **state)
{
	describe_all(FLAGS);
	for (int i = 0; i < nrings(); i++) {	/* not a byte free; drain() must not take it for damage */
		rings[i].head->tail = rings[i].head->head - ring_size;
		rings[i].tail = rings[i].head->head;
	}
	run_all(0);
	assert_int_equal(lost_of_rings(), RUNS);
	assert_int_equal(lost_of_probe(), RUNS);
	assert_int_equal(shared->lost_shared, 0);
}

static void keeps_everything_when_busy(void **state)
{
	describe_all(FLAGS);
	memset(shared->slow_table, 0, sizeof(shared->slow_table));
	run_all(0);
	assert_int_equal(shared->lost_shared, RUNS);
}

/* ---- what stands in the fields ------------------------------------------------------------ */

static struct event_head last;
static uint64_t last_at[BULK_LEN_MAX / 8];

static void keep_last(int ring, const struct event_head *e, const uint64_t *at)
{
	last = *e;
	memcpy(last_at, at, e->len - sizeof(*e));
}

/* One event of these fields. */
static void hit(const struct bulk_field *fields, uint32_t n, uint64_t a, uint64_t b)
{
	describe(fields, n, FLAGS);
	emit_bulk_function()(a, b, 0);
	assert_int_equal(drain(keep_last), 1);
	assert_int_equal(last.len, sizeof(last) + bulk_end(last_at, n));
}

static void numbers_have_their_size(void **state)
{
	uint64_t value = 0x8899aabbccddeeff;
	static const uint8_t size[] = { 1, 2, 4, 8 };
	static const uint64_t want[] = { 0xff, 0xeeff, 0xccddeeff, 0x8899aabbccddeeff };

	for (int i = 0; i < 4; i++) {
		struct bulk_field f[] = {
			{ .kind = EVENT_ABS, .size = size[i], .value = (uint64_t)&value },
			{ .kind = EVENT_MEM, .size = size[i], .reg = BULK_NO_REG, .value = (uint64_t)&value },
			{ .kind = EVENT_MEM, .size = size[i], .reg = BULK_NO_REG, .value = (uint64_t)&value,
			  .flags = BULK_GOOD },
			{ .kind = EVENT_MEM, .size = size[i], .reg = 7, .value = -24 },
		};

		memset((uint8_t *)rings[ncpus].data, 0x55, ring_size);
		hit(f, 4, (uint64_t)&value + 24, 0);
		assert_int_equal(last_at[0], 0);
		for (int k = 0; k < 4; k++)
			assert_int_equal(last_at[1 + k], want[i]);
	}
}

/* rdi: a struct whose third word points to another one, whose second word is wanted. */
static void pointers_are_followed(void **state)
{
	uint64_t inner[] = { 1, 0xfeedface, 3 };
	uint64_t outer[] = { 5, 6, (uint64_t)inner };
	static const struct bulk_field f[] = {
		{ .kind = EVENT_MEM, .size = 8, .reg = 7, .value = 16, .offset = 8, .flags = BULK_DEREF },
		{ .kind = EVENT_BYTES, .reg = 7, .value = 16, .limit = 24, .flags = BULK_DEREF },
		{ .kind = EVENT_MEM, .size = 4, .reg = 7, .value = 0 },
	};
	uint32_t len;

	hit(f, 3, (uint64_t)outer, 0);
	assert_int_equal(last_at[0], 0);
	assert_int_equal(bulk_number(last_at, 0), 0xfeedface);
	assert_memory_equal(bulk_at(last_at, 1, &len), inner, sizeof(inner));
	assert_int_equal(bulk_number(last_at, 2), 5);
}

static void strings_by_all_ways(void **state)
{
	const struct bulk_field f[] = {
		{ .kind = EVENT_STRING, .reg = 7, .limit = 200 },
		{ .kind = EVENT_STRING, .reg = 6, .limit = 200, .flags = BULK_DEREF },
		{ .kind = EVENT_STRING, .reg = BULK_NO_REG, .value = (uint64_t)&text_pointer, .limit = 200,
		  .flags = BULK_DEREF | BULK_GOOD_PTR },
		{ .kind = EVENT_STRING, .reg = BULK_NO_REG, .value = (uint64_t)text, .limit = 200, .flags = BULK_GOOD },
		{ .kind = EVENT_STRING, .reg = BULK_NO_REG, .value = (uint64_t)text, .limit = 5, .flags = BULK_GOOD },
		{ .kind = EVENT_STRING, .reg = 7, .value = sizeof(text) - 1, .limit = 9 },	/* empty */
		{ .kind = EVENT_IMM, .size = 8, .value = 77 },
	};

	hit(f, 7, (uint64_t)text, (uint64_t)&text_pointer);
	assert_int_equal(last_at[0], 0);
	for (int i = 0; i < 4; i++)
		check_string(last_at, i, text, sizeof(text));
	check_string(last_at, 4, text, 5);
	check_string(last_at, 5, "", 1);
	assert_int_equal(bulk_number(last_at, 6), 77);
}

static void check_fault(const uint64_t *at, uint32_t i, uint64_t address)
{
	char want[16] = "<fault>";

	memcpy(want + 8, &address, 8);
	check_string(at, i, want, sizeof(want));
}

/* Every length beside every limit, at all distances from the end of a page behind which is nothing. */
static void strings_of_every_length(void **state)
{
	char *pages = map_or_die(8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	static const uint32_t limits[] = { 1, 2, 3, 4, 5, 8, 11, 12, 13, 16, 20, 21, 24 };

	munmap(pages + 4096, 4096);
	memset(pages, 'x', 4096);
	for (size_t l = 0; l < sizeof(limits) / sizeof(limits[0]); l++) {
		uint32_t limit = limits[l];
		struct bulk_field f = { .kind = EVENT_STRING, .reg = 7, .limit = limit };

		for (uint32_t n = 0; n < 26; n++) {
			for (uint32_t back = 1; back < 30; back++) {
				char *s = pages + 4096 - back;
				bool whole = n < limit && n < back;

				memset(pages, 'x', 4096);
				if (n < back)
					s[n] = 0;
				memset((uint8_t *)rings[ncpus].data, n & 1 ? 0 : 0x55, ring_size);
				hit(&f, 1, (uint64_t)s, 0);
				if (whole || limit <= back)
					check_string(last_at, 0, s, whole ? n + 1 : limit);
				else
					check_fault(last_at, 0, (uint64_t)s);
				assert_int_equal(last_at[0], !(whole || limit <= back));
			}
		}
	}
	munmap(pages, 4096);
}

/* Across a page into one that is there. */
static void strings_across_pages(void **state)
{
	char *pages = map_or_die(8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct bulk_field f[] = {
		{ .kind = EVENT_STRING, .reg = 7, .limit = 3000 },
		{ .kind = EVENT_STRING, .reg = 7, .limit = 60 },
		{ .kind = EVENT_STRING, .reg = 7, .value = 1, .limit = 200 },
	};

	memset(pages, 'p', 8192);
	for (int back = 1; back < 70; back++) {
		char *s = pages + 4096 - back;

		memset(s, 'a' + back % 20, 100);
		s[100] = 0;
		hit(f, 3, (uint64_t)s, 0);
		assert_int_equal(last_at[0], 0);
		check_string(last_at, 0, s, 101);
		check_string(last_at, 1, s, 60);
		check_string(last_at, 2, s + 1, 100);
	}
	munmap(pages, 8192);
}

/* More reads than go into one call, with bad ones among them; each crosses a page. */
static void many_fields(void **state)
{
	uint8_t *pages = map_or_die(8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct bulk_field f[BULK_FIELDS_MAX];

	fill_random(pages, 8192);
	for (uint32_t bad = 0; bad < 8; bad++) {
		uint64_t faults = 0;

		for (uint32_t i = 0; i < BULK_FIELDS_MAX; i++) {
			bool is_bad = bad && i % bad == 0;

			f[i] = (struct bulk_field){ .kind = EVENT_BYTES, .reg = is_bad ? 6 : 7, .value = -(int)i,
						    .limit = 40 };
			faults |= (uint64_t)is_bad << i;
		}
		hit(f, BULK_FIELDS_MAX, (uint64_t)pages + 4096, 4096);
		assert_int_equal(last_at[0], faults);
		for (uint32_t i = 0; i < BULK_FIELDS_MAX; i++) {
			uint32_t len;
			const uint8_t *p = bulk_at(last_at, i, &len);
			uint64_t zeros[5] = { 4096 - i };

			assert_memory_equal(p, faults >> i & 1 ? (void *)zeros : pages + 4096 - i, 40);
		}
	}
	munmap(pages, 8192);
}

static void no_fields_at_all(void **state)
{
	hit(NULL, 0, 0, 0);
	assert_int_equal(last.len, 32);
	assert_int_equal(last_at[0], 0);
}

/* Longest event that there can be, more of them than the ring holds, so that they cross its end. */
static void events_cross_the_end(void **state)
{
	static uint8_t bytes[4000];
	struct bulk_field f[] = {
		{ .kind = EVENT_REG, .reg = 7, .size = 8 },
		{ .kind = EVENT_BYTES, .reg = 6, .limit = sizeof(bytes) },
		{ .kind = EVENT_STRING, .reg = 6, .limit = 28 },
		{ .kind = EVENT_REG, .reg = 7, .size = 8 },
	};
	uint32_t len;

	for (int i = 0; i < 400; i++) {
		fill_random(bytes, sizeof(bytes));
		hit(f, 4, i, (uint64_t)bytes);
		assert_int_equal(bulk_number(last_at, 0), i);
		assert_memory_equal(bulk_at(last_at, 1, &len), bytes, sizeof(bytes));
		assert_int_equal(bulk_number(last_at, 3), i);
	}
	assert_true(rings[ncpus].head->head + rings[ncpus + 1].head->head +
		    rings[ncpus + 2].head->head + rings[ncpus + 3].head->head > 20 * ring_size);
}

/* Room is asked for the longest that an event can be, and every event that finds none is counted. */
static void full_rings_count_exactly(void **state)
{
	struct bulk_field f = { .kind = EVENT_STRING, .reg = 7, .limit = 4000 };
	uint64_t made = 3000, recorded;
	bulk_fn *fn;

	describe(&f, 1, FLAGS);
	fn = emit_bulk_function();
	for (uint64_t i = 0; i < made; i++)
		fn((uint64_t)text, 0, 0);
	recorded = drain(keep_last);
	assert_int_equal(recorded, (ring_size - desc->max_len) / last.len + 1);
	assert_int_equal(recorded + lost_of_probe(), made);
	assert_int_equal(lost_of_rings(), lost_of_probe());
	fn((uint64_t)text, 0, 0);
	assert_int_equal(drain(keep_last), 1);
}

/* ---- what is refused ---------------------------------------------------------------------- */

static void nonsense_is_refused(void **state)
{
	static const struct { const char *what; struct bulk_field f; int want; } rows[] = {
		{ "register", { .kind = EVENT_REG, .reg = 17, .size = 8 }, 0 },
		{ "no such register", { .kind = EVENT_REG, .reg = 18, .size = 8 }, -EINVAL },
		{ "no such size", { .kind = EVENT_MEM, .reg = 0, .size = 3 }, -EINVAL },
		{ "xmm16", { .kind = EVENT_VECTOR, .reg = 16, .size = 8 }, -EINVAL },
		{ "stack too low", { .kind = EVENT_STACK, .size = 8, .value = -129 }, -EINVAL },
		{ "no bytes", { .kind = EVENT_BYTES, .reg = 0 }, -EINVAL },
		{ "no string", { .kind = EVENT_STRING, .reg = 0 }, -EINVAL },
		{ "no frames", { .kind = EVENT_BACKTRACE }, -EINVAL },
		{ "base rip", { .kind = EVENT_MEM, .reg = 16, .size = 8 }, -EINVAL },
		{ "rdi good", { .kind = EVENT_MEM, .reg = 7, .size = 8, .flags = BULK_GOOD }, -EINVAL },
		{ "rsp good", { .kind = EVENT_MEM, .reg = 4, .size = 8, .flags = BULK_GOOD }, 0 },
		{ "good behind a pointer", { .kind = EVENT_MEM, .reg = 4, .size = 8,
		  .flags = BULK_GOOD | BULK_DEREF }, -EINVAL },
		{ "rdi good pointer", { .kind = EVENT_STRING, .reg = 7, .limit = 8,
		  .flags = BULK_GOOD_PTR | BULK_DEREF }, -EINVAL },
		{ "long", { .kind = EVENT_BYTES, .reg = 0, .limit = BULK_LEN_MAX - 32 }, 0 },
		{ "too long", { .kind = EVENT_BYTES, .reg = 0, .limit = BULK_LEN_MAX - 31 }, -ERANGE },
		{ "far too long", { .kind = EVENT_BACKTRACE, .limit = ~0u }, -ERANGE },
		{ "no kind", { .kind = 99 }, -EINVAL },
	};
	struct bulk_field many[BULK_FIELDS_MAX + 1] = { { .kind = EVENT_BACKTRACE, .limit = 1 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (blob_check(&rows[i].f, 1) != rows[i].want)
			fail_msg("%s", rows[i].what);
	}
	for (int i = 1; i <= BULK_FIELDS_MAX; i++)
		many[i] = (struct bulk_field){ .kind = EVENT_IMM, .size = 8 };
	assert_int_equal(blob_check(many, BULK_FIELDS_MAX), 0);
	assert_int_equal(blob_check(many, BULK_FIELDS_MAX + 1), -ERANGE);
	many[1] = many[0];
	assert_int_equal(blob_check(many, 2), -EINVAL);
}

/* A field as long as it can be is no longer than its place. */
static void longest_fields_fit(void **state)
{
	static char long_text[4096];
	struct bulk_field f = { .kind = EVENT_STRING, .reg = 7 };

	memset(long_text, 'l', sizeof(long_text));
	for (uint32_t limit = 1; limit < 200; limit++) {
		f.limit = limit;
		hit(&f, 1, (uint64_t)long_text, 0);
		assert_true(last.len <= desc->max_len);
		hit(&f, 1, 1, 0);
		assert_true(last.len <= desc->max_len);
	}
}

static int set_up(void **state)
{
	make_blob_areas();
	return 0;
}

int main(void)
{
#define test(f) cmocka_unit_test_setup(f, start)
	const struct CMUnitTest tests[] = {
		test(keeps_everything),
		test(keeps_everything_overwriting),
		test(keeps_everything_without_calls),
		test(keeps_everything_as_stranger),
		test(keeps_everything_when_stepped),
		test(keeps_everything_when_full),
		test(keeps_everything_when_busy),
		test(numbers_have_their_size),
		test(pointers_are_followed),
		test(strings_by_all_ways),
		test(strings_of_every_length),
		test(strings_across_pages),
		test(many_fields),
		test(no_fields_at_all),
		test(events_cross_the_end),
		test(full_rings_count_exactly),
		test(nonsense_is_refused),
		test(longest_fields_fit),
	};

	return cmocka_run_group_tests_name("blob", tests, set_up, NULL);
}
