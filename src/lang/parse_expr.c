/* SPDX-License-Identifier: MIT */
/*
 * Expressions, with C's precedence:
 *
 *	expr    := unary assign-op value | value
 *	value   := binary ["?" [value] ":" value]
 *	binary  := unary (op unary)*
 *	unary   := ("+" | "-" | "!" | "~" | "*" | "&" | "++" | "--") unary | "(" type ")" unary | postfix
 *	postfix := primary ("." name | "." number | "->" name | "[" value "]" | "++" | "--")*
 *	primary := number | string | variable | map | name | call | tuple | record | "(" value ")" | "{" ... "}" | "if" ... "else" ...
 */
#include "lang/builtin.h"
#include "lang/parse.h"

#include <ctype.h>
#include <string.h>

struct expr *parse_new(struct parser *p, uint8_t kind, uint32_t at)
{
	struct expr *e = pool_new(&p->script->pool, struct expr);

	e->kind = kind;
	e->at = at;
	return e;
}

struct expr *parse_done(struct parser *p, struct expr *e)
{
	e->len = p->last_end > e->at ? p->last_end - e->at : 1;
	return e;
}

/* value ("," value)* close. A trailing comma is fine; named: "name = value" too. Returns how many. */
uint32_t parse_list(struct parser *p, uint8_t close, bool named, struct expr ***ret_list)
{
	VEC(struct expr *) list = { 0 };
	struct expr **kept, *e;
	uint32_t n;

	while (!parse_is(p, close) && !parse_is(p, T_END) && !p->panic) {
		struct token first = p->tok;

		e = parse_expr(p);
		if (named && e && e->kind == E_ASSIGN && !e->op && e->a->kind == E_NAME && first.kind == T_WORD) {
			e->kind = E_NAMED;
			e->name = e->a->name;
			e->a = e->b;
		}
		*vec_add(&list) = e;
		if (!parse_accept(p, ','))
			break;
	}
	parse_expect(p, close, close == ')' ? "after the arguments" : "after the keys");
	n = list.n;
	kept = pool_alloc(&p->script->pool, (n + 1) * sizeof(*kept));
	if (n)
		memcpy(kept, list.v, n * sizeof(*kept));
	vec_free(&list);
	*ret_list = kept;
	return n;
}

/* sizeof "(" (type | value) ")" */
static struct expr *sizeof_expr(struct parser *p, struct expr *e)
{
	e->kind = E_SIZEOF;
	parse_expect(p, '(', "after sizeof");
	if (type_starts(p))
		e->to = parse_type(p);
	else
		e->a = parse_value(p);
	parse_expect(p, ')', "after sizeof(");
	return parse_done(p, e);
}

/* offsetof "(" (type | value) "," name ("." name)* ")" */
static struct expr *offsetof_expr(struct parser *p, struct expr *e)
{
	e->kind = E_OFFSETOF;
	parse_expect(p, '(', "after offsetof");
	if (type_starts(p) || p->tok.kind == T_WORD)
		e->to = parse_type(p);
	else
		e->a = parse_value(p);
	parse_expect(p, ',', "between type and member");
	e->name = "";
	do {
		if (p->tok.kind != T_WORD) {
			parse_error(p, "the name of a member");
			break;
		}
		e->name = pool_printf(&p->script->pool, "%s%s%s", e->name, *e->name ? "." : "", p->tok.text);
		parse_advance(p);
	} while (parse_accept(p, '.'));
	parse_expect(p, ')', "after offsetof(");
	return parse_done(p, e);
}

/* The text of a #define, read as one operand. */
static struct expr *macro_expr(struct parser *p, struct macro *m)
{
	uint32_t back = p->lex.pos, end = p->last_end, size = p->lex.size;
	const char *eol = strchr(p->lex.s + m->pos, '\n');
	struct token tok = p->tok;
	size_t which = m - p->macros.v;
	struct expr *e;

	m->busy = true;
	p->lex.size = eol ? (uint32_t)(eol - p->lex.s) : size;
	parse_rewind(p, m->pos);
	e = parse_value(p);
	if (p->tok.kind != T_END && !p->panic)
		parse_error(p, "the end of the macro");
	p->macros.v[which].busy = false;
	p->lex.size = size;
	p->lex.pos = back;
	p->tok = tok;
	p->last_end = end;
	return e;
}

static struct macro *find_macro(struct parser *p, const char *name)
{
	size_t i;

	for (i = 0; i < p->macros.n; i++)
		if (!p->macros.v[i].busy && strcmp(p->macros.v[i].name, name) == 0)
			return &p->macros.v[i];
	return NULL;
}

/* name | name "(" [list] ")" | ns "::" name | sizeof... | offsetof... */
static struct expr *name_expr(struct parser *p)
{
	struct expr *e = parse_new(p, E_NAME, p->tok.at), *made = parse_macro_arg(p, p->tok.text);
	struct macro *m;

	if (!made)
		made = parse_macro_use(p, p->tok.text);
	if (made)
		return made;
	m = find_macro(p, p->tok.text);
	e->name = p->tok.text;
	if (!p->in_line && strncmp(e->name, "__builtin_", 10) == 0 && builtin_known(e->name + 10))
		e->name += 10;
	parse_advance(p);
	if (m)
		return macro_expr(p, m);
	if (strcmp(e->name, "container_of") == 0 && parse_is(p, '(') && !p->in_line)
		return parse_container_of(p, e);
	if (strcmp(e->name, "sizeof") == 0)
		return sizeof_expr(p, e);
	if (strcmp(e->name, "offsetof") == 0)
		return offsetof_expr(p, e);
	if (strcmp(e->name, "true") == 0 || strcmp(e->name, "false") == 0) {
		e->kind = E_BOOL;
		e->value = e->name[0] == 't';
		return parse_done(p, e);
	}
	while (parse_is(p, T_SCOPE)) {
		parse_advance(p);
		if (p->tok.kind != T_WORD) {
			parse_error(p, "a name behind ::");
			return parse_done(p, e);
		}
		e->name = pool_printf(&p->script->pool, "%s::%s", e->name, p->tok.text);
		parse_advance(p);
	}
	if (parse_is(p, '(') && (!p->in_line || p->tok.at == p->last_end)) {
		parse_advance(p);
		e->kind = E_CALL;
		e->nlist = parse_list(p, ')', true, &e->list);
		parse_done(p, e);
		return p->panic ? e : parse_sugar(p, e);
	}
	return parse_done(p, e);
}

/* "$" name | "$" number | "$#" */
static struct expr *variable_expr(struct parser *p)
{
	struct expr *e = parse_new(p, E_VAR, p->tok.at);

	e->name = p->tok.text;
	if (strcmp(e->name, "#") == 0) {
		e->kind = E_NPARAMS;
	} else if (isdigit((unsigned char)e->name[0])) {
		e->kind = E_PARAM;
		if (strspn(e->name, "0123456789") != strlen(e->name) || strlen(e->name) > 6 || atoi(e->name) == 0)
			diag_error(p->lex.diags, e->at, p->tok.len, "positional parameters are $1, $2, ...");
		e->value = strtoul(e->name, NULL, 10);
	} else {
		e->name = parse_macro_var(p, e->name);
	}
	parse_advance(p);
	return parse_done(p, e);
}

/* "@" [name] ["[" list "]"] */
static struct expr *map_expr(struct parser *p)
{
	struct expr *e = parse_new(p, E_MAP, p->tok.at);

	e->name = pool_printf(&p->script->pool, "@%s", parse_macro_map(p, p->tok.text));
	parse_advance(p);
	if (parse_accept(p, '[')) {
		e->has_keys = true;
		e->nlist = parse_list(p, ']', false, &e->list);
		if (!e->nlist && !p->panic)
			diag_error(p->lex.diags, e->at, p->last_end - e->at, "a map's key is missing");
	}
	return parse_done(p, e);
}

/* (a=1, b="x"): a tuple whose elements have names; the first one has been read as an assignment. */
static struct expr *record_expr(struct parser *p, struct expr *first, uint32_t at)
{
	struct expr *e = parse_new(p, E_TUPLE, at), **rest = NULL;
	uint32_t n = parse_accept(p, ',') ? parse_list(p, ')', true, &rest) : 0, i;

	if (!rest)
		parse_expect(p, ')', "after the record");
	first->kind = E_NAMED;
	first->name = first->a->name;
	first->a = first->b;
	e->nlist = n + 1;
	e->list = pool_alloc(&p->script->pool, (n + 1) * sizeof(*e->list));
	e->fields = pool_alloc(&p->script->pool, (n + 1) * sizeof(*e->fields));
	e->list[0] = first;
	for (i = 0; i < n; i++)
		e->list[i + 1] = rest[i];
	for (i = 0; i <= n; i++) {
		if (e->list[i]->kind != E_NAMED) {
			if (!p->panic)
				diag_error(p->lex.diags, e->list[i]->at, e->list[i]->len, "each value of a record has a name: (a=1, b=2)");
			return parse_done(p, e);
		}
		e->fields[i] = e->list[i]->name;
		e->list[i] = e->list[i]->a;
	}
	return parse_done(p, e);
}

/* "(" value ")" | "(" ")" | "(" value "," ")" | "(" value ("," value)+ ")" | record */
static struct expr *paren_expr(struct parser *p)
{
	uint32_t at = p->tok.at;
	bool pred = p->in_predicate, line = p->in_line;
	struct expr *e, *first;

	p->in_predicate = p->in_line = false;
	parse_advance(p);
	if (parse_accept(p, ')')) {
		e = parse_done(p, parse_new(p, E_TUPLE, at));
	} else {
		bool word = p->tok.kind == T_WORD;

		first = e = parse_expr(p);
		if (word && e->kind == E_ASSIGN && !e->op && e->a->kind == E_NAME && strcmp(e->a->name, "_") != 0) {
			e = record_expr(p, e, at);
		} else if (parse_accept(p, ',')) {
			struct expr **rest;
			uint32_t n = parse_list(p, ')', false, &rest);

			e = parse_new(p, E_TUPLE, at);
			e->nlist = n + 1;
			e->list = pool_alloc(&p->script->pool, (n + 1) * sizeof(*e->list));
			e->list[0] = first;
			memcpy(e->list + 1, rest, n * sizeof(*rest));
			parse_done(p, e);
		} else {
			parse_expect(p, ')', "after the expression");
			e->at = at;	/* with its brackets */
			parse_done(p, e);
		}
	}
	p->in_predicate = pred;
	p->in_line = line;
	return e;
}

/* "{" statement* value "}" */
static struct expr *block_expr(struct parser *p)
{
	struct expr *e = parse_new(p, E_BLOCK, p->tok.at);

	parse_advance(p);
	e->body = parse_statements(p, &e->a);
	if (!e->a && !p->panic)
		diag_error(p->lex.diags, e->at, 1, "this block has no value: its last statement ends with ';'");
	if (!e->a)
		e->a = parse_new(p, E_INT, e->at);
	parse_expect(p, '}', "after the block");
	return parse_done(p, e);
}

static struct expr *literal_expr(struct parser *p, uint8_t kind)
{
	struct expr *e = parse_new(p, kind, p->tok.at);

	e->value = kind == E_STR ? p->tok.text_len : p->tok.value;	/* of a text: all its bytes, also behind \\0 */
	e->fvalue = p->tok.fvalue;
	e->form = p->tok.form;
	e->name = p->tok.text;
	e->text_len = kind == E_STR ? strlen(e->name) : p->tok.text_len;	/* a text ends at \0 */
	e->prefix = p->lex.s[p->tok.at] == '\'';
	parse_advance(p);
	while (kind == E_STR && p->tok.kind == T_STR) {	/* "a" "b" */
		e->name = pool_printf(&p->script->pool, "%s%s", e->name, p->tok.text);
		e->text_len = strlen(e->name);
		e->value = e->text_len;
		parse_advance(p);
	}
	return parse_done(p, e);
}

static struct expr *primary(struct parser *p)
{
	switch (p->tok.kind) {
	case T_INT:	return literal_expr(p, E_INT);
	case T_FLOAT:	return literal_expr(p, E_FLOAT);
	case T_STR:	return literal_expr(p, E_STR);
	case T_WORD:	return parse_is_word(p, "if") && !p->in_line ? parse_if_value(p) : name_expr(p);
	case T_VAR:	return variable_expr(p);
	case T_MAP:	return map_expr(p);
	case '(':	return paren_expr(p);
	case '{':	return block_expr(p);
	}
	parse_error(p, "an expression");
	return parse_done(p, parse_new(p, E_INT, p->tok.at));
}

/* "." name | "->" name | "." number */
static struct expr *member(struct parser *p, struct expr *a)
{
	struct expr *e = parse_new(p, E_MEMBER, a->at);

	e->a = a;
	if (p->tok.kind == T_FLOAT) {		/* ".0": read it again as a sign and a number */
		uint32_t pos = p->tok.at + 1;

		e->kind = E_ELEMENT;
		e->value = strtoul(p->lex.s + pos, NULL, 10);
		pos += strspn(p->lex.s + pos, "0123456789");
		p->last_end = pos;
		parse_rewind(p, pos);
		return parse_done(p, e);
	}
	e->arrow = p->tok.kind == T_ARROW;
	parse_advance(p);
	if (p->tok.kind != T_WORD) {
		parse_error(p, "the name of a member");
		return a;
	}
	e->name = p->tok.text;
	parse_advance(p);
	return parse_done(p, e);
}

static bool is_element(const struct parser *p)
{
	return p->tok.kind == T_FLOAT && p->lex.s[p->tok.at] == '.' && p->tok.at == p->last_end;
}

/* Long chains make deep trees, though nothing is nested. */
static void check_chain(struct parser *p, unsigned int n)
{
	if (n == PARSE_CHAIN && !p->panic) {
		diag_error(p->lex.diags, p->tok.at, 1, "this expression is too long (%d operators in a row)", PARSE_CHAIN);
		p->panic = true;
	}
}

static struct expr *postfix(struct parser *p)
{
	struct expr *e = primary(p), *n;
	unsigned int chain = 0;

	while (!p->panic) {
		check_chain(p, chain++);
		if (parse_is(p, '.') || parse_is(p, T_ARROW) || is_element(p)) {
			e = member(p, e);
		} else if (parse_is(p, '[') && (!p->in_line || p->tok.at == p->last_end)) {
			parse_advance(p);
			n = parse_new(p, E_INDEX, e->at);
			n->a = e;
			n->b = parse_value(p);
			parse_expect(p, ']', "after the index");
			e = parse_done(p, n);
		} else if ((parse_is(p, T_INC) || parse_is(p, T_DEC)) && p->tok.at == p->last_end) {
			n = parse_new(p, E_STEP, e->at);
			n->a = e;
			n->op = p->tok.kind == T_INC ? '+' : '-';
			parse_advance(p);
			e = parse_done(p, n);
		} else {
			break;
		}
	}
	return e;
}

/*
 * Is "(" the beginning of a cast? It is if a type's words follow; one unknown word in brackets is a
 * type where otherwise two operands would follow each other, or where stars do.
 */
static bool cast_follows(struct parser *p)
{
	uint32_t pos = p->tok.at, end = p->last_end;
	bool yes, stars = false;

	parse_advance(p);
	yes = type_starts(p);
	if (!yes && p->tok.kind == T_WORD) {
		do {
			parse_advance(p);
			if (parse_is(p, T_SCOPE))
				parse_advance(p);
		} while (p->tok.kind == T_WORD);
		while (parse_accept(p, '*'))
			stars = true;
		if (parse_accept(p, ')'))
			yes = stars || p->tok.kind == T_WORD || p->tok.kind == T_VAR || p->tok.kind == T_MAP ||
			      p->tok.kind == T_INT || p->tok.kind == '(' || p->tok.kind == '~';
		if (yes && p->in_line && !stars)
			yes = false;
	}
	p->last_end = end;
	parse_rewind(p, pos);
	return yes;
}

/* "(" type ")" unary */
static struct expr *unary(struct parser *p);
static struct expr *cast_expr(struct parser *p)
{
	struct expr *e = parse_new(p, E_CAST, p->tok.at);

	parse_advance(p);
	e->to = parse_type(p);
	parse_expect(p, ')', "after the type");
	e->a = unary(p);
	return parse_done(p, e);
}

static struct expr *unary(struct parser *p)
{
	struct expr *e;
	uint8_t op = p->tok.kind;

	if (!parse_deeper(p))
		return parse_new(p, E_INT, p->tok.at);
	if (op == '(' && cast_follows(p)) {
		e = cast_expr(p);
	} else if (op < 128 && op > T_BAD && strchr("+-!~*&", op)) {
		e = parse_new(p, E_UNARY, p->tok.at);
		e->op = op;
		parse_advance(p);
		e->a = unary(p);
		parse_done(p, e);
	} else if (op == T_INC || op == T_DEC) {
		e = parse_new(p, E_STEP, p->tok.at);
		e->op = op == T_INC ? '+' : '-';
		e->prefix = true;
		parse_advance(p);
		e->a = unary(p);
		parse_done(p, e);
	} else {
		e = postfix(p);
	}
	p->depth--;
	return e;
}

static int precedence(uint8_t op)
{
	switch (op) {
	case '*': case '/': case '%':			return 10;
	case '+': case '-':				return 9;
	case T_SHL: case T_SHR:				return 8;
	case '<': case '>': case T_LE: case T_GE:	return 7;
	case T_EQ: case T_NE:				return 6;
	case '&':					return 5;
	case '^':					return 4;
	case '|':					return 3;
	case T_ANDAND:					return 2;
	case T_OROR:					return 1;
	}
	return 0;
}

/* The '/' that closes a predicate has '{' behind it. */
static bool ends_predicate(const struct parser *p)
{
	struct lexer look = p->lex;

	if (!p->in_predicate || p->tok.kind != '/')
		return false;
	lex_blanks(&look);
	return look.s[look.pos] == '{' || look.pos >= look.size;
}

/*
 * Fields of a probe line stand side by side, so "a -b" and "a *b" are two of them, but "a - b" and
 * "a-b" are one: a sign that could begin an operand does so if there is a blank before it only.
 */
static bool begins_field(const struct parser *p)
{
	uint32_t end = p->tok.at + p->tok.len;

	if (!p->in_line || !strchr("-*&+(", p->tok.kind) || p->tok.kind >= 128)
		return false;
	return p->tok.at > p->last_end && end < p->lex.size && !isspace((unsigned char)p->lex.s[end]);
}

static struct expr *binary(struct parser *p, int least)
{
	struct expr *e = unary(p), *n;
	unsigned int chain = 0;
	int prec;

	while (!p->panic && (prec = precedence(p->tok.kind)) >= least && prec && !ends_predicate(p) &&
	       !begins_field(p)) {
		n = parse_new(p, E_BINARY, e->at);
		n->op = p->tok.kind;
		check_chain(p, chain++);
		parse_advance(p);
		n->a = e;
		n->b = binary(p, prec + 1);
		e = parse_done(p, n);
	}
	return e;
}

struct expr *parse_value(struct parser *p)
{
	struct expr *e, *n;

	if (!parse_deeper(p))
		return parse_new(p, E_INT, p->tok.at);
	e = binary(p, 1);
	if (!p->panic && parse_is(p, '?')) {
		parse_advance(p);
		if (parse_accept(p, ':')) {
			e = parse_or(p, e);
			p->depth--;
			return parse_done(p, e);
		}
		n = parse_new(p, E_COND, e->at);
		n->a = e;
		n->b = parse_value(p);
		parse_expect(p, ':', "between the two values of ?:");
		n->c = parse_value(p);
		e = parse_done(p, n);
	}
	p->depth--;
	return e;
}

struct expr *parse_expr(struct parser *p)
{
	struct expr *e = parse_value(p), *n;
	uint8_t op = token_assigns(p->tok.kind);

	if (p->panic || p->in_line || (!op && !parse_is(p, '=')))
		return e;
	n = parse_new(p, E_ASSIGN, e->at);
	n->op = op;
	n->a = e;
	parse_advance(p);
	n->b = parse_value(p);
	return parse_done(p, n);
}
