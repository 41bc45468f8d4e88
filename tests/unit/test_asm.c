/* SPDX-License-Identifier: MIT */
/* The assembler: the bytes of each operation, by the table in tests/insn, which the disassembler must read as it says; and labels. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/asm.h"

#define AT 0x1000
#define TEXT_MAX 4096

static void to_hex(const uint8_t *bytes, size_t len, char *out)
{
	*out = '\0';
	for (size_t i = 0; i < len; i++)
		out += sprintf(out, "%s%02x", i ? " " : "", bytes[i]);
}

/* All instructions, by a semicolon; data ends it. */
static void to_text(const uint8_t *bytes, size_t len, char *out)
{
	*out = '\0';
	for (size_t at = 0; at < len;) {
		char one[128];
		uint64_t names;
		int n = arch_x86_64.text(bytes + at, len - at, AT + at, one, sizeof(one), &names);

		if (n < 0)
			return;
		out += sprintf(out, "%s%s", at ? "; " : "", one);
		at += n;
	}
}

/* Returns how many of the two are wrong, and prints the row as it would be right. */
static int check(const char *what, const char *hex, const char *text, const char *op, const struct assembler *a)
{
	char got_hex[TEXT_MAX], got_text[TEXT_MAX];

	to_hex(a->code.v, a->code.n, got_hex);
	to_text(a->code.v, a->code.n, got_text);
	if (strcmp(hex, got_hex) == 0 && strcmp(text, got_text) == 0)
		return 0;
	printf("ROW(\"%s\", \"%s\",\n    \"%s\", %s)\n", what, got_hex, got_text, op);
	return 1;
}

static struct assembler start(void)
{
	return (struct assembler){ .ops = arch_x86_64.assembler, .at = AT };
}

#define ROW(what, hex, text, op, ...) do { \
	struct assembler a = start(); \
	asm_label l = asm_new_label(&a); \
	struct asm_sequence seq = { .rseq_off = -160, .sig = 0x53053053, .start = l, .end = l, .descriptor = l }; \
	asm_bind(&a, l); \
	a.ops->op(&a, ##__VA_ARGS__); \
	asm_bind(&a, l); \
	if (seq.start != l) \
		asm_bind(&a, seq.descriptor); \
	assert_int_equal(asm_link(&a), 0); \
	bad += check(what, hex, text, #op ", " #__VA_ARGS__, &a); \
	asm_free(&a); \
} while (0);

static void bytes_are_as_the_table_says(void **state)
{
	int bad = 0;

#include "../insn/assemble.h"
	assert_int_equal(bad, 0);
}

static void labels_lead_up_and_down(void **state)
{
	struct assembler a = start();
	asm_label up = asm_new_label(&a), down = asm_new_label(&a);
	char hex[TEXT_MAX];

	asm_bind(&a, up);
	a.ops->branch_short(&a, ASM_NE, down);
	a.ops->jump(&a, up);
	a.ops->branch(&a, ASM_EQ, up);
	assert_true(asm_is_used(&a, up) && asm_is_used(&a, down));
	assert_false(asm_is_used(&a, asm_new_label(&a)));
	asm_bind(&a, down);
	a.ops->jump_short(&a, up);
	assert_int_equal(asm_offset(&a, down), 13);
	assert_int_equal(asm_link(&a), 0);
	to_hex(a.code.v, a.code.n, hex);
	assert_string_equal(hex, "75 0b e9 f9 ff ff ff 0f 84 f3 ff ff ff eb f1");
	asm_free(&a);
}

static int reach(size_t distance, bool up)
{
	struct assembler a = start();
	asm_label l = asm_new_label(&a);
	int r;

	if (up) {
		asm_bind(&a, l);
		asm_fill(&a, distance);
	}
	a.ops->jump_short(&a, l);
	if (!up) {
		asm_fill(&a, distance);
		asm_bind(&a, l);
	}
	r = asm_link(&a);
	asm_free(&a);
	return r;
}

static void short_branch_that_does_not_reach_is_refused(void **state)
{
	assert_int_equal(reach(127, false), 0);
	assert_int_equal(reach(128, false), -ERANGE);
	assert_int_equal(reach(126, true), 0);
	assert_int_equal(reach(127, true), -ERANGE);
}

static void label_that_is_nowhere_is_refused(void **state)
{
	struct assembler a = start();

	a.ops->jump(&a, asm_new_label(&a));
	assert_int_equal(asm_link(&a), -EINVAL);
	asm_free(&a);
}

static void condition_can_be_turned_round(void **state)
{
	for (enum asm_cond c = ASM_EQ; c <= ASM_FGT; c++) {
		struct assembler a = start();
		asm_label l = asm_new_label(&a);

		a.ops->branch(&a, c, l);
		a.ops->branch(&a, asm_not(c), l);
		assert_int_equal(a.code.v[1] ^ 1, a.code.v[7]);
		asm_free(&a);
	}
}

/* Any descriptor is aligned, whatever the address, and the code behind it is always as long. */
static void sequence_has_an_aligned_descriptor(void **state)
{
	for (uint64_t at = AT; at < AT + 64; at++) {
		struct assembler a = { .ops = arch_x86_64.assembler, .at = at };
		struct asm_sequence seq = { .rseq_off = -160, .sig = 0x53053053 };
		asm_label leave = asm_new_label(&a);
		uint64_t d[4];

		a.ops->seq_begin(&a, &seq);
		a.ops->atomic_inc(&a, asm_at(ASM_B, 0));
		a.ops->seq_commit(&a, &seq);
		a.ops->seq_rest(&a, &seq, leave);
		assert_int_equal(asm_link(&a), 0);
		assert_int_equal((at + asm_offset(&a, seq.descriptor)) % 32, 0);
		memcpy(d, a.code.v + asm_offset(&a, seq.descriptor), sizeof(d));
		assert_int_equal(d[0], 0);
		assert_int_equal(d[1], at + asm_offset(&a, seq.start));
		assert_int_equal(d[2], 4);
		assert_int_equal(d[3], at + a.code.n);
		assert_memory_equal(a.code.v + a.code.n - 4, &seq.sig, 4);
		assert_int_equal(a.code.n, 16 + 4 + 13 + 63 + 13 + 2 + 4);
		asm_free(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_as_the_table_says),
		cmocka_unit_test(labels_lead_up_and_down),
		cmocka_unit_test(short_branch_that_does_not_reach_is_refused),
		cmocka_unit_test(label_that_is_nowhere_is_refused),
		cmocka_unit_test(condition_can_be_turned_round),
		cmocka_unit_test(sequence_has_an_aligned_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
