/* SPDX-License-Identifier: MIT */
/*
 * Probes of scripts and of probe lines. spec_parse() reads kind, object and place; what it does not
 * know is read here: begin, end, intervals, call: and source lines. In a script a probe ends at a
 * blank, a comma or a brace, unless brackets or quotes protect it:
 *
 *	probe := [NAME "="] ("begin" | "end" | interval | [kind ":"] [object ":"] place)
 *	interval := ("interval" | "i") ":" (unit ":" number | duration)
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

const char *parse_probe_kind(const char *s, const char *word)
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
		if (!parse_probe_kind(pr->text, foreign[i].word))
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
		diag_error(p->lex.diags, pr->at, pr->len, "a call probe takes a whole function, %s",
			   spec->kind == SPEC_USDT ? "and a static tracepoint is one place" : spec->has_offset ? "without an offset" :
			   "without %return");
		return false;
	}
	return true;
}

/* The name in front of '='; returns what is behind it. */
const char *parse_probe_name(struct parser *p, struct probe *pr, const char *s)
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
bool parse_probe_text(struct parser *p, struct probe *pr)
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
	rest = parse_probe_kind(s, "interval");
	if (!rest)
		rest = parse_probe_kind(s, "i");
	if (rest) {
		pr->kind = PROBE_INTERVAL;
		return read_interval(p, pr, rest);
	}
	if (is_foreign(p, pr))
		return false;
	rest = parse_probe_kind(s, "call");
	pr->kind = rest ? PROBE_CALL : PROBE_SITE;
	if (!rest)
		rest = s;
	at = parse_probe_kind(rest, "uprobe") ? parse_probe_kind(rest, "uprobe") : parse_probe_kind(rest, "u") ? parse_probe_kind(rest, "u") : rest;
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
	pr->text = parse_probe_name(p, pr, pr->text);
	filled = fill_params(p, pr, pr->text);
	if (filled) {
		pr->text = without_language(p, filled);
		parse_probe_text(p, pr);
	}
	return pr;
}
