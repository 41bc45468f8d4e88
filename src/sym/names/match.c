/* SPDX-License-Identifier: MIT */
/*
 * Finds the functions that a place names. A name is compared raw, and if it is mangled also in the readable forms
 * "void f<int>(int)", "f<int>(int)" and "f<int>". Demangling is expensive, so it is avoided where it can't matter:
 * C++ and Rust keep identifiers unchanged inside a mangled name, so a name that does not contain the longest
 * identifier of the pattern need not be demangled.
 */
#include "sym/priv.h"

#include "base/err.h"
#include <ctype.h>
#include <regex.h>
#include <stdio.h>

/* The length of a set "[" .. "]" at glob, 0 if it is none; "[]" is a part of C++ names. */
static size_t set_len(const char *glob)
{
	const char *end = glob[1] == ']' ? NULL : strchr(glob, ']');

	return end ? (size_t)(end - glob) + 1 : 0;
}

static bool in_set(const char *set, size_t len, unsigned char c)
{
	bool not = set[1] == '!' || set[1] == '^', hit = false;
	size_t i;

	for (i = not ? 2 : 1; i < len - 1; i++) {
		if (i + 3 < len && set[i + 1] == '-') {
			hit |= c >= (unsigned char)set[i] && c <= (unsigned char)set[i + 2];
			i += 2;
		} else {
			hit |= c == (unsigned char)set[i];
		}
	}
	return hit != not;
}

/* Matches one character; *ret_next is the rest of the glob. */
static bool one_char(const char *glob, char c, const char **ret_next)
{
	size_t n;

	if (*glob == '[' && (n = set_len(glob))) {
		*ret_next = glob + n;
		return in_set(glob, n, c);
	}
	if (*glob == '\\' && glob[1])
		glob++;
	else if (*glob == '?') {
		*ret_next = glob + 1;
		return true;
	}
	*ret_next = glob + 1;
	return *glob == c;
}

/* On a mismatch only the last "*" has to be retried one character further: never exponential. */
bool glob_match(const char *glob, const char *s, size_t len)
{
	const char *end = s + len, *star = NULL, *retry = NULL, *next;

	while (s < end) {
		if (*glob == '*') {
			star = ++glob;
			retry = s;
		} else if (*glob && one_char(glob, *s, &next)) {
			glob = next;
			s++;
		} else if (star) {
			glob = star;
			s = ++retry;
		} else {
			return false;
		}
	}
	while (*glob == '*')
		glob++;
	return !*glob;
}

struct matcher {
	const struct probe_spec *spec;
	struct module *m;
	char *literal;		/* compared with this instead of the place, whatever the kind; NULL: by the kind */
	char *need;		/* an identifier that a mangled name must contain; NULL: none */
	char *buf;		/* a name form for regexec */
	size_t buf_cap;
};

static bool text_matches(struct matcher *t, const char *s, size_t len)
{
	const char *place = t->literal ? t->literal : t->spec->place;

	if (t->literal || t->spec->place_kind == PLACE_NAME)
		return strlen(place) == len && memcmp(place, s, len) == 0;
	if (t->spec->place_kind == PLACE_GLOB)
		return glob_match(place, s, len);
	if (s[len]) {
		if (len >= t->buf_cap)
			t->buf = xrealloc(t->buf, t->buf_cap = len + 256);
		memcpy(t->buf, s, len);
		t->buf[len] = 0;
		s = t->buf;
	}
	return regexec(t->spec->regex, s, 0, NULL, 0) == 0;
}

static bool name_matches(struct matcher *t, uint32_t name)
{
	const char *raw = t->m->names.v[name].name, *readable;
	struct name_parts parts;

	if (text_matches(t, raw, strlen(raw)))
		return true;
	if (raw[0] != '_' || (raw[1] != 'Z' && raw[1] != 'R'))
		return false;
	if (t->need && raw[1] == 'Z' && !strstr(raw, t->need))
		return false;
	readable = name_readable(t->m, name);
	if (!readable)
		return false;
	if (text_matches(t, readable, strlen(readable)))
		return true;
	parts = name_split(readable);
	if (parts.start && text_matches(t, readable + parts.start, strlen(readable + parts.start)))
		return true;
	/* "f(int) [clone .part.0]" is a part of f, which the name f alone does not include */
	return !strstr(readable + parts.params, " [clone ") &&
	       text_matches(t, readable + parts.start, parts.params - parts.start);
}

/* Words that a demangler adds: they need not be in the mangled name. */
static const char own_words[] =
	" std string basic_string allocator istream ostream iostream basic_istream"
	" basic_ostream basic_iostream char_traits operator anonymous namespace lambda"
	" unnamed type auto decltype noexcept clone abi vtable construction for typeinfo"
	" name fn guard variable non-virtual virtual thunk covariant return reference"
	" temporary transaction safe TLS init function wrapper hidden alias initializer"
	" module java Class resource default arg template parameter object parm this throw"
	" sizeof alignof typeid requires new delete co_await dynamic_cast static_cast"
	" const_cast reinterpret_cast nullptr void wchar_t bool char signed unsigned short"
	" int long float double __int128 __float128 decimal32 decimal64 decimal128 half"
	" char8_t char16_t char32_t std::nullptr_t _Float16 _Float32 _Float64 _Float128 true"
	" false const volatile restrict __restrict _Complex _Imaginary complex imaginary"
	" __vector enum struct union class and_eq bitand impl dyn closure shim as mut unsafe"
	" extern ";

static bool is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* The longest run of identifier characters that every matching name must contain. */
static char *needed_word(const struct probe_spec *spec)
{
	const char *s = spec->place, *best = NULL;
	size_t best_len = 2, len;
	char *word;

	if (spec->place_kind == PLACE_REGEX || strchr(s, '\\') || strchr(s, '['))
		return NULL;
	for (; *s && *s != '(' && *s != '<' && *s != '{'; s += MAX(len, (size_t)1)) {
		for (len = 0; is_word_char(s[len]); len++)
			;
		if (len <= best_len || isdigit((unsigned char)*s))
			continue;
		word = xstrndup(s, len);
		if (word && !strstr(own_words, word)) {
			best = s;
			best_len = len;
		}
		free(word);
	}
	return best ? xstrndup(best, best_len) : NULL;
}

static void add_once(func_list *list, size_t first, uint32_t func)
{
	if (list->n > first && list->v[list->n - 1] == func)
		return;
	*vec_add(list) = func;
}

/* Compares with "func_0x1234", the name that func_name() gives to functions without a name. */
static bool nameless_matches(struct matcher *t, const struct func *f)
{
	char made[32];
	int n;

	n = snprintf(made, sizeof(made), "func_0x%llx", (unsigned long long)f->addr);
	return text_matches(t, made, n);
}

static int match_names(struct matcher *t, func_list *list)
{
	bool pattern = t->spec->place_kind != PLACE_NAME && !t->literal;
	struct module *m = t->m;
	size_t i, k, first = list->n;

	for (i = 0; i < m->funcs.n; i++) {
		const struct func *f = &m->funcs.v[i];

		if (pattern && (f->flags & FUNC_COLD))
			continue;
		if (!f->nalias && nameless_matches(t, f))
			add_once(list, first, i);
		for (k = 0; k < f->nalias; k++) {
			if (!name_matches(t, f->alias + k))
				continue;
			add_once(list, first, i);
			break;
		}
	}
	return list->n - first;
}

static int match_all(struct module *m, func_list *list)
{
	size_t i, first = list->n;

	for (i = 0; i < m->funcs.n; i++)
		if (!(m->funcs.v[i].flags & FUNC_COLD))
			*vec_add(list) = i;
	return list->n - first;
}

static int match_addr(const struct probe_spec *spec, struct module *m, func_list *list)
{
	const struct func *f = module_func_at(m, spec->addr);

	if (!f)
		return 0;
	*vec_add(list) = f - m->funcs.v;
	return 1;
}

/* f(char*), operator*, (*T).Method: a place that is a name as a whole is that name, not a pattern. */
bool spec_is_literal(const struct probe_spec *spec)
{
	return spec->place_kind == PLACE_GLOB && (strpbrk(spec->place, "([") || strstr(spec->place, "operator"));
}

int spec_match(const struct probe_spec *spec, struct module *m, func_list *list)
{
	struct matcher t = { .spec = spec, .m = m };
	int n = 0;

	if (spec->place_kind == PLACE_ADDR)
		return match_addr(spec, m, list);
	if (spec->place_kind == PLACE_LINE)	/* needs debug info: lines_find() */
		return 0;
	if (spec->place_kind == PLACE_GLOB && strcmp(spec->place, "*") == 0)
		return match_all(m, list);
	t.need = needed_word(spec);
	if (spec_is_literal(spec)) {
		t.literal = unescape(spec->place, strlen(spec->place));
		n = match_names(&t, list);
		free(t.literal);
		t.literal = NULL;
	}
	if (n == 0)
		n = match_names(&t, list);
	free(t.need);
	free(t.buf);
	return n;
}
