/* SPDX-License-Identifier: MIT */
/*
 * What the commands that change running programs do alike: choose targets, place probes, end in good
 * order, tell how it went.
 */
#ifndef JAB_CMD_RUN_H
#define JAB_CMD_RUN_H

#include <signal.h>
#include <jab/event.h>
#include "cmd/common.h"

/* As the options below fill it. One command runs in a process. */
struct run {
	text_list pids;
	const char *command, *output;
	double duration;		/* -1: no end */
	bool json, strict, dry_run;
	bool announce;			/* on a terminal, that the probes are in: nothing else would tell */
};
extern struct run run;

/* Lines for the table of options. */
#define RUN_TARGETS \
	{ 'p', "pid", "PID|NAME", OPT_LIST, &run.pids, "trace this process; may be repeated" }, \
	{ 'c', "command", "CMD", OPT_TEXT, &run.command, "start this command and trace it; or: -- CMD ARGS" }, \
	{ 'd', "duration", "SECONDS", OPT_SECONDS, &run.duration, "stop after that time" }
#define RUN_PLACING \
	{ 0, "json", NULL, OPT_FLAG, &run.json, "one JSON object a line" }, \
	{ 0, "allow-trap", NULL, OPT_REFUSED, NULL, "this version has no traps; a site that takes no jump is left out, " \
	  "and `jab check` says why" }, \
	{ 0, "strict", NULL, OPT_FLAG, &run.strict, "fail if one site can't be placed" }, \
	{ 0, "dry-run", NULL, OPT_FLAG, &run.dry_run, "plan and tell, but touch nothing" }, \
	{ 'v', "verbose", NULL, OPT_MORE, &log_level, "tell what happens" }

/* Is there a probe and a target? 0, or 2 after a message. */
int run_usage(const char *command, size_t nprobes, char **rest);

/* The first signal ends the run in good order; SIGKILL is what `jab recover` is for. */
extern volatile sig_atomic_t run_interrupted;
void run_catch_signals(void);

int run_targets(struct jab *j, char **rest);	/* attach or start what the options say */
int run_place(struct jab *j, const text_list *probes);	/* inserted when it returns, unless dry_run */
int run_insert(struct jab *j);			/* its second half: what was resolved is planned and inserted */

/* Is it over? 1: our child has ended, 0: time or targets are, -1: not yet. */
int run_over(struct jab *j, uint64_t start_ns, int *ret_status);

void run_say_refused(struct jab *j);	/* at the end: probes with sites that were not placed, and why */
void run_say_report(struct jab *j, const struct jab_report *r);
void run_say_times(struct jab *j, const struct jab_report *r);
int run_still_in(struct jab *j);		/* after a failed removal: the exit status */
/* What is told per probe: its hits, also what became of its events; scripts count neither. */
enum run_summary { RUN_HITS, RUN_EVENTS, RUN_SITES };
int run_say_plan(struct jab *j, FILE *to, enum run_summary what);	/* --dry-run: what would be done. Returns 0 */
void run_json_summary(struct jab *j, FILE *to, const struct jab_report *report, enum run_summary what);

/*
 * With -c the exit status is the command's own, as strace and perf do it: what ends the run does not end the command,
 * which is waited for. `to` and stdout are closed before, so that a reader sees their end. run_end_child() is for exit()
 * of a script, which ends the command as well.
 */
int run_child_status(struct jab *j, FILE *to, bool ended, int status);
void run_end_child(struct jab *j, FILE *to, bool ended);

#endif
