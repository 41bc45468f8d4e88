/* SPDX-License-Identifier: MIT */
/* What is told of Go's code from its bytes: where it is, where g is, and which functions look at their stack first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "elfmake.h"
#include "sym/sym.h"

/* Among other data, as linkers other than Go's own leave it: what is in front of Go's code and behind it is somebody else's. */
static void code_and_g(void **state)
{
	static const uint8_t load[] = { 0x64, 0x4c, 0x8b, 0x34, 0x25, 0xe8, 0xff, 0xff, 0xff };	/* mov %fs:-24,%r14 */
	static const struct {
		uint64_t other[5];
		uint32_t magic, sizes;
		uint64_t nfuncs, nfiles, text, offs[5];
		uint32_t funcs[5];
	} data = {
		.other = { 0x08010000fffffff0, 1 },	/* a header, and nothing behind it */
		.magic = 0xfffffff0, .sizes = 0x08010000, .nfuncs = 2, .text = TEXT + 0x100, .offs[4] = 72,
		.funcs = { 0, 0, 0x80, 0, 0x200 },
	};
	static struct made e;
	struct module *m;

	made_start(&e);
	made_data(&e, ".go.buildinfo", SHT_PROGBITS, "", 1);
	made_data(&e, ".data.rel.ro", SHT_PROGBITS, &data, sizeof(data));
	for (int i = 0; i < 3; i++)
		memcpy(e.p + TEXT + 0x110 + 16 * i, load, sizeof(load));
	assert_int_equal(module_open_memory(e.p, made_finish(&e, ET_DYN), "made", &m), 0);
	assert_ptr_equal(m->runtime, &runtime_go);
	assert_true(module_is_go_code(m, TEXT + 0x100) && module_is_go_code(m, TEXT + 0x2ff));
	assert_false(module_is_go_code(m, TEXT + 0xff) || module_is_go_code(m, TEXT + 0x300));
	assert_int_equal(module_go_g(m), -24);
	module_close(m);
}

/* By hand: what Go 1.16 to 1.19 begin functions with, and what only looks like it. */
static const struct { const char *what; uint8_t code[32]; int behind; } entries[] = {
	{ "cmp 16(%r14),%rsp; jbe", { 0x49, 0x3b, 0x66, 0x10, 0x76, 0x38 }, 6 },
	{ "the same with a long branch", { 0x49, 0x3b, 0x66, 0x10, 0x0f, 0x86, 0, 1, 0, 0 }, 10 },
	{ "lea -8(%rsp),%r12; cmp 16(%r14),%r12; jbe", { 0x4c, 0x8d, 0x64, 0x24, 0xf8, 0x4d, 0x3b, 0x66, 0x10, 0x76, 0x20 }, 11 },
	{ "lea -416(%rsp),%r12; cmp; jbe", { 0x4c, 0x8d, 0xa4, 0x24, 0x60, 0xfe, 0xff, 0xff, 0x4d, 0x3b, 0x66, 0x10,
					     0x0f, 0x86, 0xfd, 1, 0, 0 }, 18 },
	{ "mov %rsp,%r12; sub $65536,%r12; jb; cmp; jbe", { 0x49, 0x89, 0xe4, 0x49, 0x81, 0xec, 0, 0, 1, 0, 0x72, 0x30,
							    0x4d, 0x3b, 0x66, 0x10, 0x76, 0x20 }, 18 },
	{ "cmp 24(%r14),%rsp; jbe", { 0x49, 0x3b, 0x66, 0x18, 0x76, 0x20 }, 6 },
	{ "mov %fs:-8,%rcx; cmp 16(%rcx),%rsp; jbe", { 0x64, 0x48, 0x8b, 0x0c, 0x25, 0xf8, 0xff, 0xff, 0xff,
						       0x48, 0x3b, 0x61, 0x10, 0x76, 0x20 }, 15 },
	{ "sub $24,%rsp", { 0x48, 0x83, 0xec, 0x18 }, 0 },
	{ "push %rbp; cmp 16(%r14),%rsp; jbe", { 0x55, 0x49, 0x3b, 0x66, 0x10, 0x76, 0x38 }, 0 },
	{ "cmp 16(%r14),%rsp; nop; jbe", { 0x49, 0x3b, 0x66, 0x10, 0x90, 0x76, 0x38 }, 0 },
	{ "cmp 16(%rsi),%rsp; jbe", { 0x48, 0x3b, 0x66, 0x10, 0x76, 0x38 }, 0 },
	{ "jbe; cmp 16(%r14),%rsp; jbe", { 0x76, 0x38, 0x49, 0x3b, 0x66, 0x10, 0x76, 0x38 }, 0 },
	{ "nothing that can be read", { 0x06 }, 0 },
};

static struct module *with_code(const uint8_t *code, size_t at, size_t n)
{
	static struct made e;
	struct module *m;

	made_start(&e);
	memcpy(e.p + at, code, n);
	assert_int_equal(module_open_memory(e.p, made_finish(&e, ET_DYN), "made", &m), 0);
	return m;
}

static void stack_checks(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		struct module *m = with_code(entries[i].code, TEXT + 64, sizeof(entries[i].code));

		print_message("  %s\n", entries[i].what);
		assert_int_equal(module_behind_go_check(m, TEXT + 64), TEXT + 64 + entries[i].behind);
		module_close(m);
	}
}

/* Cut off anywhere by the end of the file's bytes: it is no check, and nothing behind them is read. */
static void checks_at_the_end(void **state)
{
	for (size_t n = 1; n <= 18; n++) {
		struct module *m = with_code(entries[4].code, TEXT + 0x1000 - n, n);

		assert_int_equal(module_behind_go_check(m, TEXT + 0x1000 - n), TEXT + 0x1000 - n + (n == 18 ? 18 : 0));
		module_close(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_and_g), cmocka_unit_test(stack_checks), cmocka_unit_test(checks_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
