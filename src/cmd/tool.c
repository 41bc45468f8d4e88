/* SPDX-License-Identifier: MIT */
#include "cmd/tool.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/err.h"

text_list tool_named;
const char *tool_name;

struct tool_option { char *name, *value, *help; bool is_flag; };

struct tool {
	char *name, *path, *text;
	char *about;		/* one sentence */
	char *param, *param_default;	/* what $1 is; NULL: there is none; NULL: it must be given */
	VEC(struct tool_option) options;
};

/* ---- where they are ---- */

/* From the program's own place, so that an installation, or a tree with its build folder, can be moved. */
static char *folder(size_t i)
{
	static const char *const from_exe[] = { "../share/jab/tools", "../scripts" };
	char exe[4096], *slash;
	ssize_t n;

	if (i == ARRAY_SIZE(from_exe))
		return xstrdup(JAB_TOOLS);
	n = i < ARRAY_SIZE(from_exe) ? readlink("/proc/self/exe", exe, sizeof(exe) - 1) : -1;
	if (n <= 0)
		return NULL;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	return slash ? xasprintf("%.*s/%s", (int)(slash - exe), exe, from_exe[i]) : NULL;
}

/* The first folder that is there; NULL: none. */
static char *tools_folder(void)
{
	char *dir;

	for (size_t i = 0; (dir = folder(i)); i++) {
		char *one = xasprintf("%s/leaks.bt", dir);
		bool there = access(one, R_OK) == 0;

		free(one);
		if (there)
			return dir;
		free(dir);
	}
	return NULL;
}

static bool is_name(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz");

	return n && !name[n];
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void tools_names(text_list *ret_names)
{
	char *path = tools_folder();
	DIR *dir = path ? opendir(path) : NULL;
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		size_t len = strlen(d->d_name);

		if (len > 3 && !strcmp(d->d_name + len - 3, ".bt"))
			*vec_add(ret_names) = xstrndup(d->d_name, len - 3);
	}
	if (dir)
		closedir(dir);
	free(path);
	if (ret_names->n)
		qsort(ret_names->v, ret_names->n, sizeof(*ret_names->v), by_name);
}

/* ---- what a script says of itself ---- */

/* The rest of the first line that begins with `head`; NULL: there is none. */
static char *line_of(const char *text, const char *head)
{
	size_t n = strlen(head);

	for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
		if (!strncmp(p, head, n))
			return xstrndup(p + n, strcspn(p + n, "\n"));
	return NULL;
}

/* The next argument of a call at *p: a string without its quotes, or what is written; behind it *p is moved. NULL: there is no more. */
static char *argument(const char **p)
{
	const char *s = *p + strspn(*p, " \t\n,"), *end;
	bool quoted = *s == '"';

	if (!*s || *s == ')')
		return NULL;
	s += quoted;
	end = s + strcspn(s, quoted ? "\"" : ",)");
	*p = end + quoted;
	return xstrndup(s, end - s);
}

static const struct tool_option *option_of(const struct tool *t, const char *name, size_t len)
{
	for (size_t i = 0; i < t->options.n; i++)
		if (strlen(t->options.v[i].name) == len && !strncmp(t->options.v[i].name, name, len))
			return &t->options.v[i];
	return NULL;
}

static void find_options(struct tool *t)
{
	const char *p = t->text;

	while ((p = strstr(p, "getopt("))) {
		struct tool_option o = { 0 };

		p += strlen("getopt(");
		o.name = argument(&p);
		o.value = o.name ? argument(&p) : NULL;
		o.help = o.value ? argument(&p) : NULL;
		o.is_flag = !o.value || !strcmp(o.value, "false");
		if (o.name && !option_of(t, o.name, strlen(o.name))) {
			*vec_add(&t->options) = o;
			continue;
		}
		free(o.name);
		free(o.value);
		free(o.help);
	}
}

static void find_parameter(struct tool *t)
{
	char *equal = line_of(t->text, "// $1 = "), *colon = equal ? strstr(equal, ": ") : NULL;

	if (!colon) {
		free(equal);
		t->param = line_of(t->text, "// $1: ");
		return;
	}
	t->param_default = xstrndup(equal, colon - equal);
	t->param = xstrdup(colon + 2);
	free(equal);
}

struct tool *tool_find(const char *name)
{
	char *dir = is_name(name) ? tools_folder() : NULL, *head;
	struct tool *t;
	size_t len;

	if (!dir)
		return NULL;
	t = xcalloc(1, sizeof(*t));
	t->name = xstrdup(name);
	t->path = xasprintf("%s/%s.bt", dir, name);
	free(dir);
	if (script_read(t->path, &t->text, &len) < 0) {
		tool_free(t);
		return NULL;
	}
	head = xasprintf("// %s: ", name);
	t->about = line_of(t->text, head);
	free(head);
	find_parameter(t);
	find_options(t);
	return t;
}

void tool_free(struct tool *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->options.n; i++) {
		free(t->options.v[i].name);
		free(t->options.v[i].value);
		free(t->options.v[i].help);
	}
	vec_free(&t->options);
	free(t->name);
	free(t->path);
	free(t->text);
	free(t->about);
	free(t->param);
	free(t->param_default);
	free(t);
}

/* ---- help ---- */

void tool_help(const struct tool *t)
{
	printf("usage: jab %s (-p PID|NAME | -c CMD) [OPTIONS]%s [-- CMD ARGS]\n\n%s\n\n", t->name,
	       !t->param ? "" : t->param_default ? " [PROBE]" : " PROBE", t->about ? t->about : "");
	if (t->param)
		printf("  %-26s %s%s%s\n", "PROBE", t->param, t->param_default ? "; without it " : "", t->param_default ? t->param_default : "");
	for (size_t i = 0; i < t->options.n; i++) {
		const struct tool_option *o = &t->options.v[i];
		char left[64];

		if (!strcmp(o->name, "folded"))		/* of all scripts */
			continue;
		snprintf(left, sizeof(left), "    --%s%s", o->name, o->is_flag ? "" : " N");
		printf("  %-26s %s%s%s%s\n", left, o->help ? o->help : "", o->is_flag ? "" : " (", o->is_flag ? "" : o->value, o->is_flag ? "" : ")");
	}
	printf("%s  -d, -o, --json, -v and all others of `jab -e --help`\n\nThe script: %s\nMore: man jab-tools\n",
	       option_of(t, "folded", 6) ? "      --folded               stacks as lines for flame graphs\n" : "", t->path);
}

void tools_list(FILE *to)
{
	text_list names = { 0 };

	tools_names(&names);
	for (size_t i = 0; i < names.n; i++) {
		struct tool *t = tool_find(names.v[i]);

		if (t)
			fprintf(to, "  jab %-8s %s\n", t->name, t->about ? t->about : "");
		tool_free(t);
		free(names.v[i]);
	}
	vec_free(&names);
}

/* ---- the command line ---- */

static int wrong(const struct tool *t, const char *what, const char *word)
{
	fprintf(stderr, "jab %s: %s%s%s; try `jab %s --help`\n", t->name, what, word ? " " : "", word ? word : "", t->name);
	return 2;
}

/* "--name", "--name=value", "--name value" of the tool's own options. 1: taken; 0: it is another word. */
static int take_option(struct tool *t, int argc, char **argv, int *i, text_list *named)
{
	const char *word = argv[*i], *equal = strchr(word, '=');
	size_t len = strncmp(word, "--", 2) ? 0 : equal ? (size_t)(equal - word) - 2 : strlen(word) - 2;
	const struct tool_option *o = len ? option_of(t, word + 2, len) : NULL;

	if (!o)
		return 0;
	if (o->is_flag && equal)
		return -wrong(t, "no value belongs to", word);
	if (o->is_flag || equal) {
		*vec_add(named) = xstrdup(word);
		return !strcmp(word, "--folded") ? 0 : 1;	/* it is for the run as well */
	}
	if (*i + 1 >= argc)
		return -wrong(t, "a value is missing after", word);
	*vec_add(named) = xasprintf("%s=%s", word, argv[++*i]);
	return 1;
}

/* Options of scripts whose value is the next word. */
static bool takes_value(const char *word)
{
	for (const struct opt *o = cmd_script.opts; o->help; o++)
		if (o->arg && ((word[0] == '-' && o->letter && word[1] == o->letter && !word[2]) ||
			       (o->name && !strncmp(word, "--", 2) && !strcmp(word + 2, o->name))))
			return true;
	return false;
}

int tool_words(struct tool *t, int argc, char **argv, text_list *ret_argv, text_list *named)
{
	size_t plain = 0;
	int r, i;

	*vec_add(ret_argv) = t->path;
	for (i = 0; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			tool_help(t);
			return 1;
		}
		r = take_option(t, argc, argv, &i, named);
		if (r < 0)
			return -r;
		if (r)
			continue;
		*vec_add(ret_argv) = argv[i];
		plain += argv[i][0] != '-';
		if (takes_value(argv[i]) && i + 1 < argc)
			*vec_add(ret_argv) = argv[++i];
	}
	if (plain > (t->param ? 1 : 0))
		return wrong(t, t->param ? "one probe can be given; a pattern or /regex/ means many functions" : "no words are expected", NULL);
	if (t->param && !plain && !t->param_default)
		return wrong(t, "a probe is missing:", t->param);
	if (t->param && !plain)
		*vec_add(ret_argv) = t->param_default;
	while (i < argc)
		*vec_add(ret_argv) = argv[i++];
	*vec_add(ret_argv) = NULL;	/* the command after -- ends there */
	ret_argv->n--;
	return 0;
}
