/* SPDX-License-Identifier: MIT */
/*
 * Probes in scripts and probe lines. spec_parse() reads kind, object and place; what it does not
 * know is read here: begin, end, intervals, call: and source lines. In a script a probe ends at a
 * blank, a comma or a brace, unless brackets or quotes protect it:
 *
 *	probe := [NAME "="] ("begin" | "end" | interval | [kind ":"] [object ":"] place)
 *	interval := ("interval" | "i") ":" (unit ":" number | duration)
 *	line  := probe [field ...] ["if" value] [";" [field ...] ["if" value]]
 *	field := [name "="] value [":" type] | "$params" | "$retval" | "$regs" | "$stack"
 */
#include "lang/parse.h"

#include "base/err.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static size_t regex_length(const char *s)
{
	size_t i;

	if (*s != '/')
		return 0;
	for (i = 1; s[i] && s[i] != '/' && !isspace((unsigned char)s[i]); i++)
		if (s[i] == '\\' && s[i + 1])
			i++;
	if (s[i] != '/')
		return 0;
	return !s[i + 1] || isspace((unsigned char)s[i + 1]) || strchr(",{%+", s[i + 1]) ? i + 1 : 0;
}

/* "<...>" belongs to a name only if it is closed in the same word. */
static size_t angle_length(const char *s)
{
	size_t i, depth = 0;

	for (i = 0; s[i] && s[i] != '\n' && s[i] != '{'; i++) {
		depth += s[i] == '<';
		if (s[i] == '>' && --depth == 0)
			return i + 1;
	}
	return 0;
}

/* How long the probe at s is, in a script. */
static size_t probe_length(const char *s)
{
	size_t i = 0, n, depth = 0;
	const char *close;

	while (s[i] && s[i] != '\n') {
		if (s[i] == '"' && (close = strchr(s + i + 1, '"'))) {
			i = close - s + 1;
		} else if (s[i] == '\\' && s[i + 1]) {
			i += 2;
		} else if (s[i] == '/' && (!i || s[i - 1] == ':') && (n = regex_length(s + i))) {
			i += n;
		} else if (s[i] == '<' && (n = angle_length(s + i))) {
			i += n;
		} else if (!depth && (isspace((unsigned char)s[i]) || s[i] == ',' || s[i] == '{')) {
			break;
		} else {
			depth += s[i] == '(' || s[i] == '[';
			depth -= depth && (s[i] == ')' || s[i] == ']');
			i++;
		}
	}
	return i;
}

static bool is_one_spec(const char *text)
{
	struct probe_spec *spec;
	bool one = spec_parse(text, &spec) == 0;

	if (!one)
		return false;
	one = !spec->rest;
	spec_free(spec);
	return one;
}

/*
 * Without quotes. Names of C++ are known to spec_parse(); but where blanks inside the quotes would end
 * the place ("bool f<int>()" has its type in front) they get a backslash.
 */
static char *unquote(struct parser *p, const char *s, size_t len)
{
	char *out = pool_alloc(&p->script->pool, 2 * len + 1), *escaped = pool_alloc(&p->script->pool, 2 * len + 1);
	bool quoted = false, blanks = false;
	size_t i, n = 0, k = 0;

	for (i = 0; i < len; i++) {
		if (s[i] == '"') {
			quoted = !quoted;
			continue;
		}
		if (quoted && s[i] == ' ') {
			blanks = true;
			escaped[k++] = '\\';
		}
		escaped[k++] = out[n++] = s[i];
	}
	return blanks && !is_one_spec(out) ? escaped : out;
}

/* A part that is $1 or so becomes what it stands for; others keep their dollars, which names have too. */
static const char *fill_params(struct parser *p, const struct probe *pr, const char *s)
{
	const struct script *script = p->script;
	const char *from = s, *at, *end;
	char *out = "";
	unsigned long n;

	for (at = s; (at = strchr(at, '$')); at = end) {
		n = strtoul(at + 1, (char **)&end, 10);
		if (!isdigit((unsigned char)at[1]) || (at > s && at[-1] != ':') || (*end && *end != ':')) {
			end = at + 1;
			continue;
		}
		if (!n || n > script->nparams) {
			diag_error(p->lex.diags, pr->at, pr->len, "this probe needs parameter $%lu, which was not given", n);
			return NULL;
		}
		out = pool_printf(&p->script->pool, "%s%.*s%s", out, (int)(at - from), from, script->params[n - 1]);
		from = end;
	}
	return from == s ? s : pool_printf(&p->script->pool, "%s%s", out, from);
}

/* uprobe:FILE:cpp:"name" is the same without cpp: all names are matched as people write them. */
static const char *without_language(struct parser *p, const char *s)
{
	const char *cpp = strstr(s, ":cpp:");

	return cpp ? pool_printf(&p->script->pool, "%.*s%s", (int)(cpp - s), s, cpp + 4) : s;
}

static uint64_t unit_ns(const char *s, size_t len)
{
	static const struct { const char *word; uint64_t ns; } units[] = {
		{ "s", 1000000000 }, { "ms", 1000000 }, { "us", 1000 }, { "ns", 1 }, { "m", 60000000000 },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(units); i++)
		if (strlen(units[i].word) == len && memcmp(units[i].word, s, len) == 0)
			return units[i].ns;
	return 0;
}

/* "s:5", "hz:99", "500ms", "1000000000" */
static bool read_interval(struct parser *p, struct probe *pr, const char *s)
{
	const char *colon = strchr(s, ':');
	struct diags quiet = { .name = "", .source = s, .size = strlen(s) };
	const char *digits = colon ? colon + 1 : s;
	struct lexer l = { .s = digits, .size = strlen(digits), .pool = &p->script->pool, .diags = &quiet };
	struct token t = lex_next(&l);
	uint64_t ns = colon ? unit_ns(s, colon - s) : 1;
	bool hz = colon && colon - s == 2 && memcmp(s, "hz", 2) == 0;
	bool good = t.kind == T_INT && l.pos == l.size && t.value;

	diags_free(&quiet);
	if (hz && good && t.value <= 1000000000)
		pr->period = 1000000000 / t.value;
	else if (!good || !ns || __builtin_mul_overflow(ns, t.value, &pr->period))
		pr->period = 0;
	if (pr->period)
		return true;
	diag_error(p->lex.diags, pr->at, pr->len,
		   "'%s' is no interval; try interval:s:1, interval:ms:100, interval:hz:10 or interval:500ms", pr->text);
	return false;
}

static const char *kind_rest(const char *s, const char *word)
{
	size_t n = strlen(word);

	return strncmp(s, word, n) == 0 && s[n] == ':' ? s + n + 1 : NULL;
}

#define KERNEL " yet: jab probes programs; a uprobe on a function of libc is near where a program calls the kernel"
#define SAMPLES ": interval runs something again and again, in the tracer"
#define EVENTS ": jab's probes are on functions and lines of programs; `perf` counts such events"

static const struct { const char *word, *what, *why; } foreign[] = {
	{ "kprobe", "kernel probes", KERNEL }, { "k", "kernel probes", KERNEL },
	{ "kretprobe", "kernel return probes", KERNEL }, { "kr", "kernel return probes", KERNEL },
	{ "fentry", "kernel function probes", KERNEL }, { "f", "kernel function probes", KERNEL },
	{ "fexit", "kernel function probes", KERNEL }, { "fr", "kernel function probes", KERNEL },
	{ "kfunc", "kernel function probes", KERNEL }, { "kretfunc", "kernel function probes", KERNEL },
	{ "tracepoint", "kernel tracepoints", KERNEL }, { "t", "kernel tracepoints", KERNEL },
	{ "rawtracepoint", "raw tracepoints", KERNEL }, { "rt", "raw tracepoints", KERNEL },
	{ "iter", "kernel iterators", ": jab probes programs" }, { "it", "kernel iterators", ": jab probes programs" },
	{ "profile", "timed samples", SAMPLES }, { "p", "timed samples", SAMPLES },
	{ "hardware", "hardware events", EVENTS }, { "h", "hardware events", EVENTS },
	{ "software", "software events", EVENTS }, { "s", "software events", EVENTS },
	{ "watchpoint", "watchpoints", ": a uprobe on who writes there is near" }, { "w", "watchpoints", ": a uprobe on who writes there is near" },
	{ "asyncwatchpoint", "watchpoints", ": a uprobe on who writes there is near" }, { "aw", "watchpoints", ": a uprobe on who writes there is near" },
	{ "self", "self probes", ": interval is the only other thing that the tracer waits for" },
	{ "bench", "bench probes", ": call probes know how long a function takes" }, { "test", "test probes", ": a script can end with exit(1)" },
};

static bool is_foreign(struct parser *p, const struct probe *pr)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(foreign); i++) {
		if (!kind_rest(pr->text, foreign[i].word))
			continue;
		diag_error(p->lex.diags, pr->at, pr->len, "%s (kind '%s') are not supported%s", foreign[i].what, foreign[i].word,
			   foreign[i].why);
		return true;
	}
	return false;
}

/* "@file:line", perhaps with an object in front */
static bool read_source_line(struct parser *p, struct probe *pr, const char *at)
{
	const char *colon = strrchr(at, ':');
	char *end;
	unsigned long line = colon ? strtoul(colon + 1, &end, 10) : 0;

	if (!line || line > INT32_MAX || *end || colon == at + 1) {
		diag_error(p->lex.diags, pr->at, pr->len, "'%s' is no source line; write @file.c:42", at);
		return false;
	}
	pr->kind = PROBE_LINE;
	pr->file = pool_text(&p->script->pool, at + 1, colon - at - 1);
	pr->line = line;
	return true;
}

static bool read_spec(struct parser *p, struct probe *pr, const char *text)
{
	struct probe_spec *spec;
	const char *why, *cut;

	if (spec_parse(text, &spec) < 0) {
		/* the place is shown anyway */
		why = err_text();
		cut = strstr(why, "': ");
		diag_error(p->lex.diags, pr->at, pr->len, "%s", strncmp(why, "probe '", 7) == 0 && cut ? cut + 3 : why);
		return false;
	}
	*vec_add(&p->script->specs) = spec;
	pr->spec = spec;
	if (pr->kind == PROBE_CALL && (spec->kind != SPEC_ENTRY || spec->has_offset)) {
		diag_error(p->lex.diags, pr->at, pr->len, "a call probe takes a whole function, without %s",
			   spec->has_offset ? "an offset" : "%return");
		return false;
	}
	return true;
}

/* The name in front of '='; returns what is behind it. */
static const char *take_name(struct parser *p, struct probe *pr, const char *s)
{
	size_t n = 0;

	if (isalpha((unsigned char)*s) || *s == '_')
		while (isalnum((unsigned char)s[n]) || strchr("_-.", s[n] ? s[n] : '*'))
			n++;
	if (!n || s[n] != '=' || s[n + 1] == '=' || strncmp(s, "operator", 8) == 0)
		return s;
	pr->name = pool_text(&p->script->pool, s, n);
	return s + n + 1;
}

/* Everything but fields; pr->text is set. */
static bool read_probe(struct parser *p, struct probe *pr)
{
	const char *s = pr->text, *rest, *at;

	if (strncasecmp(s, "begin:", 6) == 0 || strncasecmp(s, "end:", 4) == 0) {
		diag_error(p->lex.diags, pr->at, pr->len, "begin and end have nothing behind them: begin { ... }");
		return false;
	}
	if (strcasecmp(s, "begin") == 0 || strcasecmp(s, "end") == 0) {
		pr->kind = tolower(*s) == 'b' ? PROBE_BEGIN : PROBE_END;
		return true;
	}
	rest = kind_rest(s, "interval");
	if (!rest)
		rest = kind_rest(s, "i");
	if (rest) {
		pr->kind = PROBE_INTERVAL;
		return read_interval(p, pr, rest);
	}
	if (is_foreign(p, pr))
		return false;
	rest = kind_rest(s, "call");
	pr->kind = rest ? PROBE_CALL : PROBE_SITE;
	if (!rest)
		rest = s;
	at = kind_rest(rest, "uprobe") ? kind_rest(rest, "uprobe") : kind_rest(rest, "u") ? kind_rest(rest, "u") : rest;
	if (pr->kind == PROBE_SITE && *at != '@' && strstr(at, ":@")) {
		pr->object = pool_text(&p->script->pool, at, strstr(at, ":@") - at);
		at = strstr(at, ":@") + 1;
	}
	if (pr->kind == PROBE_SITE && *at == '@')
		return read_source_line(p, pr, at);
	return read_spec(p, pr, rest);
}

/* p->lex.pos is on the first character. */
struct probe *parse_probe(struct parser *p)
{
	struct probe *pr = pool_new(&p->script->pool, struct probe);
	const char *s = p->lex.s + p->lex.pos, *filled;
	size_t len = probe_length(s);

	pr->at = p->lex.pos;
	pr->len = len;
	p->lex.pos += len;
	p->last_end = p->lex.pos;
	if (!len) {
		diag_error(p->lex.diags, pr->at, 1, "expected a probe (begin, end, interval:s:1, uprobe:FILE:FUNCTION, ...)");
		p->panic = true;
		return pr;
	}
	if (*s == '/' && !regex_length(s)) {
		diag_error(p->lex.diags, pr->at, 1, "expected a probe; a condition stands behind it: uprobe:FILE:FUNCTION /condition/ { }");
		p->panic = true;
		return pr;
	}
	pr->text = unquote(p, s, len);
	pr->text = take_name(p, pr, pr->text);
	filled = fill_params(p, pr, pr->text);
	if (filled) {
		pr->text = without_language(p, filled);
		read_probe(p, pr);
	}
	return pr;
}

/* Where the place of a probe line ends: spec_parse() knows, except for what it can't read. */
static size_t line_place_length(struct parser *p, const char *s)
{
	struct probe_spec *spec;
	const char *rest = kind_rest(s, "call");
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

static struct expr *cast_to(struct parser *p, struct expr *e, const char *name, uint32_t pointers)
{
	struct expr *cast = parse_new(p, E_CAST, e->at);

	cast->a = e;
	cast->to = pool_new(&p->script->pool, struct type_name);
	*cast->to = (struct type_name){ .at = e->at, .len = e->len, .name = name, .pointers = pointers };
	return parse_done(p, cast);
}

static struct expr *call_with(struct parser *p, struct expr *e, const char *name, int64_t limit)
{
	struct expr *call = parse_new(p, E_CALL, e->at), *n = parse_new(p, E_INT, e->at);

	n->value = limit;
	call->name = name;
	call->list = pool_alloc(&p->script->pool, 2 * sizeof(*call->list));
	call->list[0] = e;
	call->list[1] = parse_done(p, n);
	call->nlist = 2;
	return parse_done(p, call);
}

/*
 * The short names that a field's type may have beside those of C: s8 ... s64, u8 ... u64, x8 ... x64 (shown
 * as 0x...), ptr, string[LIMIT], bytes[N]. NULL: it is none of them.
 */
static struct expr *short_type(struct parser *p, struct expr *e, const struct type_name *t)
{
	const char *digits = t->name + 1;
	bool sized = strcmp(digits, "8") == 0 || strcmp(digits, "16") == 0 || strcmp(digits, "32") == 0 || strcmp(digits, "64") == 0;

	if (t->tag || t->pointers)
		return NULL;
	if (t->ndims == 1 && t->dims[0] > 0 && (strcmp(t->name, "string") == 0 || strcmp(t->name, "bytes") == 0))
		return call_with(p, e, *t->name == 's' ? "str" : "buf", t->dims[0]);
	if (t->ndims)
		return NULL;
	if (strcmp(t->name, "ptr") == 0)
		return cast_to(p, e, "void", 1);
	if (!sized || !strchr("sux", *t->name))
		return NULL;
	e = cast_to(p, e, pool_printf(&p->script->pool, "%sint%s", *t->name == 's' ? "" : "u", digits), 0);
	return *t->name == 'x' ? cast_to(p, e, "void", 1) : e;
}

/* [name "="] value [":" type] */
static struct expr *field(struct parser *p)
{
	struct expr *e, *named = NULL, *cast;

	if (names_field(p)) {
		named = parse_new(p, E_NAMED, p->tok.at);
		named->name = p->tok.text;
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
		struct expr *known;

		cast = parse_new(p, E_CAST, e->at);
		cast->a = e;
		cast->to = parse_type(p);
		known = p->panic ? NULL : short_type(p, e, cast->to);
		e = known ? known : parse_done(p, cast);
	}
	if (!named)
		return e;
	named->a = e;
	return parse_done(p, named);
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

/* ["if" value]: one more condition of the line, which must be true as well. */
static void line_condition(struct parser *p, struct clause *c, struct expr *const *fields, size_t n)
{
	struct expr *own, *both;

	if (p->panic || !parse_accept_word(p, "if"))
		return;
	own = parse_value(p);
	if (!p->panic && p->tok.kind != T_END && p->tok.kind != ';')
		parse_error(p, "the end of the condition");
	if (p->panic)
		return;
	own = with_fields(p, own, fields, n);
	if (c->predicate) {
		both = parse_new(p, E_BINARY, own->at);
		both->op = T_ANDAND;
		both->a = own;
		both->b = c->predicate;
		own = both;
	}
	c->predicate = own;
}

/* The whole of a probe line; p->lex is at its beginning. */
bool parse_line_probe(struct parser *p, struct clause *c)
{
	struct probe *pr = pool_new(&p->script->pool, struct probe);
	VEC(struct expr *) fields = { 0 };
	const char *s;

	while (isspace((unsigned char)p->lex.s[p->lex.pos]))
		p->lex.pos++;
	s = p->lex.s + p->lex.pos;
	pr->text = take_name(p, pr, s);
	p->lex.pos = pr->at = pr->text - p->lex.s;
	pr->len = line_place_length(p, pr->text);
	p->lex.pos += pr->len;
	pr->text = pool_text(&p->script->pool, pr->text, pr->len);
	c->probes = pool_alloc(&p->script->pool, sizeof(*c->probes));
	c->probes[0] = pr;
	c->nprobes = 1;
	if (!read_probe(p, pr))
		return false;
	p->in_line = true;
	parse_advance(p);
	while (!p->panic && p->tok.kind != T_END && p->tok.kind != ';' && !parse_is_word(p, "if"))
		*vec_add(&fields) = field(p);
	p->in_line = false;
	line_condition(p, c, fields.v, fields.n);
	c->nmore = fields.n;
	p->in_line = true;
	if (!p->panic && p->tok.kind == ';')
		parse_advance(p);
	while (!p->panic && p->tok.kind != T_END && !parse_is_word(p, "if"))
		*vec_add(&fields) = field(p);
	p->in_line = false;
	line_condition(p, c, NULL, 0);
	c->nmore = fields.n - c->nmore;
	c->nfields = fields.n;
	c->fields = pool_alloc(&p->script->pool, (fields.n + 1) * sizeof(*c->fields));
	if (fields.n)
		memcpy(c->fields, fields.v, fields.n * sizeof(*c->fields));
	vec_free(&fields);
	return !p->panic;
}
