/* SPDX-License-Identifier: MIT */
#include "base/json.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include "base/utf8.h"

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c != 0x7f && c != '"' && c != '\\';
}

static void write_odd(FILE *to, unsigned char c)
{
	if (c == '"' || c == '\\')
		fprintf(to, "\\%c", c);
	else if (c == '\n' || c == '\r' || c == '\t')
		fprintf(to, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
	else if (c < 0x80)
		fprintf(to, "\\u%04x", c);
	else
		fputs("\\ufffd", to);
}

void json_string(FILE *to, const char *s, size_t len)
{
	const unsigned char *u = (const unsigned char *)s;

	putc('"', to);
	for (size_t i = 0, from; i < len; i++) {
		size_t n;

		for (from = i; i < len && is_plain(u[i]) && (n = utf8_len(u + i, len - i)); i += n)
			;
		if (i > from)
			fwrite(s + from, 1, i - from, to);
		if (i < len)
			write_odd(to, u[i]);
	}
	putc('"', to);
}

/* -?digits[.digits][e[+-]digits], as printf writes numbers; not 012. */
static bool is_number(const char *s, size_t len)
{
	size_t i = len && *s == '-', digits = i;

	while (i < len && isdigit((unsigned char)s[i]))
		i++;
	if (i == digits || (s[digits] == '0' && i > digits + 1))
		return false;
	if (i < len && s[i] == '.')
		for (i++, digits = i; i < len && isdigit((unsigned char)s[i]); )
			i++;
	if (i == digits)
		return false;
	if (i + 1 < len && s[i] == 'e') {
		i += s[i + 1] == '-' || s[i + 1] == '+' ? 2 : 1;
		for (digits = i; i < len && isdigit((unsigned char)s[i]); )
			i++;
	}
	return i == len && i > digits;
}

void json_word(FILE *to, const char *s, size_t len)
{
	if (is_number(s, len) || (len == 4 && !memcmp(s, "true", 4)) || (len == 5 && !memcmp(s, "false", 5)))
		fwrite(s, 1, len, to);
	else
		json_string(to, s, len);
}
