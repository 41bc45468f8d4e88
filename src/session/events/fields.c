/* SPDX-License-Identifier: MIT */
#include "session/events/fields.h"

#include <ctype.h>
#include <string.h>
#include "arch/regs.h"
#include "base/err.h"

#define STRING_LIMIT 256
#define STRING_MOST 4000
#define BYTES_MOST 2048
#define ARRAY_MOST 2048		/* bytes */
#define STACK_BYTES 64
#define FRAMES 32
#define FRAMES_MOST 127

/* A word of the input and where it came from, for messages. */
struct words {
	const struct arch_regs *regs;
	const char *whole;
	bool is_exit;
	bool by_name;		/* names of the source mean something here */
	field_list *list;
};

static const struct type_name {
	const char *name;
	struct ctf_field type;
} types[] = {
	{ "char", { .kind = CTF_SIGNED, .bits = 8 } },
	{ "signed char", { .kind = CTF_SIGNED, .bits = 8 } },
	{ "unsigned char", { .kind = CTF_UNSIGNED, .bits = 8 } },
	{ "bool", { .kind = CTF_UNSIGNED, .bits = 8 } },
	{ "short", { .kind = CTF_SIGNED, .bits = 16 } },
	{ "unsigned short", { .kind = CTF_UNSIGNED, .bits = 16 } },
	{ "int", { .kind = CTF_SIGNED, .bits = 32 } },
	{ "unsigned", { .kind = CTF_UNSIGNED, .bits = 32 } },
	{ "unsigned int", { .kind = CTF_UNSIGNED, .bits = 32 } },
	{ "uint", { .kind = CTF_UNSIGNED, .bits = 32 } },
	{ "long", { .kind = CTF_SIGNED, .bits = 64 } },
	{ "unsigned long", { .kind = CTF_UNSIGNED, .bits = 64 } },
	{ "ulong", { .kind = CTF_UNSIGNED, .bits = 64 } },
	{ "long long", { .kind = CTF_SIGNED, .bits = 64 } },
	{ "unsigned long long", { .kind = CTF_UNSIGNED, .bits = 64 } },
	{ "size_t", { .kind = CTF_UNSIGNED, .bits = 64 } },
	{ "ssize_t", { .kind = CTF_SIGNED, .bits = 64 } },
	{ "s8", { .kind = CTF_SIGNED, .bits = 8 } },
	{ "s16", { .kind = CTF_SIGNED, .bits = 16 } },
	{ "s32", { .kind = CTF_SIGNED, .bits = 32 } },
	{ "s64", { .kind = CTF_SIGNED, .bits = 64 } },
	{ "int8_t", { .kind = CTF_SIGNED, .bits = 8 } },
	{ "int16_t", { .kind = CTF_SIGNED, .bits = 16 } },
	{ "int32_t", { .kind = CTF_SIGNED, .bits = 32 } },
	{ "int64_t", { .kind = CTF_SIGNED, .bits = 64 } },
	{ "u8", { .kind = CTF_UNSIGNED, .bits = 8 } },
	{ "u16", { .kind = CTF_UNSIGNED, .bits = 16 } },
	{ "u32", { .kind = CTF_UNSIGNED, .bits = 32 } },
	{ "u64", { .kind = CTF_UNSIGNED, .bits = 64 } },
	{ "uint8_t", { .kind = CTF_UNSIGNED, .bits = 8 } },
	{ "uint16_t", { .kind = CTF_UNSIGNED, .bits = 16 } },
	{ "uint32_t", { .kind = CTF_UNSIGNED, .bits = 32 } },
	{ "uint64_t", { .kind = CTF_UNSIGNED, .bits = 64 } },
	{ "x8", { .kind = CTF_UNSIGNED, .bits = 8, .base = 16 } },
	{ "x16", { .kind = CTF_UNSIGNED, .bits = 16, .base = 16 } },
	{ "x32", { .kind = CTF_UNSIGNED, .bits = 32, .base = 16 } },
	{ "x64", { .kind = CTF_UNSIGNED, .bits = 64, .base = 16 } },
	{ "o64", { .kind = CTF_UNSIGNED, .bits = 64, .base = 8 } },
	{ "ptr", { .kind = CTF_POINTER, .bits = 64, .base = 16 } },
	{ "pointer", { .kind = CTF_POINTER, .bits = 64, .base = 16 } },
	{ "void*", { .kind = CTF_POINTER, .bits = 64, .base = 16 } },
	{ "float", { .kind = CTF_FLOAT, .bits = 32 } },
	{ "double", { .kind = CTF_FLOAT, .bits = 64 } },
};

static int bad(const struct words *w, const char *fmt, const char *arg)
{
	char *why = xasprintf(fmt, arg);
	int r = fail(-EINVAL, "'%s': %s", w->whole, why);

	free(why);
	return r;
}

static struct field *add(const struct words *w, const char *name)
{
	struct field *f = vec_add(w->list);

	f->name = xstrdup(name);
	f->type = (struct ctf_field){ .kind = CTF_UNSIGNED, .bits = 64, .base = 16 };
	return f;
}

/* "[N]" at the end of a type; -1: none there, -2: not a good number. */
static long take_count(char *type)
{
	char *open = strchr(type, '['), *end;
	long n;

	if (!open)
		return -1;
	n = strtol(open + 1, &end, 0);
	if (end == open + 1 || strcmp(end, "]") || n <= 0)
		return -2;
	*open = '\0';
	return n;
}

static int set_text(const struct words *w, struct field *f, const char *type, long n)
{
	f->deref = true;
	if (!strcmp(type, "string")) {
		f->type = (struct ctf_field){ .kind = CTF_STRING };
		f->limit = n < 0 ? STRING_LIMIT : n;
		if (f->limit > STRING_MOST)
			return bad(w, "a string of more than 4000 bytes does not fit an event%s", "");
		return 0;
	}
	if (n < 0)
		return bad(w, "say how many: %s[16]", type);
	if (n > BYTES_MOST)
		return bad(w, "more than 2048 bytes do not fit an event%s", "");
	f->type = (struct ctf_field){ .kind = CTF_BYTES, .size = n };
	return 0;
}

static int set_type(const struct words *w, struct field *f, const char *text)
{
	char *type = xstrdup(text);
	long n = take_count(type);
	int r = -ENOENT;

	if (n == -2)
		r = bad(w, "'%s' is no good number of elements", text);
	else if (!strcmp(type, "string") || !strcmp(type, "bytes"))
		r = set_text(w, f, type, n);
	for (size_t i = 0; r == -ENOENT && i < ARRAY_SIZE(types); i++) {
		if (strcmp(types[i].name, type))
			continue;
		f->type = types[i].type;
		f->type.count = n > 0 ? n : 0;
		f->deref |= n > 0;
		r = n > 0 && n * f->type.bits / 8 > ARRAY_MOST ?
		    bad(w, "'%s' is more than fits an event", text) : 0;
	}
	if (r == -ENOENT)
		r = bad(w, "no type '%s' (int, long, x64, ptr, double, string, bytes[N], int[N]...)", text);
	free(type);
	return r;
}

/* A number that comes in a general register is no float: those have registers of their own. */
static void choose_vector(struct field *f)
{
	if (f->type.kind != CTF_FLOAT || f->deref)
		return;
	if (f->from == FROM_ARG || f->from == FROM_RET) {
		f->reg = f->from == FROM_ARG ? f->value : 0;
		f->from = FROM_VECTOR;
	}
}

static void add_regs(const struct words *w)
{
	struct field *f;

	for (int i = 0; i < w->regs->n; i++) {
		f = add(w, w->regs->names[i]);
		f->from = FROM_REG;
		f->reg = i;
	}
	f = add(w, w->regs->names[reg_pc(w->regs)]);
	f->from = FROM_PC;
}

static void add_stack(const struct words *w, uint32_t bytes)
{
	struct field *f = add(w, "stack");

	f->from = FROM_REG;
	f->reg = w->regs->sp;
	f->deref = true;
	f->type = (struct ctf_field){ .kind = CTF_BYTES, .size = bytes };
}

static void add_backtrace(const struct words *w, uint32_t frames)
{
	struct field *f = add(w, "backtrace");

	f->from = FROM_WALK;
	f->limit = frames;
	f->type = (struct ctf_field){ .kind = CTF_ADDRS };
}

/* "arg3" -> 3; -1: no such word */
static int numbered(const char *word, const char *prefix)
{
	size_t n = strlen(prefix);
	char *end;
	long v;

	if (strncmp(word, prefix, n) || !isdigit((unsigned char)word[n]))
		return -1;
	v = strtol(word + n, &end, 10);
	return *end || v > 63 ? -1 : v;
}

static int add_argument(const struct words *w, const char *name, const char *term, int n)
{
	struct field *f;

	if (w->is_exit)
		return bad(w, "at an exit the arguments are gone (%s); take them at the entry", term);
	f = add(w, name);
	f->from = FROM_ARG;
	f->value = n;
	return 0;
}

static bool is_identifier(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	while (isalnum((unsigned char)*s) || *s == '_')
		s++;
	return !*s;
}

static int add_term(const struct words *w, const char *name, const char *term)
{
	struct field *f;
	int n;

	if ((n = numbered(term, "arg")) >= 0)
		return add_argument(w, name ? name : term, term, n);
	if ((n = numbered(term, w->regs->vector)) >= 0 && n < w->regs->nvectors) {
		f = add(w, name ? name : term);
		f->from = FROM_VECTOR;
		f->reg = n;
		f->type = (struct ctf_field){ .kind = CTF_FLOAT, .bits = 64 };
		return 0;
	}
	if (!strcmp(term, "retval") || !strcmp(term, "$retval")) {
		if (!w->is_exit)
			return bad(w, "%s is known at exits only: FUNC%%return", term);
		f = add(w, name ? name : "retval");
		f->from = FROM_RET;
		f->is_result = true;
		return 0;
	}
	n = reg_number(w->regs, term);
	if (n == (int)reg_pc(w->regs)) {
		add(w, name ? name : term)->from = FROM_PC;
		return 0;
	}
	if (n == (int)reg_flags(w->regs))
		n = -1;
	if (n < 0 && w->by_name && is_identifier(term)) {
		f = add(w, name ? name : term);
		f->from = FROM_NAME;
		f->symbol = xstrdup(term);
		return 0;
	}
	if (n < 0)
		return bad(w, "'%s' is not known; fields are argN, retval, a register, $regs, $stack, backtrace, or a "
			   "name of the source", term);
	f = add(w, name ? name : term);
	f->from = FROM_REG;
	f->reg = n;
	return 0;
}

/* [name=]term[:type] */
static int parse_field(const struct words *w, char *text)
{
	char *equal = strchr(text, '='), *name = NULL, *term = text, *type;
	int r;

	if (equal) {
		*equal = '\0';
		name = text;
		term = equal + 1;
		if (!*name)
			return bad(w, "a name is missing in front of '='%s", "");
	}
	if (!strcmp(term, "$regs") || !strcmp(term, "$stack") || !strcmp(term, "backtrace")) {
		if (term[1] == 'r')
			add_regs(w);
		else if (*term == '$')
			add_stack(w, STACK_BYTES);
		else
			add_backtrace(w, FRAMES);
		return 0;
	}
	type = strchr(term, ':');
	if (type)
		*type++ = '\0';
	r = add_term(w, name, term);
	if (!r && type) {
		struct field *f = &w->list->v[w->list->n - 1];

		r = set_type(w, f, type);
		f->has_type = true;
		choose_vector(f);
	}
	return r;
}

/* Fields are separated by blanks; a type may have them inside, as in "unsigned long": written with _ there. */
int fields_parse(const struct arch_regs *regs, const char *text, bool is_exit, field_list *list)
{
	char *copy = xstrdup(text), *save = NULL;
	struct words w = { regs, text, is_exit, true, list };
	int r = 0;

	for (char *p = strtok_r(copy, " \t\n", &save); p && !r; p = strtok_r(NULL, " \t\n", &save)) {
		if (!strcmp(p, "if"))
			r = fail(-ENOTSUP, "'%s': conditions are not supported yet", text);
		else
			r = parse_field(&w, p);
	}
	free(copy);
	return r;
}

/* A number, or a symbol with an optional offset. */
static int set_address(const struct words *w, struct field *f, const char *text)
{
	char *end;

	f->from = FROM_CONST;
	f->deref = true;
	if (!*text)
		return bad(w, "an address is missing%s", "");
	errno = 0;
	f->value = strtoull(text, &end, 0);
	if (!*end && !errno)
		return 0;
	if (isdigit((unsigned char)*text))
		return bad(w, "'%s' is no address", text);
	f->symbol = xstrdup(text);
	end = strrchr(f->symbol, '+');
	f->value = 0;
	if (end) {
		char *stop;

		*end++ = '\0';
		f->value = strtoull(end, &stop, 0);
		if (!*end || *stop)
			return bad(w, "'%s' is no address", text);
	}
	return 0;
}

static int parse_variable(const struct words *w, const char *type, const char *name, const char *at)
{
	struct field *f;
	int r;

	if (!*name)
		return bad(w, "a name is missing%s", "");
	f = add(w, name);
	r = set_type(w, f, type);
	return r ? r : set_address(w, f, at);
}

static int parse_sized(const struct words *w, const char *word, const char *number)
{
	char *end;
	unsigned long n = strtoul(number, &end, 0);
	bool walk = !strcmp(word, "backtrace");

	if (!*number || *end || !n || n > (walk ? FRAMES_MOST : BYTES_MOST))
		return bad(w, "'%s' is no good number here", number);
	if (walk)
		add_backtrace(w, n);
	else
		add_stack(w, n);
	return 0;
}

int fields_parse_context(const struct arch_regs *regs, const char *text, field_list *list)
{
	struct words w = { regs, text, false, false, list };
	char *copy = xstrdup(text), *first = strchr(copy, ':'), *second;
	int r = 0;

	if (first)
		*first++ = '\0';
	second = first ? strchr(first, ':') : NULL;
	if (second)
		*second++ = '\0';
	if (!first && !strcmp(copy, "regs"))
		add_regs(&w);
	else if (!first && !strcmp(copy, "stack"))
		add_stack(&w, STACK_BYTES);
	else if (!first && !strcmp(copy, "backtrace"))
		add_backtrace(&w, FRAMES);
	else if (second)
		r = parse_variable(&w, copy, first, second);
	else if (first && (!strcmp(copy, "backtrace") || !strcmp(copy, "stack")))
		r = parse_sized(&w, copy, first);
	else if (first && !strcmp(copy, "reg"))
		r = add_term(&w, NULL, first);
	else
		r = bad(&w, "no such context; there are regs, reg:NAME, TYPE:NAME:ADDRESS, stack[:BYTES], "
			"backtrace[:FRAMES]%s", "");
	free(copy);
	return r;
}

bool fields_is_term(const struct arch_regs *regs, const char *word)
{
	return numbered(word, "arg") >= 0 || numbered(word, regs->vector) >= 0 || !strcmp(word, "retval") || *word == '$';
}

bool fields_is_type(const char *word)
{
	size_t len = strcspn(word, "[");

	if (!strncmp(word, "string", MAX(len, 6u)) || !strncmp(word, "bytes", MAX(len, 5u)))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strlen(types[i].name) == len && !strncmp(types[i].name, word, len))
			return true;
	return false;
}

void fields_free(field_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		free(list->v[i].name);
		free(list->v[i].symbol);
	}
	vec_free(list);
}

bool field_is_plain(const struct field *f)
{
	if (f->type.kind == CTF_STRING || f->type.kind == CTF_BYTES || f->type.kind == CTF_ADDRS ||
	    f->type.count)
		return false;
	return !f->deref;
}
