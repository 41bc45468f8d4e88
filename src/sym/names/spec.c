/* SPDX-License-Identifier: MIT */
/*
 * Parses a probe as the user wrote it. First the text is cut into parts at its single colons, and at the blank that
 * ends the place; then each part is parsed on its own:
 *
 *	probe := [NAME "="] [kind ":"] [object ":"] place | [NAME "="] usdt ":" [object ":"] [provider ":"] name
 *	place := func | glob | /regex/ | func+off | 0xADDR | func%return | @file:line
 *
 * C++ names make this less simple than it looks: "::" separates nothing, and blanks, colons and signs inside
 * brackets or after "operator" belong to the name. A backslash makes the next character literal.
 */
#include "sym/priv.h"

#include "base/err.h"
#include "base/text.h"
#include <ctype.h>
#include <regex.h>

#define MOST_PARTS 4

struct layout {
	size_t start[MOST_PARTS];	/* of each part */
	size_t nparts;			/* may be more than MOST_PARTS: that is an error anyway */
	size_t end;			/* of the last part; fields and conditions follow */
	bool balanced;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

static bool is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/*
 * Length of the regex at s including its closing slash, 0 if it is none. A path starts with a slash, too, but its
 * next one is followed by more of the path.
 */
static size_t regex_len(const char *s)
{
	size_t i;

	if (*s != '/')
		return 0;
	for (i = 1; s[i] && s[i] != '/'; i++)
		if (s[i] == '\\' && s[i + 1])
			i++;
	if (s[i] != '/')
		return 0;
	i++;
	return !s[i] || is_blank(s[i]) || s[i] == '%' || s[i] == '+' ? i : 0;
}

/* A blank that belongs to a name: "operator new", "f(int) const", "f() [clone .cold]". */
static bool blank_in_name(const char *s, size_t i)
{
	static const char *const tails[] = { "const", "volatile", "&", "[clone" };
	size_t k, n;

	if (i >= 8 && operator_len(s, i - 8) == 8)
		return true;
	for (k = 0; k < ARRAY_SIZE(tails); k++) {
		n = strlen(tails[k]);
		if (memchr(s, ')', i) && strncmp(s + i + 1, tails[k], n) == 0 &&
		    !is_word_char(s[i + 1 + n]))
			return true;
	}
	return false;
}

static void add_part(struct layout *l, size_t start)
{
	if (l->nparts < MOST_PARTS)
		l->start[l->nparts] = start;
	l->nparts++;
}

/* Splits s into parts. brackets: whether text inside of them is never split (see find_layout()). */
static void scan(const char *s, bool brackets, struct layout *l)
{
	size_t i = 0, op;
	int depth = 0;

	*l = (struct layout){ .nparts = 1 };
	for (i = regex_len(s); s[i]; i++) {
		op = s[i] == 'o' ? operator_len(s, i) : 0;
		if (op) {
			i += op - 1;
		} else if (s[i] == '\\' && s[i + 1]) {
			i++;
		} else if (brackets && bracket_step(s, i)) {
			depth = MAX(depth + bracket_step(s, i), 0);
		} else if (depth == 0 && is_blank(s[i]) && !blank_in_name(s, i)) {
			break;
		} else if (depth == 0 && s[i] == ':') {
			size_t n = strspn(s + i, ":");

			if (n & 1)
				add_part(l, i + 1);
			i += n & 1 ? 0 : n - 1;
			if ((n & 1) && n > 1)
				i += n - 1;
			else if (n & 1)
				i += regex_len(s + i + 1);
		}
	}
	l->end = i;
	l->balanced = depth == 0;
}

/* In a glob like "vector<*" a bracket may stay open; then brackets have no effect. */
static void find_layout(const char *s, struct layout *l)
{
	scan(s, true, l);
	if (!l->balanced)
		scan(s, false, l);
}

static const struct { const char *word; int kind; const char *later; } kinds[] = {
	{ "uprobe", SPEC_ENTRY, NULL }, { "u", SPEC_ENTRY, NULL },
	{ "uretprobe", SPEC_RETURN, NULL }, { "ur", SPEC_RETURN, NULL },
	{ "insn", SPEC_INSNS, NULL },
	{ "call", SPEC_CALL, NULL },
	{ "usdt", SPEC_USDT, NULL }, { "U", SPEC_USDT, NULL },
	{ "kprobe", -1, "kernel probes" }, { "k", -1, "kernel probes" },
	{ "kretprobe", -1, "kernel return probes" }, { "kr", -1, "kernel return probes" },
	{ "fentry", -1, "kernel function probes" }, { "f", -1, "kernel function probes" },
	{ "fexit", -1, "kernel function probes" }, { "fr", -1, "kernel function probes" },
	{ "tracepoint", -1, "kernel tracepoints" }, { "t", -1, "kernel tracepoints" },
	{ "syscall", -1, "kernel system call probes" }, { "syscalls", -1, "kernel system call probes" },
};

/* Index of the kind that s[0..len) names, -1 if none. */
static int find_kind(const char *s, size_t len)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strlen(kinds[i].word) == len && memcmp(kinds[i].word, s, len) == 0)
			return i;
	return -1;
}

/* Octal 0NNN, decimal NNN, hexadecimal 0xNNN, the whole of s. */
static int parse_number(const char *s, uint64_t *ret_value)
{
	char *end;
	uint64_t v;

	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 0);
	if (errno || *end)
		return -EINVAL;
	*ret_value = v;
	return 0;
}

/* \xNN: a byte that is not printable, as lists show it. */
static bool is_byte(const char *s, size_t len)
{
	return len >= 4 && s[0] == '\\' && s[1] == 'x' && isxdigit((unsigned char)s[2]) && isxdigit((unsigned char)s[3]) &&
	       (s[2] != '0' || s[3] != '0');
}

char *unescape(const char *s, size_t len)
{
	char *copy = xcalloc(1, len + 1);
	size_t i, n = 0;

	for (i = 0; i < len; i++) {
		if (is_byte(s + i, len - i)) {
			copy[n++] = strtoul((char[]){ s[i + 2], s[i + 3], 0 }, NULL, 16);
			i += 3;
			continue;
		}
		if (s[i] == '\\' && i + 1 < len)
			i++;
		copy[n++] = s[i];
	}
	return copy;
}

static bool has_glob(const char *s)
{
	for (; *s; s++) {
		if (*s == '\\' && s[1])
			s++;
		else if (strchr("*?[", *s))
			return true;
	}
	return false;
}

/* The last unescaped c outside brackets that is not part of an operator's name; NULL if none. */
static char *find_sign(char *s, char c)
{
	char *found = NULL;
	int depth = 0;
	size_t i;

	for (i = 0; s[i]; i++) {
		size_t op = s[i] == 'o' ? operator_len(s, i) : 0;

		if (op) {
			i += op;
			if (s[i] == c && s[i + 1] == '+' && !isdigit((unsigned char)s[i + 2]))
				i++;	/* operator++ */
			if (s[i] == '\\' && s[i + 1])
				i++;
			if (!s[i])
				break;
			continue;	/* a sign that follows is part of the operator's name */
		}
		if (s[i] == '\\' && s[i + 1])
			i++;
		else if (bracket_step(s, i))
			depth = MAX(depth + bracket_step(s, i), 0);
		else if (s[i] == c && depth == 0)
			found = s + i;
	}
	return found;
}

/* Removes "%return". */
static int take_return(struct probe_spec *spec, char *s)
{
	char *sign = find_sign(s, '%');

	if (!sign)
		return 0;
	if (strcmp(sign, "%return") != 0)
		return fail(-EINVAL, "probe '%s': '%s' is unknown; only %%return may follow a function",
			    spec->text, sign);
	if (spec->kind == SPEC_INSNS || spec->kind == SPEC_CALL)
		return fail(-EINVAL, "probe '%s': %s probes have no %%return", spec->text,
			    spec->kind == SPEC_CALL ? "call" : "insn");
	spec->kind = SPEC_RETURN;
	*sign = 0;
	return 0;
}

/* Removes "+off". */
static int take_offset(struct probe_spec *spec, char *s)
{
	char *sign = find_sign(s, '+');

	if (!sign)
		return 0;
	if (parse_number(sign + 1, &spec->offset) < 0)
		return fail(-EINVAL, "probe '%s': the offset '%s' is not a number (0NNN, NNN or 0xNNN)",
			    spec->text, sign + 1);
	if (spec->kind != SPEC_ENTRY)
		return fail(-EINVAL, "probe '%s': %s with an offset makes no sense", spec->text,
			    spec->kind == SPEC_RETURN ? "a return probe" : spec->kind == SPEC_CALL ? "a call probe" :
			    "an insn probe");
	spec->has_offset = true;
	*sign = 0;
	return 0;
}

static int take_suffixes(struct probe_spec *spec, char *s)
{
	int r = take_return(spec, s);

	return r < 0 ? r : take_offset(spec, s);
}

/* "a++" is undefined in POSIX, and libc's regcomp() doubles its work with each such sign. */
static bool repeats_repetition(const char *regex)
{
	bool set = false;

	for (; *regex; regex++) {
		if (*regex == '\\' && regex[1])
			regex++;
		else if (*regex == '[' || *regex == ']')
			set = *regex == '[';
		else if (!set && strchr("*+?}", *regex) && regex[1] && strchr("*+?{", regex[1]))
			return true;
	}
	return false;
}

/* s is "/regex/", perhaps with a suffix; \/ is a slash inside it. */
static int parse_regex(struct probe_spec *spec, char *s)
{
	size_t len = regex_len(s), i, n = 0;
	char why[128];
	int r;

	r = take_suffixes(spec, s + len);
	if (r < 0)
		return r;
	if (s[len])
		return fail(-EINVAL, "probe '%s': '%s' behind the regular expression", spec->text,
			    s + len);
	if (len == 2)
		return fail(-EINVAL, "probe '%s': the regular expression is empty", spec->text);
	spec->place = xcalloc(1, len);
	for (i = 1; i < len - 1; i++) {
		if (s[i] == '\\' && s[i + 1] == '/')
			i++;
		else if (s[i] == '\\')
			spec->place[n++] = s[i++];
		spec->place[n++] = s[i];
	}
	spec->place_kind = PLACE_REGEX;
	if (repeats_repetition(spec->place))
		return fail(-EINVAL, "probe '%s': bad regular expression: a repetition is repeated",
			    spec->text);
	spec->regex = xcalloc(1, sizeof(regex_t));
	r = regcomp(spec->regex, spec->place, REG_EXTENDED | REG_NOSUB);
	if (r == 0)
		return 0;
	regerror(r, spec->regex, why, sizeof(why));
	free(spec->regex);
	spec->regex = NULL;
	return fail(-EINVAL, "probe '%s': bad regular expression: %s", spec->text, why);
}

static int parse_address(struct probe_spec *spec, char *s)
{
	int r = take_return(spec, s);

	if (r < 0)
		return r;
	if (parse_number(s, &spec->addr) < 0)
		return fail(-EINVAL, "probe '%s': '%s' is not an address (0NNN, NNN or 0xNNN)",
			    spec->text, s);
	spec->place = xstrdup(s);
	spec->place_kind = PLACE_ADDR;
	return 0;
}

/* s is "file:line", the text after the @. */
static int parse_line(struct probe_spec *spec, char *s)
{
	char *colon = strrchr(s, ':');

	if (!colon || colon == s || parse_number(colon + 1, &spec->addr) < 0 || !spec->addr || spec->addr > INT32_MAX)
		return fail(-EINVAL, "probe '%s': a source line is written @FILE:LINE, as @main.c:42", spec->text);
	if (spec->kind != SPEC_ENTRY)
		return fail(-EINVAL, "probe '%s': a source line has no entry, exit or instructions: write @FILE:LINE alone",
			    spec->text);
	spec->place_kind = PLACE_LINE;
	spec->place = xstrndup(s, colon - s);
	return 0;
}

static int parse_place(struct probe_spec *spec, char *s)
{
	int r;

	if (!*s)
		return fail(-EINVAL, "probe '%s' names no function", spec->text);
	if (regex_len(s))
		return parse_regex(spec, s);
	if (*s == '/')
		return fail(-EINVAL, "probe '%s': %s", spec->text, strchr(s + 1, '/') ?
			    "a file needs a function behind it: FILE:FUNCTION" :
			    "the regular expression has no closing '/'");
	if (isdigit((unsigned char)*s))
		return parse_address(spec, s);
	r = take_suffixes(spec, s);
	if (r < 0)
		return r;
	if (!*s)
		return fail(-EINVAL, "probe '%s' names no function", spec->text);
	spec->place_kind = has_glob(s) ? PLACE_GLOB : PLACE_NAME;
	spec->place = spec->place_kind == PLACE_GLOB ? xstrdup(s) : unescape(s, strlen(s));
	return 0;
}

/* NAME "=": the length including the sign, 0 if there is none. operator= is not a NAME. */
static size_t name_len(const char *s)
{
	size_t n = 0;

	if (!isalpha((unsigned char)*s) && *s != '_')
		return 0;
	while (is_word_char(s[n]) || s[n] == '-' || s[n] == '.')
		n++;
	if (s[n] != '=' || s[n + 1] == '=' || operator_len(s, 0) == n)
		return 0;
	return n + 1;
}

/* Keeps fields and condition, which are not parsed here. */
static void keep_rest(struct probe_spec *spec, const char *rest)
{
	while (is_blank(*rest))
		rest++;
	if (*rest)
		spec->rest = xstrdup(rest);
}

/* The system call that a kernel probe names: sys_enter_openat -> openat. If it names none, "open" as an example. */
static const char *call_name(const char *place, bool is_call)
{
	static const char *const fronts[] = { "__x64_sys_", "do_sys_", "ksys_", "sys_enter_", "sys_exit_" };

	for (size_t i = 0; i < ARRAY_SIZE(fronts); i++)
		if (!strncmp(place, fronts[i], strlen(fronts[i])))
			return place + strlen(fronts[i]);
	return is_call ? place : "open";
}

static int not_yet(const struct probe_spec *spec, int kind, const char *place)
{
	const char *later = kinds[kind].later, *word = kinds[kind].word, *call = call_name(place, !strncmp(word, "syscall", 7));

	if (strncmp(later, "kernel", 6))
		return fail(-ENOTSUP, "probe '%s': %s (kind '%s') are not supported yet", spec->text, later, word);
	return fail(-ENOTSUP, "probe '%s': %s (kind '%s') are not supported yet; functions of libc call the kernel, and can be "
		    "probed: 'libc:%.*s'", spec->text, later, word, (int)strcspn(call, " %+{*"), call);
}

static int parse_kind(struct probe_spec *spec, const char *s, const struct layout *l, size_t *part)
{
	size_t len = l->nparts > 1 ? l->start[1] - 1 : 0;
	int k = len ? find_kind(s, len) : -1;

	if (k >= 0 && kinds[k].later)
		return not_yet(spec, k, s + l->start[MIN(l->nparts, (size_t)MOST_PARTS) - 1]);
	if (k >= 0) {
		spec->kind = kinds[k].kind;
		*part = 1;
	} else if (l->nparts > 2 && s[l->start[1]] != '@') {
		return fail(-ENOTSUP, "probe '%s': '%.*s' is no kind of probe (uprobe, uretprobe, call, insn, usdt)",
			    spec->text, (int)len, s);
	}
	return 0;
}

static char *part_text(const char *s, const struct layout *l, size_t part)
{
	return unescape(s + l->start[part], (part + 1 < l->nparts ? l->start[part + 1] - 1 : l->end) - l->start[part]);
}

/* The parts behind "usdt:". Patterns keep their backslashes. */
static int parse_tracepoint(struct probe_spec *spec, const char *s, const struct layout *l, size_t part)
{
	size_t n = l->nparts - part, last = l->nparts - 1;
	const char *first = s + l->start[part];
	bool is_path = n == 2 && memchr(first, '/', l->start[part + 1] - 1 - l->start[part]);

	if (n > 3)
		return fail(-EINVAL, "probe '%s' has too many ':' (usdt:object:provider:name)", spec->text);
	for (size_t k = part; k <= last; k++)
		if ((k < last ? l->start[k + 1] - 1 : l->end) == l->start[k])
			return fail(-EINVAL, "probe '%s': %s is missing", spec->text, k == last ? "the name of the static tracepoint" :
				    "what stands in front of ':'");
	if (n == 3 || is_path)
		spec->object = part_text(s, l, part++);
	if (part < last)
		spec->provider = xstrndup(s + l->start[part], l->start[last] - 1 - l->start[part]);
	spec->place = xstrndup(s + l->start[last], l->end - l->start[last]);
	spec->place_kind = has_glob(spec->place) || (spec->provider && has_glob(spec->provider)) ? PLACE_GLOB : PLACE_NAME;
	if (strpbrk(spec->place, "%+/@"))
		return fail(-EINVAL, "probe '%s': a static tracepoint is one place, with neither return nor offset, and is named as "
			    "usdt:PROVIDER:NAME", spec->text);
	return 0;
}

static int parse_parts(struct probe_spec *spec, const char *s)
{
	struct layout l;
	size_t part = 0;
	char *place;
	int r;

	find_layout(s, &l);
	r = parse_kind(spec, s, &l, &part);
	if (r < 0)
		return r;
	keep_rest(spec, s + l.end);
	if (part && spec->kind == SPEC_USDT)
		return parse_tracepoint(spec, s, &l, part);
	for (size_t k = part; k < MIN(l.nparts, part + 2); k++)
		if (s[l.start[k]] == '@') {
			if (k > part)
				spec->object = unescape(s + l.start[part], l.start[k] - 1 - l.start[part]);
			place = xstrndup(s + l.start[k] + 1, l.end - l.start[k] - 1);
			r = parse_line(spec, place);
			free(place);
			return r;
		}
	if (l.nparts - part > 2)
		return fail(-EINVAL, "probe '%s' has too many ':' (kind:object:place)", spec->text);
	if (l.nparts - part == 2) {
		size_t len = l.start[part + 1] - 1 - l.start[part];

		if (!len)
			return fail(-EINVAL, "probe '%s': the object in front of ':' is missing",
				    spec->text);
		spec->object = unescape(s + l.start[part], len);
		part++;
	}
	place = xstrndup(s + l.start[part], l.end - l.start[part]);
	r = place ? parse_place(spec, place) : -ENOMEM;
	free(place);
	return r;
}

int spec_parse(const char *text, struct probe_spec **ret_spec)
{
	struct probe_spec *spec = xcalloc(1, sizeof(*spec));
	const char *s = text;
	size_t n;
	int r;

	spec->text = xstrdup(text);
	while (is_blank(*s))
		s++;
	n = name_len(s);
	if (n)
		spec->name = xstrndup(s, n - 1);
	r = parse_parts(spec, s + n);
	if (r < 0) {
		spec_free(spec);
		return r;
	}
	*ret_spec = spec;
	return 0;
}

void spec_free(struct probe_spec *spec)
{
	if (!spec)
		return;
	if (spec->regex)
		regfree(spec->regex);
	free(spec->regex);
	free(spec->text);
	free(spec->name);
	free(spec->object);
	free(spec->provider);
	free(spec->place);
	free(spec->rest);
	free(spec);
}
