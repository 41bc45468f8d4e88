/* SPDX-License-Identifier: MIT */
/*
 * Types in C's syntax, which has the name in the middle: an array of pointers to functions is `int (*f[3])(void)`.
 * The text starts with the name and grows outwards.
 */
#include "sym/types/types_priv.h"

#include <stdio.h>

#define MOST_TEXT 65536

static char *declare(struct types *t, type_id id, char *inner, int depth);

static bool is_plain_c(struct types *t, type_id id)
{
	Dwarf_Die *die = type_die(t, id);
	struct unit *u = die ? unit_of(t, die) : NULL;

	return !u || u->lang == LANG_C || u->lang == LANG_OTHER;
}

static char *with_word(const char *word, const char *name, char *inner)
{
	char *s = xasprintf("%s%s%s%s", word, name, *inner ? " " : "", inner);

	free(inner);
	return s;
}

/* A pointer binds weaker than the brackets of an array or function. */
static char *declare_pointer(struct types *t, const struct type *y, const char *sign, char *inner, int depth)
{
	int kind = type_get(t, y->ref)->kind;
	const char *fmt = kind == TYPE_ARRAY || kind == TYPE_FUNC ? "(%s%s)" : "%s%s";
	char *s = xasprintf(fmt, sign, inner);

	free(inner);
	return declare(t, y->ref, s, depth + 1);
}

static char *declare_qualified(struct types *t, const struct type *y, const char *word, char *inner, int depth)
{
	int kind = type_get(t, y->ref)->kind;
	char *s;

	if (kind == TYPE_PTR || kind == TYPE_REF) {	/* of the pointer itself: "char *const p" */
		s = xasprintf("%s%s%s", word, *inner && *inner != '(' && *inner != '[' ? " " : "", inner);
		free(inner);
		return declare(t, y->ref, s, depth + 1);
	}
	inner = declare(t, y->ref, inner, depth + 1);
	if (kind == TYPE_ARRAY)	/* its elements have the same qualifier */
		return inner;
	s = xasprintf("%s %s", word, inner);
	free(inner);
	return s;
}

static char *declare_array(struct types *t, const struct type *y, char *inner, int depth)
{
	char *s = y->flags & TYPE_UNSIZED ? xasprintf("%s[]", inner) :
		  xasprintf("%s[%llu]", inner, (unsigned long long)y->n);

	free(inner);
	return declare(t, y->ref, s, depth + 1);
}

static char *append(char *s, const char *more)
{
	char *both = xasprintf("%s%s", s, more);

	free(s);
	return both;
}

static char *declare_func(struct types *t, const struct type *y, char *inner, int depth)
{
	char *s = append(inner, "("), *param;
	uint64_t i;

	for (i = 0; i < y->n && strlen(s) < MOST_TEXT; i++) {
		if (i)
			s = append(s, ", ");
		param = declare(t, y->members[i].type, xstrdup(y->members[i].name ? y->members[i].name : ""), depth + 1);
		s = append(s, param);
		free(param);
	}
	if (y->flags & TYPE_VARIADIC)
		s = append(s, y->n ? ", ..." : "...");
	else if (!y->n)
		s = append(s, "void");
	return declare(t, y->ref, append(s, ")"), depth + 1);
}

static const char *word_of(struct types *t, type_id id, const struct type *y)
{
	if (!is_plain_c(t, id) && y->name)
		return "";
	if (y->kind == TYPE_UNION || (y->flags & TYPE_FWD_UNION))
		return "union ";
	if (y->kind == TYPE_ENUM || (y->flags & TYPE_FWD_ENUM))
		return "enum ";
	return y->flags & TYPE_CLASS ? "class " : "struct ";
}

/* Takes ownership of inner. */
static char *declare(struct types *t, type_id id, char *inner, int depth)
{
	const struct type *y = type_get(t, id);

	if (depth > MOST_DEPTH || strlen(inner) > MOST_TEXT)
		return with_word("", "...", inner);
	switch (y->kind) {
	case TYPE_PTR: case TYPE_MEMBER_PTR:
		if (y->name)	/* in Rust and Go they have names */
			return with_word("", y->name, inner);
		return declare_pointer(t, y, "*", inner, depth);
	case TYPE_REF: return declare_pointer(t, y, y->flags & TYPE_RVALUE ? "&&" : "&", inner, depth);
	case TYPE_CONST: return declare_qualified(t, y, "const", inner, depth);
	case TYPE_VOLATILE: return declare_qualified(t, y, "volatile", inner, depth);
	case TYPE_RESTRICT: return declare_qualified(t, y, "restrict", inner, depth);
	case TYPE_ATOMIC: return declare_qualified(t, y, "_Atomic", inner, depth);
	case TYPE_ARRAY: return declare_array(t, y, inner, depth);
	case TYPE_FUNC: return declare_func(t, y, inner, depth);
	case TYPE_STRUCT: case TYPE_UNION: case TYPE_ENUM: case TYPE_FWD:
		return with_word(word_of(t, id, y), y->name ? y->name : "{...}", inner);
	case TYPE_VOID: return with_word("", y->name ? y->name : "void", inner);
	default: return with_word("", y->name ? y->name : "?", inner);
	}
}

char *type_declare(struct types *t, type_id id, const char *name)
{
	return declare(t, id, xstrdup(name ? name : ""), 0);
}

char *type_name(struct types *t, type_id id)
{
	return declare(t, id, xstrdup(""), 0);
}

struct text { char *p; size_t n; FILE *f; };

static void layout_members(struct types *t, const struct type *y, FILE *f, uint64_t base, int depth);

static void layout_member(struct types *t, const struct type_member *m, FILE *f, uint64_t base, int depth)
{
	const struct type *y = type_get(t, m->type);
	uint64_t bits = base + m->bit_off;
	char *text;

	if (!m->name && (y->kind == TYPE_STRUCT || y->kind == TYPE_UNION) && depth < 8) {
		fprintf(f, "%*s%s {\n", depth * 4, "", y->kind == TYPE_UNION ? "union" : "struct");
		layout_members(t, y, f, bits, depth + 1);
		fprintf(f, "%*s};\n", depth * 4, "");
		return;
	}
	text = m->flags & MEMBER_BASE ? xasprintf("<base> %s", m->name ? m->name : "?") :
	       type_declare(t, m->type, m->name);
	if (m->flags & MEMBER_VIRTUAL)
		fprintf(f, "%*s%s;%*s/* virtual */\n", depth * 4, "", text, 2, "");
	else if (m->bit_size)
		fprintf(f, "%*s%s : %u;%*s/* %llu:%u */\n", depth * 4, "", text, m->bit_size, 2, "",
			(unsigned long long)bits / 8, (unsigned int)(bits % 8));
	else
		fprintf(f, "%*s%s;%*s/* %llu, %llu bytes */\n", depth * 4, "", text, 2, "",
			(unsigned long long)bits / 8, (unsigned long long)y->size);
	free(text);
}

static void layout_members(struct types *t, const struct type *y, FILE *f, uint64_t base, int depth)
{
	uint64_t i;

	for (i = 0; i < y->n && ftell(f) < 1 << 20; i++)
		layout_member(t, &y->members[i], f, base, depth);
}

char *type_layout(struct types *t, type_id id)
{
	type_id real = type_strip(t, id);
	const struct type *y = type_get(t, real);
	char *head = type_name(t, y->name ? real : id), *out = NULL;
	size_t n;
	FILE *f = xmemstream(&out, &n);
	uint64_t i;

	fprintf(f, "%s", head);
	free(head);
	if (y->kind == TYPE_STRUCT || y->kind == TYPE_UNION) {
		fprintf(f, " {\n");
		layout_members(t, y, f, 0, 1);
		fprintf(f, "};  /* %llu bytes */\n", (unsigned long long)y->size);
	} else if (y->kind == TYPE_ENUM) {
		fprintf(f, " {\n");
		for (i = 0; i < y->n; i++)
			fprintf(f, "    %s = %lld,\n", y->values[i].name, (long long)y->values[i].value);
		fprintf(f, "};  /* %llu bytes */\n", (unsigned long long)y->size);
	} else {
		fprintf(f, ";  /* %llu bytes */\n", (unsigned long long)y->size);
	}
	fclose(f);
	return out;
}
