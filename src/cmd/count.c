/* SPDX-License-Identifier: MIT */
/* jab count: how often is each place reached? */
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "cmd/common.h"
#include "cmd/table.h"

static text_list pids;
static const char *command, *output;
static double duration = -1, interval = 1;
static bool json, strict, dry_run, all, allow_trap;

static const struct opt opts[] = {
	{ 'p', "pid", "PID|NAME", OPT_LIST, &pids, "trace this process; may be repeated" },
	{ 'c', "command", "CMD", OPT_TEXT, &command, "start this command and trace it; or: -- CMD ARGS" },
	{ 'd', "duration", "SECONDS", OPT_SECONDS, &duration, "stop after that time" },
	{ 'i', "interval", "SECONDS", OPT_SECONDS, &interval, "refresh the live table so often (1)" },
	{ 'o', "output", "FILE", OPT_TEXT, &output, "write our output there instead of stdout" },
	{ 'a', "all", NULL, OPT_FLAG, &all, "list functions without a hit, too" },
	{ 0, "json", NULL, OPT_FLAG, &json, "one JSON object a line" },
	{ 0, "allow-trap", NULL, OPT_FLAG, &allow_trap, "permit traps where no jump fits (this version has none)" },
	{ 0, "strict", NULL, OPT_FLAG, &strict, "fail if one site can't be placed" },
	{ 0, "dry-run", NULL, OPT_FLAG, &dry_run, "plan and tell, but touch nothing" },
	{ 'v', "verbose", NULL, OPT_MORE, &log_level, "tell what happens" },
	{ 0 }
};

/* The first signal ends the run in good order; SIGKILL is what `jab recover` is for. */
static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted++;
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int choose_targets(struct jab *j, char **rest)
{
	text_list argv = { 0 };
	int r = 0;

	for (size_t i = 0; !r && i < pids.n; i++)
		r = attach_word(j, pids.v[i]);
	if (r || (!command && !rest))
		return r;
	if (rest)
		return jab_spawn(j, rest);
	r = split_words(command, &argv);
	if (!r)
		r = jab_spawn(j, argv.v);
	for (size_t i = 0; i < argv.n; i++)
		free(argv.v[i]);
	vec_free(&argv);
	return r;
}

struct totals { size_t sites, refused; struct jab_site first; };

static int find_refused(void *arg, const struct jab_site *s)
{
	struct totals *t = arg;

	if (strcmp(s->tactic, "none"))
		return 0;
	t->first = *s;
	return 1;
}

static int add_totals(void *arg, const struct jab_probe_info *p)
{
	struct totals *t = arg;

	t->sites += p->sites;
	t->refused += p->refused;
	return 0;
}

static int place(struct jab *j, const text_list *words)
{
	struct totals t = { 0 };
	int r = 0;

	for (size_t i = 0; !r && i < words->n; i++)
		r = jab_add_probe(j, words->v[i]);
	if (!r)
		r = jab_resolve(j);
	if (!r)
		r = jab_plan(j);
	if (r < 0)
		return r;
	jab_each_probe(j, add_totals, &t);
	if (t.refused && (strict || t.refused == t.sites)) {
		jab_each_site(j, find_refused, &t);
		return fail(-ENOSPC, "%zu of %zu sites can't be placed (%s+%#" PRIx64 ": %s); `jab check` shows "
			    "all", t.refused, t.sites, t.first.function, t.first.offset, t.first.reason);
	}
	if (t.refused)
		log_warn("%zu of %zu sites can't be placed and are left out; `jab check` shows which "
			 "and why", t.refused, t.sites);
	if (dry_run)
		return 0;
	r = jab_insert(j);
	if (!r)
		log_info("active: %zu probes, %zu sites", words->n, t.sites - t.refused);
	return r;
}

/* Until a signal, the end of the time, or of the targets. Returns 1 with the status of our child. */
static int wait_for_end(struct jab *j, struct table *table, bool live, int *status)
{
	uint64_t start = now_ns(), shown = start, step = 2000000;

	while (!interrupted) {
		double elapsed = (now_ns() - start) / 1e9;

		if (jab_child_ended(j, status) == 1)
			return 1;
		if ((duration >= 0 && elapsed >= duration) || !jab_alive(j))
			return 0;
		if (live && (now_ns() - shown) / 1e9 >= interval) {
			table->seconds = (now_ns() - shown) / 1e9;
			shown = now_ns();
			table_fill(table, j);
			table_live(table, stdout, elapsed);
		}
		/* Quick at first, so that a short command does not wait for us; then in no hurry. */
		sleep_ns(duration >= 0 ? MIN(step, (uint64_t)((duration - elapsed) * 1e9) + 1000) : step);
		step = MIN(step + step / 4, 50000000);
	}
	return 0;
}

struct json_list { FILE *to; bool more; };

static int json_probe(void *arg, const struct jab_probe_info *p)
{
	struct json_list *list = arg;

	fputs(list->more ? ",{" : "{", list->to);
	list->more = true;
	json_pair(list->to, "probe", p->probe, true);
	fprintf(list->to, ",\"sites\":%zu,\"refused\":%zu,\"hits\":%" PRIu64 "}", p->sites, p->refused,
		p->hits);
	return 0;
}

static void json_summary(struct jab *j, FILE *to, const struct jab_report *report)
{
	struct json_list list = { to, false };
	struct jab_times t;

	jab_get_times(j, &t);
	fputs("{\"summary\":{\"probes\":[", to);
	jab_each_probe(j, json_probe, &list);
	fprintf(to, "],\"attach\":{\"symbols_ns\":%" PRIu64 ",\"plan_ns\":%" PRIu64 ",\"write_ns\":%" PRIu64
		",\"pause_ns\":%" PRIu64 ",\"pads\":%zu,\"pad_bytes\":%zu,\"data_bytes\":%zu},\"clean\":%s}}\n",
		t.symbols_ns, t.plan_ns, t.write_ns, t.pause_ns, t.pads, t.pad_bytes, t.data_bytes,
		report->clean ? "true" : "false");
}

static void say_report(const struct jab_report *r)
{
	if (r->foreign)
		log_warn("%zu places had been changed by somebody else meanwhile and were left alone", r->foreign);
	if (r->arena_left)
		log_warn("a thread is still inside a pad, so our memory stays mapped there; the program text "
			 "is as before; try `jab recover` later");
	if (r->pages_kept)
		log_info("%zu text pages stay private copies (equal to the file; they could not be dropped)",
			 r->pages_kept);
}

static void summary(struct jab *j, struct table *table, FILE *to, const struct jab_report *report)
{
	struct jab_times t;

	table_fill(table, j);
	if (json) {
		table_json(table, to);
		json_summary(j, to, report);
		return;
	}
	table_final(table, to, all);
	jab_get_times(j, &t);
	log_info("symbols %.1f ms, plan %.1f ms, write %.1f ms, longest pause %.0f us, pads %zu in %zu kB",
		 t.symbols_ns / 1e6, t.plan_ns / 1e6, t.write_ns / 1e6, t.pause_ns / 1e3, t.pads,
		 t.pad_bytes / 1024);
	if (report->clean && !report->gone)
		log_info("detached: text, mappings and descriptors are as before");
}

/* With -c the exit status is the command's own, as strace and perf do it. */
static int child_status(struct jab *j, bool ended, int status)
{
	if (!jab_child_pid(j))
		return 0;
	interrupted = 0;
	while (!ended && !interrupted && jab_child_ended(j, &status) == 0)
		sleep_ns(5000000);
	if (interrupted)
		return 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int count(struct jab *j, FILE *to)
{
	struct jab_report report = { .clean = true };
	struct table table = { 0 };
	bool live = !json && !output && isatty(STDOUT_FILENO) && interval > 0;
	int status = 0, ended, r;

	if (live)
		table_begin(to);
	ended = wait_for_end(j, &table, live, &status);
	if (live)
		table_end(to);
	r = jab_remove(j, &report);
	summary(j, &table, to, &report);
	say_report(&report);
	table_free(&table);
	if (r < 0) {
		complain();
		log_warn("so the probes are still in, and the program runs on with them; `jab recover` takes "
			 "them out later");
		return 1;
	}
	return child_status(j, ended, status);
}

static int run(text_list *words, char **rest)
{
	FILE *to = stdout;
	struct jab *j;
	int r;

	if (!words->n || (!pids.n && !command && !rest)) {
		fprintf(stderr, "jab count: %s; try `jab count --help`\n",
			words->n ? "no target given (-p PID, -c CMD or -- CMD)" : "no probe given");
		return 2;
	}
	if (rest && !rest[0]) {
		fprintf(stderr, "jab count: no command after --; try `jab count --help`\n");
		return 2;
	}
	if (output && !(to = fopen(output, "we"))) {
		fail(-errno, "%s: %s", output, strerror(errno));
		return complain();
	}
	catch_signals();
	jab_new(&j);
	r = choose_targets(j, rest);
	if (!r)
		r = place(j, words);
	r = r < 0 ? complain() : dry_run ? 0 : count(j, to);
	jab_free(j);
	if (to == stdout)
		return r;
	if (output_done(to, output) < 0)
		r = complain();
	fclose(to);
	return r;
}

const struct command cmd_count = {
	"count", "(-p PID|NAME | -c CMD) [OPTIONS] PROBE... [-- CMD ARGS]",
	"Count how often functions are entered or left, or instructions executed.", opts, run
};
