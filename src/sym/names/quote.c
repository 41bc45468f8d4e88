/* SPDX-License-Identifier: MIT */
/* Names of functions and files as a probe has them, so that spec_parse() reads the same name back. */
#include "sym/priv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "base/err.h"
#include "base/text.h"

static bool is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Names come from untrusted files and must never be compiled as a regular expression, which has no letter before it. */
static bool may_hold_regex(const char *text)
{
	for (size_t i = 0; text[i]; i++)
		if (text[i] == '/' && (!i || !is_word_char(text[i - 1])))
			return true;
	return false;
}

static bool reads_back(const char *text, const char *name)
{
	struct probe_spec *spec;
	bool same;

	if (may_hold_regex(text) || spec_parse(text, &spec) < 0)
		return false;
	same = !spec->name && !spec->object && !spec->rest && spec->kind == SPEC_ENTRY && !spec->has_offset &&
	       (spec->place_kind == PLACE_NAME || (spec_is_literal(spec) && !strchr(text, '\\'))) &&
	       strcmp(spec->place, name) == 0;
	spec_free(spec);
	return same;
}

/*
 * Writes the next character of a name, with a backslash if `quote` is set. A character that could control a
 * terminal is written as \xNN bytes; so is an x that would look like the start of such a byte. Returns the rest of
 * the name.
 */
static const char *put_quoted(char **p, const char *name, bool quote)
{
	size_t n = text_plain(name, strlen(name));

	if (!n || (quote && *name == 'x')) {
		*p += sprintf(*p, "\\x%02x", (unsigned char)*name);
		return name + 1;
	}
	if (quote)
		*(*p)++ = '\\';
	memcpy(*p, name, n);
	*p += n;
	return name + n;
}

/* signs: the characters that get a backslash; NULL: all that might need one. */
static char *escaped(const char *name, const char *signs)
{
	char *out = xcalloc(4, strlen(name) + 1), *p = out;

	while (*name)
		name = put_quoted(&p, name, signs ? strchr(signs, *name) != NULL : p == out || !is_word_char(*name));
	return out;
}

/* Uses no more backslashes than needed, for readability. */
char *spec_quote(const char *name)
{
	static const char *const signs[] = { "", " ", " *?[\\" };
	char *out;

	for (size_t i = 0; i < ARRAY_SIZE(signs); i++) {
		out = escaped(name, signs[i]);
		if (reads_back(out, name))
			return out;
		free(out);
	}
	return escaped(name, NULL);
}

/* A file name may contain any character; those with a meaning in a spec get a backslash. */
char *spec_quote_object(const char *name)
{
	char *out = xcalloc(4, strlen(name) + 1), *p = out;

	if (!strcmp(name, "[vdso]"))	/* is parsed back without escapes */
		return strcpy(out, name);
	while (*name)
		name = put_quoted(&p, name, strchr(" :\\=\"'{}()[],", *name) || (p == out && strchr("-@", *name)));
	return out;
}
