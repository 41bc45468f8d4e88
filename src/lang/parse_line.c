/* SPDX-License-Identifier: MIT */
/*
 * Probe lines: a probe and the fields of its event, in C's words. Contexts (-t) are fields that every probe has.
 *
 *	line    := probe [field ...] ["if" value]
 *	field   := [name "="] value [":" type] | "$params" | "$retval" | "$regs" | "$stack"
 *	context := "regs" | "reg:" REGISTER | "stack" [":" bytes] | "backtrace" [":" frames] | type ":" name ":" place
 *	place   := number | SYMBOL ["+" number]
 *	type    := C's types | s8 ... s64 | u8 ... u64 | x8 ... x64 | o64 | ptr | string | string[LIMIT] | bytes[N] | TYPE[N]
 *
 * Of a pointer, or a register as it is, a string, bytes and an array are what it points to.
 */
#include "lang/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "lang/type.h"

#define BYTES_MOST 2048u	/* of the stack */
#define FRAMES_MOST 127u

/* Where the place of a probe line ends: spec_parse() knows, except for what it can't read. */
static size_t line_place_length(const char *s)
{
	struct probe_spec *spec;
	const char *rest = parse_probe_kind(s, "call");
	size_t len = strlen(s), n;

	if (strstr(s, "@") == s || strstr(s, ":@"))
		return strcspn(s, " \t\n");
	if (spec_parse(rest ? rest : s, &spec) < 0)
		return len;
	n = spec->rest ? strlen(spec->rest) : 0;
	spec_free(spec);
	while (n < len && isspace((unsigned char)s[len - n - 1]))
		n++;
	return len - n;
}

static bool is_dollar_field(const struct parser *p)
{
	static const char *const words[] = { "params", "args", "retval", "regs", "stack" };
	size_t i;

	for (i = 0; p->tok.kind == T_VAR && i < ARRAY_SIZE(words); i++)
		if (strcmp(p->tok.text, words[i]) == 0)
			return true;
	return false;
}

static bool names_field(struct parser *p)
{
	const char *s = p->lex.s + p->lex.pos;

	return p->tok.kind == T_WORD && s[0] == '=' && s[1] != '=';
}

static struct expr *cast_to(struct parser *p, struct expr *e, const struct type_name *to, uint32_t pointers)
{
	struct expr *cast = parse_new(p, E_CAST, e->at);

	cast->a = e;
	cast->prefix = true;
	cast->to = pool_new(&p->script->pool, struct type_name);
	*cast->to = *to;
	cast->to->pointers += pointers;
	return parse_done(p, cast);
}

static struct expr *call_with(struct parser *p, struct expr *e, const char *name, int64_t limit)
{
	struct expr *call = parse_new(p, E_CALL, e->at), *n = parse_new(p, E_INT, e->at);

	n->value = limit;
	call->name = name;
	call->prefix = true;
	call->list = pool_alloc(&p->script->pool, 2 * sizeof(*call->list));
	call->list[0] = e;
	call->list[1] = parse_done(p, n);
	call->nlist = 2;
	return parse_done(p, call);
}

static bool is_plain_name(const struct type_name *t, const char *name)
{
	return !t->tag && !t->pointers && strcmp(t->name, name) == 0;
}

/* Text and bytes of a length, which e points to; NULL: it is another type. */
static struct expr *text_at(struct parser *p, struct expr *e, const struct type_name *t)
{
	bool is_bytes = is_plain_name(t, "bytes");

	if (!is_bytes && !is_plain_name(t, "string"))
		return NULL;
	if (t->ndims == 1 && t->dims[0] > 0)
		return call_with(p, e, is_bytes ? "buf" : "str", t->dims[0]);
	if (!is_bytes && !t->ndims)
		return cast_to(p, e, t, 0);
	diag_error(p->lex.diags, t->at, t->len, is_bytes && !t->ndims ? "say how many: bytes[16]" : "this is no good number of bytes");
	p->panic = true;
	return e;
}

/* "ptr" is short for void *. */
static struct type_name whole_name(const struct type_name *t)
{
	struct type_name whole = *t;

	if (is_plain_name(t, "ptr") || is_plain_name(t, "pointer")) {
		whole.name = "void";
		whole.pointers = 1;
	}
	return whole;
}

/* The value of e as that type; is_place: e is the address of the value. */
static struct expr *typed(struct parser *p, struct expr *e, const struct type_name *t, bool is_place)
{
	struct expr *text = text_at(p, e, t), *at;
	struct type_name whole = whole_name(t);

	if (text || p->panic)
		return text ? text : e;
	for (uint32_t i = 0; i < t->ndims; i++)
		if (!t->dims[i] || (is_place && t->dims[i] < 0)) {
			diag_error(p->lex.diags, t->at, t->len, "this is no good number of elements");
			p->panic = true;
			return e;
		}
	if (!is_place || t->ndims)
		return cast_to(p, e, &whole, 0);
	at = parse_new(p, E_UNARY, e->at);
	at->op = '*';
	at->a = cast_to(p, e, &whole, 1);
	return parse_done(p, at);
}

static struct expr *named_value(struct parser *p, uint32_t at, const char *name, struct expr *e)
{
	struct expr *named = parse_new(p, E_NAMED, at);

	named->name = name;
	named->a = e;
	return parse_done(p, named);
}

/* [name "="] value [":" type] */
static struct expr *field(struct parser *p)
{
	uint32_t at = p->tok.at;
	const char *name = NULL;
	struct expr *e;

	if (names_field(p)) {
		name = p->tok.text;
		parse_advance(p);
		parse_advance(p);
	}
	if (is_dollar_field(p)) {
		e = parse_new(p, E_NAME, p->tok.at);
		e->name = pool_printf(&p->script->pool, "$%s", p->tok.text);
		parse_advance(p);
		parse_done(p, e);
	} else {
		e = parse_value(p);
	}
	if (!p->panic && parse_accept(p, ':')) {
		const struct type_name *t = parse_type(p);

		if (!p->panic)
			e = typed(p, e, t, false);
	}
	return name ? named_value(p, at, name, e) : e;
}

/*
 * A copy of e in which names that the user gave to fields are what the fields are. They come before variables of the program: who writes
 * id=arg1 means that one by id.
 */
static struct expr *with_fields(struct parser *p, const struct expr *e, struct expr *const *fields, size_t n)
{
	struct expr *copy;

	if (!e)
		return NULL;
	for (size_t i = 0; e->kind == E_NAME && i < n; i++)
		if (fields[i]->kind == E_NAMED && strcmp(fields[i]->name, e->name) == 0)
			return with_fields(p, fields[i]->a, NULL, 0);
	copy = pool_new(&p->script->pool, struct expr);
	*copy = *e;
	copy->a = with_fields(p, e->a, fields, n);
	copy->b = with_fields(p, e->b, fields, n);
	copy->c = with_fields(p, e->c, fields, n);
	copy->list = pool_alloc(&p->script->pool, (e->nlist + 1) * sizeof(*e->list));
	for (uint32_t i = 0; i < e->nlist; i++)
		copy->list[i] = with_fields(p, e->list[i], fields, n);
	return copy;
}

static void add_fields(struct parser *p, struct clause *c, struct expr *const *fields, size_t n)
{
	struct expr **all = pool_alloc(&p->script->pool, (c->nfields + n + 1) * sizeof(*all));

	for (size_t i = 0; i < c->nfields + n; i++)
		all[i] = i < c->nfields ? c->fields[i] : fields[i - c->nfields];
	c->fields = all;
	c->nfields += n;
}

/* One more condition, which must be true as well as those before, and is looked at before them. */
static void condition(struct parser *p, struct clause *c, struct expr *const *fields, size_t n)
{
	struct expr *own = parse_value(p), *both;

	if (!p->panic && p->tok.kind != T_END)
		parse_error(p, "the end of the condition");
	if (p->panic)
		return;
	own = with_fields(p, own, fields, n);
	if (c->predicate) {
		both = parse_new(p, E_BINARY, own->at);
		both->op = T_ANDAND;
		both->a = own;
		both->b = c->predicate;
		own = parse_done(p, both);
	}
	c->predicate = own;
}

/* The whole of a probe line; p->lex is at its beginning, and ends with it. */
bool parse_line(struct parser *p, struct clause *c)
{
	struct probe *pr = pool_new(&p->script->pool, struct probe);
	VEC(struct expr *) fields = { 0 };
	const char *s;

	while (isspace((unsigned char)p->lex.s[p->lex.pos]))
		p->lex.pos++;
	s = p->lex.s + p->lex.pos;
	pr->text = parse_probe_name(p, pr, s);
	p->lex.pos = pr->at = pr->text - p->lex.s;
	pr->len = line_place_length(pr->text);
	p->lex.pos += pr->len;
	pr->text = pool_text(&p->script->pool, pr->text, pr->len);
	c->probes = pool_alloc(&p->script->pool, sizeof(*c->probes));
	c->probes[0] = pr;
	c->nprobes = 1;
	if (!parse_probe_text(p, pr))
		return false;
	p->in_line = true;
	parse_advance(p);
	while (!p->panic && p->tok.kind != T_END && !parse_is_word(p, "if"))
		*vec_add(&fields) = field(p);
	p->in_line = false;
	if (!p->panic && parse_accept_word(p, "if"))
		condition(p, c, fields.v, fields.n);
	add_fields(p, c, fields.v, fields.n);
	vec_free(&fields);
	return !p->panic;
}

bool parse_line_condition(struct parser *p, struct clause *c)
{
	parse_advance(p);
	condition(p, c, NULL, 0);
	return !p->panic;
}

/* ---- contexts ---- */

static bool refuse(struct parser *p, uint32_t at, uint32_t len, const char *what)
{
	const char *quote = len ? "'" : "";

	diag_error(p->lex.diags, at, len ? len : 1, "%s%.*s%s%s", quote, (int)len, p->lex.s + at, quote, what);
	return false;
}

static struct expr *word(struct parser *p, uint32_t at, const char *name, uint64_t value)
{
	struct expr *e = parse_new(p, E_NAME, at);

	e->name = name;
	e->value = value;
	return parse_done(p, e);
}

/* The number that is the rest of the text from `at` on, 0: none. */
static uint64_t number_to_end(const struct parser *p, uint32_t at)
{
	const char *s = p->lex.s + at;
	char *end;
	uint64_t n;

	errno = 0;
	n = isdigit((unsigned char)*s) ? strtoull(s, &end, 0) : 0;
	return !n || *end || errno ? 0 : n;
}

/* Stack and backtrace have a number or none. */
static bool sized_context(struct parser *p, struct clause *c, const char *name, const char *colon, uint64_t most)
{
	uint32_t at = colon ? colon + 1 - p->lex.s : p->lex.pos;
	uint64_t n = colon ? number_to_end(p, at) : 0;
	struct expr *e;

	if (colon && (!n || n > most))
		return refuse(p, at, p->lex.size - at, " is no good number here");
	e = named_value(p, at, name + 1, word(p, at, name, n));
	add_fields(p, c, &e, 1);
	return true;
}

static bool register_context(struct parser *p, struct clause *c, uint32_t at)
{
	const struct arch_regs *regs = arch_host()->regs;
	const char *name = p->lex.s + at;
	size_t n = strlen(regs->vector);
	struct expr *e;

	if (reg_number(regs, name) < 0 && !(strncmp(name, regs->vector, n) == 0 && isdigit((unsigned char)name[n])) &&
	    !(strncmp(name, "arg", 3) == 0 && isdigit((unsigned char)name[3])))
		return refuse(p, at, p->lex.size - at, " is not known: it is no register");
	e = named_value(p, at, pool_text(&p->script->pool, name, strlen(name)), word(p, at, pool_printf(&p->script->pool, "$%s", name), 0));
	add_fields(p, c, &e, 1);
	return true;
}

/* A number, or a symbol and perhaps an offset; NULL: neither. */
static struct expr *place(struct parser *p, uint32_t at)
{
	const char *s = p->lex.s + at, *plus = strrchr(s, '+');
	bool is_number = isdigit((unsigned char)*s);
	struct expr *e = parse_new(p, E_PLACE, at);

	e->value = number_to_end(p, is_number || !plus ? at : plus + 1 - p->lex.s);
	if (!*s || ((is_number || plus) && !e->value))
		return NULL;
	if (!is_number)
		e->name = pool_text(&p->script->pool, s, plus ? (size_t)(plus - s) : strlen(s));
	e->len = p->lex.size - at;
	p->last_end = p->lex.size;
	return e;
}

static const struct type_name *type_until(struct parser *p, const char *end)
{
	uint32_t size = p->lex.size;
	const struct type_name *t;

	p->lex.size = end - p->lex.s;
	parse_advance(p);
	t = p->tok.kind == T_WORD ? parse_type(p) : NULL;
	if (!p->panic && (!t || p->tok.kind != T_END))
		parse_error(p, "a type");
	p->lex.size = size;
	return t;
}

static bool variable_context(struct parser *p, struct clause *c, const char *first, const char *second)
{
	uint32_t name_at = first + 1 - p->lex.s, at = second + 1 - p->lex.s;
	const struct type_name *t = type_until(p, first);
	struct expr *e;

	if (p->panic)
		return false;
	if (second == first + 1)
		return refuse(p, name_at, 0, "a name is missing");
	e = place(p, at);
	if (!e)
		return refuse(p, at, p->lex.size - at, at == p->lex.size ? "an address is missing" : " is no address");
	e = named_value(p, name_at, pool_text(&p->script->pool, first + 1, second - first - 1), typed(p, e, t, true));
	add_fields(p, c, &e, 1);
	return !p->panic;
}

bool parse_context(struct parser *p, struct clause *c)
{
	uint32_t at = p->lex.pos;
	const char *s = p->lex.s + at, *first = strchr(s, ':'), *second = first ? strchr(first + 1, ':') : NULL;
	size_t len = first ? (size_t)(first - s) : strlen(s);
	struct expr *regs;

	p->last_end = p->lex.size;
	if (len == 5 && strncmp(s, "stack", 5) == 0 && !second)
		return sized_context(p, c, "$stack", first, BYTES_MOST);
	if (len == 9 && strncmp(s, "backtrace", 9) == 0 && !second)
		return sized_context(p, c, "$backtrace", first, FRAMES_MOST);
	if (len == 3 && strncmp(s, "reg", 3) == 0 && first && !second)
		return register_context(p, c, at + 4);
	if (second)
		return variable_context(p, c, first, second);
	if (strcmp(s, "regs"))
		return refuse(p, at, p->lex.size - at, ": no such context; there are regs, reg:NAME, TYPE:NAME:ADDRESS, stack[:BYTES], "
			      "backtrace[:FRAMES]");
	regs = word(p, at, "$regs", 0);
	add_fields(p, c, &regs, 1);
	return true;
}

/* ---- words that were meant as fields ---- */

static bool is_numbered(const char *word, const char *prefix)
{
	size_t n = strlen(prefix), digits = strncmp(word, prefix, n) ? 0 : strspn(word + n, "0123456789");

	return digits && !word[n + digits];
}

bool line_is_field(const char *word)
{
	return *word == '$' || !strcmp(word, "retval") || is_numbered(word, "arg") || is_numbered(word, arch_host()->regs->vector);
}

bool line_is_type(const char *word)
{
	static const char *const more[] = { "string", "bytes", "ptr", "pointer" };
	char name[32];

	snprintf(name, sizeof(name), "%.*s", (int)MIN(strcspn(word, "["), sizeof(name) - 1), word);
	for (size_t i = 0; i < ARRAY_SIZE(more); i++)
		if (!strcmp(name, more[i]))
			return true;
	return v_basic(name);
}
