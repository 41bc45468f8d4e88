/* SPDX-License-Identifier: MIT */
/*
 * Scripts:
 *
 *	script    := ["#!" ...] (preamble | clause)*
 *	clause    := probe ("," probe)* ["/" expr "/"] "{" statements "}"
 *	statement := if | while | unroll | for | "break" | "continue" | "return" [value] | let | block | expr
 *
 * After an error the parser goes on at the next statement or clause, so that a run shows several.
 */
#include "lang/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "lang/store.h"

void parse_advance(struct parser *p)
{
	p->last_end = p->tok.at + p->tok.len;
	do {
		p->tok = lex_next(&p->lex);
		if (p->tok.kind == T_BAD)
			p->panic = true;
	} while (p->tok.kind == T_BAD);
}

void parse_rewind(struct parser *p, uint32_t pos)
{
	uint32_t end = p->last_end;

	p->lex.pos = pos;
	p->tok = lex_next(&p->lex);
	if (p->tok.kind == T_BAD) {
		p->panic = true;
		parse_advance(p);
	}
	p->last_end = end;
}

bool parse_is(const struct parser *p, uint8_t kind)
{
	return p->tok.kind == kind;
}

bool parse_is_word(const struct parser *p, const char *word)
{
	return p->tok.kind == T_WORD && strcmp(p->tok.text, word) == 0;
}

bool parse_accept(struct parser *p, uint8_t kind)
{
	if (p->tok.kind != kind)
		return false;
	parse_advance(p);
	return true;
}

bool parse_accept_word(struct parser *p, const char *word)
{
	if (!parse_is_word(p, word))
		return false;
	parse_advance(p);
	return true;
}

/* Words and signs of other languages. */
static const char *habit(const struct parser *p)
{
	if (p->tok.kind == '=')
		return "; '==' compares";
	if (p->tok.kind != T_WORD)
		return "";
	if (strcmp(p->tok.text, "and") == 0)
		return "; write '&&'";
	return strcmp(p->tok.text, "or") == 0 ? "; write '||'" : "";
}

void parse_error_in(struct parser *p, const char *what, const char *where)
{
	uint32_t len = p->tok.len;

	if (p->panic || (p->tok.kind == T_END && p->lex.unclosed))
		return;
	p->panic = true;
	if (p->tok.kind == T_END)
		diag_error(p->lex.diags, p->last_end, 1, "expected %s%s%s, but the text ends here", what,
			   *where ? " " : "", where);
	else
		diag_error(p->lex.diags, p->tok.at, len, "expected %s%s%s, found '%.*s'%s", what, *where ? " " : "", where,
			   (int)MIN(len, 40u), p->lex.s + p->tok.at, habit(p));
}

void parse_error(struct parser *p, const char *what)
{
	parse_error_in(p, what, "");
}

bool parse_expect(struct parser *p, uint8_t kind, const char *where)
{
	char quoted[16];

	if (parse_accept(p, kind))
		return true;
	snprintf(quoted, sizeof(quoted), "'%s'", token_text(kind));
	parse_error_in(p, quoted, where);
	return false;
}

bool parse_deeper(struct parser *p)
{
	if (p->depth < PARSE_DEPTH) {
		p->depth++;
		return true;
	}
	if (!p->panic)
		diag_error(p->lex.diags, p->tok.at, 1, "this is nested too deeply (%d levels)", PARSE_DEPTH);
	p->panic = true;
	return false;
}

static struct stmt *new_stmt(struct parser *p, uint8_t kind)
{
	struct stmt *s = pool_new(&p->script->pool, struct stmt);

	s->kind = kind;
	s->at = p->tok.at;
	s->len = p->tok.len;
	return s;
}

/* "{" statement* "}" */
static struct stmt *block(struct parser *p, const char *where)
{
	struct stmt *s;

	parse_expect(p, '{', where);
	if (p->panic)
		return NULL;
	s = parse_statements(p, NULL);
	parse_expect(p, '}', "after the block");
	return s;
}

/* "if" value block ["else" (if | block)] */
struct stmt *parse_if(struct parser *p)
{
	struct stmt *s = new_stmt(p, S_IF);

	if (!parse_deeper(p))
		return s;
	parse_advance(p);
	if (parse_is(p, '{'))
		parse_error(p, "a condition");
	s->a = parse_value(p);
	s->body = block(p, "after the condition");
	if (!p->panic && parse_accept_word(p, "else"))
		s->other = parse_is_word(p, "if") ? parse_if(p) : block(p, "after else");
	p->depth--;
	return s;
}

/* ("while" | "unroll") value block; brackets around the value belong to it */
static struct stmt *loop_stmt(struct parser *p, uint8_t kind)
{
	struct stmt *s = new_stmt(p, kind);

	parse_advance(p);
	if (parse_is(p, '{'))
		parse_error(p, kind == S_WHILE ? "a condition" : "a count");
	s->a = parse_value(p);
	s->body = block(p, kind == S_WHILE ? "after the condition" : "after the count");
	return s;
}

/* for (i = 0; ...): passed over as a whole, for the semicolons in it. */
static struct stmt *no_c_for(struct parser *p, struct stmt *s)
{
	if (!p->panic)
		diag_error(p->lex.diags, s->at, s->len, "for goes over a map or a range: for ($kv : @map), for ($i : 0..10)");
	p->panic = true;
	while (!parse_is(p, '{') && !parse_is(p, '}') && !parse_is(p, T_END))
		parse_advance(p);
	return s;
}

/* "for" ["("] $var ":" (map | value ".." value) [")"] block */
static struct stmt *for_stmt(struct parser *p)
{
	struct stmt *s = new_stmt(p, S_FOR_MAP);
	bool paren;

	parse_advance(p);
	paren = parse_accept(p, '(');
	if (p->tok.kind == T_VAR) {
		s->var = parse_new(p, E_VAR, p->tok.at);
		s->var->name = parse_macro_var(p, p->tok.text);
		s->var->len = p->tok.len;
		parse_advance(p);
	}
	if (!s->var || !parse_is(p, ':'))
		return no_c_for(p, s);
	parse_advance(p);
	s->a = parse_value(p);
	if (!p->panic && parse_accept(p, T_RANGE)) {
		s->kind = S_FOR_RANGE;
		s->b = parse_value(p);
	} else if (!p->panic && (s->a->kind != E_MAP || s->a->has_keys)) {
		diag_error(p->lex.diags, s->a->at, s->a->len, "for goes over a map (@map) or a range (0..10)");
	}
	if (paren)
		parse_expect(p, ')', "after the map or range");
	s->body = block(p, "after for");
	return s;
}

/* "let" $var [":" type] ["=" value] */
static struct stmt *let_stmt(struct parser *p)
{
	struct stmt *s = new_stmt(p, S_LET);

	parse_advance(p);
	if (p->tok.kind != T_VAR) {
		parse_error(p, "a variable behind let");
		return s;
	}
	s->var = parse_new(p, E_VAR, p->tok.at);
	s->var->name = parse_macro_var(p, p->tok.text);
	s->var->len = p->tok.len;
	parse_advance(p);
	if (parse_accept(p, ':'))
		s->type = parse_type(p);
	if (parse_accept(p, '='))
		s->a = parse_value(p);
	return s;
}

static struct stmt *simple_stmt(struct parser *p, uint8_t kind)
{
	struct stmt *s = new_stmt(p, kind);

	parse_advance(p);
	if (kind == S_RETURN && !parse_is(p, ';') && !parse_is(p, '}'))
		s->a = parse_value(p);
	return s;
}

/* "int x = 5", "elif", "else": nothing that a statement could begin with */
static bool foreign_start(struct parser *p)
{
	const char *word = p->tok.kind == T_WORD ? p->tok.text : "", *why = NULL;
	const char *next = p->lex.s + p->lex.pos + strspn(p->lex.s + p->lex.pos, " \t");

	if (strcmp(word, "elif") == 0 || strcmp(word, "elseif") == 0 || strcmp(word, "elsif") == 0)
		why = "write 'else if'";
	else if (strcmp(word, "else") == 0)
		why = "this else has no if in front of it";
	else if (type_starts(p) && (isalpha((unsigned char)*next) || *next == '_' || *next == '$'))
		why = "variables are not declared: $x = 5, or let $x : int = 5";
	if (!why)
		return false;
	if (!p->panic)
		diag_error(p->lex.diags, p->tok.at, p->tok.len, "%s", why);
	p->panic = true;
	return true;
}

static struct stmt *expr_stmt(struct parser *p)
{
	struct stmt *s = new_stmt(p, S_EXPR);

	if (foreign_start(p))
		return s;
	s->a = parse_expr(p);
	s->len = s->a->len;
	return s;
}

/* ret_braced: it ends with a brace, so that no ';' need follow. */
static struct stmt *statement(struct parser *p, bool *ret_braced)
{
	struct stmt *s;

	*ret_braced = true;
	if (parse_is_word(p, "if"))
		return parse_if(p);
	if (parse_is_word(p, "while"))
		return loop_stmt(p, S_WHILE);
	if (parse_is_word(p, "unroll"))
		return loop_stmt(p, S_UNROLL);
	if (parse_is_word(p, "for"))
		return for_stmt(p);
	if (parse_is(p, '{')) {
		s = new_stmt(p, S_BLOCK);
		s->body = block(p, "");
		return s;
	}
	*ret_braced = false;
	if (parse_is_word(p, "let"))
		return let_stmt(p);
	if (parse_is_word(p, "break"))
		return simple_stmt(p, S_BREAK);
	if (parse_is_word(p, "continue"))
		return simple_stmt(p, S_CONTINUE);
	if (parse_is_word(p, "return"))
		return simple_stmt(p, S_RETURN);
	return expr_stmt(p);
}

/* After an error: on to the next ';' of this block, or to its end. */
static void resync(struct parser *p)
{
	int depth = 0;

	while (p->tok.kind != T_END) {
		if (p->tok.kind == ';' && depth == 0)
			break;
		if (p->tok.kind == '}' && depth-- == 0)
			break;
		depth += p->tok.kind == '{';
		parse_advance(p);
	}
	p->panic = false;
}

/*
 * statement (";" statement)*, up to '}'. ret_value: the last one may be a value without ';'.
 */
struct stmt *parse_statements(struct parser *p, struct expr **ret_value)
{
	struct stmt *first = NULL, **link = &first, *s;
	bool braced;

	if (!parse_deeper(p))
		return NULL;
	while (!parse_is(p, '}') && !parse_is(p, T_END)) {
		if (parse_accept(p, ';'))
			continue;
		s = statement(p, &braced);
		if (p->panic)
			resync(p);
		else if (ret_value && parse_is(p, '}') && s->kind == S_EXPR) {
			*ret_value = s->a;
			break;
		} else if (ret_value && parse_is(p, '}') && s->kind == S_IF && (*ret_value = parse_as_value(p, s))) {
			break;
		} else if (!braced && !parse_is(p, '}') && !parse_is(p, ';') && !parse_is(p, T_END)) {
			parse_error_in(p, "';'", "after the statement");
			resync(p);
		}
		s->is_value = s->kind == S_EXPR && parse_is(p, '}');
		*link = s;
		link = &s->next;
	}
	p->depth--;
	return first;
}

/* After an error outside of a block: on behind the next closing brace. */
static void resync_clause(struct parser *p)
{
	int depth = 0;

	p->panic = false;
	while (p->tok.kind != T_END) {
		depth += p->tok.kind == '{';
		if (p->tok.kind == '}' && --depth <= 0)
			break;
		parse_advance(p);
	}
	p->lex.pos = p->tok.at + p->tok.len;
	p->panic = false;
}

static void clause_probes(struct parser *p, struct clause *c)
{
	VEC(struct probe *) probes = { 0 };

	do {
		lex_blanks(&p->lex);
		*vec_add(&probes) = parse_probe(p);
		lex_blanks(&p->lex);
	} while (!p->panic && p->lex.s[p->lex.pos] == ',' && p->lex.pos++ < p->lex.size);
	c->nprobes = probes.n;
	c->probes = pool_alloc(&p->script->pool, (probes.n + 1) * sizeof(*c->probes));
	memcpy(c->probes, probes.v, probes.n * sizeof(*c->probes));
	vec_free(&probes);
}

static void clause(struct parser *p)
{
	struct clause *c = pool_new(&p->script->pool, struct clause);
	bool panic;

	c->at = p->lex.pos;
	clause_probes(p, c);
	panic = p->panic;
	p->panic = false;
	parse_rewind(p, p->lex.pos);
	p->panic |= panic;
	if (!p->panic && parse_is(p, '/')) {
		parse_advance(p);
		p->in_predicate = true;
		c->predicate = parse_value(p);
		p->in_predicate = false;
		parse_expect(p, '/', "after the condition");
	}
	if (!p->panic) {
		parse_expect(p, '{', "in front of the actions");
		if (!p->panic)
			c->body = parse_statements(p, NULL);
	}
	if (!p->panic && p->tok.kind == '}') {
		p->lex.pos = p->tok.at + 1;
	} else {
		parse_expect(p, '}', "after the actions");
		resync_clause(p);
	}
	*vec_add(&p->script->clauses) = c;
}

static struct script *new_script(struct parser *p, const char *name, const char *text, size_t len)
{
	struct script *s = xcalloc(1, sizeof(*s));

	s->source = xcalloc(1, len + 1);
	memcpy(s->source, text, len);
	s->diags = (struct diags){ .name = name, .source = s->source, .size = len };
	*p = (struct parser){ .script = s };
	p->lex = (struct lexer){ .s = s->source, .size = len, .pool = &s->pool, .diags = &s->diags };
	return s;
}

static int finish(struct parser *p, struct script **ret_script)
{
	vec_free(&p->macros);
	vec_free(&p->blocks);
	*ret_script = p->script;
	if (!p->script->diags.errors)
		return 0;
	return fail(-EINVAL, "%s has errors", p->script->diags.name);
}

int script_parse(const char *name, const char *text, size_t len, struct script **ret_script)
{
	return script_parse_params(name, text, len, NULL, 0, ret_script);
}

int script_parse_params(const char *name, const char *text, size_t len, char *const *params, uint32_t nparams,
			struct script **ret_script)
{
	struct parser p;
	struct script *s = new_script(&p, name, text, len);
	const char *nul = memchr(text, 0, len);

	s->params = params;
	s->nparams = nparams;
	if (nul || len > 1 << 24) {
		diag_error(&s->diags, nul ? nul - text : 0, 1, nul ? "a script can't contain NUL bytes" : "too long");
		return finish(&p, ret_script);
	}
	for (;;) {
		lex_blanks(&p.lex);
		if (p.lex.pos >= p.lex.size || s->diags.errors >= DIAG_MOST)
			break;
		if (!parse_preamble(&p))
			clause(&p);
		else if (p.panic) {
			parse_rewind(&p, p.lex.pos);
			resync_clause(&p);
		}
	}
	if (!s->clauses.n && !s->diags.errors)
		diag_error(&s->diags, len, 1, "there is no probe in this script");
	return finish(&p, ret_script);
}

/* Part of the source, up to a NUL that stands there for the moment. */
static bool parse_part(struct parser *p, struct clause *c, uint32_t at, size_t len, bool (*parse)(struct parser *p, struct clause *c))
{
	char *end = p->script->source + at + len, was = *end;
	bool good;

	*end = 0;
	p->lex.pos = at;
	p->lex.size = at + len;
	p->in_line = false;
	good = parse(p, c);
	*end = was;
	return good;
}

/* A probe, the contexts and a condition, each a line of the source; any of them may be missing. */
int line_parse(const char *text, const struct line_more *more, struct script **ret_script)
{
	size_t n = more ? more->ncontexts : 0;
	struct bytes all = { 0 };
	uint32_t at = 0, own = 0;
	struct clause *c;
	struct parser p;
	bool good = true;

	for (size_t i = 0; i < n + 2; i++) {
		const char *part = i == 0 ? text : i <= n ? more->contexts[i - 1] : more ? more->condition : NULL;

		bytes_add(&all, part, part ? strlen(part) : 0);
		bytes_add(&all, "\n", part != NULL);
	}
	new_script(&p, text ? "probe" : "-t", (const char *)all.p, all.n);
	bytes_free(&all);
	c = pool_new(&p.script->pool, struct clause);
	c->is_line = true;
	for (size_t i = 0; good && i < n + 2; i++) {
		const char *part = i == 0 ? text : i <= n ? more->contexts[i - 1] : more ? more->condition : NULL;

		if (!part)
			continue;
		good = parse_part(&p, c, at, strlen(part), i == 0 ? parse_line : i <= n ? parse_context : parse_line_condition);
		own = i == 0 ? c->nfields : own;
		at += strlen(part) + 1;
	}
	c->nmore = c->nfields - own;
	*vec_add(&p.script->clauses) = c;
	return finish(&p, ret_script);
}

int line_check_context(const char *text)
{
	char *context = xstrdup(text), *why;
	struct script *s;
	int r = line_parse(NULL, &(struct line_more){ &context, 1, NULL }, &s);

	if (r < 0) {
		why = diags_text(&s->diags);
		why[strlen(why) - 1] = 0;
		fail_lines(r, why);
		free(why);
	}
	script_free(s);
	free(context);
	return r;
}

void script_free(struct script *s)
{
	size_t i;

	if (!s)
		return;
	for (i = 0; i < s->specs.n; i++)
		spec_free(s->specs.v[i]);
	vec_free(&s->specs);
	vec_free(&s->clauses);
	vec_free(&s->configs);
	vec_free(&s->maps);
	vec_free(&s->structs);
	vec_free(&s->enums);
	vec_free(&s->aliases);
	diags_free(&s->diags);
	pool_free(&s->pool);
	free(s->source);
	free(s);
}
