/* SPDX-License-Identifier: MIT */
/*
 * Asks the debug info of a file and prints the answers, for test_types.py, which compares them with
 * what the program itself and gdb say.
 *
 *	typeask FILE [-t] QUESTION ARG ...	-t: also how long each took
 *
 *	type NAME  func SYMBOL  vars ADDR|SYMBOL  var ADDR|SYMBOL:NAME  global NAME  enum NAME
 *	inlined NAME  line FILE:N  at ADDR|SYMBOL  frames ADDR|SYMBOL  string TYPE  all MAX
 */
#include "base/err.h"
#include "sym/types/types.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static struct module *m;
static struct types *t;
static const char *const regs[] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11",
				    "r12", "r13", "r14", "r15" };

/* As written, or without the parameters that C++ and Rust names have */
static bool is_named(const char *full, const char *name)
{
	size_t n = strlen(name);

	return strncmp(full, name, n) == 0 && (!full[n] || full[n] == '(');
}

static uint64_t address(const char *s)
{
	char name[4096];
	const char *plus = strrchr(s, '+');
	size_t i, k;

	if (strncmp(s, "0x", 2) == 0)
		return strtoull(s, NULL, 16);
	snprintf(name, sizeof(name), "%.*s", plus ? (int)(plus - s) : (int)strlen(s), s);
	for (i = 0; i < m->funcs.n; i++)
		for (k = 0; k < m->funcs.v[i].nalias; k++)
			if (strcmp(m->names.v[m->funcs.v[i].alias + k].name, name) == 0 ||
			    is_named(func_name(m, &m->funcs.v[i]), name))
				return m->funcs.v[i].addr + (plus ? strtoull(plus, NULL, 0) : 0);
	printf("no function %s\n", name);
	exit(1);
}

static void show_node(const struct loc *l, uint16_t n)
{
	static const char *const ops[] = { "const", "reg", "addr", "tls", "load", "+", "-", "*", "&", "|", "^", "<<", ">>",
					   ">>>", "/", "%", "u/", "==", "!=", "<", "<=", ">", ">=", "u<", "u<=", "neg", "not", "sext", "zext", "if", "known" };
	const struct loc_node *x = &l->nodes[n];

	switch (x->op) {
	case LOP_CONST: printf("%lld", (long long)x->imm); break;
	case LOP_REG: printf("%s", regs[x->a & 15]); break;
	case LOP_ADDR: case LOP_TLS: printf("%s:%#llx", ops[x->op], (unsigned long long)x->imm); break;
	case LOP_LOAD: case LOP_SEXT: case LOP_ZEXT:
		printf("%s%lld(", ops[x->op], (long long)x->imm);
		show_node(l, x->a);
		printf(")");
		break;
	case LOP_NEG: case LOP_NOT:
		printf("%s(", ops[x->op]);
		show_node(l, x->a);
		printf(")");
		break;
	case LOP_IF:
		printf("(");
		show_node(l, x->a);
		printf(" ? ");
		show_node(l, x->b);
		printf(" : ");
		show_node(l, x->imm);
		printf(")");
		break;
	default:
		printf("(");
		show_node(l, x->a);
		printf(" %s ", ops[x->op]);
		show_node(l, x->b);
		printf(")");
	}
}

static void show_piece(const struct loc *l, const struct loc_piece *p)
{
	uint32_t i;

	switch (p->kind) {
	case LOC_REG: printf("%s", regs[p->reg & 15]); break;
	case LOC_VECTOR: printf("xmm%d", p->reg); break;
	case LOC_MEM: printf("[%s%+lld]", regs[p->reg & 15], (long long)p->off); break;
	case LOC_GLOBAL: printf("[%#llx]", (unsigned long long)p->off); break;
	case LOC_CONST: printf("=%lld", (long long)p->off); break;
	case LOC_TLS: printf("tls:%#llx", (unsigned long long)p->off); break;
	case LOC_ST: printf("st%d", p->reg); break;
	case LOC_BYTES:
		printf("bytes:");
		for (i = 0; i < p->size; i++)
			printf("%02x", p->bytes[i]);
		break;
	case LOC_MEM_AT: printf("["); show_node(l, p->node); printf("]"); break;
	case LOC_VALUE: printf("="); show_node(l, p->node); break;
	default: printf("gone");
	}
	printf("/%u", p->size);
}

static void show_var(const char *front, const struct var *v)
{
	char *s = type_declare(t, v->type, v->name);
	uint32_t i;

	printf("%s%s @", front, s);
	for (i = 0; i < v->loc.n; i++) {
		printf(" ");
		show_piece(&v->loc, &v->loc.pieces[i]);
	}
	printf("%s%s%s%s%s%s\n", v->from == VAR_BY_ABI ? " abi" : "", v->flags & VAR_DISPUTED ? " disputed" : "",
	       v->flags & VAR_UNSURE ? " unsure" : "", v->flags & VAR_ARTIFICIAL ? " artificial" : "", v->loc.why ? " because " : "", v->loc.why ? v->loc.why : "");
	free(s);
}

static int ask_type(const char *arg)
{
	type_id id;
	char *s;
	int r = type_find(t, arg, 0, &id);

	if (r == 0) {
		s = type_layout(t, id);
		printf("%s", s);
		free(s);
	}
	return r;
}

static int ask_string(const char *arg)
{
	struct type_string s;
	type_id id;
	int r = type_find(t, arg, 0, &id);

	if (r == 0 && type_is_string(t, id, &s))
		printf("string ptr %u len %u/%u\n", s.ptr_off, s.len_off, s.len_size);
	else if (r == 0)
		printf("no string\n");
	return r;
}

static int ask_func(const char *arg)
{
	const struct func_types *f;
	uint64_t pc = address(arg);
	char *s = types_func_declare(t, pc);
	const char *file = types_func_file(t, pc);
	uint32_t i;
	int r = types_func(t, pc, &f);

	if (r == 0) {
		printf("%#llx %s; // %s:%u%s\n", (unsigned long long)f->entry, s, file ? file : "?", f->line, f->external ? "" : " local");
		for (i = 0; i < f->nparams + f->nresults; i++)
			show_var(f->params[i].flags & VAR_RESULT ? "result " : "param ", &f->params[i]);
		show_var("return ", &f->retval);
	}
	free(s);
	return r;
}

static int ask_vars(const char *arg)
{
	static const char *const kinds[] = { "param", "local", "global", "static", "return" };
	var_list list = { 0 };
	char front[64];
	int r = types_vars_at(t, address(arg), &list);
	size_t i;

	for (i = 0; i < list.n; i++) {
		snprintf(front, sizeof(front), "%d %s ", list.v[i].depth, kinds[list.v[i].kind]);
		show_var(front, &list.v[i]);
	}
	vec_free(&list);
	return r;
}

static int ask_var(const char *arg)
{
	const char *colon = strchr(arg, ':');
	char *at = colon ? strndup(arg, colon - arg) : strdup(arg);
	struct var v;
	int r = types_var(t, address(at), colon ? colon + 1 : "", &v);

	free(at);
	if (r == 0)
		show_var("", &v);
	return r;
}

static int ask_global(const char *arg)
{
	struct var v;
	int r = types_global(t, arg, 0, &v);

	if (r == 0)
		show_var(v.kind == VAR_STATIC ? "static " : "global ", &v);
	return r;
}

static int ask_enum(const char *arg)
{
	type_id id;
	int64_t v;
	int r = type_enumerator(t, arg, 0, &id, &v);
	char *s;

	if (r == 0) {
		s = type_name(t, id);
		printf("%s %lld\n", s, (long long)v);
		free(s);
	}
	return r;
}

static int ask_inlined(const char *arg)
{
	inlined_list list = { 0 };
	size_t i;

	types_inlined(t, arg, &list);
	printf("%zu sites\n", list.n);
	for (i = 0; i < list.n && i < 100; i++)
		printf("%#llx %s in %#llx from %s:%u\n", (unsigned long long)list.v[i].entry, list.v[i].name,
		       (unsigned long long)list.v[i].caller, list.v[i].file ? list.v[i].file : "?", list.v[i].line);
	vec_free(&list);
	return 0;
}

static void show_lines(const line_list *list)
{
	size_t i;

	for (i = 0; i < list->n; i++)
		printf("%#llx %s:%u %s\n", (unsigned long long)list->v[i].addr, list->v[i].file ? list->v[i].file : "?",
		       list->v[i].line, list->v[i].func ? list->v[i].func : "?");
}

static int ask_line(const char *arg)
{
	const char *colon = strrchr(arg, ':');
	char *file = colon ? strndup(arg, colon - arg) : strdup(arg);
	line_list list = { 0 };
	int r = lines_find(t, file, colon ? atoi(colon + 1) : 0, &list);

	show_lines(&list);
	vec_free(&list);
	free(file);
	return r;
}

static int ask_at(const char *arg)
{
	struct line_site s;
	int r = lines_at(t, address(arg), &s);

	if (r == 0)
		printf("%s:%u %s\n", s.file, s.line, s.func ? s.func : "?");
	return r;
}

static int ask_frames(const char *arg)
{
	line_list list = { 0 };
	int r = lines_frames(t, address(arg), &list);

	show_lines(&list);
	vec_free(&list);
	return r;
}

/* Every function, as a program that walks everything would: for timing, and that nothing breaks. */
static int ask_all(const char *arg)
{
	size_t most = strtoull(arg, NULL, 0), i, known = 0, disputed = 0, whole = 0, params = 0;
	const struct func_types *f;
	uint32_t k;

	for (i = 0; i < m->funcs.n && i < most; i++) {
		if (types_func(t, m->funcs.v[i].addr, &f) < 0)
			continue;
		known++;
		for (k = 0; k < f->nparams; k++) {
			params++;
			whole += loc_is_whole(&f->params[k].loc);
			disputed += f->params[k].flags & VAR_DISPUTED ? 1 : 0;
			if (f->params[k].flags & VAR_DISPUTED && f->params[k].from == VAR_BY_ABI && log_level) {
				printf("%#llx ", (unsigned long long)f->entry);
				show_var("", &f->params[k]);
			}
		}
	}
	printf("%zu functions, %zu known, %zu parameters, %zu at one place, %zu disputed\n", m->funcs.n, known, params,
	       whole, disputed);
	return 0;
}

static const struct { const char *word; int (*ask)(const char *arg); } questions[] = {
	{ "type", ask_type }, { "func", ask_func }, { "vars", ask_vars }, { "var", ask_var }, { "global", ask_global },
	{ "enum", ask_enum }, { "inlined", ask_inlined }, { "line", ask_line }, { "at", ask_at },
	{ "frames", ask_frames }, { "string", ask_string }, { "all", ask_all },
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e3 + ts.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
	double start = now(), before;
	bool timed = argc > 2 && strcmp(argv[2], "-t") == 0;
	int i, status = 0;
	size_t k;

	if (getenv("TYPEASK_VERBOSE"))
		log_level = 1;
	if (argc < 2 || module_open("", argv[1], &m) < 0) {
		printf("error: %s\n", err_text());
		return 1;
	}
	if (timed)
		printf("symbols %.1f ms\n", now() - start);
	before = now();
	if (module_types(m, &t) < 0) {
		printf("error: %s\n", err_text());
		module_close(m);
		return 1;
	}
	if (timed)
		printf("units %.1f ms\n", now() - before);
	for (i = timed ? 3 : 2; i + 1 < argc; i += 2) {
		before = now();
		for (k = 0; k < ARRAY_SIZE(questions); k++)
			if (strcmp(questions[k].word, argv[i]) == 0 && questions[k].ask(argv[i + 1]) < 0) {
				printf("error: %s\n", err_text());
				status = 1;
			}
		if (timed)
			printf("%s %s: %.1f ms\n", argv[i], argv[i + 1], now() - before);
	}
	module_close(m);
	return status;
}
