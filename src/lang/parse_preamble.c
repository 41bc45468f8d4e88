/* SPDX-License-Identifier: MIT */
/*
 * What stands in front of the clauses:
 *
 *	preamble := "#define" ... | "#include" ... | struct | enum | typedef | config | macro |
 *		    "let" "@" name "=" kind "(" number ")" ";"
 *	config   := "config" "=" "{" (name "=" value [";"])* "}"
 *
 * bpftrace has a C preprocessor for the lines with '#'; here plain constants and conditions are read.
 */
#include "lang/parse.h"

#include <ctype.h>
#include <string.h>

/* The value of a config line, as written. */
static void config_value(struct parser *p, struct config *c)
{
	bool minus = parse_accept(p, '-');

	c->value_at = p->tok.at;
	c->value_len = p->tok.len;
	if (p->tok.kind == T_STR)
		c->value = p->tok.text;
	else if (p->tok.kind == T_WORD || p->tok.kind == T_INT)
		c->value = pool_printf(&p->script->pool, "%s%.*s", minus ? "-" : "", (int)p->tok.len, p->lex.s + p->tok.at);
	else {
		parse_error(p, "a value");
		return;
	}
	parse_advance(p);
}

static void config_block(struct parser *p)
{
	struct config c;

	parse_advance(p);
	parse_expect(p, '=', "after config");
	parse_expect(p, '{', "after config =");
	while (!p->panic && p->tok.kind == T_WORD) {
		c = (struct config){ .name = p->tok.text, .at = p->tok.at, .len = p->tok.len };
		parse_advance(p);
		parse_expect(p, '=', "after the name");
		config_value(p, &c);
		*vec_add(&p->script->configs) = c;
		if (!parse_accept(p, ';') && !parse_is(p, '}'))
			parse_error_in(p, "';'", "after the value");
	}
	parse_expect(p, '}', "after the config block");
}

/* let @name = kind(number); */
static void map_declaration(struct parser *p)
{
	struct map_decl d = { 0 };

	parse_advance(p);
	d.at = p->tok.at;
	d.len = p->tok.len;
	d.name = pool_printf(&p->script->pool, "@%s", p->tok.kind == T_MAP ? p->tok.text : "");
	if (!parse_accept(p, T_MAP)) {
		parse_error(p, "a map (let @name = hash(100))");
		return;
	}
	parse_expect(p, '=', "after the map");
	d.kind = p->tok.kind == T_WORD ? p->tok.text : "";
	if (!parse_accept(p, T_WORD))
		parse_error(p, "hash, lruhash, percpuhash or percpulruhash");
	parse_expect(p, '(', "after the kind of map");
	d.max_keys = p->tok.value;
	if (!parse_accept(p, T_INT))
		parse_error(p, "the number of keys");
	parse_expect(p, ')', "after the number of keys");
	parse_accept(p, ';');
	*vec_add(&p->script->maps) = d;
}

static uint32_t line_end(const struct parser *p, uint32_t pos)
{
	while (pos < p->lex.size && p->lex.s[pos] != '\n')
		pos += p->lex.s[pos] == '\\' && pos + 1 < p->lex.size ? 2 : 1;
	return MIN(pos, p->lex.size);
}

static bool directive_is(const char *s, const char *word)
{
	size_t n = strlen(word);

	return strncmp(s, word, n) == 0 && !isalnum((unsigned char)s[n]);
}

/* #ifdef... #endif: the half that counts stays. BTF is as good as there: types come from the program. */
static void conditional(struct parser *p, const char *word, uint32_t end)
{
	bool keep = directive_is(word, "ifdef"), other = false;
	uint32_t depth = 1, pos = end;

	if (keep && strstr(word, "BPFTRACE_HAVE_BTF"))
		return;		/* read on; a lone #else or #endif is passed over */
	while (pos < p->lex.size) {
		const char *s;

		pos++;
		s = p->lex.s + pos + strspn(p->lex.s + pos, " \t");
		if (*s == '#') {
			s += 1 + strspn(s + 1, " \t");
			depth += directive_is(s, "if") || directive_is(s, "ifdef") || directive_is(s, "ifndef");
			depth -= directive_is(s, "endif");
			other = depth == 1 && directive_is(s, "else");
		}
		pos = line_end(p, pos);
		if (!depth || other)
			break;
	}
	p->lex.pos = pos;
}

/* "#" at the beginning of a line: what bpftrace leaves to a C preprocessor. */
static void directive(struct parser *p)
{
	uint32_t at = p->lex.pos, end = line_end(p, at), n;
	const char *s = p->lex.s + at + 1;
	struct macro *m;

	s += strspn(s, " \t");
	p->lex.pos = end;
	if (directive_is(s, "define")) {
		s += 6 + strspn(s + 6, " \t");
		n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
		if (!n) {
			diag_error(p->lex.diags, at, end - at, "a #define needs a name");
			return;
		}
		if (s[n] == '(') {
			parse_define(p, s - p->lex.s);
			return;
		}
		m = vec_add(&p->macros);
		m->name = pool_text(&p->script->pool, s, n);
		m->pos = s + n - p->lex.s;
	} else if (directive_is(s, "include")) {
		diag_warn(p->lex.diags, at, end - at, "#include is passed over: types come from the program's debug info");
	} else if (directive_is(s, "ifdef") || directive_is(s, "ifndef") || directive_is(s, "if")) {
		conditional(p, s, end);
	} else if (directive_is(s, "else")) {
		conditional(p, "else", end);
	} else if (!directive_is(s, "endif") && !directive_is(s, "undef") && !directive_is(s, "pragma") && *s != '!') {
		diag_error(p->lex.diags, at, end - at, "unknown directive");
	}
}

static const struct { const char *word, *why; } later_words[] = {
	{ "import", "a script is one file; put what it needs into it" }, { "fn", "write 'macro name(x) { ... }'" },
	{ "subprog", "write 'macro name(x) { ... }'" },
};

/* Anything that is no clause. False: it is one. */
bool parse_preamble(struct parser *p)
{
	uint32_t at = p->lex.pos;
	const char *s = p->lex.s + at;
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz"), i, blank;

	blank = n + strspn(s + n, " \t\n");
	if (*s == '#') {
		directive(p);
		return true;
	}
	for (i = 0; i < ARRAY_SIZE(later_words); i++)
		if (n == strlen(later_words[i].word) && memcmp(s, later_words[i].word, n) == 0 && blank > n) {
			diag_error(p->lex.diags, at, n, "'%s' is not supported: %s", later_words[i].word, later_words[i].why);
			p->panic = true;
			return true;
		}
	if (!(n == 6 && memcmp(s, "config", 6) == 0 && s[blank] == '=') &&
	    !(n == 3 && memcmp(s, "let", 3) == 0 && s[blank] == '@') &&
	    !(n == 5 && memcmp(s, "macro", 5) == 0 && blank > n) &&
	    !(n == 6 && memcmp(s, "struct", 6) == 0 && blank > n) && !(n == 5 && memcmp(s, "union", 5) == 0 && blank > n) &&
	    !(n == 4 && memcmp(s, "enum", 4) == 0 && blank > n) && !(n == 7 && memcmp(s, "typedef", 7) == 0 && blank > n))
		return false;
	p->last_end = at;
	parse_rewind(p, at);
	if (*s == 'c')
		config_block(p);
	else if (*s == 'm')
		parse_macro(p);
	else if (*s == 'l')
		map_declaration(p);
	else if (*s == 'e')
		parse_enum_decl(p);
	else if (*s == 't')
		parse_typedef(p);
	else
		parse_struct_decl(p);
	if (!p->panic)
		p->lex.pos = p->tok.at;		/* the next thing is no word, perhaps */
	return true;
}
