/* SPDX-License-Identifier: MIT */
#include "base/cxxname.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include "base/mem.h"

#define MOST_DEPTH 64		/* of brackets in a name; deeper ones are shown in full */

struct shortener {
	const char *in, *end;
	char *out;		/* never longer than the input */
	size_t n;
	unsigned int depth;
	bool failed;
};

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static bool begins(const struct shortener *s, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(s->end - s->in) >= n && !memcmp(s->in, word, n);
}

static bool take(struct shortener *s, const char *word)
{
	if (!begins(s, word))
		return false;
	s->in += strlen(word);
	return true;
}

static void put(struct shortener *s, char c)
{
	s->out[s->n++] = c;
}

static bool ends_with(const char *s, size_t n, const char *tail)
{
	size_t len = strlen(tail);

	return n >= len && !memcmp(s + n - len, tail, len);
}

/* An argument that the standard library has as a default: what users have not written. */
static bool is_default(const char *arg, size_t n)
{
	static const char *const heads[] = {
		"std::allocator<", "std::char_traits<", "std::less<", "std::hash<", "std::equal_to<", "std::default_delete<",
	};

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		size_t len = strlen(heads[i]);

		if (n > len && !memcmp(arg, heads[i], len) && arg[n - 1] == '>')
			return true;
	}
	return false;
}

/* "std::basic_string" with the only argument "char" -> "std::string"; wchar_t -> "std::wstring". True: it was renamed. */
static bool rename_basic(struct shortener *s, size_t open, size_t nargs)
{
	size_t from = open, len;
	bool wide;

	while (from && is_word(s->out[from - 1]))
		from--;
	if (nargs != 1 || open - from <= 6 || memcmp(s->out + from, "basic_", 6) || !ends_with(s->out, from, "std::"))
		return false;
	wide = s->n - open == 8 && !memcmp(s->out + open, "<wchar_t", 8);
	if (!wide && (s->n - open != 5 || memcmp(s->out + open, "<char", 5)))
		return false;
	len = open - from - 6;
	memmove(s->out + from + wide, s->out + from + 6, len);
	if (wide)
		s->out[from] = 'w';
	s->n = from + wide + len;
	return true;
}

static void copy_until(struct shortener *s, const char *stop);

/* "<...>": the opening bracket has been read and written. */
static void template_args(struct shortener *s)
{
	size_t open = s->n - 1, nargs = 0, kept = 0;
	size_t from, keep = s->n;		/* the end of the last argument that is no default */

	for (;;) {
		from = s->n;
		copy_until(s, ",>");
		if (s->failed || s->in == s->end) {
			s->failed = true;
			return;
		}
		while (s->n > from && s->out[s->n - 1] == ' ')
			s->n--;
		if (from < s->n && s->out[from] == ' ')
			from++;
		nargs++;
		if (nargs == 1 || !is_default(s->out + from, s->n - from)) {
			keep = s->n;
			kept = nargs;
		}
		if (*s->in++ == '>')
			break;
		put(s, ',');
	}
	s->n = keep;
	if (!rename_basic(s, open, kept))
		put(s, '>');
}

static void brackets(struct shortener *s, char close)
{
	char stop[2] = { close };

	copy_until(s, stop);
	if (s->failed || s->in == s->end)
		s->failed = true;
	else
		put(s, *s->in++);
}

/* After "operator": signs that are no brackets. */
static void copy_operator(struct shortener *s)
{
	static const char *const signs[] = { "()", "<=>", "->*", "->", "<<=", ">>=", "<<", ">>", "<=", ">=", "<", ">", "[]" };

	for (size_t i = 0; i < ARRAY_SIZE(signs); i++)
		if (take(s, signs[i])) {
			memcpy(s->out + s->n, signs[i], strlen(signs[i]));
			s->n += strlen(signs[i]);
			return;
		}
}

static bool skip_inline_namespace(struct shortener *s)
{
	return ends_with(s->out, s->n, "std::") && (take(s, "__cxx11::") || take(s, "__1::"));
}

static void copy_word(struct shortener *s)
{
	size_t from = s->n;

	while (s->in < s->end && is_word(*s->in))
		put(s, *s->in++);
	if (s->n - from == 8 && !memcmp(s->out + from, "operator", 8))
		copy_operator(s);
}

/* Copies up to one of the characters of `stop`, outside of brackets, or to the end. */
static void copy_until(struct shortener *s, const char *stop)
{
	if (++s->depth > MOST_DEPTH)
		s->failed = true;
	while (!s->failed && s->in < s->end && !strchr(stop, *s->in)) {
		if (skip_inline_namespace(s) || take(s, "[abi:cxx11]"))
			continue;
		if (is_word(*s->in)) {
			copy_word(s);
			continue;
		}
		put(s, *s->in++);
		if (s->out[s->n - 1] == '-' && s->in < s->end && *s->in == '>')	/* "->" of Rust's signatures */
			put(s, *s->in++);
		else if (s->out[s->n - 1] == '<')
			template_args(s);
		else if (s->out[s->n - 1] == '(')
			brackets(s, ')');
	}
	s->depth--;
}

/* "::h" and sixteen digits at the end of a Rust name. */
static size_t without_hash(const char *name, size_t len)
{
	size_t n = 0;

	while (n < len && isxdigit((unsigned char)name[len - 1 - n]))
		n++;
	return n == 16 && len > 19 && !memcmp(name + len - 19, "::h", 3) ? len - 19 : len;
}

size_t cxx_short_name(const char *name, size_t len, char *out, size_t room)
{
	size_t kept = without_hash(name, len), n;
	struct shortener s = { .in = name, .end = name + kept };

	if (kept == len && !memchr(name, '<', len) && !memmem(name, len, "__cxx11", 7) && !memmem(name, len, "[abi:", 5))
		return 0;
	s.out = xcalloc(1, kept + 2);
	copy_until(&s, "");
	n = s.failed || s.n == len ? 0 : MIN(s.n, room - 1);
	if (n) {
		memcpy(out, s.out, n);
		out[n] = '\0';
	}
	free(s.out);
	return n;
}
