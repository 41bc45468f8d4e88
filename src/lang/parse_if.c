/* SPDX-License-Identifier: MIT */
/*
 * if (...) { ... a } else { ... b } as a value: the same as c ? { ...; a } : { ...; b }. An if is read as a statement, and
 * becomes a value where one is needed, if the last statement of each of its blocks has one.
 */
#include "lang/parse.h"

static struct expr *block_value(struct parser *p, struct stmt *s, const struct stmt *at)
{
	struct expr *e = parse_new(p, E_BLOCK, at->at), *last = NULL;
	struct stmt **link = &s, *x;

	e->len = at->len;
	for (x = s; x && x->next; x = x->next)
		link = &x->next;
	if (x && x->kind == S_EXPR && x->is_value)
		last = x->a;
	else if (x && x->kind == S_IF)
		last = parse_as_value(p, x);
	if (!last)
		return NULL;
	*link = NULL;
	e->body = s;
	e->a = last;
	return s ? e : last;
}

struct expr *parse_as_value(struct parser *p, const struct stmt *s)
{
	struct expr *e = parse_new(p, E_COND, s->at);

	e->len = s->len;
	e->a = s->a;
	e->b = s->other ? block_value(p, s->body, s) : NULL;
	e->c = e->b ? block_value(p, s->other, s) : NULL;
	return e->c ? e : NULL;
}

struct expr *parse_if_value(struct parser *p)
{
	struct stmt *s = parse_if(p);
	struct expr *e = p->panic ? NULL : parse_as_value(p, s);

	if (e)
		return parse_done(p, e);
	if (!p->panic)
		diag_error(p->lex.diags, s->at, s->len, "a value is needed here, so each branch of this if ends with one: if (c) { 1 } else { 2 }");
	p->panic = true;
	return parse_new(p, E_INT, s->at);
}
