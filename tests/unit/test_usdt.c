/* SPDX-License-Identifier: MIT */
/* Notes of static tracepoints: what is read of them, and what is refused; operands of both CPUs. */
#include "base/err.h"	/* before cmocka.h, which makes fail() a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/arch.h"
#include "notes.h"
#include "sym/usdt/usdt.h"

extern const struct arch arch_x86_64, arch_aarch64;

static struct module *open_notes(const struct made_notes *x, uint64_t base)
{
	static struct made e;
	struct module *m;
	size_t n = notes_file(&e, x, base);

	assert_int_equal(module_open_memory(e.p, n, "made", &m), 0);
	return m;
}

static void test_notes(void **state)
{
	struct made_notes x = { 0 };
	struct usdt *u;
	struct module *m;

	notes_add(&x, TEXT + 8, 0, 0, "app", "two", "8@%rax -4@%ebx", -1);
	notes_add(&x, TEXT + 4, 0, 0, "app", "two", "", -1);
	notes_add(&x, TEXT, 0, 0, "app", "one", "4@$7", -1);
	notes_add(&x, TEXT, 0, 0, "app", "one", "4@$7", -1);
	m = open_notes(&x, 0);
	assert_int_equal(module_usdts(m, &u), 3);
	assert_string_equal(u[0].shown, "app:one");
	assert_int_equal(u[0].pc, TEXT);
	assert_int_equal(u[1].pc, TEXT + 4);
	assert_int_equal(u[2].pc, TEXT + 8);
	assert_true(usdt_same_name(&u[1], &u[2]) && !usdt_same_name(&u[0], &u[1]));
	for (size_t i = 0; i < 3; i++) {
		assert_null(u[i].why);
		usdt_read_args(m, &u[i]);
	}
	assert_int_equal(u[0].nargs, 1);
	assert_int_equal(u[1].nargs, 0);
	assert_int_equal(u[2].nargs, 2);
	assert_null(module_usdt_damage(m));
	module_close(m);
}

/* prelink has moved the file, and with it .stapsdt.base, but not the addresses in notes. */
static void test_moved(void **state)
{
	struct made_notes x = { 0 };
	struct usdt *u;
	struct module *m;

	notes_add(&x, TEXT + 8 - 0x100, FRAMES - 0x100, 0, "app", "moved", "", -1);
	notes_add(&x, TEXT + 8, 0, 0, "app", "without", "", -1);
	m = open_notes(&x, FRAMES);
	assert_int_equal(module_usdts(m, &u), 2);
	assert_int_equal(u[0].pc, TEXT + 8);
	assert_int_equal(u[1].pc, TEXT + 8);
	module_close(m);
}

static void test_bad_places(void **state)
{
	struct made_notes x = { 0 };
	struct usdt *u;
	struct module *m;

	notes_add(&x, 0x99999999, 0, 0, "app", "a_outside", "", -1);
	notes_add(&x, FRAMES, 0, 0, "app", "b_data", "", -1);
	notes_add(&x, TEXT, 0, FRAMES, "app", "c_read_only", "", -1);
	notes_add(&x, TEXT, 0, 0x77777777, "app", "d_unmapped", "", -1);
	notes_add(&x, TEXT, 0, 0, "app", "", "", -1);
	m = open_notes(&x, 0);
	assert_int_equal(module_usdts(m, &u), 5);
	assert_non_null(strstr(u[0].why, "no name"));
	assert_non_null(strstr(u[1].why, "outside of the code"));
	assert_non_null(strstr(u[2].why, "outside of the code"));
	assert_non_null(strstr(u[3].why, "semaphore"));
	assert_non_null(strstr(u[4].why, "semaphore"));
	module_close(m);
}

static const char *damage(const struct made_notes *x, size_t good)
{
	static char text[300];
	struct usdt *u;
	struct module *m = open_notes(x, 0);
	size_t n = module_usdts(m, &u);

	snprintf(text, sizeof(text), "%s", module_usdt_damage(m) ? module_usdt_damage(m) : "");
	module_close(m);
	assert_int_equal(n, good);
	return text;
}

static void test_damaged(void **state)
{
	struct made_notes x = { 0 };

	notes_add(&x, TEXT, 0, 0, "app", "good", "", -1);
	notes_add(&x, TEXT, 0, 0, "a", "b", "", 26);
	assert_non_null(strstr(damage(&x, 1), "made: note 2 of its static tracepoints is damaged: it is too short"));
	x.n = 0;
	notes_add(&x, TEXT, 0, 0, "app", "name", "8@%rax", 24 + 12);
	assert_non_null(strstr(damage(&x, 0), "have no end"));
	x.n = 0;
	notes_add(&x, TEXT, 0, 0, "app", "name", "", 4000);
	assert_non_null(strstr(damage(&x, 0), "longer than its section"));
	x.n = 0;
	notes_add(&x, TEXT, 0, 0, "app", "name", "", -1);
	x.p[8] = 9;
	assert_non_null(strstr(damage(&x, 0), "type is not known"));
}

static void print_operand(const struct text_operand *o, char *out, size_t room)
{
	size_t n = snprintf(out, room, "%c", "rvcm"[o->kind]);

	if (o->kind == OPERAND_REG || o->kind == OPERAND_VECTOR)
		n += snprintf(out + n, room - n, " %u", o->reg);
	if (o->shift)
		n += snprintf(out + n, room - n, ">>%u", o->shift);
	if (o->base != OPERAND_NONE)
		n += snprintf(out + n, room - n, " b%u", o->base);
	if (o->index != OPERAND_NONE)
		n += snprintf(out + n, room - n, " i%u*%u", o->index, o->scale);
	if (o->value || o->kind == OPERAND_CONST)
		n += snprintf(out + n, room - n, " %+lld", (long long)o->value);
	if (o->symbol)
		n += snprintf(out + n, room - n, " %.*s", (int)o->symbol_len, o->symbol);
	if (o->of_thread)
		snprintf(out + n, room - n, " tls");
}

/* "!": refused. */
static const struct { const char *text, *expect; } x86_rows[] = {
	{ "%rax", "r 0" }, { "%eax", "r 0" }, { "%ax", "r 0" }, { "%al", "r 0" }, { "%ah", "r 0>>8" },
	{ "%rbx", "r 3" }, { "%bh", "r 3>>8" }, { "%spl", "r 4" }, { "%bpl", "r 5" }, { "%sil", "r 6" }, { "%esi", "r 6" },
	{ "%r8", "r 8" }, { "%r8d", "r 8" }, { "%r15w", "r 15" }, { "%r10b", "r 10" }, { "%rsp", "r 4" },
	{ "%xmm0", "v 0" }, { "%xmm15", "v 15" }, { "%ymm3", "v 3" },
	{ "$5", "c +5" }, { "$-5", "c -5" }, { "$0x10", "c +16" }, { "$010", "c +8" }, { "$-0x8000000000000000", "c -9223372036854775808" },
	{ "$18446744073709551615", "c -1" }, { "$counter+8", "c +8 counter" },
	{ "(%rax)", "m b0" }, { "-8(%rbp)", "m b5 -8" }, { "0x10(%rsp)", "m b4 +16" }, { "(%rbp,%rcx)", "m b5 i1*1" },
	{ "4(%rax,%r9,8)", "m b0 i9*8 +4" }, { "(,%rdx,2)", "m i2*2" }, { "counter(%rip)", "m counter" },
	{ "counter+8(%rip)", "m +8 counter" }, { "counter+8-4(%rip)", "m +4 counter" }, { "-4+counter(%rip)", "m -4 counter" },
	{ "8+counter(%rip)", "m +8 counter" }, { "counter(,%rax,8)", "m i0*8 counter" }, { "counter.0(%rip)", "m counter.0" },
	{ "1234", "m +1234" }, { "counter", "m counter" }, { "%fs:-4", "m -4 tls" }, { "%fs:own@tpoff", "m own tls" },
	{ "%fs:own@tpoff+4", "m +4 own tls" },
	{ "", "!" }, { "%", "!" }, { "$", "!" }, { "%st", "!" }, { "%rip", "!" }, { "%r16", "!" }, { "%r8x", "!" }, { "%eaxx", "!" },
	{ "%xmm16", "!" }, { "%xmm", "!" }, { "%xmm-1", "!" }, { "(%eax)", "!" }, { "8(%rip)", "!" }, { "(%rax", "!" }, { "(%rax))", "!" },
	{ "()", "!" }, { "(%rax,%rcx,3)", "!" }, { "(%rax,%rcx,)", "!" }, { "a+b(%rip)", "!" }, { "-a(%rip)", "!" }, { "a@PLT", "!" },
	{ "a@GOTPCREL(%rip)", "!" }, { "%gs:4", "!" }, { "%fs:(%rax)", "!" }, { "%fs:own", "!" }, { "own@tpoff(%rax)", "!" }, { "$own@tpoff", "!" },
	{ "$99999999999999999999", "!" }, { "4 (%rax)", "!" }, { "%rax ", "!" }, { "$5x", "!" }, { "$5+", "!" }, { "*(%rax)", "!" }, { "1+-", "!" },
};

static const struct { const char *text, *expect; } a64_rows[] = {
	{ "x0", "r 0" }, { "w30", "r 30" }, { "sp", "r 31" }, { "wsp", "r 31" }, { "xzr", "c +0" }, { "wzr", "c +0" }, { "d3", "v 3" }, { "s31", "v 31" },
	{ "v9", "v 9" }, { "5", "c +5" }, { "#-5", "c -5" }, { "0x10", "c +16" },
	{ "[x0]", "m b0" }, { "[sp, 12]", "m b31 +12" }, { "[sp,#-12]", "m b31 -12" }, { "[x1, x2]", "m b1 i2*1" }, { "[x1, x2, lsl 3]", "m b1 i2*8" },
	{ "[x1,x2,lsl #1]", "m b1 i2*2" },
	{ "", "!" }, { "x31", "!" }, { "w32", "!" }, { "x", "!" }, { "x1x", "!" }, { "v32", "!" }, { "[w0]", "!" }, { "[x0", "!" }, { "[x0, 5", "!" },
	{ "[x0],8", "!" }, { "[x0, w1, sxtw 2]", "!" }, { "[x0, x1, lsl 9]", "!" }, { "[]", "!" }, { "#", "!" }, { "[x0, :lo12:a]", "!" },
};

static void check(const struct arch *arch, const char *text, const char *expect)
{
	struct text_operand o;
	const char *why = arch->operand(text, strlen(text), &o);
	char out[200] = "!";

	if (!why)
		print_operand(&o, out, sizeof(out));
	if (strcmp(out, expect))
		print_error("%s '%s': %s %s\n", arch->name, text, out, why ? why : "");
	assert_string_equal(out, expect);
}

static void test_operands(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(x86_rows); i++)
		check(&arch_x86_64, x86_rows[i].text, x86_rows[i].expect);
	for (size_t i = 0; i < ARRAY_SIZE(a64_rows); i++)
		check(&arch_aarch64, a64_rows[i].text, a64_rows[i].expect);
}

static const struct { const char *args, *types, *whys; } arg_rows[] = {
	{ "8@%rax -8@%rax 4@%eax -4@%eax 2@%ax -2@%ax 1@%al -1@%al", "u64 s64 u32 s32 u16 s16 u8 s8", "........" },
	{ "8f@%xmm0 4f@%xmm1 -8f@(%rax) 8@%xmm2 4@%xmm2", "double float double double float", "....." },
	{ "%rax counter(%rip)", "s64 s64", ".." },
	{ "  8@%rax   4@$1  ", "u64 u32", ".." },
	{ "3@%rax 16f@(%rsp) 2f@%xmm0 1@%xmm0 0@$1 @%rax 4@ -9223372036854775808@%rax", "u64 double ? u8 u64 s64 u32 s64",
		  "!!!!!!!!" },
	{ "4@counter+4(%rip) 4@other(%rip) 8@$f 8@counter(,%rax,8)", "u32 u32 u64 u64", ".!.." },
};

static void test_args(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(arg_rows); i++) {
		struct made_notes x = { 0 };
		char types[200] = "", whys[40] = "";
		struct module *m;
		struct usdt *u;

		notes_add(&x, TEXT, 0, 0, "app", "x", arg_rows[i].args, -1);
		m = open_notes(&x, 0);
		assert_int_equal(module_usdts(m, &u), 1);
		usdt_read_args(m, u);
		for (uint32_t k = 0; k < u->nargs; k++) {
			sprintf(types + strlen(types), "%s%s", k ? " " : "", usdt_type_name(&u->arg[k]));
			whys[k] = u->arg[k].why ? '!' : '.';
		}
		module_close(m);
		assert_string_equal(whys, arg_rows[i].whys);
		assert_string_equal(types, arg_rows[i].types);
	}
}

/* More than one event could ever hold. */
static void test_many_args(void **state)
{
	struct made_notes x = { 0 };
	char args[33 * 5 + 1] = "";
	struct module *m;
	struct usdt *u;

	for (int i = 0; i < 33; i++)
		strcat(args, "4@$1 ");
	notes_add(&x, TEXT, 0, 0, "app", "x", args, -1);
	m = open_notes(&x, 0);
	module_usdts(m, &u);
	usdt_read_args(m, u);
	assert_int_equal(u->nargs, USDT_ARGS_MAX);
	assert_non_null(strstr(u->why, "more arguments"));
	module_close(m);
}

static bool may_be_in(const void *p, size_t n)
{
	int fd = memfd_create("peek", MFD_CLOEXEC);
	bool may;

	assert_int_equal(write(fd, p, n), n);
	may = usdt_may_be_in(fd);
	close(fd);
	return may;
}

/* Only a file that certainly has none is left out. */
static void test_peek(void **state)
{
	static struct made e;
	struct made_notes x = { 0 };
	size_t n;

	notes_add(&x, TEXT, 0, 0, "app", "one", "", -1);
	n = notes_file(&e, &x, 0);
	assert_true(may_be_in(e.p, n));
	assert_true(may_be_in(e.p, n - 100));		/* headers of sections are cut off */
	assert_true(may_be_in("nothing", 7));
	made_start(&e);
	made_data(&e, ".note.other", SHT_NOTE, x.p, x.n);
	n = made_finish(&e, ET_DYN);
	assert_false(may_be_in(e.p, n));
	((Elf64_Ehdr *)e.p)->e_shstrndx = 999;
	assert_true(may_be_in(e.p, n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_notes), cmocka_unit_test(test_moved), cmocka_unit_test(test_bad_places), cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_operands), cmocka_unit_test(test_args), cmocka_unit_test(test_many_args), cmocka_unit_test(test_peek),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
