/* SPDX-License-Identifier: MIT */
/*
 * Random expressions, computed twice: by the interpreter, and by C that the system's compiler made of
 * the same text. Probe lines follow C's rules as they are; in scripts int has 64 bits, so there the C
 * text casts every operand first.
 *
 *	fuzz_expr [-n EXPRESSIONS] [-s SEED] [-b BATCH] [-k]	-k: keep the C files
 *
 * Undefined behaviour is kept out of the C text: -fwrapv, shift counts with a mask, and divisions and
 * conversions through helpers that say what lang/ir.h says. -frounding-math keeps gcc 12 from making
 * 0.0 - n, n an integer 0, a negative zero.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lang/format.h"
#include "lang/interp.h"
#include "lang/lang.h"

#define ROUNDS 6		/* inputs an expression */
#define NARGS 6
#define MEM 64
#define MEM_ADDR 0x10000000ull

static uint64_t random_state = 1;

static uint64_t random_next(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint32_t below(uint32_t n)
{
	return random_next() % n;
}

/* ---- two texts of one expression ---- */

struct text { char *p; size_t n, cap; };

static void put(struct text *t, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (t->n + n + 1 > t->cap) {
		t->cap = 2 * t->cap + n + 64;
		t->p = xrealloc(t->p, t->cap);
	}
	t->n += vsnprintf(t->p + t->n, t->cap - t->n, fmt, ap);
}

struct gen {
	struct text ours, c;
	bool c_rules;
	int left;		/* nodes */
};

__attribute__((format(printf, 2, 3))) static void put_ours(struct gen *g, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(&g->ours, fmt, ap);
	va_end(ap);
}

__attribute__((format(printf, 2, 3))) static void put_c(struct gen *g, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(&g->c, fmt, ap);
	va_end(ap);
}

static void both(struct gen *g, const char *s)
{
	put_ours(g, "%s", s);
	put_c(g, "%s", s);
}

static const struct { const char *ours, *c; bool wide; } ints[] = {
	{ "int8", "int8_t", true }, { "uint8", "uint8_t", true }, { "int16", "int16_t", true }, { "uint16", "uint16_t", true },
	{ "int32", "int32_t", true }, { "uint32", "uint32_t", true }, { "int64", "int64_t", false }, { "uint64", "uint64_t", false },
	{ "bool", "_Bool", true }, { "long", "long", false }, { "unsigned char", "unsigned char", true },
};

static void gen_int(struct gen *g);
static void gen_float(struct gen *g);

/* In scripts what is narrower than 64 bits becomes int64 as soon as it is used. */
static void widen(struct gen *g, bool narrow)
{
	put_c(g, !g->c_rules && narrow ? "((int64_t)" : "(");
}

static void int_leaf(struct gen *g)
{
	static const uint64_t odd[] = {
		0, 1, 2, 3, 7, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
		0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff,
	};
	uint32_t t = below(ARRAY_SIZE(ints)), arg = below(NARGS), size;
	uint64_t v;

	switch (below(3)) {
	case 0:
		v = below(3) ? odd[below(ARRAY_SIZE(odd))] : random_next() >> below(64);
		put_ours(g, "%" PRIu64, v);
		widen(g, v <= INT64_MAX);
		put_c(g, "%" PRIu64 "%s)", v, v > INT64_MAX ? "ull" : v > INT32_MAX ? "ll" : "");
		return;
	case 1:
		put_ours(g, "(%s)arg%u", ints[t].ours, arg);
		widen(g, ints[t].wide);
		put_c(g, "(%s)a[%u])", ints[t].c, arg);
		return;
	}
	size = below(MEM - 8);
	put_ours(g, "*(%s *)(arg6 + %u)", ints[t].ours, size);
	widen(g, ints[t].wide);
	if (strcmp(ints[t].c, "_Bool") == 0)
		put_c(g, "(*(const uint8_t *)(m + %u) != 0))", size);
	else
		put_c(g, "*(const %s *)(m + %u))", ints[t].c, size);
}

static void divide(struct gen *g)
{
	bool mod = below(2);

	put_ours(g, "(");
	put_c(g, "%s(", mod ? "MOD" : "DIV");
	gen_int(g);
	put_ours(g, mod ? " %% " : " / ");
	put_c(g, ", ");
	gen_int(g);
	both(g, ")");
}

static void shift(struct gen *g)
{
	const char *op = below(2) ? "<<" : ">>";

	both(g, "(");
	gen_int(g);
	put_ours(g, " %s (", op);
	put_c(g, " %s (", op);
	gen_int(g);
	put_ours(g, " & 31))");
	put_c(g, " & 31))");
}

/* Truth is an int: in scripts a wide one. */
static void truth(struct gen *g, bool floats)
{
	static const char *const ops[] = { "<", ">", "<=", ">=", "==", "!=", "&&", "||" };
	const char *op = ops[below(8)];

	put_ours(g, "(");
	widen(g, true);
	put_c(g, "(");
	if (floats)
		gen_float(g);
	else
		gen_int(g);
	put_ours(g, " %s ", op);
	put_c(g, " %s ", op);
	if (floats && below(2))
		gen_float(g);
	else
		gen_int(g);
	both(g, ")");
	put_c(g, ")");
}

static void cast_int(struct gen *g)
{
	uint32_t t = below(ARRAY_SIZE(ints));

	put_ours(g, "(%s)(", ints[t].ours);
	widen(g, ints[t].wide);
	if (below(4) == 0 && strcmp(ints[t].c, "_Bool") != 0) {
		put_c(g, "(%s)%s(", ints[t].c, strcmp(ints[t].c, "uint64_t") == 0 ? "f2u" : "f2i");
		gen_float(g);
	} else {
		put_c(g, "(%s)(", ints[t].c);
		gen_int(g);
	}
	put_ours(g, ")");
	put_c(g, "))");
}

static void unary_int(struct gen *g)
{
	static const char *const ops[] = { "-", "~", "+", "!" };
	uint32_t op = below(4);

	put_ours(g, "(%s(", ops[op]);
	widen(g, op == 3);
	put_c(g, "%s(", ops[op]);
	gen_int(g);
	both(g, "))");
}

static void choose(struct gen *g, void (*part)(struct gen *))
{
	both(g, "(");
	gen_int(g);
	both(g, " ? ");
	part(g);
	both(g, " : ");
	part(g);
	both(g, ")");
}

static void gen_int(struct gen *g)
{
	static const char *const ops[] = { " + ", " - ", " * ", " & ", " | ", " ^ " };

	if (g->left-- <= 0) {
		int_leaf(g);
		return;
	}
	switch (below(12)) {
	case 0: int_leaf(g); break;
	case 1: divide(g); break;
	case 2: shift(g); break;
	case 3: truth(g, false); break;
	case 4: truth(g, true); break;
	case 5: cast_int(g); break;
	case 6: unary_int(g); break;
	case 7: choose(g, gen_int); break;
	default:
		both(g, "(");
		gen_int(g);
		both(g, ops[below(6)]);
		gen_int(g);
		both(g, ")");
	}
}

static void float_leaf(struct gen *g)
{
	static const char *const odd[] = { "0.0", "1.0", "0.5", "1e300", "1e-300", "3.25", "16777217.0", "1.0e19", "9.3e18", "0.1" };
	uint32_t off = below(MEM - 8);

	switch (below(4)) {
	case 0:
		both(g, odd[below(ARRAY_SIZE(odd))]);
		return;
	case 1:
		put_ours(g, "*(float *)(arg6 + %u)", off);
		put_c(g, "*(const float *)(m + %u)", off);
		return;
	case 2:
		put_ours(g, "*(double *)(arg6 + %u)", off);
		put_c(g, "*(const double *)(m + %u)", off);
		return;
	}
	off = below(2);
	put_ours(g, "(%s)(", off ? "float" : "double");
	put_c(g, "(%s)(", off ? "float" : "double");
	int_leaf(g);
	both(g, ")");
}

static void gen_float(struct gen *g)
{
	static const char *const ops[] = { " + ", " - ", " * ", " / " };

	if (g->left-- <= 0) {
		float_leaf(g);
		return;
	}
	switch (below(8)) {
	case 0:	float_leaf(g); break;
	case 1:	choose(g, gen_float); break;
	case 2:
		both(g, "(-");
		gen_float(g);
		both(g, ")");
		break;
	case 3:
		both(g, below(2) ? "(float)(" : "(double)(");
		if (below(2))
			gen_int(g);
		else
			gen_float(g);
		both(g, ")");
		break;
	default:
		both(g, "(");
		gen_float(g);
		both(g, ops[below(4)]);
		if (below(4))
			gen_float(g);
		else
			gen_int(g);
		both(g, ")");
	}
}

/* ---- one batch ---- */

struct expression { char *ours, *c; bool is_float, c_rules; };

struct batch {
	struct expression *e;
	uint32_t n;
	uint64_t args[ROUNDS][NARGS];
	uint8_t mem[ROUNDS][MEM];
	uint64_t *answers;
};

static uint64_t odd_number(void)
{
	static const uint64_t some[] = { 0, 1, 2, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, 1ull << 63, ~0ull, INT64_MAX };

	return below(2) ? some[below(ARRAY_SIZE(some))] : random_next() >> below(64);
}

static void make_batch(struct batch *b, uint32_t n)
{
	uint32_t i, k;

	b->n = n;
	b->e = xcalloc(n, sizeof(*b->e));
	for (i = 0; i < n; i++) {
		struct gen g = { .c_rules = below(2), .left = 1 + below(14) };

		b->e[i].c_rules = g.c_rules;
		b->e[i].is_float = below(4) == 0;
		if (b->e[i].is_float)
			gen_float(&g);
		else
			gen_int(&g);
		b->e[i].ours = g.ours.p;
		b->e[i].c = g.c.p;
	}
	for (i = 0; i < ROUNDS; i++) {
		for (k = 0; k < NARGS; k++)
			b->args[i][k] = odd_number();
		for (k = 0; k < MEM / 8; k++) {
			uint64_t v = odd_number();
			double d = (int64_t)odd_number() / 16.0;

			if (below(2))
				memcpy(&v, &d, 8);
			memcpy(b->mem[i] + 8 * k, &v, 8);
		}
	}
}

static const char prelude[] =
	"#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n"
	"static int64_t f2i(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; }\n"
	"static uint64_t f2u(double v) { return v >= 0x1p63 ? (uint64_t)f2i(v - 0x1p63) ^ 1ull << 63 : (uint64_t)f2i(v); }\n"
	"#define DIV(a, b) ({ __typeof__((a) + (b)) a_ = (a), b_ = (b); !b_ ? 0 : b_ == (__typeof__(b_))-1 && (__typeof__(b_))-1 < 1 ? "
	"(a_ == -a_ ? 0 : -a_) : a_ / b_; })\n"
	"#define MOD(a, b) ({ __typeof__((a) + (b)) a_ = (a), b_ = (b); !b_ || (b_ == (__typeof__(b_))-1 && (__typeof__(b_))-1 < 1) ? "
	"0 : a_ % b_; })\n"
	"static uint64_t bits(double v) { uint64_t u; memcpy(&u, &v, 8); return v != v ? 0x7ff8000000000000 : u; }\n";

static void write_c(const struct batch *b, FILE *f)
{
	uint32_t i, k;

	fputs(prelude, f);
	for (i = 0; i < b->n; i++)
		fprintf(f, "static uint64_t e%u(const uint64_t *a, const char *m) { (void)a; (void)m; return %s(%s); }\n", i,
			b->e[i].is_float ? "bits" : "(uint64_t)(int64_t)", b->e[i].c);
	fputs("static const uint64_t args[][6] = {\n", f);
	for (i = 0; i < ROUNDS; i++) {
		fputs("{ ", f);
		for (k = 0; k < NARGS; k++)
			fprintf(f, "%" PRIu64 "ull, ", b->args[i][k]);
		fputs("},\n", f);
	}
	fputs("};\nstatic const unsigned char mem[][64] = {\n", f);
	for (i = 0; i < ROUNDS; i++) {
		fputs("{ ", f);
		for (k = 0; k < MEM; k++)
			fprintf(f, "%d, ", b->mem[i][k]);
		fputs("},\n", f);
	}
	fputs("};\nint main(void)\n{\n\tuint64_t v;\n\tint r;\n\n\tfor (r = 0; r < 6; r++) {\n", f);
	for (i = 0; i < b->n; i++)
		fprintf(f, "\t\tv = e%u(args[r], (const char *)mem[r]); fwrite(&v, 8, 1, stdout);\n", i);
	fputs("\t}\n\treturn 0;\n}\n", f);
}

static int run(char *const *argv)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool compile_and_run(struct batch *b, const char *dir)
{
	char *src = xasprintf("%s/e.c", dir), *exe = xasprintf("%s/e", dir);
	char *argv[] = { "cc", "-O0", "-w", "-fwrapv", "-frounding-math", "-fno-strict-aliasing", "-o", exe, src, NULL };
	FILE *f = fopen(src, "w");
	bool good = f;

	if (f) {
		write_c(b, f);
		fclose(f);
		good = run(argv) == 0;
	}
	f = good ? popen(exe, "r") : NULL;
	b->answers = xcalloc((size_t)b->n * ROUNDS, 8);
	good = f && fread(b->answers, 8, (size_t)b->n * ROUNDS, f) == (size_t)b->n * ROUNDS;
	if (f)
		pclose(f);
	unlink(exe);
	free(src);
	free(exe);
	return good;
}

/* ---- our side ---- */

struct answer { const struct batch *b; uint32_t round; uint64_t value; const struct ir_unit *u; };

static bool read_mem(void *data, uint64_t addr, void *buf, size_t len)
{
	const struct answer *a = data;

	if (addr < MEM_ADDR || addr - MEM_ADDR + len > MEM)
		return false;
	memcpy(buf, a->b->mem[a->round] + (addr - MEM_ADDR), len);
	return true;
}

static void take_answer(void *data, uint32_t record, const uint8_t *payload, size_t len)
{
	struct answer *a = data;
	struct field_value v[64];

	if (format_fields(&a->u->records.v[record], payload, len, v) == 0 && !v[0].fault)
		a->value = v[0].n.u;
}

static uint64_t as_double_bits(uint64_t u)
{
	double d;

	memcpy(&d, &u, 8);
	return d != d ? 0x7ff8000000000000 : u;
}

static const struct lang_site *site_of(void *arg, uint32_t clause)
{
	return arg;
}

/* Compares one expression on all inputs; true if all agree. */
static bool check_one(const struct batch *b, uint32_t n)
{
	static const uint8_t regs[NARGS] = { 7, 6, 2, 1, 8, 9 };
	const struct expression *e = &b->e[n];
	char *text = e->c_rules ? xasprintf("exe:f x=(%s)", e->ours) : xasprintf("u:exe:f { record(x = %s) }", e->ours), *why;
	struct lang_site site = { .at = LANG_ENTRY };
	struct ir_prog *progs[2];
	struct script *script;
	struct lang *lang = NULL;
	struct answer a = { .b = b };
	bool good = true;
	uint32_t r, k;
	int err = e->c_rules ? line_parse(text, &script) : script_parse("fuzz", text, strlen(text), &script);

	if (err == 0)
		err = lang_new(script, &lang);
	if (err == 0)
		err = lang_infer(lang, site_of, &site);
	if (err == 0)
		err = lang_compile(lang, 0, &site, progs);
	if (err < 0) {
		why = diags_text(&script->diags);
		printf("not compiled: %s\n%s", text, why);
		free(why);
		good = false;
	}
	for (r = 0; r < ROUNDS && good; r++) {
		struct interp_site s = { 0 };
		struct interp in = { .unit = lang_unit(lang), .ops = &store_ops, .data = &a, .read = read_mem, .emit = take_answer };
		uint64_t want = b->answers[(size_t)r * b->n + n];

		for (k = 0; k < NARGS; k++)
			s.regs[regs[k]] = b->args[r][k];
		a.round = r;
		a.u = in.unit;
		a.value = 0xbadbadbad;
		interp_run(&in, progs[0], &s);
		if (e->is_float)
			a.value = as_double_bits(a.value);
		if (a.value != want) {
			printf("%s\n  C: %s\n  round %u: %#" PRIx64 ", C says %#" PRIx64 "\n", text, e->c, r, a.value, want);
			good = false;
		}
	}
	lang_free(lang);
	script_free(script);
	free(text);
	return good;
}

static void free_batch(struct batch *b)
{
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		free(b->e[i].ours);
		free(b->e[i].c);
	}
	free(b->e);
	free(b->answers);
}

/* "arg6" is an address here: written out as a number. */
static void fix_address(struct batch *b)
{
	char number[32], *at, *longer;
	uint32_t i;

	snprintf(number, sizeof(number), "0x%llx", MEM_ADDR);
	for (i = 0; i < b->n; i++)
		while ((at = strstr(b->e[i].ours, "arg6"))) {
			longer = xasprintf("%.*s%s%s", (int)(at - b->e[i].ours), b->e[i].ours, number, at + 4);
			free(b->e[i].ours);
			b->e[i].ours = longer;
		}
}

int main(int argc, char **argv)
{
	uint32_t count = 2000, size = 2000, done = 0, bad = 0, i;
	char dir[] = "/tmp/jab-expr-XXXXXX", *src;
	bool kept = false;
	int opt;

	while ((opt = getopt(argc, argv, "n:s:b:k")) != -1) {
		if (opt == 'n')
			count = strtoul(optarg, NULL, 0);
		else if (opt == 's')
			random_state = strtoull(optarg, NULL, 0);
		else if (opt == 'b')
			size = strtoul(optarg, NULL, 0);
		else if (opt == 'k')
			kept = true;
		else
			return 2;
	}
	if (!mkdtemp(dir))
		return 2;
	while (done < count && bad < 10) {
		struct batch b = { 0 };

		make_batch(&b, MIN(size, count - done));
		fix_address(&b);
		if (!compile_and_run(&b, dir)) {
			printf("the C side failed (%s)\n", dir);
			free_batch(&b);
			return 1;
		}
		for (i = 0; i < b.n && bad < 10; i++)
			bad += !check_one(&b, i);
		done += b.n;
		free_batch(&b);
	}
	src = xasprintf("%s/e.c", dir);
	if (!kept) {
		unlink(src);
		rmdir(dir);
	}
	free(src);
	printf("%u expressions, %u inputs each, %u bad\n", done, ROUNDS, bad);
	return bad != 0;
}
