/* SPDX-License-Identifier: MIT */
/* This program asks about itself: the compiler and the debug info must say the same. */
#include "base/err.h"	/* before cmocka.h, which makes fail() a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sym/types/types.h"

enum planet { MERCURY, EARTH = 3, SUN = -1 };
union number { long whole; double real; };
struct inner { char tag; short values[3]; };

struct outer {
	struct outer *next;
	unsigned int low : 3, high : 13;
	struct { int anonymous; union { int left; float right; }; };
	struct inner many[2][4];
	enum planet home;
	union number number;
	int (*call)(struct inner *, ...);
	const char *volatile name;
};

struct outer here = { .home = EARTH, .name = "here" };
static double fraction = 0.5;
static struct module *self;
static struct types *t;

static __attribute__((noinline)) long sample(char a, struct outer *b, double c, struct inner d, long e)
{
	static long calls;

	calls += a + (long)c + d.tag + e + (b ? b->home : 0);
	return calls;
}

static type_id find(const char *name)
{
	type_id id;

	if (type_find(t, name, 0, &id) < 0)
		print_error("%s: %s\n", name, err_text());
	assert_int_equal(type_find(t, name, 0, &id), 0);
	return id;
}

static void expect_member(const char *type, const char *member, size_t off, size_t size)
{
	struct type_member m;

	assert_int_equal(type_member(t, find(type), member, &m), 0);
	assert_int_equal(m.bit_off, off * 8);
	assert_int_equal(m.bit_size, 0);
	assert_int_equal(type_get(t, m.type)->size, size);
}

#define MEMBER(m) expect_member("struct outer", #m, offsetof(struct outer, m), sizeof(here.m))

static void test_members(void **state)
{
	struct type_member m;

	assert_int_equal(type_get(t, find("struct outer"))->size, sizeof(struct outer));
	MEMBER(next); MEMBER(anonymous); MEMBER(left); MEMBER(right); MEMBER(many); MEMBER(home); MEMBER(number);
	MEMBER(call); MEMBER(name);
	expect_member("struct inner", "values", offsetof(struct inner, values), sizeof(short[3]));
	assert_int_equal(type_member(t, find("struct outer"), "high", &m), 0);
	assert_int_equal(m.bit_off, 67);
	assert_int_equal(m.bit_size, 13);
	assert_int_equal(type_member(t, find("struct outer"), "nowhere", &m), -ENOENT);
	assert_non_null(strstr(err_text(), "struct outer has no member nowhere; it has next, low, high"));
	assert_int_equal(type_member(t, find("int"), "x", &m), -ENOENT);
	assert_string_equal(err_text(), "int has no members");
}

static void expect_declared(const char *member, const char *text)
{
	struct type_member m;
	char *s;

	assert_int_equal(type_member(t, find("struct outer"), member, &m), 0);
	s = type_declare(t, m.type, member);
	assert_string_equal(s, text);
	free(s);
}

static void test_names(void **state)
{
	struct type_string str;
	char *s;

	expect_declared("next", "struct outer *next");
	expect_declared("many", "struct inner many[2][4]");
	expect_declared("call", "int (*call)(struct inner *, ...)");
	expect_declared("name", "const char *volatile name");
	expect_declared("number", "union number number");
	s = type_name(t, find("struct outer *[3]"));
	assert_string_equal(s, "struct outer *[3]");
	free(s);
	assert_int_equal(find("void"), TYPE_ID_VOID);
	assert_int_equal(find("unsigned long"), find("long unsigned int"));
	assert_int_equal(type_get(t, find("unsigned short"))->size, 2);
	assert_int_equal(type_get(t, find("signed char"))->flags, TYPE_SIGNED | TYPE_CHAR);
	assert_false(type_is_string(t, find("struct outer"), &str));
	assert_int_equal(type_get(t, 1u << 30)->kind, TYPE_UNKNOWN);
}

static void test_bad_names(void **state)
{
	static const char *const names[] = { "", " ", "struct", "struct outer [", "*", "int [x]", "no_such_type", "struct planet", "::", "<" };
	type_id id;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		assert_true(type_find(t, names[i], 0, &id) < 0);
}

static void test_enums(void **state)
{
	type_id id;
	int64_t v;

	assert_int_equal(type_enumerator(t, "EARTH", 0, &id, &v), 0);
	assert_int_equal(v, 3);
	assert_string_equal(type_value_name(t, id, SUN), "SUN");
	assert_null(type_value_name(t, id, 99));
	assert_true(type_get(t, id)->flags & TYPE_SIGNED);
	assert_int_equal(type_enumerator(t, "PLUTO", 0, &id, &v), -ENOENT);
}

static uint64_t address_of(const char *name)
{
	size_t i;

	for (i = 0; i < self->funcs.n; i++)
		if (strcmp(func_name(self, &self->funcs.v[i]), name) == 0)
			return self->funcs.v[i].addr;
	return 0;
}

static void test_function(void **state)
{
	static const uint8_t regs[] = { 7, 6, 0, 2, 1 };	/* rdi, rsi, xmm0, rdx, rcx */
	const struct func_types *f;
	struct var v;
	uint32_t i;
	char *s;

	assert_int_equal(types_func(t, address_of("sample"), &f), 0);
	assert_string_equal(f->name, "sample");
	assert_int_equal(f->nparams, 5);
	assert_false(f->external);
	for (i = 0; i < 5; i++) {
		assert_int_equal(f->params[i].loc.n, 1);
		assert_int_equal(f->params[i].loc.pieces[0].kind, i == 2 ? LOC_VECTOR : LOC_REG);
		assert_int_equal(f->params[i].loc.pieces[0].reg, regs[i]);
	}
	assert_int_equal(f->retval.loc.pieces[0].reg, 0);
	s = types_func_declare(t, f->entry);
	assert_string_equal(s, "long sample(char a, struct outer *b, double c, struct inner d, long e)");
	free(s);
	assert_int_equal(types_var(t, f->entry, "b", &v), 0);
	assert_int_equal(v.from, VAR_BY_ABI);
	assert_int_equal(types_var(t, f->entry, "calls", &v), 0);
	assert_int_equal(v.kind, VAR_STATIC);
	assert_int_equal(v.loc.pieces[0].kind, LOC_GLOBAL);
	assert_int_equal(types_var(t, f->entry, "nobody", &v), -ENOENT);
	assert_non_null(strstr(err_text(), "there is no variable nobody; there are a, b, c, d, e"));
	assert_int_equal(types_func(t, f->entry + 1, &f), -ENOENT);
	assert_int_equal(types_func(t, 1, &f), -ENODATA);
}

static void test_globals(void **state)
{
	struct var v, w;

	assert_int_equal(types_global(t, "here", 0, &v), 0);
	assert_int_equal(types_global(t, "fraction", 0, &w), 0);
	assert_int_equal(v.kind, VAR_GLOBAL);
	assert_int_equal(w.kind, VAR_STATIC);
	/* where we are loaded is the same for both */
	assert_int_equal(v.loc.pieces[0].off - w.loc.pieces[0].off, (char *)&here - (char *)&fraction);
	assert_int_equal(types_global(t, "nothing", 0, &v), -ENOENT);
}

static void test_lines(void **state)
{
	line_list list = { 0 };
	struct line_site site;
	uint64_t entry = address_of("sample");

	assert_int_equal(lines_at(t, entry, &site), 0);
	assert_non_null(strstr(site.file, "test_types.c"));
	assert_string_equal(site.func, "sample");
	assert_int_equal(lines_find(t, "unit/test_types.c", site.line, &list), 0);
	assert_true(list.n >= 1);
	assert_int_equal(list.v[0].addr, entry);
	vec_free(&list);
	assert_int_equal(lines_find(t, "est_types.c", site.line, &list), -ENOENT);
	assert_non_null(strstr(err_text(), "no source file est_types.c"));
	assert_int_equal(lines_find(t, "test_types.c", 1000000, &list), -ENODATA);
	assert_non_null(strstr(err_text(), "no code at line 1000000"));
	vec_free(&list);
	assert_int_equal(lines_frames(t, entry, &list), 0);
	assert_int_equal(list.n, 1);
	vec_free(&list);
}

static int open_self(void **state)
{
	/* called through a pointer, it keeps the convention */
	long (*volatile f)(char, struct outer *, double, struct inner, long) = sample;

	fraction += f(1, &here, 2, (struct inner){ 0 }, 3);
	if (module_open("", "/proc/self/exe", &self) < 0 || module_types(self, &t) < 0) {
		print_error("%s\n", err_text());
		return -1;
	}
	return 0;
}

static int close_self(void **state)
{
	module_close(self);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members), cmocka_unit_test(test_names), cmocka_unit_test(test_bad_names),
		cmocka_unit_test(test_enums), cmocka_unit_test(test_function), cmocka_unit_test(test_globals),
		cmocka_unit_test(test_lines),
	};

	return cmocka_run_group_tests_name("types", tests, open_self, close_self);
}
