/* SPDX-License-Identifier: MIT */
/*
 * Readable names. libiberty demangles C++ (Itanium) and both Rust manglings; its output for a short but crafted
 * name can be endless, so it is stopped at a limit. Names are demangled at their first use and kept with the
 * module.
 */
#include "sym/priv.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdio.h>

#define MOST_TEXT (64 * 1024)

struct text {
	char *v;
	size_t n, cap;
	jmp_buf too_long;
};

/* The callback form of the demanglers allocates on the stack only, so that it can be left by longjmp. */
static void add_text(const char *s, size_t len, void *opaque)
{
	struct text *t = opaque;

	if (t->n + len + 1 > MOST_TEXT)
		longjmp(t->too_long, 1);
	if (t->n + len + 1 > t->cap) {
		t->cap = (t->n + len + 1) * 2;
		t->v = xrealloc(t->v, t->cap);
	}
	memcpy(t->v + t->n, s, len);
	t->n += len;
	t->v[t->n] = 0;
}

/* Rust's older mangling is C++'s with a hash at its end: _ZN...17h0123456789abcdefE */
static bool is_old_rust(const char *name)
{
	const char *h = strstr(name, "17h");
	int i;

	for (; h; h = strstr(h + 1, "17h")) {
		for (i = 0; i < 16 && isxdigit((unsigned char)h[3 + i]); i++)
			;
		if (i == 16 && h[19] == 'E')
			return true;
	}
	return false;
}

static bool is_mangled(const char *name)
{
	return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

static bool run_demangler(const char *name, struct text *t)
{
	int options = DMGL_PARAMS | DMGL_ANSI;

	if (setjmp(t->too_long))
		return false;
	if (name[1] == 'R' || is_old_rust(name))
		return rust_demangle_callback(name, options, add_text, t);
	return cplus_demangle_v3_callback(name, options, add_text, t);
}

char *demangle(const char *name)
{
	struct text *t;
	char *s;

	if (!is_mangled(name))
		return NULL;
	t = xcalloc(1, sizeof(*t));
	if (!run_demangler(name, t) || !t->n) {
		free(t->v);
		t->v = NULL;
	}
	s = t->v;
	free(t);
	return s;
}

const char *name_readable(struct module *m, uint32_t name)
{
	struct sym_priv *p = priv(m);
	const char *raw = m->names.v[name].name;
	char *s;

	if (!is_mangled(raw))
		return NULL;
	if (!p->readable)
		p->readable = xcalloc(m->names.n, sizeof(*p->readable));
	if (!p->readable[name]) {
		s = demangle(raw);
		p->readable[name] = s ? module_string(m, s, strlen(s)) : "";
		free(s);
	}
	return *p->readable[name] ? p->readable[name] : NULL;
}

const char *func_name(struct module *m, const struct func *f)
{
	struct sym_priv *p = priv(m);
	size_t index = f - m->funcs.v;
	const char *s;
	char made[32];

	if (!p->shown)
		p->shown = xcalloc(m->funcs.n, sizeof(*p->shown));
	if (p->shown[index])
		return p->shown[index];
	if (f->name) {
		s = name_readable(m, f->alias);
		s = s ? s : f->name;
	} else {
		snprintf(made, sizeof(made), "func_0x%llx", (unsigned long long)f->addr);
		s = module_string(m, made, strlen(made));
	}
	return p->shown[index] = s;
}

static bool is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

size_t operator_len(const char *text, size_t i)
{
	static const char *const ops[] = {
		"()", "[]", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">"
	};
	const char *s = text + i;
	size_t k;

	if (strncmp(s, "operator", 8) != 0 || is_word_char(s[8]) || (i && is_word_char(s[-1])))
		return 0;
	for (k = 0; k < ARRAY_SIZE(ops); k++)
		if (strncmp(s + 8, ops[k], strlen(ops[k])) == 0)
			return 8 + strlen(ops[k]);
	return 8;
}

int bracket_step(const char *s, size_t i)
{
	switch (s[i]) {
	case '(': case '<': case '{': case '[':
		return 1;
	case ')': case '}': case ']':
		return -1;
	case '>':
		return i && s[i - 1] == '-' ? 0 : -1;
	default:
		return 0;
	}
}

/* The length from the bracket at s to the one that closes it. */
static size_t brackets_len(const char *s)
{
	int depth = 0;
	size_t i;

	for (i = 0; s[i]; i++) {
		if (s[i] == '(')
			depth++;
		if (s[i] == ')' && --depth == 0)
			return i + 1;
	}
	return i;
}

/* Whether the brackets at s[i] are the function's own parameters. If not, *ret_next is where the name continues. */
static bool is_parameters(const char *s, size_t i, size_t *ret_next)
{
	size_t end = i + brackets_len(s + i);

	*ret_next = end - 1;
	if (strncmp(s + i, "(anonymous namespace)", 21) == 0)
		return false;
	if (i >= 8 && memcmp(s + i - 8, "decltype", 8) == 0)
		return false;
	/* f(int)::{lambda(char)#1}::operator()(char) const: a function inside f */
	if (strncmp(s + end, " const", 6) == 0)
		end += 6;
	return strncmp(s + end, "::", 2) != 0;
}

/*
 * "void ns::f<int>(int) const" -> name from "ns", parameters from "(int)". Blanks and parentheses
 * inside brackets don't count. "non-virtual thunk to f()" is not f and stays whole.
 */
struct name_parts name_split(const char *s)
{
	struct name_parts parts = { 0 };
	bool operator_seen = false;
	int depth = 0;
	size_t i, next;

	for (i = 0; s[i]; i++) {
		size_t op = s[i] == 'o' ? operator_len(s, i) : 0;

		if (op) {
			operator_seen |= depth == 0;
			i += op;
			if (!s[i])
				break;
		}
		if (s[i] == '(' && depth == 0) {
			if (is_parameters(s, i, &next))
				break;
			i = next;
		} else if (bracket_step(s, i)) {
			depth = MAX(depth + bracket_step(s, i), 0);
		} else if (s[i] == ' ' && depth == 0 && !operator_seen &&
			   strncmp(s + i, " const::", 8) != 0) {
			parts.start = i + 1;
		}
	}
	parts.params = i;
	if ((parts.start >= 9 && memcmp(s + parts.start - 9, "thunk to ", 9) == 0) ||
	    (parts.start >= 5 && memcmp(s + parts.start - 5, " for ", 5) == 0))
		return (struct name_parts){ 0, strlen(s) };
	return parts;
}
