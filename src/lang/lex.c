/* SPDX-License-Identifier: MIT */
/* From characters to words: numbers in all their spellings, strings with escapes, signs. */
#include "lang/lex.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct { uint8_t kind; const char *text; } signs[] = {	/* longest first */
	{ T_SHL_SET, "<<=" }, { T_SHR_SET, ">>=" }, { T_ELLIPSIS, "..." },
	{ T_ARROW, "->" }, { T_INC, "++" }, { T_DEC, "--" }, { T_SHL, "<<" }, { T_SHR, ">>" }, { T_LE, "<=" },
	{ T_GE, ">=" }, { T_EQ, "==" }, { T_NE, "!=" }, { T_ANDAND, "&&" }, { T_OROR, "||" }, { T_RANGE, ".." },
	{ T_SCOPE, "::" }, { T_ADD_SET, "+=" }, { T_SUB_SET, "-=" }, { T_MUL_SET, "*=" }, { T_DIV_SET, "/=" },
	{ T_MOD_SET, "%=" }, { T_AND_SET, "&=" }, { T_OR_SET, "|=" }, { T_XOR_SET, "^=" },
};

uint8_t token_assigns(uint8_t kind)
{
	static const uint8_t ops[] = { '+', '-', '*', '/', '%', '&', '|', '^', T_SHL, T_SHR };

	return kind >= T_ADD_SET && kind <= T_SHR_SET ? ops[kind - T_ADD_SET] : 0;
}

const char *token_text(uint8_t kind)
{
	static const char *const kinds[] = {
		"the end", "a number", "a number", "a string", "a name", "a variable", "a map", "a bad character",
	};
	static char single[128][2];
	size_t i;

	if (kind < ARRAY_SIZE(kinds))
		return kinds[kind];
	for (i = 0; i < ARRAY_SIZE(signs); i++)
		if (signs[i].kind == kind)
			return signs[i].text;
	if (kind >= 128)
		return "?";
	single[kind][0] = kind;		/* always the same bytes: threads don't mind */
	return single[kind];
}

static bool is_name_start(char c)
{
	return isalpha((unsigned char)c) || c == '_';
}

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Behind the comment that starts here; 0 if none does. */
static uint32_t comment_end(struct lexer *l)
{
	const char *s = l->s + l->pos, *end;

	if (s[0] == '/' && s[1] == '/') {
		end = memchr(s, '\n', l->size - l->pos);
		return end ? end - l->s : l->size;
	}
	if (s[0] != '/' || s[1] != '*')
		return 0;
	end = strstr(s + 2, "*/");
	if (end)
		return end + 2 - l->s;
	diag_error(l->diags, l->pos, 2, "this comment has no end (*/)");
	l->unclosed = true;
	return l->size;
}

void lex_blanks(struct lexer *l)
{
	uint32_t end;

	while (l->pos < l->size) {
		if (isspace((unsigned char)l->s[l->pos]))
			l->pos++;
		else if ((end = comment_end(l)))
			l->pos = end;
		else
			break;
	}
}

static bool is_digit(char c, int base)
{
	return base == 16 ? isxdigit((unsigned char)c) : isdigit((unsigned char)c);
}

/* Digits with _ between them, copied without; returns how many characters were taken. */
static uint32_t take_digits(const char *s, int base, char *out, size_t room)
{
	uint32_t i, n = 0;

	for (i = 0; is_digit(s[i], base) || (s[i] == '_' && i); i++)
		if (s[i] != '_' && n + 1 < room)
			out[n++] = s[i];
	out[n] = 0;
	return i;
}

static const struct { const char *word; uint64_t ns; } units[] = {
	{ "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000ull }, { "m", 60000000000ull },
	{ "h", 3600000000000ull }, { "d", 86400000000000ull },
};

/* u, l, ul, ll, ...; durations multiply. */
static bool take_suffix(const char *s, uint32_t len, struct token *t)
{
	size_t i;

	for (i = 0; i < len && strchr("uUlL", s[i]); i++)
		t->form |= strchr("uU", s[i]) ? NUMBER_UNSIGNED : NUMBER_LONG;
	if (i == len)
		return len <= 3;
	for (i = 0; i < ARRAY_SIZE(units); i++)
		if (strlen(units[i].word) == len && memcmp(units[i].word, s, len) == 0)
			return !__builtin_mul_overflow(t->value, units[i].ns, &t->value);
	return false;
}

/* 2e3: an integer, unlike in C, as long as it is one. */
static bool scientific(const char *digits, const char *exponent, uint64_t *ret)
{
	uint64_t v = strtoull(digits, NULL, 10);
	long e = strtol(exponent, NULL, 10);

	for (; e > 0; e--)
		if (__builtin_mul_overflow(v, 10, &v))
			return false;
	*ret = v;
	return true;
}

static void bad_number(struct lexer *l, struct token *t, const char *why)
{
	while (is_name(l->s[l->pos]))
		l->pos++;
	t->len = l->pos - t->at;
	diag_error(l->diags, t->at, t->len, "'%.*s' %s", (int)t->len, l->s + t->at, why);
	t->kind = T_BAD;
}

static void number_end(struct lexer *l, struct token *t)
{
	uint32_t n = 0;

	while (is_name(l->s[l->pos + n]))
		n++;
	if (n && (t->kind == T_FLOAT ? n > 1 || !strchr("fF", l->s[l->pos]) :
		  !take_suffix(l->s + l->pos, n, t))) {
		bad_number(l, t, "is no number");
		return;
	}
	l->pos += n;
	t->len = l->pos - t->at;
}

static void lex_float(struct lexer *l, struct token *t, const char *text)
{
	t->kind = T_FLOAT;
	t->fvalue = strtod(text, NULL);
	if (strchr("fF", l->s[l->pos]) && l->s[l->pos]) {
		t->fvalue = strtof(text, NULL);
		t->form = NUMBER_FLOAT;
	}
	number_end(l, t);
}

/* 0x1.8p3: an exponent must be there, or it would be a number and a member. */
static uint32_t hex_float(const char *s)
{
	uint32_t n = 2, digits;

	digits = strspn(s + n, "0123456789abcdefABCDEF");
	n += digits;
	if (s[n] == '.') {
		uint32_t more = strspn(s + n + 1, "0123456789abcdefABCDEF");

		digits += more;
		n += 1 + more;
	}
	if (!digits || (s[n] != 'p' && s[n] != 'P'))
		return 0;
	n += 1 + (s[n + 1] == '-' || s[n + 1] == '+');
	digits = strspn(s + n, "0123456789");
	return digits ? n + digits : 0;
}

static void lex_hex(struct lexer *l, struct token *t)
{
	char digits[64], *text;
	uint32_t n = hex_float(l->s + l->pos);

	if (n) {
		text = pool_printf(l->pool, "%.*s", (int)n, l->s + l->pos);
		l->pos += n;
		lex_float(l, t, text);
		return;
	}
	n = take_digits(l->s + l->pos + 2, 16, digits, sizeof(digits));
	l->pos += 2 + n;
	errno = 0;
	t->value = strtoull(digits, NULL, 16);
	t->form = NUMBER_NOT_DECIMAL;
	if (!n || errno) {
		bad_number(l, t, "is no hexadecimal number that fits in 64 bits");
		return;
	}
	number_end(l, t);
}

static bool is_exponent(const char *s)
{
	return (*s == 'e' || *s == 'E') && isdigit((unsigned char)s[1 + (s[1] == '-' || s[1] == '+')]);
}

/* "1." and "1.e5" as in C; not 0..10 */
static bool is_point(const char *s)
{
	if (s[0] != '.' || s[1] == '.')
		return false;
	return !is_name_start(s[1]) || is_exponent(s + 1) || ((s[1] == 'f' || s[1] == 'F') && !is_name(s[2]));
}

static void lex_decimal(struct lexer *l, struct token *t)
{
	char text[256], part[80], *end;
	bool point = false, sci = false;
	const char *s;

	l->pos += take_digits(l->s + l->pos, 10, part, sizeof(part));
	strcpy(text, part);
	s = l->s + l->pos;
	if (is_point(s)) {
		point = true;
		l->pos += 1 + take_digits(s + 1, 10, part, sizeof(part));
		strcat(strcat(text, "."), part);
		s = l->s + l->pos;
	}
	if (is_exponent(s)) {
		bool minus = s[1] == '-', sign = minus || s[1] == '+';

		l->pos += 1 + sign + take_digits(s + 1 + sign, 10, part, 8);
		sci = !point && !minus;
		if (sci && scientific(text, part, &t->value)) {
			number_end(l, t);
			return;
		}
		strcat(strcat(text, minus ? "e-" : "e"), part);
		point = true;
	}
	if (point) {
		lex_float(l, t, text);
		return;
	}
	errno = 0;
	t->value = strtoull(text, &end, text[0] == '0' ? 8 : 10);
	t->form = text[0] == '0' ? NUMBER_NOT_DECIMAL : 0;
	if (errno || *end)
		bad_number(l, t, *end ? "has a digit that octal numbers don't have" : "does not fit in 64 bits");
	else
		number_end(l, t);
}

static int hex_value(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower(c) - 'a' + 10;
}

/* One character behind a backslash; pos is on it, and behind it afterwards. -1: unknown. */
static int escape(struct lexer *l)
{
	static const char from[] = "ntrabfve\\\"'?", to[] = "\n\t\r\a\b\f\v\033\\\"'?";
	char c = l->s[l->pos++];
	const char *p;
	int v = 0, n;

	if (c >= '0' && c <= '7') {
		for (l->pos--, n = 0; n < 3 && l->s[l->pos] >= '0' && l->s[l->pos] <= '7'; n++)
			v = v * 8 + l->s[l->pos++] - '0';
		return v & 255;
	}
	if (c == 'x' && isxdigit((unsigned char)l->s[l->pos])) {
		for (n = 0; n < 2 && isxdigit((unsigned char)l->s[l->pos]); n++)
			v = v * 16 + hex_value(l->s[l->pos++]);
		return v;
	}
	p = c ? strchr(from, c) : NULL;
	if (!p)
		l->pos -= !c;
	return p ? to[p - from] & 255 : -1;
}

/* "..." or '...': pos is on the quote. */
static char *lex_quoted(struct lexer *l, struct token *t, char quote)
{
	const char *close = l->s + l->pos + 1;
	uint32_t n = 0, at;
	char *out;
	int c;

	while (*close && *close != quote && *close != '\n')
		close += *close == '\\' && close[1] ? 2 : 1;
	out = pool_alloc(l->pool, close - (l->s + l->pos) + 1);
	for (l->pos++; l->s[l->pos] && l->s[l->pos] != quote && l->s[l->pos] != '\n';) {
		at = l->pos;
		c = l->s[l->pos++] & 255;
		if (c == '\\')
			c = escape(l);
		if (c < 0) {
			diag_error(l->diags, at, l->pos - at, "unknown escape '%.*s'", (int)(l->pos - at), l->s + at);
			c = '?';
		}
		out[n++] = c;
	}
	t->kind = quote == '"' ? T_STR : T_INT;
	if (l->s[l->pos] == quote) {
		l->pos++;
	} else {
		if (!l->unclosed)
			diag_error(l->diags, t->at, 1, "this string has no closing %c on its line", quote);
		l->unclosed = true;
		t->kind = T_BAD;
	}
	t->len = l->pos - t->at;
	t->text_len = n;
	return out;
}

static void lex_string(struct lexer *l, struct token *t)
{
	t->text = lex_quoted(l, t, '"');
}

/* 'A' is its number, as in C. */
static void lex_char(struct lexer *l, struct token *t)
{
	t->text = lex_quoted(l, t, '\'');
	if (t->text_len != 1)
		diag_error(l->diags, t->at, t->len, "'x' is one character; strings have double quotes");
	else
		t->value = (int64_t)(signed char)t->text[0];
}

static void lex_name(struct lexer *l, struct token *t, uint8_t kind)
{
	uint32_t start = l->pos;

	while (is_name(l->s[l->pos]))
		l->pos++;
	t->kind = kind;
	t->text_len = l->pos - start;
	t->text = pool_text(l->pool, l->s + start, t->text_len);
	t->len = l->pos - t->at;
}

static void lex_dollar(struct lexer *l, struct token *t)
{
	l->pos++;
	lex_name(l, t, T_VAR);
	if (t->text_len)
		return;
	if (l->s[l->pos] == '#') {
		l->pos++;
		t->text = "#";
		t->len = 2;
		t->text_len = 1;
		return;
	}
	diag_error(l->diags, t->at, 1, "a variable needs a name behind its $");
	t->kind = T_BAD;
}

static void lex_sign(struct lexer *l, struct token *t)
{
	size_t i, n;

	for (i = 0; i < ARRAY_SIZE(signs); i++) {
		n = strlen(signs[i].text);
		if (strncmp(l->s + l->pos, signs[i].text, n) == 0) {
			t->kind = signs[i].kind;
			t->len = n;
			l->pos += n;
			return;
		}
	}
	t->len = 1;
	t->kind = l->s[l->pos++];
	if (!strchr("+-*/%&|^~!<>=?:;,.(){}[]", t->kind) || !t->kind) {
		while ((l->s[l->pos] & 0xc0) == 0x80)	/* the rest of a character */
			l->pos++;
		t->len = l->pos - t->at;
		if ((unsigned char)l->s[t->at] >= 32)
			diag_error(l->diags, t->at, 1, "unexpected character '%.*s'", (int)t->len, l->s + t->at);
		else
			diag_error(l->diags, t->at, 1, "unexpected character \\x%02x", l->s[t->at]);
		t->kind = T_BAD;
	}
}

struct token lex_next(struct lexer *l)
{
	struct token t = { 0 };
	const char *s;

	lex_blanks(l);
	s = l->s + l->pos;
	t.at = l->pos;
	if (l->pos >= l->size)
		return t;
	t.kind = T_INT;
	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		lex_hex(l, &t);
	else if (isdigit((unsigned char)s[0]) || (s[0] == '.' && isdigit((unsigned char)s[1])))
		lex_decimal(l, &t);
	else if (is_name_start(s[0]))
		lex_name(l, &t, T_WORD);
	else if (s[0] == '"')
		lex_string(l, &t);
	else if (s[0] == '\'')
		lex_char(l, &t);
	else if (s[0] == '$')
		lex_dollar(l, &t);
	else if (s[0] == '@')
		l->pos++, lex_name(l, &t, T_MAP);
	else
		lex_sign(l, &t);
	return t;
}
