/* SPDX-License-Identifier: MIT */
/* jab -e SCRIPT, jab FILE.bt: bpftrace's language. */
#include <fcntl.h>
#include <inttypes.h>
#include <jab/script.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "cmd/capture.h"
#include "cmd/listing.h"
#include "cmd/tool.h"

#define SCRIPT_MOST (16u << 20)

static int write_error;		/* errno of the first failed flush: stdio does not keep it */
static text_list expressions;
static const char *dump, *format, *trace_dir;
static bool list, folded, unsafe, no_warnings, verbose;	/* verbose: -lv */

/* Options of bpftrace that are accepted and not used, so that a bpftrace command line works with jab. */
static bool of_bpftrace, quiet;
static const char *text_of_bpftrace, *probe_filter;
static text_list list_of_bpftrace;

static const struct opt opts[] = {
	{ 'e', "execute", "SCRIPT", OPT_LIST, &expressions, "run this script; without it, the first word is a file with one" },
	RUN_TARGETS,
	{ 'l', "list", NULL, OPT_FLAG, &list, "list what a probe, or those of a script, would match; with -v types, too" },
	{ 0, "dump", "WHAT", OPT_TEXT, &dump, "print ast, ir or asm instead of running" },
	{ 'f', "format", "FORMAT", OPT_TEXT, &format, "text, or json as --json" },
	{ 0, "folded", NULL, OPT_FLAG, &folded, "maps with stacks as keys as lines for flame graphs: a;b;c 42" },
	{ 'o', "output", "FILE", OPT_TEXT, &run.output, "write jab's output there instead of stdout" },
	{ 0, "trace", "DIR", OPT_TEXT, &trace_dir, "write record() events to a trace there instead of printing them" },
	{ 0, "buffer-size", "SIZE", OPT_SIZE, &capture.buffer_size, "size of the buffer of each CPU, such as 512k or 4M" },
	{ 0, "max-overhead", "PERCENT", OPT_PERCENT, &capture.max_overhead,
	  "switch the hottest probes off for a part of the time, so that no thread loses more time than that" },
	{ 0, "no-follow", NULL, OPT_FLAG, &capture.no_follow, "don't probe programs executed or libraries loaded later" },
	RUN_PLACING,
	{ 'q', "quiet", NULL, OPT_FLAG, &quiet, "don't print how many probes there are, nor, with --json, the summary" },
	{ 'B', "buffering", "MODE", OPT_TEXT, &text_of_bpftrace, "an option of bpftrace; changes nothing here" },
	{ 'I', "include-dir", "DIR", OPT_LIST, &list_of_bpftrace, "an option of bpftrace; changes nothing here" },
	{ 0, "include", "FILE", OPT_LIST, &list_of_bpftrace, "an option of bpftrace; changes nothing here" },
	{ 'k', "check-helpers", NULL, OPT_FLAG, &of_bpftrace, "an option of bpftrace; changes nothing here: faults are always reported" },
	{ 0, "usdt-file-activation", NULL, OPT_FLAG, &of_bpftrace, "an option of bpftrace; changes nothing here" },
	{ 0, "no-feature", "NAMES", OPT_TEXT, &text_of_bpftrace, "an option of bpftrace; changes nothing here" },
	{ 0, "cmd", "CMD", OPT_TEXT, &run.command, "the same as -c" },
	{ 0, "probe-filter", "REGEX", OPT_TEXT, &probe_filter, "leave out the probes that this does not match; begin and end stay" },
	{ 0, "unsafe", NULL, OPT_FLAG, &unsafe, "let the script start programs with system()" },
	{ 0, "no-warnings", NULL, OPT_FLAG, &no_warnings, "leave out warnings about the script, and what warnf() says" },
	{ 0 }
};

/* A script that runs. */
struct running {
	struct jab *j;
	struct jab_script *s;
	bool alone;		/* no targets: only clauses that run in the tracer */
	FILE *to;
	uint64_t start;
};

/* Reads a whole file, which must look like a script. */
static int read_file(FILE *f, const char *path, char **ret_text, size_t *ret_len)
{
	char *text = NULL;
	size_t room = 0, n = 0, got;
	int err = 0;

	do {
		room += 64 << 10;
		text = xrealloc(text, room + 1);
		got = fread(text + n, 1, room - n, f);
		n += got;
	} while (got && n <= SCRIPT_MOST);
	text[n] = '\0';
	if (ferror(f))
		err = fail(-errno, "%s can't be read: %s", path, strerror(errno));
	else if (n >= 4 && !memcmp(text, "\177ELF", 4))
		err = fail(-EINVAL, "%s is a program, not a script; to trace it, give it after -c or --", path);
	else if (memchr(text, '\0', n))
		err = fail(-EINVAL, "%s is no script: it holds binary data", path);
	else if (n > SCRIPT_MOST)
		err = fail(-EFBIG, "%s is too long for a script: %u MB are the most", path, SCRIPT_MOST >> 20);
	if (err < 0) {
		free(text);
		return err;
	}
	*ret_text = text;
	*ret_len = n;
	return 0;
}

int script_read(const char *path, char **ret_text, size_t *ret_len)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	int r;

	if (!f)
		return fail(-errno, "%s can't be opened: %s", path, strerror(errno));
	r = read_file(f, path, ret_text, ret_len);
	if (f != stdin)
		fclose(f);
	return r;
}

/* False: the output can't be written any more. */
static bool flush(FILE *to)
{
	errno = 0;
	if (fflush(to) && !write_error)
		write_error = errno ? errno : EIO;
	return !write_error;
}

/* Prints the script's errors and warnings, and a hint if -e was given the name of a file. */
static void say_diags(struct jab_script *s)
{
	fputs(jab_script_errors(s), stderr);
	if (expressions.n && jab_script_has_errors(s) && access(expressions.v[0], R_OK) == 0)
		fprintf(stderr, "jab: there is a file of that name; `jab %s`, without -e, runs it\n", expressions.v[0]);
}

/* For --dump: opens the files that the script names; no process is needed. */
static int open_objects(struct running *x)
{
	const char *path;
	int r = 0;

	for (size_t i = 0; r >= 0 && (path = jab_script_object(x->s, i)); i++)
		r = jab_open_file(x->j, path);
	return r;
}

static int watch_objects(struct running *x)
{
	VEC(const char *) paths = { 0 };
	const char *path;
	int r;

	for (size_t i = 0; (path = jab_script_object(x->s, i)); i++)
		*vec_add(&paths) = path;
	r = jab_watch_files(x->j, paths.v, paths.n);
	vec_free(&paths);
	return r;
}

/* Without -p and -c: attaches to every process that has mapped a file which a probe names by its path, now or later. */
static int attach_users(struct running *x)
{
	bool alone = capture.no_follow || run.dry_run;
	const char *path;
	int r = 0, n = 0;

	for (size_t i = 0; r >= 0 && (path = jab_script_object(x->s, i)); i++) {
		r = jab_attach_users(x->j, path);
		n += r > 0 ? r : 0;
	}
	if (r < 0)
		return r;
	if (!alone)
		r = watch_objects(x);
	if (!n && (alone || r < 0))
		return fail(-ESRCH, "no running process uses %s%s%s%s; start one with -c, or choose one with -p", jab_script_object(x->s, 0),
			    jab_script_object(x->s, 1) ? ", nor another file that the script's probes name" : "",
			    alone ? "" : ", and those that start later can't be waited for: ", alone ? "" : jab_error(x->j));
	if (r < 0)
		log_warn("processes that start later are not probed: %s", jab_error(x->j));
	log_info("%d processes", n);
	return 0;
}

static int choose_targets(struct running *x, char **rest)
{
	if (run.pids.n || run.command || rest)
		return run_targets(x->j, rest);
	if (!jab_script_has_sites(x->s))
		return 0;
	if (!jab_script_object(x->s, 0) && jab_script_may_miss(x->s))
		return 0;
	if (!jab_script_object(x->s, 0)) {
		fprintf(stderr, "jab -e: no target given (-p PID, -c CMD or -- CMD), and no probe of the script names a file by "
			"its path; try `jab -e --help`\n");
		return 2;
	}
	return dump ? open_objects(x) : attach_users(x);
}

static int count_tracers(void *arg, const char *text, bool of_tracer)
{
	*(size_t *)arg += of_tracer;
	return 0;
}

static int add_waiting(void *arg, const struct jab_probe_info *p)
{
	*(size_t *)arg += !p->sites;
	return 0;
}

static int add_placed(void *arg, const struct jab_count *c)
{
	*(size_t *)arg += !c->not_placed;
	return 0;
}

/* How many probes there are, as bpftrace says it: functions (in however many processes), and the clauses of the tracer. */
static void say_attached(struct running *x)
{
	size_t n = 0;

	if (quiet)
		return;
	jab_script_each_probe(x->s, count_tracers, &n);
	jab_each_probe(x->j, add_waiting, &n);
	jab_each_count(x->j, add_placed, &n);
	if (run.json)
		fprintf(x->to, "{\"type\": \"attached_probes\", \"count\": %zu, \"data\": {\"probes\": %zu}}\n", n, n);
	else
		fprintf(stderr, "Attached %zu probe%s\n", n, &"s"[n == 1]);
}

/* A script with missing_probes = "warn" or "ignore" runs without some of its probes, but not without all. */
static int has_something(struct running *x)
{
	size_t n = 0;

	jab_script_each_probe(x->s, count_tracers, &n);
	return n || jab_script_has_sites(x->s) ? 0 : fail(-ENOENT, "none of the script's probes can be placed");
}

static int prepare(struct running *x)
{
	int r = jab_resolve(x->j);

	if (!r)
		r = has_something(x);
	if (!r && dump)
		return jab_script_dump(x->s, dump, x->to);
	x->alone &= !jab_script_has_sites(x->s);
	if (r || run.dry_run)
		return r;
	if (x->alone)
		say_attached(x);
	r = jab_script_begin(x->s);	/* what it prints follows the number of probes */
	return r == 0 && ferror(x->to) ? -ECANCELED : r;
}

static int tick(void *arg, int64_t drained)
{
	struct running *x = arg;
	int status;

	if (!flush(x->to) || jab_script_exited(x->s, &status))
		return -ECANCELED;
	return drained < 0 && drained != -ECANCELED ? drained : 0;
}

/* Runs a script with only begin, end and interval probes: there are no targets, and the run ends by -d, exit() or a signal. */
static int run_alone(struct running *x)
{
	struct jab_report report = { .clean = true };
	int status = 0, r;

	while (!run_interrupted && !jab_script_exited(x->s, &status)) {
		uint64_t left = UINT64_MAX;

		jab_dispatch(x->j);
		if (!flush(x->to))
			break;
		if (run.duration >= 0) {
			uint64_t past = now_ns() - x->start, all = run.duration * 1e9;

			if (past >= all)
				break;
			left = all - past;
		}
		if (!jab_script_exited(x->s, &status))
			jab_wait(x->j, MIN(left, 100000000ull));
	}
	jab_script_exited(x->s, &status);
	r = jab_script_end(x->s);
	if (run.json && !quiet)
		run_json_summary(x->j, x->to, &report, RUN_SITES);
	return r < 0 ? complain(x->j) : status;
}

static void say_newcomers(struct jab *j)
{
	struct jab_newcomers n = *jab_get_newcomers(j);

	if (n.probed)
		log_info("%" PRIu64 " processes started meanwhile and were probed", n.probed);
	if (n.late && n.probed)
		log_warn("this kernel reports new processes only when they already run: events of their start may be missing");
	if (n.missed)
		log_warn("%" PRIu64 " processes started and were not probed: %s", n.missed,
			 n.asleep == n.missed ? "jab was stopped" : "they would have waited for too long");
	if (n.crowded)
		log_warn("%" PRIu64 " processes started and were not probed: too many were traced at that time", n.crowded);
	if (n.flooded)
		log_warn("%" PRIu64 " processes started and were not probed: too many of one user started at a time", n.flooded);
	if (n.foreign)
		log_warn("%" PRIu64 " processes started and were not probed: another tracer was attached to them, or they are jab itself", n.foreign);
}

static int finish(struct running *x, int ended, int child_status)
{
	struct jab_report report;
	int r = jab_remove(x->j), status = 0, written;
	bool exited = jab_script_exited(x->s, &status);

	report = *jab_get_report(x->j);
	if (!exited)
		jab_dispatch(x->j);
	exited = jab_script_exited(x->s, &status);
	written = jab_script_end(x->s);
	jab_log_faults(x->j);
	run_say_refused(x->j);
	jab_log_hints(x->j);
	say_newcomers(x->j);
	capture_say_lost(jab_get_totals(x->j), exited ? ", or came after exit()" : "");
	if (run.json && !quiet)
		run_json_summary(x->j, x->to, &report, RUN_SITES);
	run_say_times(x->j, &report);
	run_say_report(x->j, &report);
	if (r < 0)
		return run_still_in(x->j);
	if ((ended < 0 && ended != -ECANCELED) || written < 0)
		return complain(x->j);
	if (!exited)
		return run_child_status(x->j, x->to, ended > 0, child_status);
	run_end_child(x->j, x->to, ended > 0);
	return status;
}

static int run_probes(struct running *x)
{
	int status = 0, r = run_insert(x->j), ended;

	if (r < 0)
		return complain(x->j);
	if (run.dry_run)
		return run_say_plan(x->j, x->to, RUN_SITES);
	say_attached(x);
	ended = capture_loop(x->j, tick, x, &status);
	return finish(x, ended, status);
}

static int start(struct running *x, const struct jab_script_options *o, char **rest)
{
	int r = jab_script_load(x->j, o, &x->s), status = 0;

	if (r == 0)
		r = choose_targets(x, rest);
	if (r == 0) {
		x->alone = !run.pids.n && !run.command && !rest;
		r = prepare(x);
	}
	if (x->s)
		say_diags(x->s);
	if (r < 0)
		return r == -ECANCELED || (r == -EINVAL && x->s && jab_script_has_errors(x->s)) ? 1 : complain(x->j);
	if (r)
		return r;
	if (dump)
		return 0;
	x->start = now_ns();
	if (!x->alone && !jab_script_exited(x->s, &status))
		return run_probes(x);
	return run.dry_run ? run_say_plan(x->j, x->to, RUN_SITES) : run_alone(x);
}

static int run_text(const struct jab_script_options *o, char **rest)
{
	struct running x = { .to = o->out };
	int r;

	run_catch_signals();
	if (capture_new(&x.j) < 0)
		return complain(NULL);
	r = start(&x, o, rest);
	jab_script_free(x.s);
	jab_free(x.j);
	return r;
}

static int wrong(const char *what)
{
	fprintf(stderr, "jab %s: %s; try `jab %s --help`\n", tool_name ? tool_name : "-e", what, tool_name ? tool_name : "-e");
	return 2;
}

static int check_usage(const text_list *words, char **rest)
{
	if (tool_name && !list && !run.pids.n && !run.command && !rest)
		return wrong("no target given (-p PID, -c CMD or -- CMD)");
	if (!expressions.n && !words->n && !(list && run.pids.n))
		return wrong(list ? "-l needs a probe, a script or a process (-p)" : "no script given (-e SCRIPT, or a file)");
	if (expressions.n > 1)
		return wrong("-e was given more than once; one script can have all the probes");
	if (dump && strcmp(dump, "ast") && strcmp(dump, "ir") && strcmp(dump, "asm"))
		return wrong("--dump takes ast, ir or asm");
	if (format && strcmp(format, "text") && strcmp(format, "json"))
		return wrong("-f takes text or json");
	run.json |= format && !strcmp(format, "json");
	if (folded && run.json)
		return wrong("--folded and --json are two forms of output; choose one");
	return 0;
}

/* Whether the word is several probes separated by commas; a comma may also be part of a C++ name. */
static bool is_list(const char *word)
{
	static const char *const kinds[] = { "uprobe:", "u:", "uretprobe:", "ur:", "call:", "kprobe:", "k:", "tracepoint:", "t:" };

	for (const char *p = word; (p = strchr(p, ','));) {
		p += 1 + strspn(p + 1, " ");
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			if (!strncmp(p, kinds[i], strlen(kinds[i])))
				return true;
	}
	return false;
}

/* Lists several probes, by making them the probes of a script. */
static int list_probes(const char *word, struct jab_script_options *o)
{
	char *text = xasprintf("%s { }", word);
	int r;

	o->name = "-l";
	o->text = text;
	o->len = strlen(text);
	r = list_script(o, o->out, verbose);
	free(text);
	return r;
}

/* The argument of -l: a file with a script, a program (all of its functions), probes, or a pattern. */
static int list_word(const char *word, struct jab_script_options *o)
{
	char head[4] = "", *text = NULL, *object, *pattern;
	FILE *f = word && strcmp(word, "-") ? fopen(word, "re") : NULL;
	size_t n = f ? fread(head, 1, sizeof(head), f) : 0;
	int r;

	if (f)
		fclose(f);
	if (word && !f && is_list(word))
		return list_probes(word, o);
	if (!word || (!f && strcmp(word, "-")))
		return list_pattern(word ? word : "*:*", o->out, verbose);
	if (n == sizeof(head) && !memcmp(head, "\177ELF", 4)) {
		object = jab_quote_object(word);
		pattern = xasprintf(strchr(word, '/') ? "%s:*" : "./%s:*", object);
		r = list_pattern(pattern, o->out, verbose);
		free(object);
		free(pattern);
		return r;
	}
	o->name = word;
	if (script_read(word, &text, &o->len) < 0)
		return complain(NULL);
	o->text = text;
	r = list_script(o, o->out, verbose);
	free(text);
	return r;
}

/* The words after --: a command; or, if the script calls getopt(), options and parameters of the script. */
static int take_rest(struct jab_script_options *o, text_list *words, text_list *named, char ***rest)
{
	for (size_t i = 0; i < tool_named.n; i++)
		*vec_add(named) = tool_named.v[i];
	if (*rest && !tool_name && strstr(o->text, "getopt(\"")) {
		for (char **p = *rest; *p; p++)
			*vec_add(strncmp(*p, "--", 2) ? words : named) = *p;
		*rest = NULL;
	}
	if (*rest && !**rest)
		return wrong("no command after --");
	return *rest && run.command ? wrong("two commands given, with -c and after --") : 0;
}

static int run_given(struct jab_script_options *o, text_list *words, char **rest)
{
	size_t skip = expressions.n ? 0 : 1;
	text_list named = { 0 };
	char *text = NULL;
	int r;

	if (list && !expressions.n)
		return list_word(words->n ? words->v[0] : NULL, o);
	if (expressions.n) {
		o->name = "stdin";	/* as bpftrace calls it */
		o->text = expressions.v[0];
		o->len = strlen(o->text);
	} else {
		o->name = strcmp(words->v[0], "-") ? words->v[0] : "stdin";
		if (script_read(words->v[0], &text, &o->len) < 0)
			return complain(NULL);
		o->text = text;
	}
	r = take_rest(o, words, &named, &rest);
	o->params = words->v + skip;
	o->nparams = words->n - skip;
	o->options = named.v;
	o->noptions = named.n;
	if (!r)
		r = list ? list_script(o, o->out, verbose) : run_text(o, rest);
	vec_free(&named);
	free(text);
	return r;
}

static int run_script(text_list *words, char **rest)
{
	struct jab_script_options o = { .size = sizeof(o), .out = stdout, .trace = trace_dir };
	int r = check_usage(words, rest);

	if (r)
		return r;
	verbose = list && log_level;
	log_level -= verbose;	/* one -v belongs to -l */
	o.style = run.json ? JAB_SCRIPT_JSON : folded ? JAB_SCRIPT_FOLDED : JAB_SCRIPT_TEXT;
	o.unsafe = unsafe;
	o.no_warnings = no_warnings;
	o.probe_filter = probe_filter;
	if (run.output && !(o.out = output_create(run.output)))
		return complain(NULL);
	r = run_given(&o, words, rest);
	if (!flush(o.out) && write_error == EPIPE) {
		r = 1;		/* no message: the reader has closed the pipe, as head(1) does */
	} else if (write_error) {
		fail(-write_error, "%s can't be written: %s", run.output ? run.output : "the output", strerror(write_error));
		r = complain(NULL);
	}
	if (o.out != stdout)
		fclose(o.out);
	vec_free(&expressions);
	vec_free(&list_of_bpftrace);
	return r;
}

const struct command cmd_script = {
	"-e", "SCRIPT | FILE.bt [-p PID|NAME | -c CMD] [OPTIONS] [PARAMETER...] [-- CMD ARGS]",
	"Run a script in bpftrace's language.", opts, run_script
};
