/* SPDX-License-Identifier: MIT */
/*
 * Names and types of a real program: this one. Probe lines and scripts are compiled for functions below
 * and run on values that C computed itself; memory is our own.
 */
#include "base/err.h"	/* before cmocka.h, which makes fail() a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lang/format.h"
#include "lang/interp.h"
#include "lang/lang.h"

enum colour { RED, GREEN = 7, BLUE = -2 };
enum amount { FEW = 1, MANY = 7 };

struct inner { short s; unsigned char u; };

struct thing {
	int number;
	const char *name;
	struct thing *next;
	struct inner in;
	int list[4];
	char text[8];
	enum colour colour;
	unsigned low : 3;
	int high : 5;
	double d;
	float f;
	union { long as_long; double as_double; };
	struct inner *ptr;
	_Bool yes;
	uint64_t big;
};

int global_number = 4711;
enum amount global_amount = MANY;
struct thing global_thing;

/* Their bodies don't matter: they are never called. */
__attribute__((noinline, used)) int first(struct thing *t, unsigned char c, long n, double d, const char *s);
__attribute__((noinline, used)) int first(struct thing *t, unsigned char c, long n, double d, const char *s)
{
	return t->number + c + n + (int)d + *s;
}

__attribute__((noinline, used)) double second(float f, int pid);
__attribute__((noinline, used)) double second(float f, int pid)
{
	return f + pid;
}

__attribute__((noinline, used)) _Bool third(_Bool yes);
__attribute__((noinline, used)) _Bool third(_Bool yes)
{
	return !yes;
}

/* ---- the world ---- */

static struct module *self;
static struct types *types;
static uint64_t bias;

static bool read_self(void *data, uint64_t addr, void *buf, size_t len)
{
	struct iovec to = { buf, len }, from = { (void *)addr, len };

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)len;
}

struct outcome { const struct ir_unit *u; FILE *f; };

static void emit(void *data, uint32_t record, const uint8_t *payload, size_t len)
{
	struct outcome *o = data;

	assert_int_equal(format_event(o->f, o->u, record, payload, len, NULL), 0);
}

static const struct lang_site *one_site(void *arg, uint32_t clause)
{
	return arg;
}

/* What a line (or a script, if it has a brace) prints for this moment. Caller frees. */
static char *run(const char *text, const struct lang_site *site, struct interp_site *moment)
{
	struct script *script;
	struct lang *lang = NULL;
	struct ir_prog *progs[2];
	struct outcome o = { 0 };
	struct store *store;
	char *out = NULL, *why;
	size_t size;
	int r = strchr(text, '{') ? script_parse("t", text, strlen(text), &script) : line_parse(text, NULL, &script);

	o.f = open_memstream(&out, &size);
	if (r == 0)
		r = lang_new(script, &lang);
	if (r == 0)
		r = lang_infer(lang, one_site, (void *)site);
	if (r == 0)
		r = lang_compile(lang, 0, site, progs);
	why = diags_text(&script->diags);
	fputs(why, o.f);
	free(why);
	if (r == 0) {
		struct interp in = { .unit = lang_unit(lang), .ops = &store_ops, .data = &o, .read = read_self, .emit = emit };

		o.u = in.unit;
		in.store = store = store_new(in.unit);
		if (interp_run(&in, progs[0], moment) == 1 && progs[1])
			interp_run(&in, progs[1], moment);
		if (in.errors[IR_ERR_FAULT])
			fprintf(o.f, "faults %d\n", (int)in.errors[IR_ERR_FAULT]);
		store_free(store);
	}
	fclose(o.f);
	lang_free(lang);
	script_free(script);
	return out;
}

static struct lang_site site_at(void *func, uint8_t at)
{
	uint64_t link = (uint64_t)(uintptr_t)func - bias;

	return (struct lang_site){ .at = at, .types = types, .pc = link, .entry = link, .bias = bias };
}

static void expect(const char *text, const struct lang_site *site, struct interp_site *moment, const char *want)
{
	char *got = run(text, site, moment);

	if (strcmp(got, want) != 0)
		print_error("%s\n", text);
	assert_string_equal(got, want);
	free(got);
}

static struct thing tail = { .number = 22, .name = "tail", .colour = BLUE };
static struct inner far = { -3, 250 };
static struct thing head = {
	.number = -5, .name = "head of the list", .next = &tail, .in = { -300, 200 }, .list = { 1, 20, 300, 4000 }, .text = "text",
	.colour = GREEN, .low = 5, .high = -7, .d = 2.5, .f = 0.5f, .as_long = 99, .ptr = &far, .yes = 1, .big = ~0ull,
};

static struct interp_site first_moment(void)
{
	struct interp_site m = { .regs = { [7] = (uintptr_t)&head, [6] = 0xfffff80 | 300, [2] = -9, [1] = (uintptr_t)"a string" } };
	double d = 6.25;

	memcpy(&m.vectors[0], &d, 8);
	return m;
}

static const struct { const char *line, *want; } lines[] = {
	{ "exe:first n", "n=-9\n" }, { "exe:first c", "c=172\n" }, { "exe:first d", "d=6.25\n" },
	{ "exe:first s:string", "s=a string\n" }, { "exe:first str(s,4)", "str(s,4)=a st\n" },
	{ "exe:first t->number x=t->next->number", "t->number=-5 x=22\n" }, { "exe:first t->name:string", "t->name=head of the list\n" },
	{ "exe:first t->next->name:string", "t->next->name=tail\n" }, { "exe:first t->next->next->number", "t->next->next->number=<fault>\n" },
	{ "exe:first t->in.s t->in.u", "t->in.s=-300 t->in.u=200\n" }, { "exe:first t->list[2] t->list[n+10]", "t->list[2]=300 t->list[n+10]=20\n" },
	{ "exe:first t->text:string", "t->text=text\n" }, { "exe:first t->colour t->next->colour", "t->colour=GREEN t->next->colour=BLUE\n" },
	/* numbers have C's types by the way they are written; narrow bit-fields become int */
	{ "exe:first x=(t->number==0xfffffffb)", "x=1\n" }, { "exe:first x=(t->number==4294967291)", "x=0\n" },
	{ "exe:first x=(t->number<1u) y=(t->number<1l)", "x=0 y=1\n" }, { "exe:first x=(-1<1ul) y=(0x7fffffff+1<0)", "x=0 y=1\n" },
	{ "exe:first x=(t->low-6<0) y=(0.1f==0.1)", "x=1 y=0\n" }, { "exe:first x=(FEW-2<0) y=(global_amount-8<0)", "x=1 y=0\n" },
	{ "exe:first t->low t->high", "t->low=5 t->high=-7\n" }, { "exe:first t->d t->f", "t->d=2.5 t->f=0.5\n" },
	{ "exe:first t->as_long", "t->as_long=99\n" }, { "exe:first t->ptr->s (*t->ptr).u", "t->ptr->s=-3 (*t->ptr).u=250\n" },
	{ "exe:first t->yes t->big", "t->yes=true t->big=18446744073709551615\n" },
	{ "exe:first t->in", "t->in.s=-300 t->in.u=200\n" }, { "exe:first t->list", "t->list[0]=1 t->list[1]=20 t->list[2]=300 t->list[3]=4000\n" },
	{ "exe:first sizeof(struct thing) sizeof(t->list)", NULL }, { "exe:first global_number", "global_number=4711\n" },
	{ "exe:first v=((struct inner *)t->ptr)->u", "v=250\n" }, { "exe:first x=(char)321", "x=65\n" },
	{ "exe:first n if n == -9 && t->number < 0", "n=-9\n" }, { "exe:first n if t->next->next->number == 0", "faults 1\n" },
	{ "exe:first n if t->colour == GREEN", "n=-9\n" }, { "exe:first n if t->text == \"text\"", "n=-9\n" },
	{ "exe:first n if s == \"a string\"", "n=-9\n" }, { "exe:first n if s == \"another\"", "" },
	{ "exe:first x=c*2 y=c-200", "x=344 y=-28\n" }, { "exe:first x=t->big+1", "x=0\n" }, { "exe:first x=t->in.u+t->in.s", "x=-100\n" },
	{ "exe:first x=t->d*2+n", "x=-4\n" }, { "exe:first x=t->f+1", "x=1.5\n" },
	{ "exe:first $params", NULL },
	{ "u:exe:first { printf(\"%s %d %s %s\\n\", t->name == 0 ? \"none\" : \"some\", args.n, str(args.t->name), t->text) }",
	  "some -9 head of the list text\n" },
	{ "u:exe:first { printf(\"%s %d\\n\", t->colour, t->colour); print(t->next->number + 1); $p = t; print($p->in.s) }", "GREEN 7\n23\n-300\n" },
	{ "u:exe:first { print((t->number, t->text)); print(*t->ptr); print(sizeof(t->in)); print(offsetof(struct thing, in.u)) }", NULL },
};

static void test_entry(void **state)
{
	struct lang_site site = site_at(first, LANG_ENTRY);
	char text[300];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lines); i++) {
		struct interp_site m = first_moment();

		if (lines[i].want)
			expect(lines[i].line, &site, &m, lines[i].want);
	}
	{
		struct interp_site m = first_moment();

		snprintf(text, sizeof(text), "sizeof(struct thing)=%zu sizeof(t->list)=16\n", sizeof(struct thing));
		expect("exe:first sizeof(struct thing) sizeof(t->list)", &site, &m, text);
		snprintf(text, sizeof(text), "t=%p c=172 n=-9 d=6.25 s=a string\n", (void *)&head);
		expect("exe:first $params", &site, &m, text);
		expect("exe:first", &site, &m, text);
		snprintf(text, sizeof(text), "{ .t = %p, .c = 172, .n = -9, .d = 6.25, .s = 0x%" PRIx64 " }\n", (void *)&head, m.regs[1]);
		expect("u:exe:first { print(args) }", &site, &m, text);
		snprintf(text, sizeof(text), "x=%p y=%p z=%p\n", (void *)&head.in.u, (void *)&head.list[2], (void *)&global_number);
		expect("exe:first x=&t->in.u y=&t->list[n+11] z=&global_number", &site, &m, text);
		expect("u:exe:first { print(*&t->next->number); print(&*t == t); print(&global_thing.list[1] - &global_thing.list[0]) }",
		       &site, &m, "22\ntrue\n1\n");
		snprintf(text, sizeof(text), "(-5, text)\n{ .s = -3, .u = 250 }\n4\n%zu\n", offsetof(struct thing, in.u));
		expect("u:exe:first { print((t->number, t->text)); print(*t->ptr); print(sizeof(t->in)); print(offsetof(struct thing, in.u)) }",
		       &site, &m, text);
	}
}

/* A parameter's own name wins in a probe line; in a script the builtin does. */
static void test_names(void **state)
{
	struct lang_site site = site_at(second, LANG_ENTRY);
	struct interp_site m = { .regs = { [7] = 77 }, .ctx = { [IR_CTX_PID] = 5 } };
	float f = 1.25f;

	memcpy(&m.vectors[0], &f, 4);
	expect("exe:second f pid", &site, &m, "f=1.25 pid=77\n");
	expect("u:exe:second { print(pid); print(args.pid); print(f * 2) }", &site, &m, "5\n77\n2.5\n");
	site.at = LANG_RETURN;
	m.vectors[0] = 0x4059000000000000;		/* 100.0 */
	expect("ur:exe:second { print(retval) }", &site, &m, "100\n");
	site = site_at(first, LANG_RETURN);
	m.regs[0] = 0xffffffff;			/* an int: the upper half means nothing */
	expect("ur:exe:first { print(retval); print(retval < 0) }", &site, &m, "-1\ntrue\n");
	expect("exe:first%return", &site, &m, "retval=-1\n");
	site = site_at(second, LANG_CALL);
	m.ctx[IR_CTX_DURATION] = 12;
	expect("call:exe:second", &site, &m, "f=0 pid=77 retval=100 duration=12\n");
}

/* Of a register with a bool in it only the lowest byte means something. */
static void test_bools(void **state)
{
	struct lang_site site = site_at(third, LANG_ENTRY);
	struct interp_site m = { .regs = { [7] = 0x7f00, [0] = 0x7f12345600 } };

	expect("exe:third yes x=yes+0", &site, &m, "yes=false x=0\n");
	site.at = LANG_RETURN;
	expect("exe:third%return x=retval y=(retval ? 3 : 4)", &site, &m, "x=false y=4\n");
	m.regs[0]++;
	expect("exe:third%return x=retval y=retval+1", &site, &m, "x=true y=2\n");
}

static void test_call(void **state)
{
	struct lang_site site = site_at(first, LANG_CALL);
	struct interp_site m = first_moment();

	m.ctx[IR_CTX_DURATION] = 1234;
	m.regs[0] = 8;
	expect("call:exe:first n r=retval t->number duration if n < 0", &site, &m, "n=-9 r=8 t->number=-5 duration=1234\n");
	expect("call:exe:first n if n > 0", &site, &m, "");
	expect("call:exe:first d t->in.u if retval == 8", &site, &m, "d=6.25 t->in.u=200\n");
}

static void test_refused(void **state)
{
	struct lang_site site = site_at(first, LANG_ENTRY);
	struct interp_site m = first_moment();
	static const struct { const char *line, *words; } rows[] = {
		{ "exe:first t->nmber", "number" }, { "exe:first nobody", "nobody" }, { "exe:first n->x", "has no members" },
		{ "exe:first (struct nothing *)t", "struct nothing" }, { "exe:first t->list[4]", "ends at index 3" },
		{ "exe:first &n", "not in memory" }, { "exe:first &t->low", "address of this" }, { "exe:first &$1", "can't be taken" },
		{ "u:exe:first { print(args.zz) }", "no parameter 'zz'" }, { "exe:first $regs:string", "many fields" },
	};
	char *got;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		got = run(rows[i].line, &site, &m);
		if (!strstr(got, "error") || !strstr(got, rows[i].words))
			print_error("%s\n%s\n", rows[i].line, got);
		assert_non_null(strstr(got, "ERROR"));
		assert_non_null(strstr(got, rows[i].words));
		free(got);
	}
}

/* 0: it became a program (and ran), 1: it was refused with a reason. A value that may be wrong is shown with a warning. */
static int try_name(const char *name, const struct lang_site *site, size_t *unsure)
{
	char *text = xasprintf("exe:f x=%s", name), *got, *last;
	struct interp_site m = { .regs = { [4] = (uintptr_t)&m, [5] = 16, [7] = (uintptr_t)&head } };
	bool warned, doubtful;
	struct var v;
	int refused;

	got = run(text, site, &m);
	refused = strstr(got, "ERROR: ") != NULL;
	warned = strstr(got, "may have changed how this static function is called");
	last = !refused && strstr(got, "WARNING: ") ? strrchr(got, '~') : NULL;
	last = last ? strchr(last, '\n') + 1 : got;
	assert_int_equal(types_copy_var(types, site->pc, name, &v), 0);
	doubtful = v.flags & (VAR_UNSURE | VAR_DISPUTED);
	if (strstr(got, "can't be compiled") || (!refused && *last != 'x') || (!refused && warned != doubtful))
		print_error("%s: %s\n", text, got);
	assert_null(strstr(got, "can't be compiled"));
	assert_true(refused || *last == 'x');	/* x, or x.member of a struct */
	assert_true(refused || warned == doubtful);
	*unsure += warned;
	free(text);
	free(got);
	return refused;
}

/* Every variable of many functions, and of copies that begin there, at several places: wherever it is, nothing breaks. */
static void test_everywhere(void **state)
{
	size_t i, k, step = self->funcs.n / 150 + 1, read = 0, refused = 0, unsure = 0;
	int part;

	for (i = 0; i < self->funcs.n; i += step)
		for (part = 0; part < 3; part++) {
			const struct func *f = &self->funcs.v[i];
			struct lang_site site = { .at = part ? LANG_INSIDE : LANG_ENTRY, .types = types, .entry = f->addr,
						  .pc = f->addr + f->size * part / 3, .bias = bias, .is_copy = true };
			var_list vars = { 0 };

			types_vars_at(types, site.pc, &vars);
			for (k = 0; k < vars.n; k++) {
				int no = vars.v[k].name ? try_name(vars.v[k].name, &site, &unsure) : 1;

				refused += no;
				read += !no;
			}
			vec_free(&vars);
		}
	assert_true(read > 100);
	print_message("%zu read, %zu refused, %zu unsure\n", read, refused, unsure);
}

static int setup(void **state)
{
	struct link_map *map = _r_debug.r_map;

	bias = map->l_addr;
	assert_int_equal(module_open("", "/proc/self/exe", &self), 0);
	assert_int_equal(module_types(self, &types), 0);
	return 0;
}

static int teardown(void **state)
{
	module_close(self);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entry), cmocka_unit_test(test_names), cmocka_unit_test(test_bools), cmocka_unit_test(test_call), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_everywhere),
	};

	return cmocka_run_group_tests_name("lang_types", tests, setup, teardown);
}
