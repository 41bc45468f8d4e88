/* SPDX-License-Identifier: MIT */
#include "base/json.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include "base/utf8.h"

void json_string(FILE *to, const char *s, size_t len)
{
	size_t n;

	putc('"', to);
	for (size_t i = 0; i < len; i += n ? n : 1) {
		n = utf8_len((const unsigned char *)s + i, len - i);
		if (s[i] == '"' || s[i] == '\\')
			fprintf(to, "\\%c", s[i]);
		else if (s[i] == '\n')
			fputs("\\n", to);
		else if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			fprintf(to, "\\u%04x", s[i]);
		else if (n)
			fwrite(s + i, 1, n, to);
		else
			fputs("\\ufffd", to);
	}
	putc('"', to);
}

/* -?digits[.digits][e[+-]digits], as printf writes numbers; 012 is none. */
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
