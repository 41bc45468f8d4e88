/* SPDX-License-Identifier: MIT */
#include "cmd/run.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"

struct run run = { .duration = -1 };
volatile sig_atomic_t run_interrupted;

int run_usage(const char *command, size_t nprobes, char **rest)
{
	const char *what = NULL;

	if (!nprobes)
		what = "no probe given";
	else if (!run.pids.n && !run.command && !rest)
		what = "no target given (-p PID, -c CMD or -- CMD)";
	else if (rest && !rest[0])
		what = "no command after --";
	if (!what)
		return 0;
	fprintf(stderr, "jab %s: %s; try `jab %s --help`\n", command, what, command);
	return 2;
}

static void on_signal(int sig)
{
	(void)sig;
	run_interrupted++;
}

void run_catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal }, before;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGQUIT, &sa, NULL);
	if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)	/* nohup(1) ignores it */
		sigaction(SIGHUP, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);	/* jab's own file size limit is an error to report; the signal would kill jab with probes inserted */
}

int run_targets(struct jab *j, char **rest)
{
	text_list argv = { 0 };
	int r = 0;

	for (size_t i = 0; !r && i < run.pids.n; i++)
		r = attach_word(j, run.pids.v[i]);
	if (r || (!run.command && !rest))
		return r;
	if (rest)
		return jab_spawn(j, rest);
	r = split_words(run.command, &argv);
	if (!r)
		r = jab_spawn(j, argv.v);
	for (size_t i = 0; i < argv.n; i++)
		free(argv.v[i]);
	vec_free(&argv);
	return r;
}

struct totals { size_t probes, sites, refused, left_out; struct jab_site first; };

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

	t->probes++;
	t->sites += p->sites;
	t->refused += p->refused;
	t->left_out += p->left_out;
	return 0;
}

int run_place(struct jab *j, const text_list *probes)
{
	int r = 0;

	for (size_t i = 0; !r && i < probes->n; i++)
		r = jab_add_probe(j, probes->v[i], NULL);
	if (!r)
		r = jab_resolve(j);
	return r ? r : run_insert(j);
}

/* A user who waits at a terminal for the first event should see that the probes are active. */
static void say_active(struct jab *j, const struct totals *t)
{
	size_t sites = t->sites - t->refused;
	bool waits = run.announce && !run.json && !jab_child_pid(j) && isatty(STDERR_FILENO);

	(waits ? log_warn : log_info)("active: %zu probe%s, %zu site%s%s", t->probes, &"s"[t->probes == 1], sites,
				      &"s"[sites == 1], waits && run.duration < 0 ? "; Ctrl-C ends it" : "");
}

/* Of a static tracepoint, the file tells whose note is meant. */
static int refuse(const struct totals *t)
{
	bool is_tracepoint = !strcmp(t->first.kind, "usdt");
	char *where = is_tracepoint ? xasprintf("%s of %s", t->first.function, t->first.module) :
				      xasprintf("%s+%#" PRIx64, t->first.function, t->first.offset);
	int r = fail(-ENOSPC, "%zu of %zu sites can't be placed (%s: %s)%s", t->refused, t->sites, where, t->first.reason,
		     t->left_out ? "" : "; `jab check` shows all");

	free(where);
	return r;
}

int run_insert(struct jab *j)
{
	struct totals t = { 0 };
	int r = jab_plan(j, 0);

	if (r < 0)
		return r;
	jab_each_probe(j, add_totals, &t);
	if (t.refused && (run.strict || t.refused == t.sites)) {
		jab_each_site(j, find_refused, &t);
		return refuse(&t);
	}
	if (t.refused > t.left_out)
		log_warn("%zu of %zu sites can't be placed and are left out; `jab check` shows which "
			 "and why", t.refused - t.left_out, t.sites);
	if (run.dry_run)
		return 0;
	r = jab_insert(j);
	if (!r)
		say_active(j, &t);
	return r;
}

int run_over(struct jab *j, uint64_t start_ns, int *ret_status)
{
	if (jab_child_ended(j, ret_status) == 1)
		return 1;
	if (run.duration >= 0 && (now_ns() - start_ns) / 1e9 >= run.duration)
		return 0;
	if (jab_alive(j))
		return -1;
	/* The end of the process is seen a moment before its exit status is available. */
	for (int i = 0; jab_child_pid(j) && i < 200; i++) {
		if (jab_child_ended(j, ret_status) == 1)
			return 1;
		sleep_ns(5000000);
	}
	if (!jab_child_pid(j))
		(isatty(STDERR_FILENO) ? log_warn : log_info)("all targets have ended");
	return 0;
}

struct json_list { FILE *to; bool more; enum run_summary what; };

static int json_probe(void *arg, const struct jab_probe_info *p)
{
	struct json_list *list = arg;

	fputs(list->more ? ",{" : "{", list->to);
	list->more = true;
	json_pair(list->to, "probe", p->probe, true);
	fprintf(list->to, ",\"sites\":%zu,\"refused\":%zu,\"hits\":", p->sites, p->refused);
	if (list->what == RUN_SITES || p->uncounted)
		fputs("null", list->to);
	else
		fprintf(list->to, "%" PRIu64, p->hits);
	if (list->what == RUN_EVENTS)
		fprintf(list->to, ",\"recorded\":%" PRIu64 ",\"lost\":%" PRIu64, p->recorded, p->lost);
	if (p->not_placed && !run.dry_run)
		fputs(",\"placed\":false", list->to);
	if (p->why)
		json_pair(list->to, "reason", p->why, false);
	if (p->no_stack)
		fprintf(list->to, ",\"no_stack\":%" PRIu64, p->no_stack);
	putc('}', list->to);
	return 0;
}

static void json_unfollowed(struct jab *j, FILE *to)
{
	const struct jab_unfollowed *u = jab_get_unfollowed(j);

	if (u->missed + u->crowded + u->failed + u->libraries)
		fprintf(to, ",\"not_followed\":{\"programs\":%" PRIu64 ",\"libraries\":%" PRIu64 "}",
			u->missed + u->crowded + u->failed, u->libraries);
}

static void say_programs(uint64_t n, const char *why)
{
	if (n)
		log_warn("%" PRIu64 " program%s executed and not probed: %s", n, n == 1 ? " was" : "s were", why);
}

static void say_unfollowed(struct jab *j)
{
	struct jab_unfollowed u = *jab_get_unfollowed(j);

	say_programs(u.missed, "jab did not respond in time");
	say_programs(u.crowded, "too many were traced at that time");
	say_programs(u.failed, "see above");
	if (u.libraries)
		log_warn("%" PRIu64 " times a library was loaded or unloaded and not probed: jab did not respond in time", u.libraries);
}

void run_json_summary(struct jab *j, FILE *to, const struct jab_report *report, enum run_summary what)
{
	struct json_list list = { to, false, what };
	const struct jab_totals *e = jab_get_totals(j);
	struct jab_times t = *jab_get_times(j);

	fputs("{\"summary\":{\"probes\":[", to);
	jab_each_probe(j, json_probe, &list);
	putc(']', to);
	if (what == RUN_EVENTS && e->damaged)
		fprintf(to, ",\"unreadable\":{\"times\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", e->damaged, e->damaged_bytes);
	json_unfollowed(j, to);
	if (report->left)
		fprintf(to, ",\"left_running\":%zu", report->left);
	fprintf(to, ",\"attach\":{\"symbols_ns\":%" PRIu64 ",\"plan_ns\":%" PRIu64 ",\"write_ns\":%" PRIu64
		",\"pause_ns\":%" PRIu64 ",\"pads\":%zu,\"pad_bytes\":%zu,\"data_bytes\":%zu},\"clean\":%s}}\n",
		t.symbols_ns, t.plan_ns, t.write_ns, t.pause_ns, t.pads, t.pad_bytes, t.data_bytes,
		report->clean ? "true" : "false");
}

#define MOST_REFUSED 3		/* probes that are named at the end */

static int say_refused(void *arg, const struct jab_probe_info *p)
{
	size_t *said = arg, sites = p->refused - p->left_out;

	if (!p->why || (*said)++ >= MOST_REFUSED)
		return 0;
	if (p->not_placed)
		log_warn("%s: not placed, so it is not known how often it was reached (%s)", p->probe, p->why);
	else
		log_warn("%s: %zu of %zu sites %s not placed (%s%s)", p->probe, sites, p->sites, sites == 1 ? "was" : "were", p->why,
			 sites > 1 ? "; `jab check` shows all" : "");
	return 0;
}

void run_say_refused(struct jab *j)
{
	size_t said = 0;

	jab_each_probe(j, say_refused, &said);
	if (said > MOST_REFUSED)
		log_warn("%zu more probes have sites that were not placed; `jab check` shows all", said - MOST_REFUSED);
}

static int print_plan(void *arg, const struct jab_probe_info *p)
{
	fprintf(arg, "%14zu %14zu  ", p->sites, p->refused);
	print_safe(arg, p->probe);
	putc('\n', arg);
	return 0;
}

int run_say_plan(struct jab *j, FILE *to, enum run_summary what)
{
	struct jab_report report = { .clean = true };

	if (run.json) {
		run_json_summary(j, to, &report, what);
		return 0;
	}
	fprintf(to, "%14s %14s  %s\n", "SITES", "REFUSED", "PROBE");
	jab_each_probe(j, print_plan, to);
	return 0;
}

static bool is_crash(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE || signal == SIGABRT || signal == SIGTRAP ||
	       signal == SIGSYS || signal == SIGKILL;
}

static int say_end(void *arg, const struct jab_end *e)
{
	char address[40] = "";

	if (e->has_address)
		snprintf(address, sizeof(address), ", address %#" PRIx64, e->address);
	if (e->is_known && WIFSIGNALED(e->status) && is_crash(WTERMSIG(e->status)))
		log_warn("process %d (%s) was ended by signal %d (%s)%s%s%s", e->pid, e->name, WTERMSIG(e->status), strsignal(WTERMSIG(e->status)),
			 e->place ? " in " : "", e->place ? e->place : "", address);
	else if (!e->is_known && e->place)
		log_warn("process %d (%s) has ended after a fault in %s%s", e->pid, e->name, e->place, address);
	else if (!e->is_known)
		log_info("process %d (%s) has ended; this kernel does not tell how", e->pid, e->name);
	return 0;
}

void run_say_report(struct jab *j, const struct jab_report *r)
{
	jab_each_end(j, say_end, NULL);
	say_unfollowed(j);
	if (r->left == 1)
		log_warn("process %d, which the command has started, goes on and is no longer traced", r->one_left);
	else if (r->left)
		log_warn("%zu processes that the command has started go on and are no longer traced (one is %d)", r->left, r->one_left);
	if (r->foreign)
		log_warn("%zu places had been changed meanwhile, not by jab, and were left alone", r->foreign);
	if (r->arena_left)
		log_warn("a thread, or code that a signal has interrupted, may still be inside a pad, so jab's memory "
			 "stays mapped there; the program text is as before; try `jab recover` later");
	if (r->pages_kept)
		log_info("%zu text pages stay private copies (equal to the file; they could not be dropped)",
			 r->pages_kept);
}

void run_say_times(struct jab *j, const struct jab_report *r)
{
	struct jab_times t = *jab_get_times(j);

	log_info("symbols %.1f ms, plan %.1f ms, write %.1f ms, longest pause %.0f us, pads %zu in %zu kB",
		 t.symbols_ns / 1e6, t.plan_ns / 1e6, t.write_ns / 1e6, t.pause_ns / 1e3, t.pads,
		 t.pad_bytes / 1024);
	if (r->clean && !r->gone)
		log_info("detached: text, mappings and descriptors are as before");
}

int run_still_in(struct jab *j)
{
	complain(j);
	log_warn("so the probes are still in, and the program runs on with them; `jab recover` takes "
		 "them out later");
	return 1;
}

/* Redirects the descriptor to /dev/null, so that the reader of a pipe sees its end. The FILE stays open for its owner. */
static void release_output(FILE *to)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (fflush(to))
		output_failed();
	if (null < 0)
		return;
	dup2(null, fileno(to));
	close(null);
}

#define SILENT_WAIT 200000000ull

/* False: a signal has ended the wait. */
static bool wait_for_child(struct jab *j, FILE *to, int *ret_status)
{
	uint64_t start = now_ns();
	bool said = false;

	release_output(to);
	release_output(stdout);
	run_interrupted = 0;
	while (!run_interrupted) {
		if (jab_child_ended(j, ret_status) != 0)
			return true;
		if (!said && now_ns() - start >= SILENT_WAIT) {
			log_warn("waiting for process %d to end, which runs on without probes; Ctrl-C ends the wait", jab_child_pid(j));
			said = true;
		}
		sleep_ns(5000000);
	}
	return false;
}

int run_child_status(struct jab *j, FILE *to, bool ended, int status)
{
	if (!jab_child_pid(j) || (!ended && !wait_for_child(j, to, &status)))
		return 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void run_end_child(struct jab *j, FILE *to, bool ended)
{
	int status = 0;

	if (!jab_child_pid(j) || ended || jab_child_ended(j, &status) != 0)
		return;
	kill(jab_child_pid(j), SIGTERM);	/* not reaped yet, so the pid is still the child's */
	wait_for_child(j, to, &status);
}
