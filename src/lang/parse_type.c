/* SPDX-License-Identifier: MIT */
/*
 * Types as C writes them, and the definitions of a script's preamble:
 *
 *	type   := ("const" | "volatile")* [("struct" | "union" | "enum" | "class")] word ("::" word)* word*
 *	          ("*" | "const")* ("[" [number] "]")*
 *	struct := ("struct" | "union") [name] "{" member* "}" [";"]
 *	member := (type | struct) [["*"...] name ["[" number "]"] [":" bits] ("," ...)*] ";"
 *	enum   := "enum" [name] "{" name ["=" constant] ("," name ["=" constant])* "}" [";"]
 *	typedef := "typedef" (type | struct | enum) ["*"...] name ["[" constant "]"]* ";"
 */
#include "lang/parse.h"

#include <string.h>

#define MOST_ITEMS 256	/* of an enum */

static const char *const basic[] = {
	"void", "char", "short", "int", "long", "signed", "unsigned", "float", "double", "bool", "_Bool",
	"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
	"int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t",
	"size_t", "ssize_t", "intptr_t", "uintptr_t", "ptrdiff_t", "off_t", "time_t", "pid_t",
	"u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "string", "wchar_t",
	"__u8", "__u16", "__u32", "__u64", "__s8", "__s16", "__s32", "__s64",
	NULL
};
static const char *const tags[] = { "struct", "union", "enum", "class", NULL };
static const char *const quals[] = { "const", "volatile", "restrict", NULL };
static const char *const joining[] = { "char", "short", "int", "long", "signed", "unsigned", "double", NULL };

static bool among(const char *const *list, const char *word)
{
	for (; *list; list++)
		if (strcmp(*list, word) == 0)
			return true;
	return false;
}

static bool is_alias(const struct parser *p, const char *word)
{
	size_t i;

	for (i = 0; i < p->script->aliases.n; i++)
		if (strcmp(p->script->aliases.v[i].name, word) == 0)
			return true;
	return false;
}

bool type_starts(struct parser *p)
{
	return p->tok.kind == T_WORD && (among(basic, p->tok.text) || among(tags, p->tok.text) ||
					 among(quals, p->tok.text) || is_alias(p, p->tok.text) ||
					 parse_is_word(p, "typeof") || parse_macro_is_type(p));
}

static void skip_quals(struct parser *p)
{
	while (p->tok.kind == T_WORD && among(quals, p->tok.text))
		parse_advance(p);
}

static void type_words(struct parser *p, struct type_name *t)
{
	struct pool *pool = &p->script->pool;
	bool c_words = p->tok.kind == T_WORD && among(joining, p->tok.text);

	t->name = p->tok.text;
	parse_advance(p);
	for (;;) {
		skip_quals(p);
		if (!t->tag && c_words && p->tok.kind == T_WORD && among(joining, p->tok.text)) {
			t->name = pool_printf(pool, "%s %s", t->name, p->tok.text);
			parse_advance(p);
		} else if (parse_is(p, T_SCOPE)) {
			parse_advance(p);
			if (p->tok.kind != T_WORD) {
				parse_error(p, "a name behind ::");
				return;
			}
			t->name = pool_printf(pool, "%s::%s", t->name, p->tok.text);
			parse_advance(p);
		} else {
			return;
		}
	}
}

/* ---- constants ---- */

static bool enumerator(const struct enum_decl *d, const char *name, int64_t *ret)
{
	uint32_t i;

	for (i = 0; i < d->nitems; i++)
		if (strcmp(d->items[i].name, name) == 0) {
			*ret = d->items[i].value;
			return true;
		}
	return false;
}

static bool fold_binary(uint8_t op, int64_t a, int64_t b, int64_t *ret)
{
	switch (op) {
	case '+':	*ret = (uint64_t)a + b; return true;
	case '-':	*ret = (uint64_t)a - b; return true;
	case '*':	*ret = (uint64_t)a * b; return true;
	case '&':	*ret = a & b; return true;
	case '|':	*ret = a | b; return true;
	case '^':	*ret = a ^ b; return true;
	case T_SHL:	*ret = (uint64_t)a << (b & 63); return true;
	case T_SHR:	*ret = a >> (b & 63); return true;
	case '/': case '%':
		if (!b || b == -1)
			return false;
		*ret = op == '/' ? a / b : a % b;
		return true;
	}
	return false;
}

/* own: the enum that is being read; its items so far are known. */
static bool fold(const struct parser *p, const struct expr *e, const struct enum_decl *own, int64_t *ret)
{
	int64_t a, b;
	size_t i;

	switch (e->kind) {
	case E_INT:
		*ret = e->value;
		return true;
	case E_UNARY:
		if (!fold(p, e->a, own, &a) || !strchr("+-~", e->op))
			return false;
		*ret = e->op == '-' ? (int64_t)-(uint64_t)a : e->op == '~' ? ~a : a;
		return true;
	case E_BINARY:
		return fold(p, e->a, own, &a) && fold(p, e->b, own, &b) && fold_binary(e->op, a, b, ret);
	case E_NAME:
		if (own && enumerator(own, e->name, ret))
			return true;
		for (i = 0; i < p->script->enums.n; i++)
			if (enumerator(&p->script->enums.v[i], e->name, ret))
				return true;
	}
	return false;
}

/* A constant of a definition: the size of an array, the value of an enumerator. */
static int64_t parse_const(struct parser *p, const struct enum_decl *own, int64_t least, int64_t most)
{
	struct expr *e = parse_value(p);
	int64_t v = 0;

	if (p->panic)
		return least;
	if (!fold(p, e, own, &v))
		diag_error(p->lex.diags, e->at, e->len, "a constant is needed here");
	else if (v < least || v > most)
		diag_error(p->lex.diags, e->at, e->len, "this constant is not from %lld to %lld", (long long)least, (long long)most);
	else
		return v;
	return least;
}

/* ---- types ---- */

static void type_dims(struct parser *p, struct type_name *t)
{
	while (parse_accept(p, '[')) {
		int64_t n = parse_is(p, ']') ? -1 : parse_const(p, NULL, 0, INT32_MAX);

		parse_expect(p, ']', "after the size of the array");
		if (t->ndims == ARRAY_SIZE(t->dims)) {
			diag_error(p->lex.diags, t->at, p->last_end - t->at, "arrays have at most %zu dimensions",
				   ARRAY_SIZE(t->dims));
			return;
		}
		t->dims[t->ndims++] = n;
	}
}

/* "typeof" "(" (type | value) ")" */
static void typeof_type(struct parser *p, struct type_name *t)
{
	parse_advance(p);
	parse_expect(p, '(', "after typeof");
	t->name = "typeof";
	if (type_starts(p))
		t->of_type = parse_type(p);
	else
		t->of = parse_value(p);
	parse_expect(p, ')', "after typeof(");
}

/* Behind the name of a type. */
static struct type_name *type_end(struct parser *p, struct type_name *t)
{
	for (;;) {
		skip_quals(p);
		if (!parse_accept(p, '*'))
			break;
		t->pointers++;
	}
	type_dims(p, t);
	t->len = p->last_end - t->at;
	return t;
}

struct type_name *parse_type(struct parser *p)
{
	struct type_name *t = pool_new(&p->script->pool, struct type_name), *of;

	t->at = p->tok.at;
	t->name = "int";
	skip_quals(p);
	if (parse_macro_is_type(p)) {
		of = parse_macro_type(p);
		t->name = "typeof";
		t->of_type = of ? of : t;
		return of ? type_end(p, t) : t;
	}
	if (parse_is_word(p, "typeof")) {
		typeof_type(p, t);
		return type_end(p, t);
	}
	if (p->tok.kind == T_WORD && among(tags, p->tok.text)) {
		t->tag = strcmp(p->tok.text, "class") == 0 ? "struct" : p->tok.text;
		parse_advance(p);
	}
	if (p->tok.kind != T_WORD) {
		parse_error(p, "the name of a type");
		return t;
	}
	type_words(p, t);
	return type_end(p, t);
}

/* ")" "(" ... ")": whom a pointer to a function calls does not matter here. */
static void pass_parameters(struct parser *p)
{
	uint32_t depth = 1;

	parse_expect(p, ')', "after the name of a pointer to a function");
	parse_expect(p, '(', "in front of its parameters");
	while (!p->panic && depth && !parse_is(p, T_END)) {
		depth += parse_is(p, '(');
		depth -= parse_is(p, ')');
		if (depth)
			parse_advance(p);
	}
	parse_expect(p, ')', "after its parameters");
}

/* ["*"...] name ["[" n "]"] [":" bits], behind the type that all names of a line share */
static void declarator(struct parser *p, const struct type_name *base, struct member_decl *m)
{
	struct type_name *t = pool_new(&p->script->pool, struct type_name);
	bool function;

	*t = *base;
	while (parse_accept(p, '*'))
		t->pointers++;
	function = parse_accept(p, '(');
	if (function) {
		*t = (struct type_name){ .at = base->at, .len = base->len, .name = "void", .pointers = 1 };
		parse_expect(p, '*', "in front of the name of a pointer to a function");
	}
	m->at = p->tok.at;
	m->len = p->tok.len;
	m->name = "";
	if (p->tok.kind == T_WORD) {
		m->name = p->tok.text;
		parse_advance(p);
	} else {
		parse_error(p, "the name of a member");
	}
	type_dims(p, t);
	if (function)
		pass_parameters(p);
	if (parse_accept(p, ':')) {
		m->is_field = true;
		m->bits = parse_const(p, NULL, 1, 64);
	}
	m->type = t;
}

/* Does a definition follow ("struct {", "struct name {"), or just the name of a type? */
static bool definition_follows(const struct parser *p)
{
	struct lexer look = p->lex;
	struct diags quiet = { .name = "", .source = p->lex.s, .size = p->lex.size };
	struct token t;

	if (!parse_is_word(p, "struct") && !parse_is_word(p, "union") && !parse_is_word(p, "enum"))
		return false;
	look.diags = &quiet;
	t = lex_next(&look);
	if (t.kind == T_WORD)
		t = lex_next(&look);
	diags_free(&quiet);
	return t.kind == '{';
}

typedef VEC(struct member_decl) member_list;
static struct type_name *struct_definition(struct parser *p);
static struct type_name *enum_definition(struct parser *p);

static void members_line(struct parser *p, member_list *list)
{
	bool inner = definition_follows(p), is_enum = parse_is_word(p, "enum");
	struct type_name *t = !inner ? parse_type(p) : is_enum ? enum_definition(p) : struct_definition(p);

	if (inner && is_enum && parse_is(p, ';')) {
		/* constants only */
	} else if (inner && parse_is(p, ';')) {	/* its members are found through it */
		*vec_add(list) = (struct member_decl){ .type = t, .name = "", .at = t->at, .len = t->len };
	} else {
		do {
			declarator(p, t, vec_add(list));
		} while (!p->panic && parse_accept(p, ','));
	}
	if (!parse_is(p, '}'))
		parse_expect(p, ';', "after the member");
}

/* "__attribute__" "((" words "))": of all attributes, packed matters. */
static bool attributes(struct parser *p)
{
	bool packed = false;

	while (parse_accept_word(p, "__attribute__")) {
		uint32_t depth = 0;

		do {
			depth += parse_is(p, '(');
			depth -= depth && parse_is(p, ')');
			packed |= parse_is_word(p, "packed") || parse_is_word(p, "__packed__");
			if (!parse_is(p, T_END))
				parse_advance(p);
		} while (depth && !parse_is(p, T_END));
	}
	return packed;
}

/* "struct" [name] "{" ... "}"; the answer names it. */
static struct type_name *struct_definition(struct parser *p)
{
	struct struct_decl d = { .at = p->tok.at, .len = p->tok.len, .tag = p->tok.text };
	struct type_name *t = pool_new(&p->script->pool, struct type_name);
	member_list members = { 0 };

	*t = (struct type_name){ .at = d.at, .len = d.len, .tag = d.tag };
	parse_advance(p);
	t->name = d.name = p->tok.kind == T_WORD ? p->tok.text : pool_printf(&p->script->pool, "(unnamed at %u)", d.at);
	parse_accept(p, T_WORD);
	if (!parse_deeper(p))
		return t;
	parse_expect(p, '{', "after the name of the struct");
	while (!p->panic && !parse_is(p, '}') && !parse_is(p, T_END))
		members_line(p, &members);
	parse_expect(p, '}', "after the members");
	d.packed = attributes(p);
	p->depth--;
	d.nmembers = members.n;
	d.members = pool_alloc(&p->script->pool, (members.n + 1) * sizeof(*d.members));
	if (members.n)
		memcpy(d.members, members.v, members.n * sizeof(*d.members));
	vec_free(&members);
	*vec_add(&p->script->structs) = d;
	return t;
}

bool parse_struct_decl(struct parser *p)
{
	struct lexer look = p->lex;
	struct token next = lex_next(&look);

	if (next.kind != T_WORD) {
		parse_advance(p);
		parse_error(p, "the name of the struct");
		return false;
	}
	struct_definition(p);
	parse_accept(p, ';');
	return !p->panic;
}

/* "enum" [name] "{" ... "}"; the answer names it. */
static struct type_name *enum_definition(struct parser *p)
{
	struct type_name *t = pool_new(&p->script->pool, struct type_name);
	struct enum_decl d = { 0 };
	int64_t next = 0;

	*t = (struct type_name){ .at = p->tok.at, .len = p->tok.len, .tag = "enum" };
	parse_advance(p);
	t->name = d.name = p->tok.kind == T_WORD ? p->tok.text : pool_printf(&p->script->pool, "(unnamed at %u)", t->at);
	parse_accept(p, T_WORD);
	parse_expect(p, '{', "after enum");
	d.items = pool_alloc(&p->script->pool, MOST_ITEMS * sizeof(*d.items));
	while (!p->panic && p->tok.kind == T_WORD && d.nitems < MOST_ITEMS) {
		d.items[d.nitems].name = p->tok.text;
		parse_advance(p);
		if (parse_accept(p, '='))
			next = parse_const(p, &d, INT64_MIN, INT64_MAX);
		d.items[d.nitems++].value = next;
		next = (uint64_t)next + 1;
		if (!parse_accept(p, ','))
			break;
	}
	parse_expect(p, '}', "after the values of the enum");
	*vec_add(&p->script->enums) = d;
	return t;
}

bool parse_enum_decl(struct parser *p)
{
	enum_definition(p);
	parse_accept(p, ';');
	return !p->panic;
}

/* "typedef" (type | struct | enum) ["*"...] name ["[" n "]"] ";" */
bool parse_typedef(struct parser *p)
{
	struct member_decl m = { 0 };
	struct type_name *t;

	parse_advance(p);
	t = definition_follows(p) ? (parse_is_word(p, "enum") ? enum_definition(p) : struct_definition(p)) : parse_type(p);
	declarator(p, t, &m);
	parse_expect(p, ';', "after the typedef");
	if (!p->panic)
		*vec_add(&p->script->aliases) = (struct alias_decl){ m.name, m.type };
	return !p->panic;
}
