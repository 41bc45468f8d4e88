/* SPDX-License-Identifier: MIT */
/* What may stand behind a probe and after -t, and what does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "base/err.h"
#include "session/events/fields.h"

#include <cmocka.h>

static const char *const froms[] = {
	[FROM_ARG] = "arg", [FROM_RET] = "ret", [FROM_REG] = "reg", [FROM_VECTOR] = "xmm", [FROM_STACK] = "stack",
	[FROM_CONST] = "const", [FROM_PC] = "pc", [FROM_WALK] = "walk", [FROM_NAME] = "name",
};

/* name from:number[@] kind bits[xcount], separated by ';' */
static void describe(const field_list *list, char *out)
{
	static const char kinds[] = "supfzba";

	*out = '\0';
	for (size_t i = 0; i < list->n; i++) {
		const struct field *f = &list->v[i];
		long number = f->from == FROM_REG || f->from == FROM_VECTOR ? f->reg : (long)f->value;

		out += sprintf(out, "%s%s %s:%ld%s %c%u", i ? "; " : "", f->name, froms[f->from], number,
			       f->deref ? "@" : "", kinds[f->type.kind],
			       f->type.kind == CTF_BYTES ? f->type.size : f->limit ? f->limit : f->type.bits);
		if (f->type.count)
			out += sprintf(out, "x%u", f->type.count);
		if (f->symbol)
			out += sprintf(out, " =%s", f->symbol);
	}
}

struct row { const char *text, *expect; bool is_exit; };

static const struct row fields[] = {
	{ "arg0", "arg0 arg:0 u64", false },
	{ "arg1:int", "arg1 arg:1 s32", false },
	{ "size=arg0:size_t", "size arg:0 u64", false },
	{ "arg0:x64 arg2:u8", "arg0 arg:0 u64; arg2 arg:2 u8", false },
	{ "arg0:string", "arg0 arg:0@ z256", false },
	{ "arg0:string[16]", "arg0 arg:0@ z16", false },
	{ "arg0:string[0x10]", "arg0 arg:0@ z16", false },
	{ "arg0:string[020]", "arg0 arg:0@ z16", false },
	{ "arg1:bytes[12]", "arg1 arg:1@ b12", false },
	{ "arg1:int[4]", "arg1 arg:1@ s32x4", false },
	{ "arg0:double arg1:float", "arg0 xmm:0 f64; arg1 xmm:1 f32", false },
	{ "arg0:double[2]", "arg0 arg:0@ f64x2", false },
	{ "size n=count:u32 s:string", "size name:0 u64 =size; n name:0 u32 =count; s name:0@ z256 =s", false },
	{ "rax r15:ptr", "rax reg:0 u64; r15 reg:15 p64", false },
	{ "xmm3 rip", "xmm3 xmm:3 f64; rip pc:0 u64", false },
	{ "$stack backtrace", "stack reg:4@ b64; backtrace walk:0 a32", false },
	{ "retval:int", "retval ret:0 s32", true },
	{ "$retval:string", "retval ret:0@ z256", true },
	{ "r=retval:double", "r xmm:0 f64", true },
};

static const struct row contexts[] = {
	{ "reg:rbx", "rbx reg:3 u64", false },
	{ "int:x:0x10", "x const:16@ s32", false },
	{ "int:x:010", "x const:8@ s32", false },
	{ "long:x:counter", "x const:0@ s64 =counter", false },
	{ "u16:x:table+6", "x const:6@ u16 =table", false },
	{ "string:s:4096", "s const:4096@ z256", false },
	{ "double:d:0x20", "d const:32@ f64", false },
	{ "int[3]:v:0x20", "v const:32@ s32x3", false },
	{ "stack", "stack reg:4@ b64", false },
	{ "stack:128", "stack reg:4@ b128", false },
	{ "backtrace", "backtrace walk:0 a32", false },
	{ "backtrace:8", "backtrace walk:0 a8", false },
};

static void expect(const struct row *r, int (*parse)(const char *text, bool is_exit, field_list *list))
{
	field_list list = { 0 };
	char got[4096];

	if (parse(r->text, r->is_exit, &list))
		fail_msg("'%s': %s", r->text, err_text());
	describe(&list, got);
	if (strcmp(got, r->expect))
		fail_msg("'%s'\n  is    %s\n  wants %s", r->text, got, r->expect);
	fields_free(&list);
}

static int parse(const char *text, bool is_exit, field_list *list)
{
	return fields_parse(arch_host()->regs, text, is_exit, list);
}

static int parse_context(const char *text, bool is_exit, field_list *list)
{
	(void)is_exit;
	return fields_parse_context(arch_host()->regs, text, list);
}

static void reads_fields(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		expect(&fields[i], parse);
}

static void reads_contexts(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(contexts); i++)
		expect(&contexts[i], parse_context);
}

static void reads_all_registers(void **state)
{
	field_list list = { 0 };

	assert_int_equal(fields_parse_context(arch_host()->regs, "regs", &list), 0);
	assert_int_equal(list.n, 17);
	assert_string_equal(list.v[4].name, "rsp");
	assert_string_equal(list.v[16].name, "rip");
	fields_free(&list);
}

static const struct { const char *text, *says; bool is_exit, context; } wrong[] = {
	{ "arg-x", "'arg-x' is not known", false, false },
	{ "arg0:integer", "no type 'integer'", false, false },
	{ "arg0:int[0]", "no good number", false, false },
	{ "arg0:int[x]", "no good number", false, false },
	{ "arg0:int[2", "no good number", false, false },
	{ "arg0:bytes", "say how many", false, false },
	{ "arg0:bytes[5000]", "more than 2048", false, false },
	{ "arg0:string[5000]", "more than 4000", false, false },
	{ "arg0:long[1000]", "more than fits", false, false },
	{ "=arg0", "a name is missing", false, false },
	{ "retval", "at exits only", false, false },
	{ "arg0", "arguments are gone", true, false },
	{ "1x", "'1x' is not known", false, false },
	{ "regs:x", "no such context", false, true },
	{ "int:x", "no such context", false, true },
	{ "int::0x10", "a name is missing", false, true },
	{ "int:x:", "an address is missing", false, true },
	{ "int:x:0xzz", "no address", false, true },
	{ "int:x:sym+", "no address", false, true },
	{ "integer:x:1", "no type 'integer'", false, true },
	{ "reg:foo", "'foo' is not known", false, true },
	{ "backtrace:0", "no good number", false, true },
	{ "backtrace:1000", "no good number", false, true },
	{ "stack:100000", "no good number", false, true },
	{ "", "no such context", false, true },
};

static void refuses(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		field_list list = { 0 };
		int r = wrong[i].context ? fields_parse_context(arch_host()->regs, wrong[i].text, &list) :
					   fields_parse(arch_host()->regs, wrong[i].text, wrong[i].is_exit, &list);

		if (r != -EINVAL || !strstr(err_text(), wrong[i].says))
			fail_msg("'%s': %d, %s", wrong[i].text, r, err_text());
		fields_free(&list);
	}
}

static void knows_what_is_plain(void **state)
{
	field_list list = { 0 };

	assert_int_equal(fields_parse(arch_host()->regs, "arg0 arg0:string arg1:double arg0:int[2] backtrace", false, &list), 0);
	assert_true(field_is_plain(&list.v[0]));
	assert_false(field_is_plain(&list.v[1]));
	assert_true(field_is_plain(&list.v[2]));
	assert_false(field_is_plain(&list.v[3]));
	assert_false(field_is_plain(&list.v[4]));
	fields_free(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_fields),
		cmocka_unit_test(reads_contexts),
		cmocka_unit_test(reads_all_registers),
		cmocka_unit_test(refuses),
		cmocka_unit_test(knows_what_is_plain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
