/* SPDX-License-Identifier: MIT */
/*
 * jab record: writes events to a trace. With --overwrite they stay in memory, and a snapshot writes the newest of them to a
 * trace. The first snapshot has the name of -o, later ones a number after it.
 */
#include "cmd/record.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "cmd/capture.h"

static const char *snapshot_on;

static const struct opt opts[] = {
	RUN_TARGETS,
	CAPTURE_OPTS,
	{ 'o', "output", "DIR", OPT_TEXT, &run.output, "the trace (./jab-NAME-TIME); - or fd:N: an archive for tar" },
	{ 0, "overwrite", NULL, OPT_FLAG, &capture.overwrite, "keep the newest events only, until a snapshot" },
	{ 0, "snapshot-on", "EXIT|CRASH|SIGNAL", OPT_TEXT, &snapshot_on, "when to take a snapshot; SIGUSR1 always takes one" },
	RUN_PLACING,
	{ 0 }
};

struct recording {
	struct jab *j;
	struct output out;
	enum snapshot_when when;
	int signal;			/* the signal that requests a snapshot */
	uint64_t start, shown_at, shown_events;
	bool progress;
	int failed;			/* error of the last write that failed */
	bool over;			/* the run has ended and the probes are removed; the command of -c may still run */
	int ended, status;		/* results of capture_loop() */
};

static volatile sig_atomic_t snapshots_wanted;

static void on_snapshot(int sig)
{
	(void)sig;
	snapshots_wanted++;
}

static void show_progress(struct recording *r)
{
	uint64_t now = now_ns();
	struct jab_totals t;

	if (!r->progress || now - r->shown_at < 500000000)
		return;
	t = *jab_get_totals(r->j);
	fprintf(stderr, "\r%.0f s: %" PRIu64 " events, %.0f/s, %.1f MB, %" PRIu64 " lost\033[K", (now - r->start) / 1e9,
		t.events, r->shown_at ? (t.events - r->shown_events) * 1e9 / (now - r->shown_at) : 0.0, t.bytes / 1e6, t.lost);
	fflush(stderr);
	r->shown_at = now;
	r->shown_events = t.events;
}

/* Erases the progress line before other output. */
static void clear_progress(const struct recording *r)
{
	if (r->progress)
		fputs("\r\033[K", stderr);
}

/* After a failed write. A full disk may have room later, so the run goes on; a closed pipe ends it. */
static int write_failed(struct recording *r, int err)
{
	if (err == r->failed && err != -EPIPE)
		return 0;
	r->failed = err;
	capture.write_failed |= err < 0;
	clear_progress(r);
	if (err == -EPIPE) {
		log_warn("the reader of %s has closed it: the recording ends", r->out.name);
		return err;
	}
	log_warn("%s; events are lost until it can be written again", jab_error(r->j));
	return 0;
}

static int tick(void *arg, int64_t drained)
{
	struct recording *r = arg;

	if (drained < 0) {
		int err = write_failed(r, drained);

		if (err < 0)
			return err;
	}
	if (snapshots_wanted) {
		snapshots_wanted = 0;
		clear_progress(r);
		if (!capture.overwrite)
			log_warn("a snapshot can be taken with --overwrite only; everything is being recorded anyway");
		else if (output_snapshot(&r->out, r->j) < 0)
			complain(r->j);
	}
	show_progress(r);
	return 0;
}

/* Whether a snapshot is to be taken at the end of the run. */
static bool wants_last(const struct recording *r, bool ended, int status)
{
	if (!capture.overwrite)
		return false;
	switch (r->when) {
	case SNAPSHOT_EXIT:
		return ended || !jab_alive(r->j);
	case SNAPSHOT_CRASH:
		return ended ? WIFSIGNALED(status) : !jab_alive(r->j);
	case SNAPSHOT_SIGNAL:
		return false;
	default:
		return true;
	}
}

static void say_result(struct recording *r)
{
	struct jab_totals t = *jab_get_totals(r->j);

	if (!capture.overwrite && t.bytes < 100000)
		log_warn("%" PRIu64 " events, %.1f kB in %s", t.events, t.bytes / 1e3, r->out.name);
	else if (!capture.overwrite)
		log_warn("%" PRIu64 " events, %.1f MB in %s", t.events, t.bytes / 1e6, r->out.name);
	else if (!r->out.snapshots)
		log_warn("no snapshot was taken, so there is no trace");
}

static int record(struct recording *r)
{
	struct jab_report report;
	int removed, bad = 0;
	bool last;

	r->start = now_ns();
	r->progress = !run.json && isatty(STDERR_FILENO);
	r->ended = capture_loop(r->j, tick, r, &r->status);
	clear_progress(r);
	last = wants_last(r, r->ended > 0, r->status);
	removed = jab_remove(r->j);
	report = *jab_get_report(r->j);
	if (r->ended != -EPIPE) {
		int64_t n = jab_dispatch(r->j);

		bad = n < 0 ? n : 0;
	}
	if (last && output_snapshot(&r->out, r->j) < 0)
		bad = -EIO;
	if (bad < 0)
		complain(r->j);
	capture_summary(r->j, run.json && !r->out.is_stdout ? stdout : stderr, &report);
	say_result(r);
	if (removed < 0)
		return run_still_in(r->j);
	r->over = true;
	return bad < 0 || r->failed < 0;
}

static int begin(struct recording *r, const text_list *probes, char **rest)
{
	int e = run.dry_run ? 0 : output_open(&r->out, r->j, run.output, rest);

	if (e == 0 && !run.dry_run && !capture.overwrite) {
		e = jab_write_to(r->j, r->out.trace);
		r->out.written = e == 0;
	}
	if (e == 0)
		e = run_targets(r->j, rest);
	if (e == 0)
		e = run_place(r->j, probes);
	return e;
}

/* 0, or 2 after a message. */
static int check_options(struct recording *r)
{
	r->signal = SIGUSR1;
	if (capture.overwrite && capture.max_size) {
		fprintf(stderr, "jab record: a snapshot is as large as the buffers, so --max-size does not go with --overwrite; "
			"try `jab record --help`\n");
		return 2;
	}
	if (capture.overwrite && capture.most) {
		fprintf(stderr, "jab record: a snapshot has all events of the buffers, so -n does not go with --overwrite; "
			"try `jab record --help`\n");
		return 2;
	}
	if (!snapshot_on)
		return 0;
	if (!capture.overwrite) {
		fprintf(stderr, "jab record: --snapshot-on goes with --overwrite; try `jab record --help`\n");
		return 2;
	}
	if (snapshot_parse(snapshot_on, &r->when, &r->signal))
		return 0;
	fprintf(stderr, "jab record: --snapshot-on takes EXIT, CRASH, SIGNAL or a signal's name, not '%s'\n", snapshot_on);
	return 2;
}

static int record_from_start(struct recording *r, const text_list *probes, char **rest)
{
	struct sigaction sa = { .sa_handler = on_snapshot };
	int status, child;

	run_catch_signals();
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(r->signal, &sa, NULL);
	if (capture_new(&r->j) < 0)
		return complain(NULL);
	status = begin(r, probes, rest) < 0 ? complain(r->j) : 0;
	if (status)
		r->out.unused = true;
	else
		status = run.dry_run ? run_say_plan(r->j, stdout, RUN_EVENTS) : record(r);
	if (output_close(&r->out) < 0 && r->failed >= 0 && !r->out.unused) {
		status = complain(r->j);
		r->over = false;
	}
	child = r->over ? run_child_status(r->j, stdout, r->ended > 0, r->status) : 0;
	status = child ? child : status;
	jab_free(r->j);
	return status;
}

static int run_record(text_list *words, char **rest)
{
	struct recording r = { .out = { .fd = -1 } };
	text_list probes = { 0 };
	int status;

	capture_probes(words, &probes);
	status = run_usage("record", probes.n, rest);
	if (!status)
		status = capture_usage("record", &probes);
	if (!status)
		status = check_options(&r);
	if (!status)
		status = record_from_start(&r, &probes, rest);
	vec_free(&probes);
	return status;
}

const struct command cmd_record = {
	"record", "(-p PID|NAME | -c CMD) [OPTIONS] [-o DIR] PROBE... [-- CMD ARGS]",
	"Write events to a trace for `jab view`, babeltrace2 or Trace Compass.", opts, run_record
};
