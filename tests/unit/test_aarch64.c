/* SPDX-License-Identifier: MIT */
/* aarch64, as far as it is words and numbers: decoding, relocation, the emulation of what pads are made of. Runs on any CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "arch/aarch64/encode.h"
#include "arch/arch.h"
#include "base/mem.h"

#define FROM 0x10000ull
#define TO 0x2000000ull

struct word { const char *text; uint32_t word; uint8_t kind, flags; uint64_t target; };
#define WORD(text, word, kind, flags, target) { text, word, kind, flags, target },
static const struct word words[] = {
#include "unit/aarch64_words.h"
};

static const struct arch *const a = &arch_aarch64;

static struct insn decode(uint32_t w, uint64_t at)
{
	struct insn in;

	assert_int_equal(a->decode((const uint8_t *)&w, 4, at, &in), 0);
	assert_int_equal(in.len, 4);
	return in;
}

static void test_decode(void **state)
{
	struct insn in;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		in = decode(words[i].word, FROM);
		if (in.kind != words[i].kind || in.flags != words[i].flags || in.target != words[i].target)
			fail_msg("%s: kind %d, flags %#x, target %#llx", words[i].text, in.kind, in.flags, (unsigned long long)in.target);
	}
	assert_int_equal(a->decode((const uint8_t *)&words[0].word, 3, FROM, &in), -EILSEQ);
	assert_int_equal(a->decode((const uint8_t *)&words[0].word, 4, FROM + 2, &in), -EILSEQ);
	assert_int_equal(decode(0x90000001, 0x12345678).target, 0x12345000);	/* adrp x1, . */
	assert_int_equal(decode(0xb0ffffe1, 0x12345678).target, 0x12342000);	/* adrp x1, .-3 pages */
}

static int relocate(uint32_t w, uint64_t to, uint32_t *out)
{
	struct insn in = decode(w, FROM);

	return a->relocate((const uint8_t *)&w, &in, FROM, to, (uint8_t *)out);
}

static void expect_words(uint32_t w, size_t n, ...)
{
	uint32_t out[RELOC_MAX / 4];
	va_list args;

	assert_int_equal(relocate(w, TO, out), 4 * n);
	va_start(args, n);
	for (size_t i = 0; i < n; i++) {
		uint32_t want = va_arg(args, uint32_t);

		if (out[i] != want)
			fail_msg("%#x: word %zu is %#x, not %#x", w, i, out[i], want);
	}
	va_end(args);
}

#define PART(v, i) ((uint64_t)(v) >> 16 * (i) & 0xffff)
#define ADDRESS(x, v) a64_movz(x, PART(v, 0), 0), a64_movk(x, PART(v, 1), 1), a64_movk(x, PART(v, 2), 2), a64_movk(x, PART(v, 3), 3)

static void test_relocate(void **state)
{
	uint32_t out[RELOC_MAX / 4];

	expect_words(0x91000420, 1, 0x91000420);				/* add */
	expect_words(0xd65f03c0, 1, 0xd65f03c0);				/* ret */
	expect_words(0x14000040, 1, a64_b(0x10100 - (int64_t)TO));		/* b */
	expect_words(0x54000101, 3, 0x54000041, a64_b(8), a64_b(0x10020 - (int64_t)(TO + 8)));	/* b.ne */
	expect_words(0xb4ffff83, 3, 0xb4000043, a64_b(8), a64_b(0xfff0 - (int64_t)(TO + 8)));	/* cbz x3 */
	expect_words(0xb747fe07, 3, 0xb7400047, a64_b(8), a64_b(0xffc0 - (int64_t)(TO + 8)));	/* tbnz x7, #40 */
	expect_words(0x94001000, 5, ADDRESS(30, FROM + 4), a64_b(0x14000 - (int64_t)(TO + 16)));	/* bl */
	expect_words(0xd63f0100, 5, ADDRESS(30, FROM + 4), a64_br(8));		/* blr x8 */
	expect_words(0x100091a1, 4, ADDRESS(1, 0x11234));			/* adr x1 */
	expect_words(0x58000082, 5, ADDRESS(2, 0x10010), 0xf9400042);		/* ldr x2, literal */
	expect_words(0x18000082, 5, ADDRESS(2, 0x10010), 0xb9400042);		/* ldr w2 */
	expect_words(0x98000082, 5, ADDRESS(2, 0x10010), 0xb9800042);		/* ldrsw x2 */
	expect_words(0x9c000082, 7, 0xa9bf47f0, ADDRESS(16, 0x10010), 0x3dc00202, 0xa8c147f0);	/* ldr q2, by x16 */
	expect_words(0xd8000080, 1, A64_NOP);					/* prfm */
	assert_int_equal(relocate(0xd503245f, TO, out), -ENOTSUP);		/* bti c */
	assert_int_equal(relocate(0xd4000001, TO, out), -ENOTSUP);		/* svc */
	assert_int_equal(relocate(0xc8027c20, TO, out), -ENOTSUP);		/* stxr */
	assert_int_equal(relocate(0xd63f03c0, TO, out), -ENOTSUP);		/* blr x30 */
	assert_int_equal(relocate(0xd73f0908, TO, out), -ENOTSUP);		/* blraa x8, x8 */
	assert_int_equal(relocate(0x1d010440, TO, out), -ENOTSUP);		/* cpyfm, of memory copies in three steps */
	assert_int_equal(relocate(0x14000040, FROM + (1ull << 28), out), -ERANGE);
}

static void test_jump(void **state)
{
	uint8_t out[4];

	assert_int_equal(a->jump(out, FROM, FROM + (1 << 27) - 4), 0);
	assert_int_equal(a->jump(out, FROM, FROM + (1 << 27)), -ERANGE);
	assert_int_equal(a->jump(out, 1ull << 40, (1ull << 40) - (1 << 27)), 0);
	assert_int_equal(a->jump(out, 1ull << 40, (1ull << 40) - (1 << 27) - 4), -ERANGE);
	assert_int_equal(a->jump(out, FROM, FROM + 2), -ERANGE);
}

static void test_switch(void **state)
{
	const uint32_t by_table[] = { 0x78615800, 0x10000061, 0x8b20a820, 0xd61f0000 };	/* ldrh; adr x1; add x0, x1, w0, sxth #2; br x0 */
	const uint32_t by_load[] = { 0x10000061, 0xf9400020, 0xd61f0000 };		/* adr x1; ldr x0, [x1]; br x0 */
	const uint32_t linker[] = { 0x8b20a830, 0xd61f0200 };				/* add x16, ...; br x16 */

	assert_true(a->stays((const uint8_t *)&by_table[3], 12));
	assert_false(a->stays((const uint8_t *)&by_load[2], 8));
	assert_false(a->stays((const uint8_t *)&linker[1], 4));
	assert_false(a->stays((const uint8_t *)&by_table[3], 0));
}

/* A thread with some words of memory: code at 0x1000, a stack below 0x3000, a counter at 0x4000. */
struct world { uint8_t memory[0x5000]; uint64_t added; };

static int world_read(void *arg, uint64_t at, void *to, size_t len)
{
	if (at + len > sizeof(((struct world *)arg)->memory))
		return -EFAULT;
	memcpy(to, ((struct world *)arg)->memory + at, len);
	return 0;
}

static int world_write(void *arg, uint64_t at, const void *from, size_t len)
{
	if (at + len > sizeof(((struct world *)arg)->memory))
		return -EFAULT;
	memcpy(((struct world *)arg)->memory + at, from, len);
	return 0;
}

static int world_add(void *arg, uint64_t at, uint64_t n)
{
	assert_int_equal(at, 0x4000);
	((struct world *)arg)->added += n;
	return 0;
}

static bool is_load(const struct world *w, uint64_t at)
{
	uint32_t word;

	memcpy(&word, w->memory + at, 4);
	return (word & 0xfffffc00) == a64_ldxr(0, 0);
}

/* From each instruction of the counting code: every register is as before at its end, and at most one hit was added. */
static void test_perform_count(void **state)
{
	struct world w = { .added = 0 };
	struct count_spec spec = { .shared = 0x4000 };
	int len = a->emit_count(w.memory + 0x1000, 0x1000, &spec);
	struct cpu_memory m = { &w, world_read, world_write, world_add };
	struct cpu c = { .pc = 0x1000, .flags = 0xa0000000 }, before;

	assert_true(len > 0 && len <= COUNT_MAX);
	for (int i = 0; i < 32; i++)
		c.reg[i] = 0x1111111111111111ull * (i % 15 + 1);
	c.reg[A64_SP] = 0x3000;
	before = c;
	for (uint64_t stop = 0x1000; stop < 0x1000u + len; stop += 4) {
		c = before;
		w.added = 0;
		/* Behind the load-exclusive (stxr, or the addition before it) a thread has only come by itself. */
		while (c.pc < 0x1000u + len && c.pc != stop && !(c.pc < stop && c.pc + 12 > stop && is_load(&w, c.pc)))
			assert_int_equal(a->perform(&c, &m), 0);
		if (c.pc < stop && is_load(&w, c.pc))
			c.pc = stop;
		while (c.pc < 0x1000u + len)
			assert_int_equal(a->perform(&c, &m), 0);
		assert_int_equal(w.added, 1);
		assert_memory_equal(c.reg, before.reg, sizeof(c.reg));
		assert_int_equal(c.flags, before.flags);
	}
}

static void test_perform_branches(void **state)
{
	struct world w = { .added = 0 };
	struct cpu_memory m = { &w, world_read, world_write, world_add };
	static const struct { uint32_t word; uint64_t flags, x3; bool taken; } cases[] = {
		{ 0x54000040, 4ull << 28, 0, true }, { 0x54000040, 0, 0, false },	/* b.eq */
		{ 0x54000048, 2ull << 28, 0, true }, { 0x54000048, 6ull << 28, 0, false },	/* b.hi */
		{ 0x5400004b, 9ull << 28, 0, false }, { 0x5400004b, 8ull << 28, 0, true },	/* b.lt */
		{ 0xb4000043, 0, 0, true }, { 0xb4000043, 0, 1ull << 40, false },	/* cbz x3 */
		{ 0x34000043, 0, 1ull << 40, true }, { 0x35000043, 0, 5, true },	/* cbz w3; cbnz w3 */
		{ 0xb7400043, 0, 1ull << 40, true }, { 0xb6400043, 0, 1ull << 40, false },	/* tbnz x3, #40; tbz */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cpu c = { .pc = 0x1000, .flags = cases[i].flags };

		c.reg[3] = cases[i].x3;
		memcpy(w.memory + 0x1000, &cases[i].word, 4);
		assert_int_equal(a->perform(&c, &m), 0);
		if (c.pc != (cases[i].taken ? 0x1008 : 0x1004))
			fail_msg("case %zu: pc %#llx", i, (unsigned long long)c.pc);
	}
	memcpy(w.memory + 0x1000, &(uint32_t){ 0xd4000001 }, 4);	/* svc: not known */
	assert_int_equal(a->perform(&(struct cpu){ .pc = 0x1000 }, &m), -ENOTSUP);
}

struct found { size_t offset, len; uint32_t nr; int n; };

static void take_call(void *arg, size_t offset, size_t len, uint32_t nr)
{
	struct found *f = arg;

	*f = (struct found){ offset, len, nr, f->n + 1 };
}

static void test_find_calls(void **state)
{
	const uint32_t direct[] = { A64_NOP, a64_movz(8, 167, 0), A64_SVC };
	const uint32_t far[] = { a64_movz(8, 167, 0), 0xa9040be1, 0x29047fe6, A64_SVC };	/* stp x1, x2; stp w6, wzr */
	const uint32_t writes[] = { a64_movz(8, 167, 0), 0xaa0303e0, A64_SVC };		/* mov x0, x3: the place is none */
	const uint32_t any[] = { 0x2a0003e8, a64_mov(6, 7), A64_SVC };
	const uint32_t behind[] = { a64_movz(8, 167, 0), a64_b(8), A64_NOP, A64_SVC };
	struct found f = { 0 };

	a->find_calls((const uint8_t *)direct, sizeof(direct), take_call, &f);
	assert_true(f.n == 1 && f.offset == 4 && f.len == 4 && f.nr == 167);
	a->find_calls((const uint8_t *)far, sizeof(far), take_call, &f);
	assert_true(f.n == 2 && f.offset == 8 && f.len == 4 && f.nr == 167);
	a->find_calls((const uint8_t *)writes, sizeof(writes), take_call, &f);
	assert_true(f.n == 3 && f.len == 0 && f.nr == 167);
	a->find_calls((const uint8_t *)any, sizeof(any), take_call, &f);
	assert_true(f.n == 4 && f.offset == 4 && f.nr == ANY_CALL);
	a->find_calls((const uint8_t *)behind, sizeof(behind), take_call, &f);
	assert_int_equal(f.n, 4);
}

static void test_event_lengths(void **state)
{
	const struct event_field fields[] = {
		{ EVENT_REG, 0, 8, 0 }, { EVENT_REG, 4, 8, 0 }, { EVENT_REG, 30, 8, 0 }, { EVENT_REG, 31, 8, 0 }, { EVENT_IMM, 0, 8, -1 },
		{ EVENT_STACK, 31, 8, 8 }, { EVENT_VECTOR, 3, 8, 0 }, { EVENT_ABS, 0, 2, 0x1234 },
	};
	struct event_spec spec = { .ring_size = RING_SIZE_MIN, .fields = fields, .nfields = ARRAY_SIZE(fields), .slow = 0x123456789000 };
	struct event_slow_spec slow = { .nrings = 4, .ring_size = RING_SIZE_MIN, .may_call = true, .quiet = 0x1000 };
	uint8_t code[EVENT_CODE_MAX], routines[EVENT_SLOW_MAX];
	int n = a->emit_event(NULL, 0, &spec);

	assert_true(n > 0 && n % 4 == 0);
	assert_int_equal(a->emit_event(code, 0x7000, &spec), n);
	spec.overwrite = true;
	assert_true(a->emit_event(code, 0x7000, &spec) % 4 == 0);
	spec.far = 1;
	assert_int_equal(a->emit_event(code, 0x7000, &spec), -ERANGE);
	n = a->emit_event_slow(routines, &slow);
	assert_true(n > EVENT_ROOM && n <= EVENT_SLOW_MAX);
	slow.nrings = 3;
	assert_int_equal(a->emit_event_slow(routines, &slow), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decode), cmocka_unit_test(test_relocate), cmocka_unit_test(test_jump), cmocka_unit_test(test_switch),
		cmocka_unit_test(test_perform_count), cmocka_unit_test(test_perform_branches), cmocka_unit_test(test_find_calls),
		cmocka_unit_test(test_event_lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
