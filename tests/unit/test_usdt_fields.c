/* SPDX-License-Identifier: MIT */
/* Names and types of tracepoints' arguments: what is read of the notes of <jab/tracepoint.h>, and what is not believed. */
#include "base/err.h"	/* before cmocka.h, which makes fail() a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "notes.h"
#include "sym/usdt/usdt.h"

static struct module *m;

/* One tracepoint app:t with these arguments and fields. */
static const struct usdt *read_one(const char *args, const struct made_field *f, uint32_t n, const struct made_notes *tables)
{
	static struct made e;
	static const struct made_notes none;
	struct made_notes x = { 0 }, fields = { 0 };
	struct usdt *u;
	size_t size;

	notes_add(&x, TEXT + 8, 0, 0, "app", "t", args, -1);
	notes_fields(&fields, TEXT + 8, "app", "t", f, n);
	size = notes_file3(&e, &x, &fields, tables ? tables : &none);
	if (m)
		module_close(m);
	m = NULL;
	assert_int_equal(module_open_memory(e.p, size, "made", &m), 0);
	assert_int_equal(module_usdts(m, &u), 1);
	usdt_read_args(m, &u[0]);
	return u;
}

static int end(void **state)
{
	if (m)
		module_close(m);
	m = NULL;
	return 0;
}

static void test_each_kind(void **state)
{
	static const struct { const char *args; struct made_field f; const char *type; } rows[] = {
		{ "4@%rax", { FIELD(USDT_INT, 4, 0, 0), "x", "" }, "u32" },
		{ "-2@%rax", { FIELD(USDT_INT, 2, 0x80, 0) | 16, "x", "" }, "s16" },
		{ "1@%rax", { FIELD(USDT_BOOL, 1, 0, 0), "x", "" }, "bool" },
		{ "8@%rax", { FIELD(USDT_FLOAT, 8, 0, 0), "x", "" }, "double" },
		{ "8@%rax", { FIELD(USDT_POINTER, 8, 0, 0), "x", "" }, "void *" },
		{ "8@%rax", { FIELD(USDT_STRING, 8, 0, 0), "x", "" }, "char *" },
		{ "8@%rax", { FIELD_ARRAY(USDT_CHARS, 1, 1, 16), "x", "" }, "char[16]" },
		{ "8@%rax", { FIELD_ARRAY(USDT_INT, 4, 0x81, 3), "x", "" }, "s32[3]" },
		{ "-4@%rax", { FIELD(USDT_ENUM, 4, 0x80, 7) | 16, "x", "color" }, "enum color" },
		{ "8@%rax", { FIELD(USDT_STRUCT, 8, 0, 7), "x", "point" }, "struct point" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct usdt *u = read_one(rows[i].args, &rows[i].f, 1, NULL);
		char *type;

		if (u->nfields != 1)
			fail_msg("row %zu (%s) is not read", i, rows[i].type);
		assert_string_equal(u->field[0].name, "x");
		type = usdt_field_type(&u->field[0]);
		assert_string_equal(type, rows[i].type);
		free(type);
	}
}

static void test_counted(void **state)
{
	const struct made_field good[] = {
		{ FIELD(USDT_INT, 4, 0, 0), "a", "" }, { FIELD_ARRAY(USDT_INT, 2, 2, 0), "b", "" }, { FIELD(USDT_LENGTH, 4, 0, 0), "", "" },
	};
	const struct usdt *u = read_one("4@%rax 8@%rbx 4@%rcx", good, 3, NULL);

	assert_int_equal(u->nfields, 3);
	assert_int_equal(u->field[1].shape, USDT_COUNTED);
	/* without its count, and a count without an array */
	assert_int_equal(read_one("4@%rax 8@%rbx", good, 2, NULL)->nfields, 0);
	assert_int_equal(read_one("4@%rax 4@%rbx", (struct made_field[]){ good[0], good[2] }, 2, NULL)->nfields, 0);
}

static void test_what_is_not_believed(void **state)
{
	static const struct { const char *why, *args; struct made_field f[2]; uint32_t n; } rows[] = {
		{ "another number of arguments", "4@%rax", { { FIELD(USDT_INT, 4, 0, 0), "x", "" }, { FIELD(USDT_INT, 4, 0, 0), "y", "" } }, 2 },
		{ "another size", "8@%rax", { { FIELD(USDT_INT, 4, 0, 0), "x", "" } }, 1 },
		{ "another sign", "-4@%rax", { { FIELD(USDT_INT, 4, 0, 0), "x", "" } }, 1 },
		{ "no name", "4@%rax", { { FIELD(USDT_INT, 4, 0, 0), "", "" } }, 1 },
		{ "a name that is none", "4@%rax", { { FIELD(USDT_INT, 4, 0, 0), "x y", "" } }, 1 },
		{ "a name with an escape", "4@%rax", { { FIELD(USDT_INT, 4, 0, 0), "x\033[2J", "" } }, 1 },
		{ "two of one name", "4@%rax 4@%rbx", { { FIELD(USDT_INT, 4, 0, 0), "x", "" }, { FIELD(USDT_INT, 4, 0, 0), "x", "" } }, 2 },
		{ "a kind that is not known", "4@%rax", { { FIELD(10, 4, 0, 0), "x", "" } }, 1 },
		{ "a size that is none", "4@%rax", { { FIELD(USDT_INT, 3, 0, 0), "x", "" } }, 1 },
		{ "a float of a byte", "1@%rax", { { FIELD(USDT_FLOAT, 1, 0, 0), "x", "" } }, 1 },
		{ "an array of pointers", "8@%rax", { { FIELD_ARRAY(USDT_POINTER, 8, 1, 2), "x", "" } }, 1 },
		{ "an array without elements", "8@%rax", { { FIELD_ARRAY(USDT_INT, 4, 1, 0), "x", "" } }, 1 },
		{ "a huge array", "8@%rax", { { FIELD_ARRAY(USDT_INT, 4, 1, 0x7fffffff), "x", "" } }, 1 },
		{ "an array that is no address", "4@%rax", { { FIELD(USDT_INT, 4, 1, 2), "x", "" } }, 1 },
		{ "a struct without a name", "8@%rax", { { FIELD(USDT_STRUCT, 8, 0, 1), "x", "" } }, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (read_one(rows[i].args, rows[i].f, rows[i].n, NULL)->nfields)
			fail_msg("%s is believed", rows[i].why);
}

static void test_tables(void **state)
{
	static const int64_t values[] = { 0, -1 };
	const struct made_field members[] = { { FIELD(USDT_STRUCT, 8, 0, 9), "in", "inner" }, { FIELD(USDT_ENUM, 4, 0x80, 3), "color", "color" } };
	const struct made_field inner = { FIELD(USDT_INT, 8, 0, 0), "x", "" };
	const struct made_field f[] = { { FIELD(USDT_ENUM, 4, 0x80, 3) | 16, "c", "color" }, { FIELD(USDT_STRUCT, 8, 0, 5), "s", "outer" } };
	struct made_notes t = { 0 };
	const struct usdt *u;

	/* what is used comes behind what uses it */
	table_struct(&t, 5, "outer", 16, members, 2);
	table_struct(&t, 9, "inner", 8, &inner, 1);
	table_enum(&t, 3, "color", "RED, ns::BLUE", values, 2);
	table_enum(&t, 3, "color", "RED, ns::BLUE", values, 2);
	u = read_one("-4@%rax 8@%rbx", f, 2, &t);
	assert_int_equal(u->nfields, 2);
	assert_int_equal(u->field[0].of->n, 2);
	assert_string_equal(u->field[0].of->values[1].name, "ns::BLUE");
	assert_int_equal(u->field[0].of->values[1].value, -1);
	assert_false(u->field[0].of->is_doubtful);
	assert_string_equal(u->field[1].of->members[0].of->members[0].name, "x");
	assert_ptr_equal(u->field[1].of->members[1].of, u->field[0].of);
	assert_false(u->field[1].of->is_doubtful);
}

static void test_two_tables_of_one_name(void **state)
{
	static const int64_t values[] = { 0, 1 }, others[] = { 0, 2 };
	const struct made_field f = { FIELD(USDT_ENUM, 4, 0, 3), "c", "color" };
	struct made_notes t = { 0 };

	table_enum(&t, 3, "color", "RED,BLUE", values, 2);
	table_enum(&t, 3, "color", "RED,BLUE", others, 2);
	table_enum(&t, 4, "color", "RED,BLUE", others, 2);
	assert_true(read_one("4@%rax", &f, 1, &t)->field[0].of->is_doubtful);
	assert_false(read_one("4@%rax", &(struct made_field){ FIELD(USDT_ENUM, 4, 0, 4), "c", "color" }, 1, &t)->field[0].of->is_doubtful);
}

static void test_structs_that_are_not_believed(void **state)
{
	const struct made_field f = { FIELD(USDT_STRUCT, 8, 0, 1), "s", "self" }, self = { FIELD(USDT_STRUCT, 8, 0, 1), "s", "self" };
	const struct made_field a = { FIELD(USDT_STRUCT, 8, 0, 2), "b", "b" }, b = { FIELD(USDT_STRUCT, 8, 0, 1), "s", "self" };
	const struct made_field outside[] = { { FIELD(USDT_INT, 8, 0, 0), "x", "" }, { FIELD(USDT_INT, 8, 0, 0), "y", "" } };
	const struct made_field twice[] = { { FIELD(USDT_INT, 8, 0, 0), "x", "" }, { FIELD(USDT_INT, 8, 0, 0), "x", "" } };
	struct made_notes t = { 0 };

	table_struct(&t, 1, "self", 8, &self, 1);
	assert_true(read_one("8@%rax", &f, 1, &t)->field[0].of->is_doubtful);
	t.n = 0;
	table_struct(&t, 1, "self", 8, &a, 1);
	table_struct(&t, 2, "b", 8, &b, 1);
	assert_true(read_one("8@%rax", &f, 1, &t)->field[0].of->is_doubtful);
	t.n = 0;
	table_struct(&t, 1, "self", 12, outside, 2);
	assert_true(read_one("8@%rax", &f, 1, &t)->field[0].of->is_doubtful);
	t.n = 0;
	table_struct(&t, 1, "self", 16, twice, 2);
	assert_true(read_one("8@%rax", &f, 1, &t)->field[0].of->is_doubtful);
}

/* Each name is compared with all before it: that must end. */
static void test_structs_with_many_members(void **state)
{
	const struct made_field f = { FIELD(USDT_STRUCT, 8, 0, 1), "s", "many" };

	for (uint32_t n = 128; n <= 129; n++) {
		struct made_field members[129];
		struct made_notes t = { 0 };
		char names[129][8];

		for (uint32_t i = 0; i < n; i++) {
			snprintf(names[i], sizeof(names[i]), "m%u", i);
			members[i] = (struct made_field){ FIELD(USDT_INT, 8, 0, 0), names[i], "" };
		}
		table_struct(&t, 1, "many", 8 * n, members, n);
		assert_int_equal(read_one("8@%rax", &f, 1, &t)->field[0].of != NULL, n == 128);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_each_kind, end),
		cmocka_unit_test_teardown(test_counted, end),
		cmocka_unit_test_teardown(test_what_is_not_believed, end),
		cmocka_unit_test_teardown(test_tables, end),
		cmocka_unit_test_teardown(test_two_tables_of_one_name, end),
		cmocka_unit_test_teardown(test_structs_that_are_not_believed, end),
		cmocka_unit_test_teardown(test_structs_with_many_members, end),
	};

	cmocka_set_test_filter(getenv("JAB_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
