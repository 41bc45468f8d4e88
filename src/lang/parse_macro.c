/* SPDX-License-Identifier: MIT */
/*
 * Macros of the language:
 *
 *	macro := "macro" NAME ["(" [param ("," param)*] ")"] "{" statements [value] "}"
 *	param := $NAME | @NAME | NAME
 *
 * The body is read again at each use, with the arguments in place of the parameters: $a and @b are another name for
 * what was handed over, a plain name is the text of an expression, read where it stands. All other variables of the
 * body are its own: they get a number behind their name, a new one for each use.
 */
#include "lang/builtin.h"
#include "lang/parse.h"

#include <string.h>

#define MOST_USES 20000		/* in a script; macros that use macros grow fast */

struct macro_arg { uint32_t pos; const char *name; };	/* where its text begins; what $x or @x is called outside */

struct macro_use {
	const struct block_macro *m;
	struct macro_use *around;
	uint32_t number;
	struct macro_arg *args;
};

/* What the parser was about to read. */
struct place {
	uint32_t pos, end, size;
	struct token tok;
	bool in_predicate, in_line;
	struct macro_use *use;
};

static struct place go_to(struct parser *p, uint32_t pos, struct macro_use *use)
{
	struct place back = { p->lex.pos, p->last_end, p->lex.size, p->tok, p->in_predicate, p->in_line, p->use };

	p->lex.size = p->lex.diags->size;	/* also out of the line of a #define, to its arguments */
	p->in_predicate = p->in_line = false;
	p->use = use;
	parse_rewind(p, pos);
	return back;
}

static void go_back(struct parser *p, const struct place *back)
{
	p->lex.pos = back->pos;
	p->lex.size = back->size;
	p->last_end = back->end;
	p->tok = back->tok;
	p->in_predicate = back->in_predicate;
	p->in_line = back->in_line;
	p->use = back->use;
}

/* ---- declarations ---- */

static void params(struct parser *p, struct block_macro *m)
{
	VEC(struct macro_param) list = { 0 };

	while (!p->panic && !parse_is(p, ')')) {
		if (!parse_is(p, T_VAR) && !parse_is(p, T_MAP) && !parse_is(p, T_WORD)) {
			parse_error(p, "a parameter ($a, @b or a name)");
			break;
		}
		*vec_add(&list) = (struct macro_param){ p->tok.kind, p->tok.text };
		parse_advance(p);
		if (!parse_accept(p, ','))
			break;
	}
	parse_expect(p, ')', "after the parameters");
	m->nparams = list.n;
	m->params = pool_alloc(&p->script->pool, (list.n + 1) * sizeof(*m->params));
	if (list.n)
		memcpy(m->params, list.v, list.n * sizeof(*m->params));
	vec_free(&list);
}

/* On to the '}' that closes the '{' here. */
static void pass_body(struct parser *p)
{
	uint32_t depth = 0;

	do {
		depth += parse_is(p, '{');
		depth -= parse_is(p, '}');
		if (depth)
			parse_advance(p);
	} while (depth && !parse_is(p, T_END));
}

void parse_macro(struct parser *p)
{
	struct block_macro m = { 0 };

	parse_advance(p);
	m.name = p->tok.text;
	if (!parse_accept(p, T_WORD)) {
		parse_error(p, "the name of a macro");
		return;
	}
	if (parse_accept(p, '('))
		params(p, &m);
	m.pos = p->tok.at;
	if (!p->panic && !parse_is(p, '{'))
		parse_error_in(p, "'{'", "in front of the macro's body");
	if (p->panic)
		return;
	pass_body(p);
	if (parse_is(p, '}'))
		p->tok.at++;	/* what follows may be no word, such as #define */
	else
		parse_expect(p, '}', "after the macro's body");
	*vec_add(&p->blocks) = m;
}

void parse_define(struct parser *p, uint32_t at)
{
	struct block_macro m = { .is_line = true };
	uint32_t back = p->lex.pos;

	parse_rewind(p, at);
	m.name = p->tok.text;
	parse_advance(p);
	parse_expect(p, '(', "after the name");
	params(p, &m);
	m.pos = p->last_end;
	p->lex.pos = back;
	if (!p->panic)
		*vec_add(&p->blocks) = m;
}

/* ---- uses ---- */

static const struct macro_arg *find_arg(const struct parser *p, uint8_t kind, const char *name)
{
	const struct macro_use *u = p->use;

	for (uint32_t i = 0; u && i < u->m->nparams; i++)
		if (u->m->params[i].kind == kind && strcmp(u->m->params[i].name, name) == 0)
			return &u->args[i];
	return NULL;
}

const char *parse_macro_var(struct parser *p, const char *name)
{
	const struct macro_arg *a = find_arg(p, T_VAR, name);

	if (a)
		return a->name;
	return p->use ? pool_printf(&p->script->pool, "%s#%u", name, p->use->number) : name;
}

const char *parse_macro_map(struct parser *p, const char *name)
{
	const struct macro_arg *a = find_arg(p, T_MAP, name);

	if (p->use && !a)
		diag_error(p->lex.diags, p->tok.at, p->tok.len, "a macro knows the maps that are handed over to it: macro %s(@%s)",
			   p->use->m->name, name);
	return a ? a->name : name;
}

static bool one_more(struct parser *p)
{
	if (p->uses++ < MOST_USES)
		return true;
	if (!p->panic)
		diag_error(p->lex.diags, p->tok.at, p->tok.len, "the macros of this script become too much text");
	p->panic = true;
	return false;
}

bool parse_macro_is_type(const struct parser *p)
{
	const struct macro_arg *a = p->use && p->tok.kind == T_WORD ? find_arg(p, T_WORD, p->tok.text) : NULL;

	return a && strncmp(p->lex.s + a->pos, "typeof", 6) == 0;
}

struct type_name *parse_macro_type(struct parser *p)
{
	const struct macro_arg *a = find_arg(p, T_WORD, p->tok.text);
	struct type_name *t;
	struct place back;

	if (!one_more(p))
		return NULL;
	parse_advance(p);
	back = go_to(p, a->pos, p->use->around);
	t = parse_type(p);
	go_back(p, &back);
	return t;
}

struct expr *parse_macro_arg(struct parser *p, const char *name)
{
	const struct macro_arg *a = find_arg(p, T_WORD, name);
	struct place back;
	struct expr *e;

	if (!a || !one_more(p))
		return NULL;
	parse_advance(p);
	back = go_to(p, a->pos, p->use->around);
	e = parse_value(p);
	go_back(p, &back);
	return e;
}

/* Behind an expression, without looking at it. */
static void pass_value(struct parser *p)
{
	uint32_t depth = 0;

	while (!parse_is(p, T_END) && (depth || (!parse_is(p, ',') && !parse_is(p, ')')))) {
		depth += parse_is(p, '(') || parse_is(p, '[') || parse_is(p, '{');
		depth -= depth && (parse_is(p, ')') || parse_is(p, ']') || parse_is(p, '}'));
		parse_advance(p);
	}
}

static void one_arg(struct parser *p, const struct macro_param *param, struct macro_arg *a)
{
	a->pos = p->tok.at;
	if (param->kind == T_WORD) {
		pass_value(p);
		return;
	}
	if (p->tok.kind == param->kind)
		a->name = param->kind == T_VAR ? parse_macro_var(p, p->tok.text) : parse_macro_map(p, p->tok.text);
	if (!parse_accept(p, param->kind))
		parse_error(p, param->kind == T_VAR ? "a variable ($x)" : "a map (@x)");
}

/* ["(" arg ("," arg)* ")"] */
static bool args(struct parser *p, const struct block_macro *m, struct macro_arg *list)
{
	uint32_t at = p->tok.at, n = 0;

	if (!m->nparams && !parse_is(p, '('))
		return true;
	parse_expect(p, '(', "after the name of a macro");
	while (!p->panic && n < m->nparams && !parse_is(p, ')')) {
		one_arg(p, &m->params[n], &list[n]);
		n++;
		if (!parse_accept(p, ','))
			break;
	}
	if (!p->panic && (n != m->nparams || !parse_is(p, ')'))) {
		diag_error(p->lex.diags, at, 1, "%s() takes %u argument%s", m->name, m->nparams, m->nparams == 1 ? "" : "s");
		p->panic = true;
	}
	return !p->panic && parse_accept(p, ')');
}

/* How many arguments follow, whatever they are. */
static uint32_t count_args(struct parser *p)
{
	struct place back = go_to(p, p->tok.at, p->use);
	uint32_t n = 0;

	parse_advance(p);
	if (parse_accept(p, '(') && !parse_is(p, ')'))
		do {
			n++;
			pass_value(p);
		} while (parse_accept(p, ','));
	go_back(p, &back);
	return n;
}

/*
 * The macro of this name that takes so many arguments; if none does, the first one, which then complains, unless the language
 * itself has something of that name.
 */
static const struct block_macro *find_block(struct parser *p, const char *name)
{
	const struct block_macro *first = NULL;
	uint32_t n = 0, had = p->lex.diags->errors;

	for (size_t i = 0; i < p->blocks.n; i++) {
		const struct block_macro *m = &p->blocks.v[i];

		if (strcmp(m->name, name) != 0)
			continue;
		if (!first)
			n = count_args(p);
		if (p->lex.diags->errors > had)
			return m;
		first = first ? first : m;
		if (m->nparams == n)
			return m;
	}
	return first && builtin_known(name) ? NULL : first;
}

/* Its body, or that of one which its body uses. An argument belongs to whoever has written it. */
static bool inside(const struct parser *p, const struct block_macro *m)
{
	for (const struct macro_use *u = p->use; u; u = u->around)
		if (u->m == m)
			return true;
	return false;
}

/* A body without statements is its value, which may be a constant. */
static struct expr *body(struct parser *p, struct expr *e)
{
	uint32_t size = p->lex.size, end = p->use->m->pos;

	if (p->use->m->is_line) {
		while (end < size && (p->lex.s[end] != '\n' || p->lex.s[end - 1] == '\\'))
			end++;
		p->lex.size = end;
		e = parse_value(p);
		p->lex.size = size;
		return e;
	}
	parse_expect(p, '{', "in front of the macro's body");
	e->body = parse_statements(p, &e->a);
	if (!parse_is(p, '}'))		/* what follows is not read here */
		parse_expect(p, '}', "after the macro's body");
	if (e->body || !e->a)
		return e;
	e->a->at = e->at;
	e->a->len = e->len;
	return e->a;
}

struct expr *parse_macro_use(struct parser *p, const char *name)
{
	const struct block_macro *m = find_block(p, name);
	struct expr *e = parse_new(p, E_BLOCK, p->tok.at);
	struct macro_use use = { .m = m, .around = p->use };
	struct place back;

	if (!m || !one_more(p))
		return NULL;
	if (inside(p, m)) {
		diag_error(p->lex.diags, e->at, p->tok.len, "the macro %s uses itself", name);
		p->panic = true;
		return NULL;
	}
	use.number = p->uses;
	use.args = pool_alloc(&p->script->pool, (m->nparams + 1) * sizeof(*use.args));
	parse_advance(p);
	if (!args(p, m, use.args) || !parse_deeper(p))
		return e;
	parse_done(p, e);
	back = go_to(p, m->pos, &use);
	e = body(p, e);
	go_back(p, &back);
	p->depth--;
	return e;
}
