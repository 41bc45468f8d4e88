/* SPDX-License-Identifier: MIT */
/* jab trace: events as lines, as they happen. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "cmd/capture.h"

static bool plain;

static const struct opt opts[] = {
	RUN_TARGETS,
	CAPTURE_OPTS,
	{ 'o', "output", "FILE", OPT_TEXT, &run.output, "write our output there instead of stdout" },
	{ 0, "no-colour", NULL, OPT_FLAG, &plain, "no colours on a terminal either" },
	RUN_PLACING,
	{ 0 }
};

struct printing {
	struct jab *j;
	FILE *to;
	struct trace_style style;
	uint64_t printed;
	bool done;		/* -n, or nobody reads any more */
	uint64_t warned_at, warned_lost;
};

/* The function of a return address is that of the call in front of it: look there, count from here. */
static size_t address_name(void *arg, const struct trace_event *ev, uint64_t address, bool is_return, char *out,
			   size_t room)
{
	struct printing *p = arg;
	const char *text = events_address(p->j, ev->pid, address - is_return), *plus = strrchr(text, '+');
	uint64_t off = 0;
	size_t name = strlen(text);
	char *end = NULL;
	int n;

	if (!name)
		return 0;
	if (plus && plus[1] == '0')
		off = strtoull(plus + 1, &end, 16);
	if (end && !*end)
		name = plus - text;
	else
		off = 0;
	off += is_return;
	n = snprintf(out, room, off ? "%.*s+%#" PRIx64 : "%.*s", (int)name, text, off);
	return n < 0 ? 0 : MIN((size_t)n, room - 1);
}

static const char *comm_of(void *arg, const struct trace_event *ev)
{
	struct printing *p = arg;

	return events_comm(p->j, ev->pid, ev->tid);
}

static int print_event(void *arg, const struct trace_event *ev)
{
	struct printing *p = arg;
	int n;

	if (p->done)
		return -ECANCELED;
	errno = 0;
	n = trace_print(p->to, ev, &p->style);
	if (n < 0)
		output_failed();
	else
		capture.printed += n;
	if (n < 0 || ++p->printed == capture.most || (capture.max_size && capture.printed >= capture.max_size))
		p->done = true;
	return p->done ? -ECANCELED : 0;
}

/* Losses should be known while there is time to do something about them, but not at every turn. */
static void warn_losses(struct printing *p)
{
	struct events_totals t;

	if (now_ns() - p->warned_at < 2000000000)
		return;
	p->warned_at = now_ns();
	events_totals(p->j, &t);
	if (t.lost > p->warned_lost)
		log_warn("%" PRIu64 " events lost so far", t.lost);
	p->warned_lost = t.lost;
}

static int tick(void *arg, int64_t drained)
{
	struct printing *p = arg;

	if (drained && fflush(p->to))
		output_failed();
	if (p->done || ferror(p->to))
		return -ECANCELED;
	warn_losses(p);
	return drained < 0 ? drained : 0;
}

static int trace(struct printing *p)
{
	struct jab_report report = { .clean = true };
	int status = 0, ended = capture_loop(p->j, tick, p, &status), r, r2 = 0;

	r = jab_remove(p->j, &report);
	if (!p->done && ended >= 0)
		r2 = events_drain(p->j, true) < 0 ? -EIO : 0;
	if (fflush(p->to))
		output_failed();
	capture_summary(p->j, run.json ? p->to : stderr, &report);
	if (r < 0)
		return run_still_in();
	if ((ended < 0 && ended != -ECANCELED) || (r2 < 0 && !p->done))
		return complain();
	return run_child_status(p->j, p->to, ended > 0, status);
}

static int trace_from_start(struct printing *p, const text_list *probes, char **rest)
{
	int r;

	run_catch_signals();
	run.announce = true;
	p->style = (struct trace_style){ run.json, !plain && !run.json && is_colourful(p->to), address_name, comm_of, p };
	jab_new(&p->j);
	r = capture_begin(p->j);
	if (r == 0) {
		events_call(p->j, print_event, p);
		r = run_targets(p->j, rest);
	}
	if (r == 0)
		r = run_place(p->j, probes);
	r = r < 0 ? complain() : run.dry_run ? run_say_plan(p->j, p->to, RUN_EVENTS) : trace(p);
	jab_free(p->j);
	return r;
}

static int run_trace(text_list *words, char **rest)
{
	struct printing p = { .to = stdout };
	text_list probes = { 0 };
	int r;

	capture_probes(words, &probes);
	r = run_usage("trace", probes.n, rest);
	if (!r && run.output && !(p.to = output_create(run.output)))
		r = complain();
	if (!r)
		r = trace_from_start(&p, &probes, rest);
	vec_free(&probes);
	if (p.to == stdout || !p.to)
		return r;
	r = output_status(p.to, run.output, r);
	fclose(p.to);
	return r;
}

const struct command cmd_trace = {
	"trace", "(-p PID|NAME | -c CMD) [OPTIONS] PROBE... [-- CMD ARGS]", "Print events as they happen.", opts, run_trace
};
