/* SPDX-License-Identifier: MIT */
/* jab list: prints what can be probed, one probe per line. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include "base/err.h"
#include "base/text.h"
#include "cmd/listing.h"

static text_list pids;
static bool json;
static int verbose;

static const struct opt opts[] = {
	{ 'p', "pid", "PID|NAME", OPT_LIST, &pids, "list this process; may be repeated" },
	{ 0, "json", NULL, OPT_FLAG, &json, "one JSON object a line" },
	{ 'v', "verbose", NULL, OPT_MORE, &verbose, "also address and size, and the types of parameters and result; of static tracepoints places and arguments" },
	{ 0 }
};

static int each(void *arg, const struct jab_function *f)
{
	(void)arg;
	if (json) {
		listing_json(stdout, f, f->spec);
	} else {
		if (verbose)
			printf("%#14" PRIx64 " %6" PRIu64 "  ", f->address, f->size);
		print_safe(stdout, f->spec);
		putchar('\n');
		if (verbose)
			listing_types(stdout, f);
	}
	return ferror(stdout) ? fail(-errno, "the output can't be written: %s", strerror(errno)) : 0;
}

static int each_tracepoint(void *arg, const struct jab_tracepoint *t)
{
	(void)arg;
	if (json) {
		listing_tracepoint_json(stdout, t, t->spec);
	} else {
		print_safe(stdout, t->spec);
		putchar('\n');
		if (verbose)
			listing_places(stdout, t);
	}
	return ferror(stdout) ? fail(-errno, "the output can't be written: %s", strerror(errno)) : 0;
}

static int list(struct jab *j, const char *pattern)
{
	struct jab_spec *spec;
	int r = jab_spec_parse(pattern, &spec);
	bool tracepoints = !r && spec->kind == JAB_SPEC_USDT;

	if (r < 0)
		return fail(r, "%s", jab_error(NULL));
	jab_spec_free(spec);
	return tracepoints ? jab_each_tracepoint(j, pattern, each_tracepoint, NULL) : jab_each_function(j, pattern, each, NULL);
}

static int run(text_list *words, char **rest)
{
	size_t first = pids.n ? 0 : 1;
	const char *pattern;
	struct jab *j;
	int r = 0;

	if (rest || words->n < first || words->n > first + 1) {
		fprintf(stderr, "jab list: name a process (-p PID) or a file, and at most one pattern; "
			"try `jab list --help`\n");
		return 2;
	}
	signal(SIGPIPE, SIG_DFL);
	pattern = words->n > first ? words->v[first] : "*:*";
	if (jab_new(NULL, &j) < 0)
		return complain(NULL);
	for (size_t i = 0; !r && i < pids.n; i++)
		r = attach_word(j, pids.v[i]);
	if (!pids.n)
		r = jab_open_file(j, words->v[0]);
	if (!r)
		r = list(j, pattern);
	r = r < 0 ? complain(j) : 0;
	jab_free(j);
	return r;
}

const struct command cmd_list = {
	"list", "(-p PID|NAME | FILE) [OPTIONS] [PATTERN]", "Show what can be probed, one probe a line.", opts, run
};
