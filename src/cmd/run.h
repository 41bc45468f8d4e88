/* SPDX-License-Identifier: MIT */
/*
 * Shared by the commands that change running programs: choosing targets, placing probes, signals, the end of the run, the
 * report.
 */
#ifndef JAB_CMD_RUN_H
#define JAB_CMD_RUN_H

#include <signal.h>
#include <jab/event.h>
#include "cmd/common.h"

/* The values of the options below. A process runs one command only. */
struct run {
	text_list pids;
	const char *command, *output;
	double duration;		/* -1: no end */
	bool json, strict, dry_run;
	bool announce;			/* print on a terminal that the probes are active, also without -v */
};
extern struct run run;

/* Rows for a command's table of options. */
#define RUN_TARGETS \
	{ 'p', "pid", "PID|NAME", OPT_LIST, &run.pids, "trace this process; may be repeated" }, \
	{ 'c', "command", "CMD", OPT_TEXT, &run.command, "start this command and trace it; or: -- CMD ARGS" }, \
	{ 'd', "duration", "SECONDS", OPT_SECONDS, &run.duration, "stop after that time" }
#define RUN_PLACING \
	{ 0, "json", NULL, OPT_FLAG, &run.json, "one JSON object a line" }, \
	{ 0, "allow-trap", NULL, OPT_REFUSED, NULL, "this version has no traps; a site that takes no jump is left out, " \
	  "and `jab check` says why" }, \
	{ 0, "strict", NULL, OPT_FLAG, &run.strict, "fail if one site can't be placed" }, \
	{ 0, "dry-run", NULL, OPT_FLAG, &run.dry_run, "plan and report, but change nothing" }, \
	{ 'v', "verbose", NULL, OPT_MORE, &log_level, "print what happens" }

/* Checks that a probe and a target were given. 0, or 2 after a message. */
int run_usage(const char *command, size_t nprobes, char **rest);

/* A first SIGINT, SIGTERM, SIGQUIT or SIGHUP ends the run, and the probes are removed. After SIGKILL there is `jab recover`. */
extern volatile sig_atomic_t run_interrupted;
void run_catch_signals(void);

int run_targets(struct jab *j, char **rest);	/* attaches to the processes, or starts the command, of the options */
int run_place(struct jab *j, const text_list *probes);	/* adds, resolves, plans and, unless dry_run, inserts the probes */
int run_insert(struct jab *j);			/* the second half of run_place(): plans and inserts resolved probes */

/* Whether the run is over. 1: the command of -c has ended; 0: the time is up or all targets have ended; -1: not yet. */
int run_over(struct jab *j, uint64_t start_ns, int *ret_status);

void run_say_refused(struct jab *j);	/* at the end: names probes with sites that were not placed, and why */
void run_say_report(struct jab *j, const struct jab_report *r);
void run_say_times(struct jab *j, const struct jab_report *r);
int run_still_in(struct jab *j);		/* message after a failed removal; returns the exit status */
/* What the summary has for each probe: hits; hits, recorded and lost events; or neither, for scripts. */
enum run_summary { RUN_HITS, RUN_EVENTS, RUN_SITES };
int run_say_plan(struct jab *j, FILE *to, enum run_summary what);	/* --dry-run: prints the plan. Returns 0 */
void run_json_summary(struct jab *j, FILE *to, const struct jab_report *report, enum run_summary what);

/*
 * With -c the exit status is that of the command, as with strace and perf. The end of the run does not end the command: jab
 * waits for it. `to` and stdout are redirected to /dev/null before, so that a reader of a pipe sees the end. run_end_child()
 * is for exit() of a script, which terminates the command as well.
 */
int run_child_status(struct jab *j, FILE *to, bool ended, int status);
void run_end_child(struct jab *j, FILE *to, bool ended);

#endif
