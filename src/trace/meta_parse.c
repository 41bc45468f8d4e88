/* SPDX-License-Identifier: MIT */
/*
 * A parser for the metadata that jab writes, and nothing more:
 *
 *	file   := { "typealias" ... ";" | word "{" { entry } "}" ";" }
 *	entry  := key "=" value ";" | key ":=" "struct" "{" { field } "}" ";"
 *	field  := type "_"name ";"
 *		| "enum" ":" type "{" string "=" number { "," string "=" number } "}" "_"name ";"
 *		| "count_t" "__"name"_length" ";" ("text_t" | "addr_t") "_"name "[" word "]" ";"
 *		| "struct" "{" ("byte_t" | "p"type) word "[" number "]" ";" "}" "align" "(" "64" ")" "_"name ";"
 *
 * Types are looked up by their alias. The layouts of headers and contexts are not read: they are defined by the
 * format number in the environment. Untrusted input: every step checks for the end.
 */
#include <ctype.h>
#include <stdio.h>

#include "base/err.h"
#include "sym/types/types.h"
#include "trace/meta.h"

enum token { T_END, T_WORD, T_STRING, T_MARK, T_BAD };

struct lexer {
	const char *p, *end;
	enum token kind;
	char mark;		/* T_MARK; 'a' represents := (assignment) */
	char *text;		/* T_WORD, T_STRING; owned, as large as the whole text */
	unsigned int line;
};

static void skip_blank(struct lexer *l)
{
	while (l->p < l->end) {
		if (*l->p == '\n')
			l->line++;
		if (isspace((unsigned char)*l->p)) {
			l->p++;
		} else if (l->end - l->p >= 2 && l->p[0] == '/' && l->p[1] == '*') {
			for (l->p += 2; l->p < l->end && !(l->p[-1] == '*' && l->p[0] == '/'); l->p++)
				l->line += *l->p == '\n';
			l->p += l->p < l->end;
		} else {
			break;
		}
	}
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

/* Only what tsdl_quote() writes: three octal digits after a backslash. */
static enum token lex_string(struct lexer *l)
{
	char *out = l->text;

	for (l->p++; l->p < l->end && *l->p != '"'; l->p++) {
		int v = 0;

		if (*l->p != '\\') {
			*out++ = *l->p;
			continue;
		}
		for (int i = 0; i < 3; i++) {
			if (++l->p >= l->end || *l->p < '0' || *l->p > '7')
				return T_BAD;
			v = v * 8 + *l->p - '0';
		}
		*out++ = v;
	}
	*out = 0;
	if (l->p >= l->end || memchr(l->text, 0, out - l->text))
		return T_BAD;
	l->p++;
	return T_STRING;
}

static enum token lex(struct lexer *l)
{
	char *out = l->text;

	skip_blank(l);
	if (l->p >= l->end)
		return l->kind = T_END;
	if (*l->p == '"')
		return l->kind = lex_string(l);
	if (is_word(*l->p)) {
		while (l->p < l->end && is_word(*l->p))
			*out++ = *l->p++;
		*out = 0;
		return l->kind = T_WORD;
	}
	l->mark = *l->p++;
	if (l->mark == ':' && l->p < l->end && *l->p == '=') {
		l->mark = 'a';
		l->p++;
	}
	return l->kind = T_MARK;
}

static bool is_mark(const struct lexer *l, char c)
{
	return l->kind == T_MARK && l->mark == c;
}

static bool is_text(const struct lexer *l, const char *word)
{
	return l->kind == T_WORD && strcmp(l->text, word) == 0;
}

static int bad(const struct lexer *l, const char *what)
{
	return fail(-EBADMSG, "metadata, line %u: %s", l->line, what);
}

static int expect(struct lexer *l, const char *marks)
{
	for (; *marks; marks++) {
		lex(l);
		if (!is_mark(l, *marks))
			return bad(l, "not what jab writes");
	}
	return 0;
}

/* Skips to the semicolon that ends the statement, over nested braces. */
static int skip_statement(struct lexer *l)
{
	int depth = 0;

	for (;;) {
		lex(l);
		if (l->kind == T_END || l->kind == T_BAD)
			return bad(l, "ends in the middle");
		if (l->kind != T_MARK)
			continue;
		if (l->mark == ';' && depth == 0)
			return 0;
		depth += l->mark == '{' ? 1 : l->mark == '}' ? -1 : 0;
		if (depth < 0)
			return bad(l, "a brace too many");
	}
}

static bool parse_number(const char *s, int64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoll(s, &end, 10);
	return errno == 0 && *s && !*end;
}

/* Reads the name after a type, without its underscore. */
static int field_name(struct lexer *l, struct ctf_class *c)
{
	lex(l);
	if (l->kind != T_WORD || l->text[0] != '_' || !l->text[1])
		return bad(l, "a field's name is missing");
	c->fields[c->n - 1].name = xstrdup(l->text + 1);
	return 0;
}

/* The type of an array's elements: bytes or packed numbers. */
static bool element_type(const char *word, struct ctf_field *f)
{
	size_t packed = strlen(TSDL_PACKED);

	if (tsdl_type_parse(word, f) && (f->kind == CTF_BYTES || f->kind == CTF_STRING)) {
		f->is_text = f->kind == CTF_STRING;
		f->kind = CTF_BYTES;
		return true;
	}
	return strncmp(word, TSDL_PACKED, packed) == 0 && tsdl_type_parse(word + packed, f) && f->kind <= CTF_FLOAT;
}

static int field_array(struct lexer *l, struct ctf_class *c)
{
	struct ctf_field *f = &c->fields[c->n - 1];
	int64_t size;

	if (expect(l, "{") < 0 || lex(l) != T_WORD || !element_type(l->text, f) || lex(l) != T_WORD ||
	    expect(l, "[") < 0 || lex(l) != T_WORD)
		return bad(l, "not an array");
	if (!parse_number(l->text, &size) || size <= 0 || size > CTF_MAX_EVENT)
		return bad(l, "an array of impossible size");
	*(f->kind == CTF_BYTES ? &f->size : &f->count) = size;
	if (expect(l, "];}") < 0 || lex(l) != T_WORD || expect(l, "(") < 0 || lex(l) != T_WORD || expect(l, ")") < 0)
		return bad(l, "not an array");
	return field_name(l, c) < 0 ? -EBADMSG : expect(l, ";");
}

/* One name and its value. */
static bool enum_value(struct lexer *l, struct type_value *ret_value)
{
	char *name, *end = NULL;

	if (lex(l) != T_STRING)
		return false;
	name = xstrdup(l->text);
	errno = 0;
	if (expect(l, "=") == 0 && lex(l) == T_WORD)
		ret_value->value = l->text[0] == '-' ? strtoll(l->text, &end, 10) : (int64_t)strtoull(l->text, &end, 10);
	if (!end || end == l->text || *end || errno) {
		free(name);
		return false;
	}
	ret_value->name = name;
	return true;
}

static int field_enum(struct lexer *l, struct ctf_class *c)
{
	struct ctf_field *f = &c->fields[c->n - 1];
	struct type_value *values;
	uint64_t n = 0;
	bool good;

	if (expect(l, ":") < 0 || lex(l) != T_WORD || !tsdl_type_parse(l->text, f) || f->kind > CTF_UNSIGNED ||
	    expect(l, "{") < 0)
		return bad(l, "not an enum");
	values = xcalloc(CTF_MAX_VALUES, sizeof(*values));
	do {
		good = n < CTF_MAX_VALUES && enum_value(l, &values[n]);
		n += good;
	} while (good && lex(l) == T_MARK && l->mark == ',');
	field_take_values(f, values, n);
	for (uint64_t i = 0; i < n; i++)
		free((char *)values[i].name);
	free(values);
	if (!good || !is_mark(l, '}'))
		return bad(l, "not an enum");
	return field_name(l, c) < 0 ? -EBADMSG : expect(l, ";");
}

static int field_sequence(struct lexer *l, struct ctf_class *c)
{
	struct ctf_field *f = &c->fields[c->n - 1];
	int r;

	if (lex(l) != T_WORD || expect(l, ";") < 0 || lex(l) != T_WORD || !tsdl_type_parse(l->text, f) ||
	    !field_varies(f))
		return bad(l, "not a string or a list of addresses");
	r = field_name(l, c);
	if (r < 0)
		return r;
	if (expect(l, "[") < 0 || lex(l) != T_WORD)
		return bad(l, "not a string or a list of addresses");
	return expect(l, "];");
}

/* Parses one field, whose first word has been read. */
static int parse_field(struct lexer *l, struct ctf_class *c)
{
	struct ctf_field *f;
	int r;

	if (c->n == CTF_MAX_FIELDS)
		return bad(l, "too many fields");
	c->fields = xrealloc(c->fields, (c->n + 1) * sizeof(*c->fields));
	f = &c->fields[c->n++];
	*f = (struct ctf_field){ 0 };
	if (is_text(l, "struct"))
		return field_array(l, c);
	if (is_text(l, "enum"))
		return field_enum(l, c);
	if (is_text(l, "count_t"))
		return field_sequence(l, c);
	if (l->kind != T_WORD || !tsdl_type_parse(l->text, f) || !field_is_number(f))
		return bad(l, "an unknown type");
	r = field_name(l, c);
	return r < 0 ? r : expect(l, ";");
}

static int parse_fields(struct lexer *l, struct ctf_class *c)
{
	int r;

	if (c->n || lex(l) != T_WORD || expect(l, "{") < 0)
		return bad(l, "no list of fields");
	for (;;) {
		lex(l);
		if (is_mark(l, '}'))
			return expect(l, ";");
		r = parse_field(l, c);
		if (r < 0)
			return r;
	}
}

static int add_class(struct lexer *l, struct meta *m, struct ctf_class *c, int64_t id)
{
	bool own = id >= CTF_MODULE_ID && id < CTF_MODULE_ID + CTF_OWN_CLASSES;
	struct ctf_class **slot = own ? &m->own[id - CTF_MODULE_ID] : NULL;

	if (!c->name || (!own && (id < 0 || id >= CTF_MAX_CLASSES)))
		return bad(l, "an event without a name or a good id");
	c->id = id;
	if (!own) {
		while (m->classes.n <= (size_t)id)
			(void)vec_add(&m->classes);
		slot = &m->classes.v[id];
	}
	if (*slot)
		return bad(l, "an event id twice");
	class_measure(c);
	*slot = c;
	return 0;
}

static int event_entry(struct lexer *l, struct ctf_class *c, int64_t *id)
{
	char key[16];

	snprintf(key, sizeof(key), "%s", l->text);
	lex(l);
	if (is_mark(l, 'a'))
		return strcmp(key, "fields") == 0 ? parse_fields(l, c) : bad(l, "an unknown part of an event");
	if (!is_mark(l, '='))
		return bad(l, "not what jab writes");
	lex(l);
	if (strcmp(key, "name") == 0 && l->kind == T_STRING && !c->name)
		c->name = xstrdup(l->text);
	else if (strcmp(key, "id") == 0 && !(l->kind == T_WORD && parse_number(l->text, id)))
		return bad(l, "not a number");
	return expect(l, ";");
}

static int parse_event(struct lexer *l, struct meta *m)
{
	struct ctf_class *c = xcalloc(1, sizeof(*c));
	int64_t id = -1;
	int r = 0;

	for (;;) {
		lex(l);
		if (is_mark(l, '}'))
			break;
		r = l->kind == T_WORD ? event_entry(l, c, &id) : bad(l, "not what jab writes");
		if (r < 0)
			break;
	}
	if (r == 0)
		r = add_class(l, m, c, id);
	if (r < 0)
		class_free(c);
	return r < 0 ? r : expect(l, ";");
}

static bool parse_uuid(const char *s, uint8_t *ret)
{
	size_t n = 0;

	for (; *s; s++) {
		unsigned int v;

		if (*s == '-')
			continue;
		if (n == 16 || !isxdigit((unsigned char)s[0]) || !isxdigit((unsigned char)s[1]) ||
		    sscanf(s, "%2x", &v) != 1)
			return false;
		ret[n++] = v;
		s++;
	}
	return n == 16;
}

static int keep_entry(struct lexer *l, struct meta *m, const char *block, const char *key)
{
	int64_t n = 0;
	bool number = l->kind == T_WORD && parse_number(l->text, &n);

	if (strcmp(block, "env") == 0)
		*vec_add(&m->env) = (struct env_entry){ xstrdup(key), xstrdup(l->text) };
	else if (strcmp(block, "trace") == 0 && strcmp(key, "uuid") == 0)
		m->has_uuid = l->kind == T_STRING && parse_uuid(l->text, m->uuid);
	else if (strcmp(block, "clock") == 0 && number && strcmp(key, "freq") == 0)
		m->clock.hz = n;
	else if (strcmp(block, "clock") == 0 && number && strcmp(key, "offset_s") == 0)
		m->clock.offset_s = n;
	else if (strcmp(block, "clock") == 0 && number && strcmp(key, "offset") == 0)
		m->clock.offset = n;
	return 0;
}

/* Parses trace, env, clock or stream, and keeps the entries that are needed. */
static int parse_block(struct lexer *l, struct meta *m, const char *block)
{
	char key[64];
	int r = 0;

	while (r == 0) {
		lex(l);
		if (is_mark(l, '}'))
			return expect(l, ";");
		if (l->kind != T_WORD)
			return bad(l, "not what jab writes");
		snprintf(key, sizeof(key), "%s", l->text);
		lex(l);
		if (is_mark(l, 'a')) {
			r = skip_statement(l);
			continue;
		}
		if (!is_mark(l, '=') || (lex(l) != T_WORD && l->kind != T_STRING))
			return bad(l, "not what jab writes");
		r = keep_entry(l, m, block, key);
		if (r == 0)
			r = expect(l, ";");
	}
	return r;
}

static int parse_file(struct lexer *l, struct meta *m)
{
	char block[16];
	int r = 0;

	while (r == 0 && lex(l) != T_END) {
		if (l->kind != T_WORD)
			return bad(l, "not what jab writes");
		snprintf(block, sizeof(block), "%s", l->text);
		if (strcmp(block, "typealias") == 0) {
			r = skip_statement(l);
			continue;
		}
		r = expect(l, "{");
		if (r == 0)
			r = strcmp(block, "event") == 0 ? parse_event(l, m) : parse_block(l, m, block);
	}
	return r;
}

static int check_meta(const struct meta *m)
{
	const char *name = meta_env(m, "tracer_name"), *format = meta_env(m, "trace_format");

	if (!name || strcmp(name, "jab") != 0 || !format)
		return fail(-EBADMSG, "not a trace of jab; babeltrace2 may read it");
	if (atoi(format) < 1 || atoi(format) > JAB_TRACE_FORMAT)
		return fail(-EBADMSG, "format %s of a newer jab", format);
	if (!m->has_uuid || !m->clock.hz || (int64_t)m->clock.hz < 0 || m->clock.offset >= m->clock.hz)
		return fail(-EBADMSG, "metadata without a uuid or a clock");
	return 0;
}

int meta_parse(struct meta *m, const char *text, size_t len)
{
	struct lexer l = { .p = text, .end = text + len, .line = 1 };
	const char *realtime;
	int r;

	l.text = xcalloc(1, len + 1);
	r = parse_file(&l, m);
	free(l.text);
	if (r == 0)
		r = check_meta(m);
	realtime = meta_env(m, "realtime_offset_ns");
	if (r == 0 && realtime)
		m->clock.realtime_ns = strtoll(realtime, NULL, 10);
	if (r == 0)
		m->clock.is_monotonic = atoi(meta_env(m, "trace_format")) < 2;
	return r;
}

void meta_free(struct meta *m)
{
	for (size_t i = 0; i < m->env.n; i++) {
		free(m->env.v[i].key);
		free(m->env.v[i].value);
	}
	for (size_t i = 0; i < m->classes.n; i++)
		class_free(m->classes.v[i]);
	for (size_t i = 0; i < CTF_OWN_CLASSES; i++)
		class_free(m->own[i]);
	vec_free(&m->env);
	vec_free(&m->classes);
}

const struct ctf_class *meta_class(const struct meta *m, uint32_t id)
{
	if (id < m->classes.n)
		return m->classes.v[id];
	return id - CTF_MODULE_ID < CTF_OWN_CLASSES ? m->own[id - CTF_MODULE_ID] : NULL;
}

const char *meta_env(const struct meta *m, const char *key)
{
	for (size_t i = 0; i < m->env.n; i++)
		if (strcmp(m->env.v[i].key, key) == 0)
			return m->env.v[i].value;
	return NULL;
}
