/* SPDX-License-Identifier: MIT */
/* What `jab trace` and `jab record` do alike: probes with fields, buffers, taking events out, the summary. */
#ifndef JAB_CMD_CAPTURE_H
#define JAB_CMD_CAPTURE_H

#include "cmd/run.h"

struct capture {
	text_list places, functions, contexts;
	uint64_t buffer_size, most, max_size;
	uint64_t printed;	/* bytes of `jab trace`, for max_size */
	bool write_failed;	/* the trace could not be written, at least for a time */
	bool overwrite, no_follow;
	double max_overhead;	/* percent; 0: no limit */
};
extern struct capture capture;

#define CAPTURE_OPTS \
	{ 'n', "count", "COUNT", OPT_NUMBER, &capture.most, "stop after that many events" }, \
	{ 0, "max-size", "SIZE", OPT_SIZE, &capture.max_size, "stop when the output has so many bytes, as 100M or 2G" }, \
	{ 0, "probe", "PLACE", OPT_LIST, &capture.places, "a probe at an address, symbol or symbol+offset" }, \
	{ 0, "function", "NAME", OPT_LIST, &capture.functions, "a probe at the entry of a function" }, \
	{ 't', "context", "CONTEXT", OPT_LIST, &capture.contexts, \
	  "a field for all probes: regs, reg:NAME, int:NAME:ADDR, string:NAME:ADDR, backtrace..." }, \
	{ 0, "buffer-size", "SIZE", OPT_SIZE, &capture.buffer_size, "bytes per CPU, as 512k or 4M" }, \
	{ 0, "max-overhead", "PERCENT", OPT_PERCENT, &capture.max_overhead, \
	  "switch the hottest probes off for a part of the time, so that no thread loses more than that" }, \
	{ 0, "no-follow", NULL, OPT_FLAG, &capture.no_follow, "leave programs executed and libraries loaded later alone" }

/* All probes, of all options. */
void capture_probes(const text_list *words, text_list *ret_probes);

/* A session that records events, with the fields of -t. */
int capture_new(struct jab **ret_jab);

/*
 * Drain until it is over: a signal, -d, -n, the end of the targets or an error. tick() is called after each
 * round; a value below 0 ends it. Returns as run_over() does, or the error.
 */
int capture_loop(struct jab *j, int (*tick)(void *arg, int64_t drained), void *arg, int *ret_status);

/* A sentence for each reason that events were lost for; also: what else may have become of them. */
void capture_say_lost(const struct jab_totals *t, const char *also);

/* Per probe: hits, recorded, lost. Text for people, or the JSON line of all commands. */
void capture_summary(struct jab *j, FILE *to, const struct jab_report *report);

#endif
