/* SPDX-License-Identifier: MIT */
/* Shared by `jab trace`, `jab record` and scripts: probes with fields, buffers, draining events, the summary. */
#ifndef JAB_CMD_CAPTURE_H
#define JAB_CMD_CAPTURE_H

#include "cmd/run.h"

struct capture {
	text_list places, functions, contexts, comms, tids;
	uint64_t slower;	/* ns; 0: calls of any duration */
	uint64_t buffer_size, most, max_size;
	uint64_t printed;	/* bytes printed by `jab trace`, for max_size */
	bool write_failed;	/* a write of the trace has failed */
	bool overwrite, no_follow;
	double max_overhead;	/* percent; 0: no limit */
};
extern struct capture capture;

#define CAPTURE_OPTS \
	{ 'n', "count", "COUNT", OPT_NUMBER, &capture.most, "stop after that many events" }, \
	{ 0, "max-size", "SIZE", OPT_SIZE, &capture.max_size, "stop when the output reaches this size, such as 100M or 2G" }, \
	{ 0, "probe", "PLACE", OPT_LIST, &capture.places, "a probe at an address, symbol or symbol+offset" }, \
	{ 0, "function", "NAME", OPT_LIST, &capture.functions, "a probe at the entry of a function" }, \
	{ 't', "context", "CONTEXT", OPT_LIST, &capture.contexts, \
	  "a field for all probes: regs, reg:NAME, int:NAME:ADDR, string:NAME:ADDR, backtrace..." }, \
	{ 0, "buffer-size", "SIZE", OPT_SIZE, &capture.buffer_size, "size of the buffer of each CPU, such as 512k or 4M" }, \
	{ 0, "max-overhead", "PERCENT", OPT_PERCENT, &capture.max_overhead, \
	  "switch the hottest probes off for a part of the time, so that no thread loses more time than that" }, \
	{ 0, "comm", "NAME", OPT_LIST, &capture.comms, "only in threads of this name; may be repeated, as the next one" }, \
	{ 0, "tid", "TID", OPT_LIST, &capture.tids, "only in this thread" }, \
	{ 0, "slower", "TIME", OPT_TIME, &capture.slower, "only calls (call:...) that take this long or longer, such as 1ms" }, \
	{ 0, "no-follow", NULL, OPT_FLAG, &capture.no_follow, "don't probe programs executed or libraries loaded later" }

/* Collects the probes of the command line: words, --probe and --function. */
void capture_probes(const text_list *words, text_list *ret_probes);

/* Whether values and probes fit the options that filter. 0, or 2 after a message. */
int capture_usage(const char *command, const text_list *probes);

/* Creates a session that records events, with the fields of -t. */
int capture_new(struct jab **ret_jab);

/*
 * Drains events until the run ends: by a signal, -d, -n, --max-size, the end of the targets or an error. tick() is called
 * after each round; a negative result ends the run. Returns 1 if the command of -c has ended, with its status; 0 for other
 * ends; or the negative result of tick().
 */
int capture_loop(struct jab *j, int (*tick)(void *arg, int64_t drained), void *arg, int *ret_status);

/* Warns of lost events, one line per reason. `also` is inserted after "events were lost". */
void capture_say_lost(const struct jab_totals *t, const char *also);

/* Prints hits, recorded and lost events of each probe, as text or as the JSON summary. */
void capture_summary(struct jab *j, FILE *to, const struct jab_report *report);

#endif
