/* SPDX-License-Identifier: MIT */
/*
 * Calls that are a short way to write something else:
 *
 *	find(@m, key, $v)	has_key(@m, key) ? { $v = @m[key]; true } : false
 *	assert(c, "text")	if (!c) { errorf("assert failed: text"); exit(1) }
 *	fail("format", ...)	errorf("format", ...); exit(1)
 */
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
	if (usage && !p->panic)
		diag_error(p->lex.diags, e->at, e->len, "usage: %s", usage);
	return e;
}
