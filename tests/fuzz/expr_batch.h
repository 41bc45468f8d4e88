/* SPDX-License-Identifier: MIT */
/* Whole programs from random expressions, and their C texts as one library, made by the system's compiler. */
#ifndef JAB_FUZZ_EXPR_BATCH_H
#define JAB_FUZZ_EXPR_BATCH_H

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expr_make.h"
#include "expr_world.h"

typedef int c_fn(EXPR_PARAMS, uint64_t *out);	/* 0: the condition does not hold */

struct program {
	char *ours, *c;
	bool c_rules, wild;
	uint32_t n;		/* results */
	bool is_float[EXPR_MOST];
	c_fn *run;
};

struct batch {
	struct program *v;
	uint32_t n;
	void *lib;
	uint64_t *divisions;	/* the C side counts those that have no answer */
};

/* ---- statements: variables, branches, loops; only in scripts ---- */

/* Division and shifts, which C has by helpers. */
static inline void assign_helper(struct gen *g, uint32_t n)
{
	static const struct { const char *ours, *c; } ops[] = { { "/=", "SDIV" }, { "%=", "SMOD" }, { "<<=", "SHL" }, { ">>=", "SHR" } };
	uint32_t op = below(4);

	put_ours(g, "$v%u %s ", n, ops[op].ours);
	put_c(g, "v%u = %s(v%u, ", n, ops[op].c, n);
	gen_int(g);
	put_ours(g, "; ");
	put_c(g, "); ");
}

static inline void assign(struct gen *g, uint32_t n)
{
	static const char *const ops[] = { " = ", " = ", " += ", " -= ", " *= ", " &= ", " |= ", " ^= " };

	if (!g->float_var[n] && below(4) == 0) {
		assign_helper(g, n);
		return;
	}
	put_ours(g, "$v%u", n);
	put_c(g, "v%u", n);
	if (!g->float_var[n] && below(6) == 0) {
		both(g, below(2) ? "++" : "--");
	} else {
		both(g, ops[below(g->float_var[n] ? 5 : 8)]);
		both(g, g->float_var[n] ? "(" : "(0 + ");	/* a boolean is no number */
		if (g->float_var[n])
			gen_float(g);
		else
			gen_int(g);
		both(g, ")");
	}
	both(g, "; ");
}

static inline void some_statements(struct gen *g, int depth);

static inline void branch(struct gen *g, int depth)
{
	both(g, "if (");
	condition(g);
	both(g, ") { ");
	g->npieces = 0;
	some_statements(g, depth + 1);
	if (below(2)) {
		both(g, "} else { ");
		some_statements(g, depth + 1);
	}
	both(g, "} ");
}

static inline void loop(struct gen *g, int depth)
{
	uint32_t rounds = 1 + below(3);

	put_ours(g, "$i%d = 0; while ($i%d < %u) { $i%d++; ", depth, depth, rounds, depth);
	put_c(g, "{ int64_t i%d = 0; while (i%d < %u) { i%d++; ", depth, depth, rounds, depth);
	g->npieces = 0;
	some_statements(g, depth + 1);
	if (below(3) == 0) {
		both(g, "if (");
		condition(g);
		both(g, below(2) ? ") { break; } " : ") { continue; } ");
		some_statements(g, depth + 1);
	}
	both(g, "} ");
	put_c(g, "} ");
}

static inline void some_statements(struct gen *g, int depth)
{
	for (int n = 1 + below(2); n; n--) {
		g->left = below(6);
		if (depth < 2 && below(4) == 0)
			branch(g, depth);
		else if (depth < 2 && below(6) == 0)
			loop(g, depth);
		else
			assign(g, below(g->nvars));
	}
}

static inline void variables(struct gen *g)
{
	uint32_t n = 1 + below(EXPR_VARS);

	for (uint32_t i = 0; i < n; i++) {
		g->float_var[i] = below(4) == 0;
		/* with a sign from the beginning: one that is given later would hold for all of the program */
		put_ours(g, g->float_var[i] ? "$v%u = (" : "$v%u = (int64)(0 + ", i);
		put_c(g, g->float_var[i] ? "double v%u = (" : "int64_t v%u = (0 + ", i);
		g->left = below(6);
		if (g->float_var[i])
			gen_float(g);
		else
			gen_int(g);
		both(g, "); ");
		g->nvars = i + 1;
	}
	some_statements(g, 0);
}

/* ---- programs ---- */

static inline void results(struct gen *g, struct program *p)
{
	static const char *const between[] = { " ", ", " };

	p->n = 1 + below(EXPR_MOST);
	for (uint32_t i = 0; i < p->n; i++) {
		p->is_float[i] = below(4) == 0;
		put_ours(g, g->c_rules ? "%sx%u=(" : "%sx%u = (", i ? between[!g->c_rules] : "", i);
		put_c(g, "out[%u] = %s(", i, p->is_float[i] ? "bits" : "(uint64_t)(int64_t)");
		g->left = 1 + below(12);
		if (p->is_float[i])
			gen_float(g);
		else
			gen_int(g);
		both(g, ")");
		put_c(g, "; ");
	}
}

static inline void make_line(struct gen *g, struct program *p)
{
	struct text c;

	put_ours(g, "exe:world ");
	results(g, p);
	if (below(3))
		return;
	c = g->c;		/* C asks first */
	g->c = (struct text){ 0 };
	g->npieces = 0;
	put_ours(g, " if ");
	put_c(g, "if (!(");
	g->left = 1 + below(8);
	condition(g);
	put_c(g, ")) return 0; ");
	text_put(&g->c, c.p, c.n);
	free(c.p);
}

static inline void make_script(struct gen *g, struct program *p)
{
	put_ours(g, "u:exe:world ");
	if (below(3) == 0) {
		put_ours(g, "/ (");
		put_c(g, "if (!(");
		g->left = 1 + below(8);
		condition(g);
		put_ours(g, ") / ");
		put_c(g, ")) return 0; ");
	}
	put_ours(g, "{ ");
	if (below(3) == 0)
		variables(g);
	put_ours(g, "record(");
	results(g, p);
	put_ours(g, ") }");
}

static inline void make_program(struct program *p)
{
	struct gen g = { .c_rules = below(2), .wild = below(16) == 0 };

	p->c_rules = g.c_rules;
	p->wild = g.wild;
	if (g.c_rules)
		make_line(&g, p);
	else
		make_script(&g, p);
	p->ours = g.ours.p;
	p->c = g.c.p;
}

/* ---- the library ---- */

static const char c_helpers[] =
	"uint64_t divisions;\n"
	"static int64_t f2i(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; }\n"
	"static uint64_t f2u(double v) { return v >= 0x1p63 ? (uint64_t)f2i(v - 0x1p63) ^ 1ull << 63 : (uint64_t)f2i(v); }\n"
	"static uint64_t bits(double v) { uint64_t u; __builtin_memcpy(&u, &v, 8); return v != v ? 0x7ff8000000000000 : u; }\n"
	"#define PAIR(a, b) __auto_type a_ = (a) + 0; __auto_type b_ = (b) + 0\n"
	"#define DIVIDE(a, op, b, none) ({ PAIR(a, b); __typeof__(a_ + b_) l_ = a_, r_ = b_; __typeof__(l_) m_ = -1; \\\n"
	"	!r_ || (m_ < 1 && r_ == m_ && l_ && l_ == -l_) ? (divisions++, (__typeof__(l_))(r_ ? 0 : none)) : l_ op r_; })\n"
	"#define DIV(a, b) DIVIDE(a, /, b, 0)\n"
	"#define MOD(a, b) DIVIDE(a, %, b, 0)\n"
	"#define SDIV(a, b) DIVIDE(a, /, b, 1)\n"
	"#define SMOD(a, b) DIVIDE(a, %, b, 1)\n"
	"#define SHL(a, b) ({ PAIR(a, b); a_ << (b_ & (8 * sizeof(a_) - 1)); })\n"
	"#define SHR(a, b) ({ PAIR(a, b); a_ >> (b_ & (8 * sizeof(a_) - 1)); })\n";

static inline void write_c(const struct batch *b, FILE *f)
{
	fprintf(f, "#include \"%s\"\n%s", EXPR_WORLD, c_helpers);
	for (uint32_t i = 0; i < b->n; i++)
		if (!b->v[i].wild)
			fprintf(f, "static int g%u(EXPR_PARAMS, uint64_t *out) { %sreturn 1; }\n", i, b->v[i].c);
	fputs("int (*const table[])(EXPR_PARAMS, uint64_t *out) = {\n", f);
	for (uint32_t i = 0; i < b->n; i++)
		fprintf(f, b->v[i].wild ? "0,\n" : "g%u,\n", i);
	fputs("};\n", f);
}

static inline int run_command(char *const *argv)
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

/* -frounding-math keeps gcc 12 from making 0.0 - n, n an integer 0, a negative zero. */
static inline bool compile_c(const char *src, const char *lib, bool optimized)
{
	char *argv[] = { "cc", optimized ? "-O1" : "-O0", "-w", "-std=gnu11", "-shared", "-fPIC", "-fwrapv", "-frounding-math",
			 "-fno-strict-aliasing", "-o", (char *)lib, (char *)src, NULL };

	return run_command(argv) == 0;
}

static inline bool load_batch(struct batch *b, const char *dir, bool optimized)
{
	char *src = xasprintf("%s/e.c", dir), *lib = xasprintf("%s/e.so", dir);
	FILE *f = fopen(src, "w");
	c_fn *const *table;

	if (f) {
		write_c(b, f);
		if (fclose(f) == 0 && compile_c(src, lib, optimized))
			b->lib = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
	}
	table = b->lib ? dlsym(b->lib, "table") : NULL;
	for (uint32_t i = 0; table && i < b->n; i++)
		b->v[i].run = table[i];
	b->divisions = b->lib ? dlsym(b->lib, "divisions") : NULL;
	unlink(lib);
	free(src);
	free(lib);
	return table;
}

static inline void free_batch(struct batch *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		free(b->v[i].ours);
		free(b->v[i].c);
	}
	free(b->v);
	if (b->lib)
		dlclose(b->lib);
}

#endif
