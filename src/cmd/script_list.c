/* SPDX-License-Identifier: MIT */
/*
 * jab -l: prints what a pattern or the probes of a script match, in the form of a script's probes. Files are only read, and no
 * process is needed; with -p the modules that the process has loaded are searched.
 */
#include <jab/script.h>
#include <string.h>
#include "base/err.h"
#include "base/text.h"
#include "cmd/listing.h"
#include "cmd/run.h"

struct lister {
	FILE *to;
	struct jab *j;
	bool verbose;
	const struct jab_spec *spec;
	text_list opened;
	int r;
};

static const char *const kinds[] = {
	[JAB_SPEC_ENTRY] = "uprobe", [JAB_SPEC_RETURN] = "uretprobe", [JAB_SPEC_INSNS] = "insn", [JAB_SPEC_CALL] = "call",
	[JAB_SPEC_USDT] = "usdt"
};

static int wrong(const char *fmt, const char *word)
{
	fputs("jab -e: ", stderr);
	fprintf(stderr, fmt, word);
	fputs("; try `jab -e --help`\n", stderr);
	return 2;
}

static bool is_path(const char *object)
{
	return object && strchr(object, '/');
}

#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$@:"

/* Whether `quoted` is the name with only blanks escaped: then a script can have it between quotes, which escape blanks only. */
static bool only_blanks_differ(const char *quoted, const char *name)
{
	for (; *name; quoted++, name++) {
		quoted += quoted[0] == '\\' && quoted[1] == ' ';
		if (*quoted != *name)
			return false;
	}
	return !*quoted;
}

/* The name for a script: a C++ name between quotes, or with a backslash before characters special in a probe, as in jab list. */
static char *quoted_place(const char *name)
{
	char *quoted = jab_quote_function(name);

	if (!name[strspn(name, PLAIN)] || strchr(name, '"') || !only_blanks_differ(quoted, name))
		return quoted;
	free(quoted);
	return xasprintf("\"%s\"", name);
}

/* The inverse of quoted_place(): a pattern has no quotes. */
static char *without_quotes(const char *pattern)
{
	const char *open = strchr(pattern, '"');
	size_t len = strlen(pattern);
	char *name, *place, *text;

	if (!open || pattern[len - 1] != '"' || open == pattern + len - 1)
		return xstrdup(pattern);
	name = xstrndup(open + 1, pattern + len - open - 2);
	place = jab_quote_function(name);
	text = xasprintf("%.*s%s", (int)(open - pattern), pattern, place);
	free(name);
	free(place);
	return text;
}

/* The probe, with the file as the user names it if that is a path, else with the module's path. */
static char *probe_text(const struct jab_spec *spec, const struct jab_function *f)
{
	char *object = jab_quote_object(is_path(spec->object) ? spec->object : f->module);
	char *place = quoted_place(f->function), *text = xasprintf("%s:%s:%s", kinds[spec->kind], object, place);

	free(object);
	free(place);
	return text;
}

static int each(void *arg, const struct jab_function *f)
{
	struct lister *x = arg;
	char *text = probe_text(x->spec, f);

	if (run.json) {
		listing_json(x->to, f, text);
	} else {
		print_safe(x->to, text);
		putc('\n', x->to);
		if (x->verbose)
			listing_types(x->to, f);
	}
	free(text);
	return ferror(x->to) ? output_done(x->to, "the list") : 0;
}

static int each_tracepoint(void *arg, const struct jab_tracepoint *t)
{
	struct lister *x = arg;
	char *object = jab_quote_object(is_path(x->spec->object) ? x->spec->object : t->module);
	char *text = xasprintf("usdt:%s:%s:%s", object, t->provider, t->name);

	if (run.json) {
		listing_tracepoint_json(x->to, t, text);
	} else {
		print_safe(x->to, text);
		putc('\n', x->to);
		if (x->verbose)
			listing_places(x->to, t);
	}
	free(text);
	free(object);
	return ferror(x->to) ? output_done(x->to, "the list") : 0;
}

static int open_object(struct lister *x, const char *path)
{
	for (size_t i = 0; i < x->opened.n; i++)
		if (!strcmp(x->opened.v[i], path))
			return 0;
	*vec_add(&x->opened) = xstrdup(path);
	return jab_open_file(x->j, path);
}

static void list_text(struct lister *x, const char *text)
{
	if (!run.json) {
		print_safe(x->to, text);
		putc('\n', x->to);
		return;
	}
	putc('{', x->to);
	json_pair(x->to, "spec", text, true);
	fputs("}\n", x->to);
}

static int list_probe(struct lister *x, const char *text)
{
	struct jab_spec *spec;
	int r = jab_spec_parse(text, &spec);

	if (r < 0)
		return fail(r, "%s", jab_error(NULL));
	x->spec = spec;
	if (!run.pids.n && is_path(spec->object))
		r = open_object(x, spec->object);
	else if (!run.pids.n)
		r = wrong("'%s' names no file by its path; do so (as in 'uprobe:/bin/bash:*'), or choose a process with -p", text);
	if (!r && spec->is_one_place)	/* an address or line: there is nothing to search for */
		list_text(x, text);
	else if (!r && spec->kind == JAB_SPEC_USDT)
		r = jab_each_tracepoint(x->j, text, each_tracepoint, x);
	else if (!r)
		r = jab_each_function(x->j, text, each, x);
	jab_spec_free(spec);
	return r;
}

static int start(struct lister *x)
{
	struct jab_options options = { .size = sizeof(options), .log_level = log_level };
	int r;

	if (run.command)
		return wrong("%s starts nothing, so -c makes no sense with it; name files by their paths, or use -p", "-l");
	r = jab_new(&options, &x->j);
	for (size_t i = 0; !r && i < run.pids.n; i++)
		r = attach_word(x->j, run.pids.v[i]);
	return r;
}

static int finish(struct lister *x, int r)
{
	for (size_t i = 0; i < x->opened.n; i++)
		free(x->opened.v[i]);
	vec_free(&x->opened);
	r = r < 0 ? complain(x->j) : r;
	jab_free(x->j);
	return r;
}

int list_pattern(const char *pattern, FILE *to, bool verbose)
{
	struct lister x = { .to = to, .verbose = verbose };
	char *text = without_quotes(pattern);
	int r = start(&x);

	r = finish(&x, r ? r : list_probe(&x, text));
	free(text);
	return r;
}

static int each_probe(void *arg, const char *text, bool of_tracer)
{
	struct lister *x = arg;

	if (of_tracer)
		list_text(x, text);
	return of_tracer ? 0 : list_probe(x, text);
}

int list_script(const struct jab_script_options *o, FILE *to, bool verbose)
{
	struct jab_options options = { .size = sizeof(options), .log_level = log_level };
	struct lister x = { .to = to, .verbose = verbose };
	struct jab_script *s = NULL;
	struct jab *of_script = NULL;
	int r = start(&x);

	if (!r)
		r = jab_new(&options, &of_script);
	if (!r && (r = jab_script_load(of_script, o, &s)) < 0) {
		if (s && jab_script_has_errors(s)) {
			fputs(jab_script_errors(s), stderr);
			r = 1;
		} else {
			fail(r, "%s", jab_error(of_script));
		}
	}
	if (!r)
		r = jab_script_each_probe(s, each_probe, &x);
	r = finish(&x, r);
	jab_script_free(s);
	jab_free(of_script);
	return r;
}
