/* SPDX-License-Identifier: MIT */
#include "cmd/common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"

int complain(void)
{
	fprintf(stderr, "jab: %s\n", jab_error());
	return 1;
}

int output_done(FILE *to, const char *name)
{
	bool failed = ferror(to);

	errno = 0;
	if (!fflush(to) && !failed)
		return 0;
	return fail(errno ? -errno : -EIO, "%s can't be written%s%s", name, errno ? ": " : "",
		    errno ? strerror(errno) : "");
}

bool is_pid(const char *word, pid_t *ret_pid)
{
	char *end;
	long n = strtol(word, &end, 10);

	if (end == word || *end || n <= 0 || n > 1 << 30)
		return false;
	*ret_pid = n;
	return true;
}

int attach_word(struct jab *j, const char *word)
{
	pid_t pid;

	return is_pid(word, &pid) ? jab_attach(j, pid) : jab_attach_name(j, word);
}

/* Length of the character at s; 0 where it is no UTF-8 (overlong forms and surrogates are none). */
static size_t utf8_len(const unsigned char *s)
{
	size_t len = *s < 0x80 ? 1 : *s < 0xc2 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : *s < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f) || (*s == 0xf0 && s[1] < 0x90) ||
	    (*s == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

/* File and function names are any bytes, JSON is UTF-8: what is none becomes a replacement character. */
void json_text(FILE *to, const char *s)
{
	putc('"', to);
	while (*s) {
		size_t len = utf8_len((const unsigned char *)s);

		if (*s == '"' || *s == '\\')
			fprintf(to, "\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			fprintf(to, "\\u%04x", *s);
		else if (len)
			fwrite(s, 1, len, to);
		else
			fputs("\\ufffd", to);
		s += len ? len : 1;
	}
	putc('"', to);
}

void json_pair(FILE *to, const char *key, const char *value, bool first)
{
	fprintf(to, "%s\"%s\":", first ? "" : ",", key);
	json_text(to, value);
}

const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}
