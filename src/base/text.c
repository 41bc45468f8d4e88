/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <string.h>
#include "base/utf8.h"

/* U+2028-202E and U+2066-2069, U+200E-200F and U+061C: line separators and direction marks; and C1 control characters. */
static bool is_steering(const unsigned char *s, size_t len)
{
	if (len == 2)
		return (s[0] == 0xc2 && s[1] < 0xa0) || (s[0] == 0xd8 && s[1] == 0x9c);
	if (len != 3 || s[0] != 0xe2)
		return false;
	if (s[1] == 0x80)
		return s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae);
	return s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9;
}

size_t text_plain(const char *s, size_t n)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t len;

	if (!n || *u < 0x20 || *u == 0x7f)
		return 0;
	len = utf8_len(u, n);
	return is_steering(u, len) ? 0 : len;
}

/* The next piece as it is shown: a character, or an escape. Returns how many bytes of s it represents. */
static size_t next_piece(const char *s, size_t n, const char *keep, char ret_piece[4], size_t *ret_len)
{
	static const char hex[] = "0123456789abcdef";
	size_t len = text_plain(s, n);

	if (!len && *s && strchr(keep, *s))
		len = 1;
	if (len) {
		memcpy(ret_piece, s, len);
		*ret_len = len;
		return len;
	}
	memcpy(ret_piece, (char[]){ '\\', 'x', hex[*s >> 4 & 15], hex[*s & 15] }, 4);
	*ret_len = 4;
	return 1;
}

size_t text_safe(const char *s, size_t len, const char *keep, char *out, size_t room)
{
	char piece[4];
	size_t n, to = 0;

	for (size_t i = 0; i < len;) {
		i += next_piece(s + i, len - i, keep, piece, &n);
		if (to + n >= room)
			break;
		memcpy(out + to, piece, n);
		to += n;
	}
	if (room)
		out[to] = '\0';
	return to;
}

void write_safe(FILE *to, const char *s, size_t len, const char *keep)
{
	char piece[4];
	size_t n, plain;

	for (size_t i = 0, from; i < len;) {
		for (from = i; i < len && (plain = text_plain(s + i, len - i)); i += plain)
			;
		if (i > from)
			fwrite(s + from, 1, i - from, to);
		if (i == len)
			break;
		i += next_piece(s + i, len - i, keep, piece, &n);
		fwrite(piece, 1, n, to);
	}
}

void print_safe(FILE *to, const char *s)
{
	write_safe(to, s, strlen(s), "");
}
