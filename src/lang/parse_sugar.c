/* SPDX-License-Identifier: MIT */
/*
 * Calls that are a short way to write something else:
 *
 *	find(@m, key, $v)	has_key(@m, key) ? { $v = @m[key]; true } : false
 *	assert(c, "text")	if (!c) { errorf("assert failed: text"); exit(1) }
 *	fail("format", ...)	errorf("format", ...); exit(1)
 *	container_of(p, T, m)	(T *)((uint64)p - offsetof(T, m))
 *	is_err(p)		(uint64)p >= -4095
 */
#include "lang/lex.h"
#include "lang/parse.h"

#include <string.h>

static struct expr *node(struct parser *p, uint8_t kind, const struct expr *at)
{
	struct expr *e = parse_new(p, kind, at->at);

	e->len = at->len;
	return e;
}

static struct expr *call(struct parser *p, const struct expr *at, const char *name, struct expr *a, struct expr *b)
{
	struct expr *e = node(p, E_CALL, at);

	e->name = name;
	e->list = pool_alloc(&p->script->pool, 2 * sizeof(*e->list));
	e->list[0] = a;
	e->list[1] = b;
	e->nlist = b ? 2 : a ? 1 : 0;
	return e;
}

static struct expr *number(struct parser *p, const struct expr *at, uint8_t kind, uint64_t value)
{
	struct expr *e = node(p, kind, at);

	e->value = value;
	return e;
}

static struct stmt *statement(struct parser *p, struct expr *e, struct stmt *next)
{
	struct stmt *s = pool_new(&p->script->pool, struct stmt);

	*s = (struct stmt){ .kind = S_EXPR, .at = e->at, .len = e->len, .a = e, .next = next };
	return s;
}

static struct expr *find(struct parser *p, struct expr *e)
{
	struct expr *map = e->list[0], *key = e->list[1], *there = node(p, E_MAP, map), *choice = node(p, E_COND, e);
	struct expr *set = node(p, E_ASSIGN, e), *yes = node(p, E_BLOCK, e);

	there->name = map->name;
	there->has_keys = true;
	there->nlist = 1;
	there->list = pool_alloc(&p->script->pool, sizeof(*there->list));
	there->list[0] = key;
	set->a = e->list[2];
	set->b = there;
	yes->body = statement(p, set, NULL);
	yes->a = number(p, e, E_BOOL, true);
	choice->a = call(p, e, "has_key", map, key);
	choice->b = yes;
	choice->c = number(p, e, E_BOOL, false);
	return choice;
}

static struct stmt *give_up(struct parser *p, const struct expr *at)
{
	return statement(p, call(p, at, "exit", number(p, at, E_INT, 1), NULL), NULL);
}

static struct expr *assertion(struct parser *p, struct expr *e)
{
	struct expr *block = node(p, E_BLOCK, e), *text = node(p, E_STR, e->list[1]), *not = node(p, E_UNARY, e->list[0]);
	struct stmt *s = statement(p, not, NULL);

	text->name = "assert failed: %s";
	text->text_len = strlen(text->name);
	not->op = '!';
	not->a = e->list[0];
	s->kind = S_IF;
	s->body = statement(p, call(p, e, "errorf", text, e->list[1]), give_up(p, e));
	block->body = s;
	return block;
}

static struct expr *failure(struct parser *p, struct expr *e)
{
	struct expr *block = node(p, E_BLOCK, e);

	e->name = "errorf";
	block->body = statement(p, e, give_up(p, e));
	return block;
}

/* a ?: b is { $tmp = a; $tmp ? $tmp : b }: a is computed once. */
struct expr *parse_or(struct parser *p, struct expr *a)
{
	struct expr *block = node(p, E_BLOCK, a), *set = node(p, E_ASSIGN, a), *choice = node(p, E_COND, a), *var[3];

	for (int i = 0; i < 3; i++) {
		var[i] = node(p, E_VAR, a);
		var[i]->name = pool_printf(&p->script->pool, "?%u", a->at);
	}
	set->a = var[0];
	set->b = a;
	choice->a = var[1];
	choice->b = var[2];
	choice->c = parse_value(p);
	block->body = statement(p, set, NULL);
	block->a = choice;
	return block;
}

static struct expr *cast(struct parser *p, const struct expr *at, struct type_name *to, struct expr *a)
{
	struct expr *e = node(p, E_CAST, at);

	e->to = to;
	e->a = a;
	return e;
}

static struct type_name *unsigned_long(struct parser *p, const struct expr *at)
{
	struct type_name *t = pool_new(&p->script->pool, struct type_name);

	*t = (struct type_name){ .at = at->at, .len = at->len, .name = "uint64" };
	return t;
}

/* "(" pointer "," type "," member ("." member)* ")" is (type *)((uint64)pointer - offsetof(type, member)) */
struct expr *parse_container_of(struct parser *p, struct expr *e)
{
	struct type_name *type, *pointer = pool_new(&p->script->pool, struct type_name);
	struct expr *a, *minus = node(p, E_BINARY, e), *off = node(p, E_OFFSETOF, e);

	parse_expect(p, '(', "after container_of");
	a = parse_value(p);
	parse_expect(p, ',', "after the pointer");
	type = parse_type(p);
	parse_expect(p, ',', "between type and member");
	off->name = "";
	do {
		off->name = pool_printf(&p->script->pool, "%s%s%s", off->name, *off->name ? "." : "", p->tok.kind == T_WORD ? p->tok.text : "");
		parse_expect(p, T_WORD, "as the name of a member");
	} while (parse_accept(p, '.'));
	parse_expect(p, ')', "after container_of(");
	off->to = type;
	*pointer = *type;
	pointer->pointers++;
	minus->op = '-';
	minus->a = cast(p, e, unsigned_long(p, e), a);
	minus->b = off;
	return parse_done(p, cast(p, e, pointer, minus));
}

/* is_err(p): the kernel and others return -1 to -4095 as a pointer. */
static struct expr *is_err(struct parser *p, struct expr *e)
{
	struct expr *test = node(p, E_BINARY, e);

	test->op = T_GE;
	test->a = cast(p, e, unsigned_long(p, e), e->list[0]);
	test->b = number(p, e, E_INT, (uint64_t)-4095);
	return test;
}

struct expr *parse_sugar(struct parser *p, struct expr *e)
{
	const char *usage = NULL;

	if (strcmp(e->name, "find") == 0) {
		if (e->nlist == 3 && e->list[0]->kind == E_MAP && !e->list[0]->has_keys && e->list[2]->kind == E_VAR)
			return find(p, e);
		usage = "find(@map, key, $x)";
	} else if (strcmp(e->name, "assert") == 0) {
		if (e->nlist == 2)
			return assertion(p, e);
		usage = "assert(condition, \"text\")";
	} else if (strcmp(e->name, "fail") == 0) {
		if (e->nlist)
			return failure(p, e);
		usage = "fail(\"format\", ...)";
	}
	if (strcmp(e->name, "is_err") == 0) {
		if (e->nlist == 1)
			return is_err(p, e);
		usage = "is_err(pointer)";
	}
	if (usage && !p->panic)
		diag_error(p->lex.diags, e->at, e->len, "usage: %s", usage);
	return e;
}
