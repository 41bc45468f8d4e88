/* SPDX-License-Identifier: MIT */
/* The code of notes of tail calls (arch/arch.h), run with every register and flag, beside a model of what it should know. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include "arch/arch.h"
#include "arch/event.h"
#include "machine.h"

#define FLAGS 0x8d5u		/* the status flags */
#define STACK 2048

static uint64_t table[TAIL_TABLE_SIZE / 8] __attribute__((aligned(TAIL_BUCKET_SIZE)));
static uint64_t known[TAIL_KNOWN_SIZE / 8] __attribute__((aligned(TAIL_BUCKET_SIZE)));
static struct tail_asked asked[TAIL_ASKED];
static uint8_t ever[TAIL_EVER_SIZE];
static uint64_t crowded;
static uint8_t stack[STACK] __attribute__((aligned(16)));
static uint8_t *code;
static int make(void **state)
{
	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(table, 0, sizeof(table));
	memset(known, 0, sizeof(known));
	memset(asked, 0, sizeof(asked));
	memset(ever, 0, sizeof(ever));
	crowded = 0;
	return code == MAP_FAILED ? -1 : 0;
}

static int unmake(void **state)
{
	return munmap(code, 4096);
}

static size_t put_landing(size_t at, void (*where)(void))
{
	uint64_t to = (uint64_t)where;

	memcpy(code + at, "\xff\x25\0\0\0\0", 6);	/* jmp *0(%rip) */
	memcpy(code + at + 6, &to, 8);
	return at + 14;
}

/* One run at a stack pointer with a return address. 1: it went on behind the code, 2: over a body of 14 bytes. */
static uint32_t run(enum tail_code what, uint64_t func, size_t sp, uint64_t ret)
{
	struct tail_spec spec = { what, func, (uint64_t)table, (uint64_t)&crowded, 14, ret, (uint64_t)known, (uint64_t)asked, 77, (uint64_t)ever };
	uint8_t below[128], above[STACK];
	int n = arch_x86_64.emit_tail(code, &spec);

	assert_in_range(n, 1, what < TAIL_ASK ? TAIL_CODE_MAX : TAIL_ASK_MAX);
	put_landing(put_landing(n, machine_landing), machine_landing_2);
	machine_fill(random_word() % 128, (uint64_t)(stack + sp));
	fill_random(stack, STACK);
	memcpy(stack + sp, &ret, 8);
	memcpy(below, stack + sp - 128, 128);
	memcpy(above, stack + sp, STACK - sp);
	machine_body = (uint64_t)code;
	machine_run();
	assert_memory_equal(machine_in.gpr, machine_out.gpr, sizeof(machine_in.gpr));
	assert_int_equal(machine_in.flags & FLAGS, machine_out.flags & FLAGS);
	assert_memory_equal(below, stack + sp - 128, 128);
	assert_memory_equal(above, stack + sp, STACK - sp);
	return machine_way;
}

static bool takes(uint64_t func, size_t sp, uint64_t ret)
{
	return run(TAIL_TAKE, func, sp, ret) == 1;
}

static void a_note_is_taken_once(void **state)
{
	assert_false(takes(7, 512, 0x1000));
	run(TAIL_NOTE, 7, 512, 0x1000);
	assert_false(takes(8, 512, 0x1000));		/* another function, */
	assert_false(takes(7, 520, 0x1000));		/* stack pointer, */
	assert_false(takes(7, 512, 0x1001));		/* return address */
	assert_true(takes(7, 512, 0x1000));
	assert_false(takes(7, 512, 0x1000));
	for (size_t i = 0; i < TAIL_TABLE_SIZE / 8; i++)
		assert_int_equal(table[i], 0);
}

static void what_is_left_of_another_call_is_forgotten(void **state)
{
	run(TAIL_NOTE, 7, 512, 0x1000);
	run(TAIL_NOTE, 7, 512, 0x1000);			/* the first one ended otherwise */
	assert_true(takes(7, 512, 0x1000));
	assert_false(takes(7, 512, 0x1000));
	run(TAIL_NOTE, 7, 512, 0x1000);
	run(TAIL_ENTER, 7, 512, 0x1000);		/* by the jump */
	run(TAIL_PASS, 7, 512, 0x1000);
	run(TAIL_ENTER, 7, 512, 0x1000);
	run(TAIL_ENTER, 7, 512, 0x1000);		/* by a call */
	assert_false(takes(7, 512, 0x1000));
}

static void a_function_that_comes_back_to_itself_counts(void **state)
{
	run(TAIL_NOTE, 7, 512, 0x1000);
	for (int i = 0; i < 5; i++) {
		run(TAIL_ENTER, 7, 512, 0x1000);
		run(TAIL_AGAIN, 7, 512, 0x1000);
		run(TAIL_ENTER, 7, 512, 0x1000);
		run(TAIL_NOTE, 7, 512, 0x1000);
	}
	for (int i = 0; i < 6; i++)
		assert_true(takes(7, 512, 0x1000));
	assert_false(takes(7, 512, 0x1000));
	for (int i = 0; i < 4; i++)
		run(TAIL_NOTE_AGAIN, 7, 512, 0x1000);
	for (int i = 0; i < 4; i++)
		assert_true(takes(7, 512, 0x1000));
	assert_false(takes(7, 512, 0x1000));
}

/* Of a call probe: what comes back by a jump is the same call, and one note is all there is of it. */
static void a_call_that_comes_back_is_one(void **state)
{
	assert_int_equal(run(TAIL_ENTER_ONCE, 7, 512, 0x1000), 1);
	for (int i = 0; i < 5; i++) {
		run(TAIL_NOTE, 7, 512, 0x1000);
		run(TAIL_ENTER, 7, 512, 0x1000);
		run(TAIL_PASS, 7, 512, 0x1000);
		assert_int_equal(run(TAIL_ENTER_ONCE, 7, 512, 0x1000), 2);
	}
	run(TAIL_NOTE, 7, 512, 0x1000);
	run(TAIL_ENTER, 7, 512, 0x1000);
	assert_true(takes(7, 512, 0x1000));
	assert_false(takes(7, 512, 0x1000));
	run(TAIL_NOTE, 7, 512, 0x1000);
	assert_int_equal(run(TAIL_ENTER_ONCE, 7, 512, 0x1000), 2);
	run(TAIL_DROP, 7, 512, 0x1000);			/* it has returned by itself */
	assert_false(takes(7, 512, 0x1000));
	run(TAIL_NOTE, 7, 512, 0x1000);
	run(TAIL_ENTER, 7, 512, 0x1000);		/* and was left by an exception */
	assert_int_equal(run(TAIL_ENTER_ONCE, 7, 512, 0x1000), 1);
	assert_false(takes(7, 512, 0x1000));
}

/* A loop that never ends jumps as often as it likes. */
static void a_note_can_be_full(void **state)
{
	uint32_t n = 0;

	for (int i = 0; i < 0x4010; i++)
		run(TAIL_NOTE_AGAIN, 7, 512, 0x1000);
	while (takes(7, 512, 0x1000))
		n++;
	assert_int_equal(n, 0x3fff);
	for (size_t i = 0; i < TAIL_TABLE_SIZE / 8; i++)
		assert_int_equal(table[i], 0);
}

static void full_buckets_give_up_one(void **state)
{
	enum { MANY = 3 * TAIL_TABLE_SIZE / 8 };
	uint32_t found = 0;

	for (uint64_t i = 0; i < MANY; i++)
		run(TAIL_NOTE, i * 8 + 3, 1024, 0x1000);
	assert_true(crowded >= MANY - TAIL_TABLE_SIZE / 8);
	for (uint64_t i = 0; i < MANY; i++)
		found += takes(i * 8 + 3, 1024, 0x1000);
	assert_int_equal(found + crowded, MANY);
}

struct model { uint32_t count; bool again, jumped; };

#define MOST_KEYS 60

/* Any order of everything, with keys that differ little. */
static void random_orders_are_as_the_model_says(void **state)
{
	static struct model all[MOST_KEYS];

	memset(all, 0, sizeof(all));
	for (int i = 0; i < 60000; i++) {
		uint32_t k = random_word() % MOST_KEYS;
		enum tail_code what = random_word() % (TAIL_TAKE + 1);
		struct model *m = &all[k];
		uint32_t way = run(what, k % 3, 512 + 8 * (k / 3 % 5), 0x401000 + k / 15);

		if (what == TAIL_TAKE) {
			assert_int_equal(way, m->count ? 1 : 2);
			m->count -= m->count > 0;
			m->again &= m->count > 0;
			m->jumped &= m->count > 0;
			continue;
		}
		if (what == TAIL_ENTER_ONCE) {
			assert_int_equal(way, m->count && m->jumped ? 2 : 1);
			if (!m->jumped)
				*m = (struct model){ 0 };
			m->jumped = false;
			continue;
		}
		if (what == TAIL_DROP) {
			*m = (struct model){ 0 };
			continue;
		}
		if (what == TAIL_NOTE || what == TAIL_NOTE_AGAIN) {
			m->count = m->count && m->again ? m->count + 1 : 1;
			m->again = what == TAIL_NOTE_AGAIN;
			m->jumped = true;
		} else if (m->count && what == TAIL_ENTER && !m->jumped) {
			*m = (struct model){ 0 };
		} else if (m->count) {
			m->jumped = what != TAIL_ENTER;
			m->again |= what == TAIL_AGAIN;
		}
	}
	assert_int_equal(crowded, 0);
}

static void learn(uint64_t func, uint64_t ret)
{
	uint32_t bucket;
	uint64_t word = arch_x86_64.tail_known(func, ret, &bucket), *at = &known[8 * bucket];

	while (*at)
		at++;
	assert_true(at < &known[8 * bucket + 8]);
	*at = word;
}

static uint32_t tellings(uint64_t ret)
{
	uint32_t n = 0;

	for (int i = 0; i < TAIL_ASKED; i++) {
		n += asked[i].at == ret && asked[i].id == 77;
		if (asked[i].at != ret)
			assert_int_equal(asked[i].at, 0);
	}
	memset(asked, 0, sizeof(asked));
	return n;
}

static void an_unknown_return_address_is_told(void **state)
{
	for (uint64_t ret = 0x55555555a000; ret < 0x55555555a400; ret++) {
		assert_int_equal(run(TAIL_ASK, 7, 512, ret), 1);	/* it ends here */
		assert_int_equal(tellings(ret), 1);
		assert_false(takes(7, 512, ret));
		assert_int_equal(run(TAIL_ASK_FAR, 7, 512, ret), 2);	/* another one's: not a word */
		assert_int_equal(tellings(ret), 0);
		run(TAIL_NOTE, 7, 512, ret);
		assert_int_equal(run(TAIL_ASK_FAR, 7, 512, ret), 1);
		assert_int_equal(tellings(ret), 1);
		assert_false(takes(7, 512, ret));
	}
}

static void a_known_one_ends_the_call(void **state)
{
	for (uint64_t ret = 0x55555555a000; ret < 0x55555555a040; ret++) {
		learn(7, ret);
		assert_int_equal(run(TAIL_ASK, 7, 512, ret), 2);
		assert_int_equal(run(TAIL_BACK, 8, 520, ret), 2);
		assert_int_equal(run(TAIL_BACK, 7, 512, ret), 2);	/* the return has taken its address off the stack */
		assert_int_equal(run(TAIL_BACK, 7, 520, ret), 1);
		assert_int_equal(run(TAIL_BACK, 7, 520, ret), 2);
		run(TAIL_NOTE, 7, 512, ret);
		assert_int_equal(run(TAIL_ASK_FAR, 7, 512, ret), 2);
		assert_int_equal(run(TAIL_BACK, 7, 520, ret), 1);
		assert_int_equal(tellings(ret), 0);
		assert_int_equal(run(TAIL_ASK, 8, 512, ret), 1);	/* not of that function */
		assert_int_equal(tellings(ret), 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_note_is_taken_once, make, unmake),
		cmocka_unit_test_setup_teardown(what_is_left_of_another_call_is_forgotten, make, unmake),
		cmocka_unit_test_setup_teardown(a_function_that_comes_back_to_itself_counts, make, unmake),
		cmocka_unit_test_setup_teardown(a_note_can_be_full, make, unmake),
		cmocka_unit_test_setup_teardown(full_buckets_give_up_one, make, unmake),
		cmocka_unit_test_setup_teardown(an_unknown_return_address_is_told, make, unmake),
		cmocka_unit_test_setup_teardown(a_known_one_ends_the_call, make, unmake),
		cmocka_unit_test_setup_teardown(a_call_that_comes_back_is_one, make, unmake),
		cmocka_unit_test_setup_teardown(random_orders_are_as_the_model_says, make, unmake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
