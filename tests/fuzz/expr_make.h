/* SPDX-License-Identifier: MIT */
/*
 * Random programs in two texts, ours and C's. In a probe line both are the same but for what C leaves
 * undefined: division, shifts and conversions go through helpers that say what lang/ir.h says. In a script int has
 * 64 bits, so there the C text casts every operand first.
 */
#ifndef JAB_FUZZ_EXPR_MAKE_H
#define JAB_FUZZ_EXPR_MAKE_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define EXPR_MOST 4		/* results of a program */
#define EXPR_VARS 3

static uint64_t expr_seed = 1;

static inline uint64_t expr_random(void)
{
	uint64_t z = expr_seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline uint32_t below(uint32_t n)
{
	return expr_random() % n;
}

struct text { char *p; size_t n, cap; };

static inline void text_room(struct text *t, size_t n)
{
	if (t->n + n + 1 > t->cap) {
		t->cap = 2 * t->cap + n + 256;
		t->p = xrealloc(t->p, t->cap);
	}
}

static inline void text_put(struct text *t, const char *s, size_t n)
{
	text_room(t, n);
	memcpy(t->p + t->n, s, n);
	t->n += n;
	t->p[t->n] = 0;
}

static inline void text_repeat(struct text *t, size_t at, size_t n)
{
	text_room(t, n);
	text_put(t, t->p + at, n);
}

/* Part of an expression that may be used again. */
struct piece { size_t ours, c, ours_len, c_len; bool is_float; };

struct gen {
	struct text ours, c;
	bool c_rules, wild;		/* wild: indices may lead anywhere, so C can't follow */
	int left;			/* nodes */
	struct piece pieces[16];
	uint32_t npieces, nvars;
	bool float_var[EXPR_VARS];
};

__attribute__((format(printf, 2, 3))) static inline void put_ours(struct gen *g, const char *fmt, ...)
{
	char s[256];
	va_list ap;

	va_start(ap, fmt);
	text_put(&g->ours, s, vsnprintf(s, sizeof(s), fmt, ap));
	va_end(ap);
}

__attribute__((format(printf, 2, 3))) static inline void put_c(struct gen *g, const char *fmt, ...)
{
	char s[256];
	va_list ap;

	va_start(ap, fmt);
	text_put(&g->c, s, vsnprintf(s, sizeof(s), fmt, ap));
	va_end(ap);
}

static inline void both(struct gen *g, const char *s)
{
	text_put(&g->ours, s, strlen(s));
	text_put(&g->c, s, strlen(s));
}

struct name { const char *ours, *c; bool narrow; };

/* Names of both sides; narrow: less than 64 bits. */
static const struct name casts[] = {
	{ "int8", "int8_t", true }, { "uint8_t", "uint8_t", true }, { "int16_t", "int16_t", true }, { "uint16", "uint16_t", true },
	{ "int32", "int32_t", true }, { "uint32_t", "uint32_t", true }, { "int64", "int64_t", false }, { "uint64_t", "uint64_t", false },
	{ "bool", "_Bool", true }, { "long", "long", false }, { "unsigned char", "unsigned char", true }, { "char", "char", true },
	{ "unsigned", "unsigned", true }, { "short", "short", true }, { "size_t", "uint64_t", false }, { "int", "int", true },
	{ "unsigned long long", "uint64_t", false },
};

static inline void gen_int(struct gen *g);
static inline void gen_float(struct gen *g);

/* In scripts what is narrower than 64 bits becomes int64 as soon as it is used. */
static inline void widen(struct gen *g, bool narrow)
{
	both(g, "(");
	if (!g->c_rules && narrow)
		put_c(g, "(int64_t)");
}

static inline void put_name(struct gen *g, const struct name *n)
{
	widen(g, n->narrow);
	put_ours(g, "%s)", n->ours);
	put_c(g, "%s)", n->c ? n->c : n->ours);
}

/* ---- leaves ---- */

static const uint64_t odd_numbers[] = {
	0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 0x7fffffff, 0x80000000, 0xffffffff,
	0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0x8000000000000001, 0xffffffffffffffff, 0xffffffff80000000,
	0x20000000000001, 0x1000001,
};

static inline uint64_t odd_number(void)
{
	return below(3) ? odd_numbers[below(ARRAY_SIZE(odd_numbers))] : expr_random() >> below(64);
}

/* C gives it a type by its value, its base and its suffix. */
static inline void literal(struct gen *g)
{
	static const char *const suffixes[] = { "", "", "", "u", "l", "ul", "LL", "ull" };
	uint64_t v = odd_number();
	uint32_t how = below(8);
	const char *suffix = suffixes[below(8)];
	char s[64];

	if (how == 0) {
		snprintf(s, sizeof(s), below(2) ? "'%c'" : "'\\x%x'", 'A' + below(26));
		put_name(g, &(struct name){ s, s, true });
		return;
	}
	if (v > INT64_MAX && !strchr(suffix, 'u') && (how > 2 || !g->c_rules))
		suffix = "ull";		/* C has no type for such a decimal number */
	snprintf(s, sizeof(s), how == 1 ? "0x%" PRIx64 "%s" : how == 2 ? "0%" PRIo64 "%s" : "%" PRIu64 "%s", v, suffix);
	put_name(g, &(struct name){ s, s, v <= INT64_MAX });
}

static inline void scalar(struct gen *g)
{
	static const struct name names[] = {
		{ "va", 0, true }, { "vb", 0, true }, { "vc", 0, true }, { "vd", 0, false }, { "sa", 0, true }, { "sb", 0, true },
		{ "p->i8", 0, true }, { "p->u8", 0, true }, { "p->i16", 0, true }, { "p->u16", 0, true }, { "p->i32", 0, true },
		{ "p->u32", 0, true }, { "p->i64", 0, false }, { "p->u64", 0, false }, { "p->yes", 0, true }, { "p->ch", 0, true },
		{ "p->colour", 0, true }, { "p->size", 0, true }, { "p->b3", 0, true }, { "p->s5", 0, true }, { "p->b24", 0, true },
		{ "p->b31", 0, true }, { "p->b1", 0, true }, { "p->s32", 0, true }, { "p->b32", 0, true },
		{ "p->b40", "(uint64_t)p->b40", false }, { "p->b1a", "(uint64_t)p->b1a", false },
		{ "p->s50", "(int64_t)p->s50", false }, { "p->s64", "(int64_t)p->s64", false }, { "p->h9", 0, true },
		{ "p->c7", 0, true }, { "p->in.s", 0, true }, { "p->in.u", 0, true }, { "p->ins[1].c", 0, true },
		{ "p->ul", 0, false }, { "p->uw[1]", 0, true }, { "p->bits.odd", 0, true }, { "p->bits.even", 0, true },
		{ "p->next->i16", 0, true }, { "p->next->u32", 0, true }, { "p->next->next->u64", 0, false },
		{ "(*p).i32", 0, true }, { "(*p->next).b3", 0, true }, { "*p->ip", 0, true }, { "*p->up", 0, true }, { "*q", 0, true },
		{ "(&p->ins[1])->u", 0, true }, { "*&p->arr[2]", 0, true }, { "p->next[0].u8", 0, true }, { "GREEN", 0, true },
		{ "BLUE", 0, true }, { "LARGE", 0, true }, { "p->ip[1]", 0, true }, { "*(p->up + 1)", 0, true },
		{ "((struct inner *)q)->s", 0, true }, { "((struct thing *)q)->next->s5", 0, true }, { "p->bytes[7]", 0, true },
		{ "(&p->in)[1].s", 0, true }, { "*(&p->u16 - 1)", 0, true },
		{ "sizeof(struct thing)", 0, false }, { "sizeof(p->arr)", 0, false }, { "sizeof(p->i16)", 0, false },
	};

	put_name(g, &names[below(ARRAY_SIZE(names))]);
}

/* Memory as any type; a bool there may be any byte, and C must not see that. */
static inline void memory(struct gen *g)
{
	const struct name *t = &casts[below(ARRAY_SIZE(casts))];
	uint32_t off = below(100);
	char ours[96], c[96];

	snprintf(ours, sizeof(ours), "*(%s *)(q + %u)", t->ours, off);
	if (strcmp(t->c, "_Bool") == 0)
		snprintf(c, sizeof(c), "(_Bool)*(uint8_t *)(q + %u)", off);
	else
		snprintf(c, sizeof(c), "*(%s *)(q + %u)", t->c, off);
	put_name(g, &(struct name){ ours, c, t->narrow });
}

static inline void element(struct gen *g)
{
	static const struct { const char *array, *rest; const char *mask; } arrays[] = {
		{ "p->arr[", "", "3" }, { "p->bytes[", "", "7" }, { "q[", "", "63" }, { "p->ins[", ".s", "1" }, { "p->next->arr[", "", "3" },
		{ "p->uw[", "", "1" }, { "p->ip[", "", "1" }, { "((int16_t *)q)[", "", "31" }, { "p->next->ins[", ".u", "1" },
	};
	uint32_t n = below(ARRAY_SIZE(arrays));

	widen(g, true);
	both(g, arrays[n].array);
	gen_int(g);
	if (!g->wild || below(4)) {
		both(g, " & ");
		both(g, arrays[n].mask);
	}
	both(g, "]");
	both(g, arrays[n].rest);
	both(g, ")");
}

static inline void pointer(struct gen *g, uint32_t type)
{
	static const char *const ptrs[3][6] = {
		{ "p", "p->next", "p->next->next", "&p->next[0]", "(p + 1)", "(p->next - 1)" },
		{ "p->ip", "&p->arr[3]", "(p->ip + 1)", "&p->next->arr[0]", "(&p->arr[1] - 2)", "(1 + p->ip)" },
		{ "q", "(q + 5)", "(unsigned char *)p->up", "&p->u8", "(unsigned char *)0", "(unsigned char *)vd" },
	};

	both(g, ptrs[type][below(6)]);
}

/* What one does with pointers that ends in a number. */
static inline void pointer_number(struct gen *g)
{
	static const char *const ops[] = { " == ", " != ", " < ", " >= ", " && ", " || " };
	uint32_t type = below(3), how = below(4);

	widen(g, how);
	put_c(g, "(");
	if (how == 0) {
		type = 1 + below(2);
		pointer(g, type);
		both(g, " - ");
		both(g, type == 1 ? "&p->arr[1]" : "&p->bytes[2]");
	} else if (how == 1) {
		both(g, "!");
		pointer(g, type);
	} else if (how == 2) {
		both(g, below(2) ? "(uint16_t)" : "(int64_t)");
		pointer(g, type);
	} else {
		pointer(g, type);
		both(g, ops[below(6)]);
		pointer(g, type);
	}
	put_c(g, ")");
	both(g, ")");
}

/* ---- integers ---- */

static inline void helper(struct gen *g, const char *name, const char *op)
{
	put_ours(g, "(");
	put_c(g, "%s(", name);
	gen_int(g);
	put_ours(g, "%s", op);
	put_c(g, ", ");
	gen_int(g);
	both(g, ")");
}

static inline void truth(struct gen *g)
{
	static const char *const ops[] = { " < ", " > ", " <= ", " >= ", " == ", " != ", " && ", " || " };
	bool floats = below(2);

	widen(g, true);
	put_c(g, "(");
	if (floats)
		gen_float(g);
	else
		gen_int(g);
	both(g, ops[below(8)]);
	if (floats && below(2))
		gen_float(g);
	else
		gen_int(g);
	both(g, ")");
	put_c(g, ")");
}

static inline void cast_int(struct gen *g)
{
	const struct name *t = &casts[below(ARRAY_SIZE(casts))];
	bool from_float = below(4) == 0, is_bool = strcmp(t->c, "_Bool") == 0;

	widen(g, t->narrow);
	put_ours(g, "(%s)(", t->ours);
	put_c(g, "(%s)%s(", t->c, !from_float || is_bool ? "" : strcmp(t->c, "uint64_t") == 0 ? "f2u" : "f2i");
	if (from_float)
		gen_float(g);
	else
		gen_int(g);
	both(g, "))");
}

static inline void unary(struct gen *g)
{
	static const char *const ops[] = { "-", "~", "+", "!" };
	uint32_t op = below(4);

	widen(g, op == 3);
	both(g, ops[op]);
	if (op == 3 && below(3) == 0)
		gen_float(g);
	else
		gen_int(g);
	both(g, ")");
}

static inline void condition(struct gen *g)
{
	if (below(4))
		gen_int(g);
	else
		gen_float(g);
}

static inline void choose(struct gen *g, void (*part)(struct gen *))
{
	both(g, "(");
	condition(g);
	both(g, " ? ");
	part(g);
	both(g, " : ");
	part(g);
	both(g, ")");
}

static inline void int_leaf(struct gen *g)
{
	switch (below(8)) {
	case 0: case 1: literal(g); break;
	case 2: memory(g); break;
	case 3: if (below(2)) pointer_number(g); else scalar(g); break;
	default: scalar(g);
	}
}

/* No brackets: the parser must know what binds tighter. */
static inline void chain(struct gen *g)
{
	static const char *const ops[] = { " + ", " - ", "*", " & ", " | ", "^", " < ", " >", "<=", " >= ", "==", " != ", " && ", "||" };
	static const char *const signs[] = { "", "", "", "-", "~", "!" };
	uint32_t op;

	both(g, "(");
	put_c(g, g->c_rules ? "(" : "0l + (");
	for (int n = 2 + below(4); n; n--) {
		both(g, signs[below(6)]);
		int_leaf(g);
		op = below(ARRAY_SIZE(ops));
		if (n > 1)
			both(g, ops[op == 1 && !g->c_rules ? 0 : op]);	/* no differences, which have a sign there */
	}
	put_c(g, ")");
	both(g, ")");
}

static inline bool again(struct gen *g, bool is_float)
{
	const struct piece *s = g->npieces ? &g->pieces[below(g->npieces)] : NULL;

	if (!s || s->is_float != is_float || below(6))
		return false;
	text_repeat(&g->ours, s->ours, s->ours_len);
	text_repeat(&g->c, s->c, s->c_len);
	return true;
}

static inline bool variable(struct gen *g, bool is_float)
{
	uint32_t n = g->nvars ? below(g->nvars) : 0;

	if (!g->nvars || g->float_var[n] != is_float || below(4))
		return false;
	put_ours(g, "$v%u", n);
	put_c(g, "v%u", n);
	return true;
}

static inline void int_node(struct gen *g)
{
	static const char *const ops[] = { " + ", " - ", " * ", " & ", " | ", " ^ " };
	uint32_t op;

	switch (below(18)) {
	case 0: helper(g, g->c_rules ? "DIV" : "SDIV", " / "); break;
	case 1: helper(g, g->c_rules ? "MOD" : "SMOD", " % "); break;
	case 2: helper(g, "SHL", " << "); break;
	case 3: helper(g, "SHR", " >> "); break;
	case 4: case 5: truth(g); break;
	case 6: case 7: cast_int(g); break;
	case 8: unary(g); break;
	case 9: choose(g, gen_int); break;
	case 10: element(g); break;
	case 11: chain(g); break;
	case 12: int_leaf(g); break;
	default:
		op = below(6);
		put_c(g, op == 1 && !g->c_rules ? "(int64_t)" : "");	/* a script's differences have a sign */
		both(g, "(");
		gen_int(g);
		both(g, ops[op]);
		gen_int(g);
		both(g, ")");
	}
}

static inline void remember(struct gen *g, size_t ours, size_t c, bool is_float)
{
	struct piece *s = &g->pieces[g->npieces < ARRAY_SIZE(g->pieces) ? g->npieces++ : below(ARRAY_SIZE(g->pieces))];

	*s = (struct piece){ ours, c, g->ours.n - ours, g->c.n - c, is_float };
}

static inline void gen_int(struct gen *g)
{
	size_t ours = g->ours.n, c = g->c.n;

	if (variable(g, false) || again(g, false))
		return;
	if (g->left-- <= 0)
		int_leaf(g);
	else
		int_node(g);
	remember(g, ours, c, false);
}

/* ---- floats ---- */

static inline void float_leaf(struct gen *g)
{
	static const char *const names[] = {
		"x", "y", "p->f", "p->d", "*p->dp", "p->ud", "p->next->d", "x", "y", "p->dp[0]",
		"0.0", "1.0", "0.5", "1e-300", "3.25", "16777217.0", "1.0e19", "9.3e18", "0.1", "0.1f", "2.5f", ".5",
	};
	uint32_t off = below(100);

	switch (below(6)) {
	case 0:
		put_ours(g, "*(%s *)(q + %u)", off & 1 ? "float" : "double", off);
		put_c(g, "*(%s *)(q + %u)", off & 1 ? "float" : "double", off);
		return;
	case 1:
		both(g, off & 1 ? "(float)" : "(double)");
		int_leaf(g);
		return;
	}
	both(g, names[below(ARRAY_SIZE(names))]);
}

static inline void float_node(struct gen *g)
{
	static const char *const ops[] = { " + ", " - ", " * ", " / " };

	switch (below(8)) {
	case 0:
		choose(g, gen_float);
		break;
	case 1:
		both(g, "(-");
		gen_float(g);
		both(g, ")");
		break;
	case 2:
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

static inline void gen_float(struct gen *g)
{
	size_t ours = g->ours.n, c = g->c.n;

	if (variable(g, true) || again(g, true))
		return;
	if (g->left-- <= 0)
		float_leaf(g);
	else
		float_node(g);
	remember(g, ours, c, true);
}

#endif
