/* SPDX-License-Identifier: MIT */
#include "cmd/opts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"

static int wrong(const struct command *c, const char *what, const char *word)
{
	fprintf(stderr, "jab %s: %s '%s'; try `jab %s --help`\n", c->name, what, word, c->name);
	return 2;
}

/* The message for an unknown option; it names an option whose name differs by a letter, if there is one. */
static int no_option(const struct command *c, const char *word)
{
	for (const struct opt *o = c->opts; o->help; o++) {
		char name[64];

		snprintf(name, sizeof(name), "--%s", o->name ? o->name : "");
		if (o->name && o->kind != OPT_REFUSED && is_near(word, name)) {
			fprintf(stderr, "jab %s: no such option '%s'; did you mean %s? Try `jab %s --help`\n", c->name, word, name,
				c->name);
			return 2;
		}
	}
	return wrong(c, "no such option", word);
}

static int wrong_value(const struct command *c, const struct opt *o, const char *value)
{
	fprintf(stderr, "jab %s: '%s' is not a valid value for --%s %s; try `jab %s --help`\n", c->name, value, o->name, o->arg, c->name);
	return 2;
}

static int refused(const struct command *c, const struct opt *o)
{
	fprintf(stderr, "jab %s: --%s is not supported: %s\n", c->name, o->name, o->help);
	return 2;
}

static int take_seconds(double *to, const char *value)
{
	char *end;

	*to = strtod(value, &end);
	return end == value || *end || !(*to >= 0) || *to > 1e9 ? -EINVAL : 0;
}

static int take_time(uint64_t *to, const char *value)
{
	static const struct { const char *name; double ns; } units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "m", 6e10 } };
	char *end;
	double n = strtod(value, &end);

	if (end == value || !(n >= 0) || n > 1e9)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(end, units[i].name)) {
			*to = n * units[i].ns;
			return 0;
		}
	return -EINVAL;
}

static int take_percent(double *to, const char *value)
{
	char *end;

	*to = strtod(value, &end);
	end += *end == '%';
	return end == value || *end || !(*to > 0) || *to > 100 ? -EINVAL : 0;
}

static int take_number(uint64_t *to, const char *value)
{
	char *end;

	errno = 0;
	*to = strtoull(value, &end, 0);
	return end == value || *end || errno || *value == '-' ? -EINVAL : 0;
}

static int take_size(uint64_t *to, const char *value)
{
	static const char units[] = "kKmMgG";
	size_t len = strlen(value);
	const char *unit = len > 1 ? strchr(units, value[len - 1]) : NULL;
	char *digits = xstrndup(value, unit ? len - 1 : len);
	int shift = unit ? 10 * (1 + (int)(unit - units) / 2) : 0, r;

	r = take_number(to, digits);
	free(digits);
	if (r == 0 && (*to << shift) >> shift != *to)
		return -EINVAL;
	*to <<= shift;
	return r;
}

static int take(const struct opt *o, char *value)
{
	switch (o->kind) {
	case OPT_FLAG:
	case OPT_HIDDEN:
		*(bool *)o->to = true;
		return 0;
	case OPT_MORE:
		++*(int *)o->to;
		return 0;
	case OPT_TEXT:
		*(const char **)o->to = value;
		return 0;
	case OPT_LIST:
		*vec_add((text_list *)o->to) = value;
		return 0;
	case OPT_SECONDS:
		return take_seconds(o->to, value);
	case OPT_PERCENT:
		return take_percent(o->to, value);
	case OPT_TIME:
		return take_time(o->to, value);
	case OPT_NUMBER:
		return take_number(o->to, value);
	case OPT_SIZE:
		return take_size(o->to, value);
	case OPT_REFUSED:
		break;
	}
	return -EINVAL;
}

static const struct opt *by_letter(const struct command *c, char letter)
{
	for (const struct opt *o = c->opts; o->help; o++)
		if (o->letter == letter)
			return o;
	return NULL;
}

static const struct opt *by_name(const struct command *c, const char *name, size_t len)
{
	const struct opt *begun = NULL;
	size_t n = 0;

	for (const struct opt *o = c->opts; len && o->help; o++) {
		if (!o->name || strncmp(o->name, name, len))
			continue;
		if (!o->name[len])
			return o;
		if (o->kind == OPT_REFUSED)
			continue;
		begun = o;
		n++;
	}
	return n == 1 ? begun : NULL;
}

/* --name, --name=value, --name value; a name may be shortened if it stays unambiguous. Moves *i over a value in the next word. */
static int take_long(const struct command *c, int argc, char **argv, int *i)
{
	char *word = argv[*i] + 2, *equal = strchr(word, '=');
	const struct opt *o = by_name(c, word, equal ? (size_t)(equal - word) : strlen(word));
	char *value = equal ? equal + 1 : NULL;

	if (!o)
		return no_option(c, argv[*i]);
	if (o->kind == OPT_REFUSED)
		return refused(c, o);
	if (!o->arg && value)
		return wrong(c, "takes no value:", argv[*i]);
	if (o->arg && !value) {
		if (*i + 1 >= argc)
			return wrong(c, "a value is missing after", argv[*i]);
		value = argv[++*i];
	}
	return take(o, value) ? wrong_value(c, o, value) : 0;
}

/* -v, -vv, -d5, -d 5. */
static int take_letters(const struct command *c, int argc, char **argv, int *i)
{
	for (char *p = argv[*i] + 1; *p; p++) {
		const struct opt *o = by_letter(c, *p);
		char *value;

		if (!o)
			return wrong(c, "no such option", argv[*i]);
		if (!o->arg) {
			take(o, NULL);
			continue;
		}
		value = p[1] ? p + 1 : *i + 1 < argc ? argv[++*i] : NULL;
		if (!value)
			return wrong(c, "a value is missing after", argv[*i]);
		return take(o, value) ? wrong_value(c, o, value) : 0;
	}
	return 0;
}

int opts_parse(const struct command *c, int argc, char **argv, text_list *words, char ***ret_rest)
{
	*ret_rest = NULL;
	for (int i = 0; i < argc; i++) {
		int r = 0;

		if (!strcmp(argv[i], "--")) {
			*ret_rest = argv + i + 1;
			return 0;
		}
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			opts_help(c);
			return 1;
		}
		if (!strncmp(argv[i], "--", 2))
			r = take_long(c, argc, argv, &i);
		else if (argv[i][0] == '-' && argv[i][1])
			r = take_letters(c, argc, argv, &i);
		else
			*vec_add(words) = argv[i];
		if (r)
			return r;
	}
	return 0;
}

void opts_help(const struct command *c)
{
	printf("usage: jab %s %s\n\n%s\n\n", c->name, c->usage, c->about);
	for (const struct opt *o = c->opts; o->help; o++) {
		char left[64];

		if (o->kind == OPT_REFUSED || o->kind == OPT_HIDDEN)
			continue;
		snprintf(left, sizeof(left), "%c%c%s%s%s%s%s", o->letter ? '-' : ' ',
			 o->letter ? o->letter : ' ', o->name ? o->letter ? ", " : "  " : "",
			 o->name ? "--" : "", o->name ? o->name : "", o->arg ? " " : "",
			 o->arg ? o->arg : "");
		printf("  %-26s %s\n", left, o->help);
	}
	printf("  -h, --help                 this text\n\nMore: man jab-%s\n", c->name[0] == '-' ? "script" : c->name);
}

bool is_near(const char *a, const char *b)
{
	size_t na = strlen(a), nb = strlen(b), front = 0, back = 0;

	while (a[front] && a[front] == b[front])
		front++;
	while (back < MIN(na, nb) - front && a[na - 1 - back] == b[nb - 1 - back])
		back++;
	na -= front + back;
	nb -= front + back;
	if (na == 2 && nb == 2)
		return a[front] == b[front + 1] && a[front + 1] == b[front];
	return na <= 1 && nb <= 1;
}

int split_words(const char *line, text_list *ret_words)
{
	char *word = xcalloc(strlen(line) + 1, 1);
	size_t n = 0;
	bool open = false;
	char quote = 0;

	for (const char *p = line; ; p++) {
		if (!*p || (!quote && strchr(" \t\n", *p))) {
			if (open)
				*vec_add(ret_words) = xstrndup(word, n);
			open = false;
			n = 0;
			if (!*p)
				break;
		} else if (*p == quote) {
			quote = 0;
		} else if (!quote && (*p == '"' || *p == '\'')) {
			quote = *p;
			open = true;
		} else {
			/* in double quotes sh removes a backslash only before these */
			if (*p == '\\' && quote != '\'' && p[1] && (!quote || strchr("$`\"\\\n", p[1])))
				p++;
			word[n++] = *p;
			open = true;
		}
	}
	free(word);
	*vec_add(ret_words) = NULL;
	if (quote)
		return fail(-EINVAL, "a %c is not closed in: %s", quote, line);
	if (ret_words->n == 1)
		return fail(-EINVAL, "the command is empty");
	return 0;
}
