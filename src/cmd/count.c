/* SPDX-License-Identifier: MIT */
/* jab count: counts how often each place is reached. */
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "cmd/run.h"
#include "cmd/table.h"

static double interval = 1;
static bool all, no_follow;

static const struct opt opts[] = {
	RUN_TARGETS,
	{ 'i', "interval", "SECONDS", OPT_SECONDS, &interval, "time between refreshes of the live table (1)" },
	{ 'o', "output", "FILE", OPT_TEXT, &run.output, "write jab's output there instead of stdout" },
	{ 'a', "all", NULL, OPT_FLAG, &all, "list functions without a hit, too" },
	LOOK_NAMES,
	{ 0, "no-follow", NULL, OPT_FLAG, &no_follow, "don't probe programs executed or libraries loaded later" },
	RUN_PLACING,
	{ 0 }
};

/* Waits for a signal, the end of -d or of the targets. Returns 1 if the command of -c has ended, with its status. */
static int wait_for_end(struct jab *j, struct table *table, bool live, int *status)
{
	uint64_t start = now_ns(), shown = start, step = 2000000;

	while (!run_interrupted) {
		double elapsed = (now_ns() - start) / 1e9;
		int over;

		jab_dispatch(j);
		over = run_over(j, start, status);

		if (over >= 0)
			return over;
		if (live && table_keys(table, stdout) && !table->view.quit)
			table_live(table, stdout, elapsed);
		if (table->view.quit)
			return 0;
		if (live && !table->view.paused && (now_ns() - shown) / 1e9 >= interval) {
			table->seconds = (now_ns() - shown) / 1e9;
			shown = now_ns();
			table_read(table, j);
			table_live(table, stdout, elapsed);
		}
		/* Short waits first, so that the end of a short command is noticed at once; then longer ones. */
		jab_wait(j, run.duration >= 0 ? MIN(step, (uint64_t)((run.duration - elapsed) * 1e9) + 1000) : step);
		step = MIN(step + step / 4, 50000000);
	}
	return 0;
}

static void summary(struct jab *j, struct table *table, FILE *to, const struct jab_report *report)
{
	table_fill(table, j);
	if (run.json) {
		table_json(table, to);
		run_json_summary(j, to, report, false);
		return;
	}
	table_final(table, to, all);
	run_say_times(j, report);
}

static int count(struct jab *j, FILE *to)
{
	struct jab_report report;
	struct table table = { 0 };
	bool live = !run.json && !run.output && isatty(STDOUT_FILENO) && interval > 0;
	int status = 0, ended, r;

	if (live)
		table_begin(&table, to, !jab_child_pid(j));
	ended = wait_for_end(j, &table, live, &status);
	if (live)
		table_end(&table, to);
	r = jab_remove(j);
	report = *jab_get_report(j);
	summary(j, &table, to, &report);
	run_say_refused(j);
	jab_log_hints(j);
	run_say_report(j, &report);
	if (live)
		log_info("longest redraw of the table %.1f ms", table.view.draw_ms);
	table_free(&table);
	return r < 0 ? run_still_in(j) : run_child_status(j, to, ended, status);
}

static int run_count(text_list *words, char **rest)
{
	struct jab_options options = { .size = sizeof(options), .log_level = log_level, .follow = !no_follow };
	FILE *to = stdout;
	struct jab *j;
	int r = run_usage("count", words->n, rest);

	if (r)
		return r;
	if (run.output && !(to = output_create(run.output)))
		return complain(NULL);
	run_catch_signals();
	if (jab_new(&options, &j) < 0)
		return complain(NULL);
	r = run_targets(j, rest);
	if (!r)
		r = run_place(j, words);
	r = r < 0 ? complain(j) : run.dry_run ? run_say_plan(j, to, RUN_HITS) : count(j, to);
	jab_free(j);
	if (to == stdout)
		return r;
	r = output_status(to, run.output, r);
	fclose(to);
	return r;
}

const struct command cmd_count = {
	"count", "(-p PID|NAME | -c CMD) [OPTIONS] PROBE... [-- CMD ARGS]",
	"Count how often functions are entered or left, or instructions executed.", opts, run_count
};
