/* SPDX-License-Identifier: MIT */
/*
 * Types by the name that users write, members by theirs. C's basic types have many spellings ("unsigned long",
 * "long unsigned int") and need no debug info: they are made here.
 */
#include "sym/types/types_priv.h"

#include "base/err.h"
#include <ctype.h>
#include <stdio.h>

struct basic { const char *name; uint8_t kind, size; uint16_t flags; };

static const struct basic basics[] = {
	{ "char", TYPE_INT, 1, TYPE_CHAR | TYPE_SIGNED }, { "signed char", TYPE_INT, 1, TYPE_CHAR | TYPE_SIGNED },
	{ "unsigned char", TYPE_INT, 1, TYPE_CHAR }, { "short", TYPE_INT, 2, TYPE_SIGNED },
	{ "unsigned short", TYPE_INT, 2, 0 }, { "int", TYPE_INT, 4, TYPE_SIGNED },
	{ "unsigned int", TYPE_INT, 4, 0 }, { "long", TYPE_INT, 8, TYPE_SIGNED },
	{ "unsigned long", TYPE_INT, 8, 0 }, { "long long", TYPE_INT, 8, TYPE_SIGNED },
	{ "unsigned long long", TYPE_INT, 8, 0 }, { "__int128", TYPE_INT, 16, TYPE_SIGNED },
	{ "unsigned __int128", TYPE_INT, 16, 0 }, { "float", TYPE_FLOAT, 4, 0 },
	{ "double", TYPE_FLOAT, 8, 0 }, { "long double", TYPE_FLOAT, 16, 0 },
	{ "_Bool", TYPE_INT, 1, TYPE_BOOL }, { "bool", TYPE_INT, 1, TYPE_BOOL },
	{ "int8_t", TYPE_INT, 1, TYPE_SIGNED }, { "uint8_t", TYPE_INT, 1, 0 },
	{ "int16_t", TYPE_INT, 2, TYPE_SIGNED }, { "uint16_t", TYPE_INT, 2, 0 },
	{ "int32_t", TYPE_INT, 4, TYPE_SIGNED }, { "uint32_t", TYPE_INT, 4, 0 },
	{ "int64_t", TYPE_INT, 8, TYPE_SIGNED }, { "uint64_t", TYPE_INT, 8, 0 },
	{ "size_t", TYPE_INT, 8, 0 }, { "ssize_t", TYPE_INT, 8, TYPE_SIGNED },
	{ "intptr_t", TYPE_INT, 8, TYPE_SIGNED }, { "uintptr_t", TYPE_INT, 8, 0 },
};

static type_id basic_type(struct types *t, const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(basics); i++) {
		const struct basic *b = &basics[i];
		type_id id = table_get(&t->by_die, b);

		if (strcmp(b->name, name) != 0)
			continue;
		if (!id) {
			id = type_new(t, &(struct type){ .name = b->name, .kind = b->kind, .size = b->size, .flags = b->flags });
			table_put(&t->by_die, b, id);
		}
		return id;
	}
	return 0;
}

static bool take_word(const char **s, const char *word)
{
	size_t n = strlen(word);
	const char *p = *s;

	if (strncmp(p, word, n) != 0 || isalnum((unsigned char)p[n]) || p[n] == '_' || p[n] == ':' || p[n] == '<')
		return false;
	for (p += n; *p == ' '; p++)
		;
	*s = p;
	return true;
}

/* If all words are C's own, finds the type by the one spelling of the table. */
static type_id spelled_basic(struct types *t, const char *s)
{
	int longs = 0, shorts = 0, chars = 0, unsign = 0, sign = 0, wide = 0;
	char name[64];

	while (*s) {
		if (take_word(&s, "long")) longs++;
		else if (take_word(&s, "short")) shorts++;
		else if (take_word(&s, "char")) chars++;
		else if (take_word(&s, "unsigned")) unsign++;
		else if (take_word(&s, "signed")) sign++;
		else if (take_word(&s, "__int128")) wide++;
		else if (longs && take_word(&s, "double")) return *s ? 0 : basic_type(t, "long double");
		else if (!take_word(&s, "int")) return 0;
	}
	snprintf(name, sizeof(name), "%s%s", unsign ? "unsigned " : sign && chars ? "signed " : "",
		 chars ? "char" : shorts ? "short" : longs > 1 ? "long long" : longs ? "long" :
		 wide ? "__int128" : "int");
	return basic_type(t, name);
}

static type_id choose(struct types *t, const die_list *list)
{
	size_t i;

	/* If a name is both a struct's and a typedef's, in C it is the typedef's. */
	for (i = 0; i < list->n; i++)
		if (tag_is_alias(dwarf_tag(&list->v[i])))
			return type_of_die(t, &list->v[i]);
	return type_of_die(t, &list->v[0]);
}

/* Finds a type by its name without stars, brackets and qualifiers. */
static int find_plain(struct types *t, const char *name, struct unit *near, type_id *ret_id)
{
	static const struct { const char *word; enum find_what what; } words[] = {
		{ "struct", FIND_STRUCT }, { "class", FIND_STRUCT }, { "union", FIND_UNION }, { "enum", FIND_ENUM },
	};
	enum find_what what = FIND_TYPE;
	die_list list = { 0 };
	const char *s = name;
	size_t i;

	if (strcmp(name, "void") == 0) {
		*ret_id = TYPE_ID_VOID;
		return 0;
	}
	for (i = 0; i < ARRAY_SIZE(words) && what == FIND_TYPE; i++)
		if (take_word(&s, words[i].word))
			what = words[i].what;
	if (!*s)
		return fail(-EINVAL, "the name of a type is missing");
	*ret_id = what == FIND_TYPE ? spelled_basic(t, s) : 0;
	if (*ret_id)
		return 0;
	if ( dw_find(t, near, s, what, 1, &list) == 0)
		*ret_id = choose(t, &list);
	vec_free(&list);
	if (!*ret_id && what == FIND_TYPE)
		*ret_id = basic_type(t, s);
	if (!*ret_id)
		return fail(-ENOENT, "no type %s in %s", name, t->m->path);
	return 0;
}

static bool drop_suffix_word(char *s, size_t *n, const char *word)
{
	size_t k = strlen(word);

	if (*n <= k || strncmp(s + *n - k, word, k) != 0 || (s[*n - k - 1] != ' ' && s[*n - k - 1] != '*'))
		return false;
	*n -= k;
	return true;
}

/* The length of the plain name: the rest is qualifiers, stars, references and brackets. */
static size_t plain_length(char *s)
{
	size_t n = strlen(s), before;

	do {
		before = n;
		while (n && (s[n - 1] == ' ' || s[n - 1] == '*' || s[n - 1] == '&'))
			n--;
		if (n && s[n - 1] == ']')
			while (n && s[--n] != '[')
				;
		drop_suffix_word(s, &n, "const");
		drop_suffix_word(s, &n, "volatile");
		drop_suffix_word(s, &n, "restrict");
	} while (n != before);
	return n;
}

/* Applies the text after the name, from left to right; the first bracket is the outermost dimension. */
static int apply_suffix(struct types *t, const char *s, type_id *id)
{
	uint64_t dims[16];
	size_t n = 0;
	char *end;

	for (; *s; s++) {
		if (*s == '*' || *s == '&')
			*id = type_pointer_to(t, *id);
		else if (*s == '[' && n < ARRAY_SIZE(dims)) {
			dims[n++] = strtoull(s + 1, &end, 0);
			if (end == s + 1 || *end != ']')
				return fail(-EINVAL, "a number is missing between [ and ] of a type");
			s = end;
		}
	}
	while (n--)
		*id = type_array_of(t, *id, dims[n]);
	return 0;
}

static void skip_qualifiers(const char **s)
{
	while (**s == ' ')
		(*s)++;
	while (take_word(s, "const") || take_word(s, "volatile"))
		;
}

int type_find(struct types *t, const char *name, uint64_t near, type_id *ret_id)
{
	struct unit *u = near ? unit_at(t, near) : NULL;
	char *copy, *plain;
	const char *s = name;
	type_id id;
	size_t n;
	int r;

	/* In Rust and Go * and [ come before the name: there they are part of it. */
	skip_qualifiers(&s);
	copy = xstrdup(s);
	n = plain_length(copy);
	plain = xasprintf("%.*s", (int)n, copy);
	r = find_plain(t, plain, u, &id);
	if (r == 0)
		r = apply_suffix(t, copy + n, &id);
	if (r == 0)
		*ret_id = id;
	free(copy);
	free(plain);
	return r;
}

/* Damaged types may contain themselves, several times: all steps are counted. */
struct member_search { struct types *t; const char *name; int steps; };

static bool find_member(struct member_search *q, type_id id, uint64_t bits, struct type_member *ret)
{
	const struct type *y = type_get(q->t, type_strip(q->t, id));
	uint64_t i;

	if ((y->kind != TYPE_STRUCT && y->kind != TYPE_UNION) || q->steps++ > 1000 || q->t->depth >= MOST_DEPTH)
		return false;
	for (i = 0; i < y->n; i++)
		if (y->members[i].name && !(y->members[i].flags & MEMBER_BASE) &&
		    strcmp(y->members[i].name, q->name) == 0) {
			*ret = y->members[i];
			ret->bit_off += bits;
			return true;
		}
	for (i = 0; i < y->n; i++) {
		const struct type_member *m = &y->members[i];
		bool found;

		if (m->name && !(m->flags & MEMBER_BASE))
			continue;
		q->t->depth++;
		found = find_member(q, m->type, bits + m->bit_off, ret);
		q->t->depth--;
		if (found) {
			ret->flags |= m->flags & MEMBER_VIRTUAL;
			return true;
		}
	}
	return false;
}

static int no_member(struct types *t, type_id id, const char *name)
{
	const struct type *y = type_get(t, type_strip(t, id));
	char *of = type_name(t, id), has[256] = "";
	size_t n = 0, shown = 0, i;
	int r;

	for (i = 0; i < y->n && (y->kind == TYPE_STRUCT || y->kind == TYPE_UNION) && n < 200; i++)
		if (y->members[i].name)
			n += snprintf(has + n, sizeof(has) - n, "%s%.40s", shown++ ? ", " : "", y->members[i].name);
	if (y->kind == TYPE_FWD)
		r = fail(-ENOENT, "%s is only declared in %s, its members are not known", of, t->m->path);
	else if (y->kind != TYPE_STRUCT && y->kind != TYPE_UNION)
		r = fail(-ENOENT, "%s has no members", of);
	else
		r = fail(-ENOENT, "%s has no member %s; it has %s%s", of, name, shown ? has : "none",
			 i < y->n ? ", ..." : "");
	free(of);
	return r;
}

int type_member(struct types *t, type_id id, const char *name, struct type_member *ret_member)
{
	struct member_search q = { t, name, 0 };
	struct type_member m;

	if (!find_member(&q, id, 0, &m))
		return no_member(t, id, name);
	if (m.flags & MEMBER_VIRTUAL)
		return fail(-ENOTSUP, "%s is in a virtual base class, whose place is known only at run time", name);
	*ret_member = m;
	return 0;
}

int type_enumerator(struct types *t, const char *name, uint64_t near, type_id *ret_id, int64_t *ret_value)
{
	die_list list = { 0 };
	Dwarf_Die parent;
	uint64_t v;
	int r = dw_find(t, near ? unit_at(t, near) : NULL, name, FIND_ENUMERATOR, 1, &list);

	if (r < 0 || !die_number(&list.v[0], DW_AT_const_value, &v) || !unit_scope_die(t, &list.v[0], &parent))
		r = fail(-ENOENT, "no enum in %s has a value %s", t->m->path, name);
	if (r == 0) {
		*ret_id = type_of_die(t, &parent);
		*ret_value = v;
	}
	vec_free(&list);
	return r;
}

const char *type_value_name(struct types *t, type_id id, int64_t value)
{
	const struct type *y = type_get(t, type_strip(t, id));
	uint64_t i;

	for (i = 0; y->kind == TYPE_ENUM && i < y->n; i++)
		if (y->values[i].value == value)
			return y->values[i].name;
	return NULL;
}
