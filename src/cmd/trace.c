/* SPDX-License-Identifier: MIT */
/* jab trace: prints events as lines, as they happen. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "cmd/capture.h"

static const struct opt opts[] = {
	RUN_TARGETS,
	CAPTURE_OPTS,
	{ 'o', "output", "FILE", OPT_TEXT, &run.output, "write our output there instead of stdout" },
	LOOK_TIME,
	LOOK_NAMES,
	LOOK_COLOUR,
	RUN_PLACING,
	{ 0 }
};

struct printing {
	struct jab *j;
	FILE *to;
	unsigned int style;	/* of jab_event_print() */
	uint64_t printed;
	bool done;		/* -n was reached, or the output can't be written any more */
	uint64_t warned_at, warned_lost;
};

static int print_event(void *arg, const struct jab_event *ev)
{
	struct printing *p = arg;
	int n;

	if (p->done)
		return -ECANCELED;
	errno = 0;
	n = jab_event_print(ev, p->to, p->style);
	if (n < 0)
		output_failed();
	else
		capture.printed += n;
	if (n < 0 || ++p->printed == capture.most || (capture.max_size && capture.printed >= capture.max_size))
		p->done = true;
	return p->done ? -ECANCELED : 0;
}

/* Warns of new losses while the run goes on, at most every two seconds. */
static void warn_losses(struct printing *p)
{
	uint64_t lost;

	if (now_ns() - p->warned_at < 2000000000)
		return;
	p->warned_at = now_ns();
	lost = jab_get_totals(p->j)->lost;
	if (lost > p->warned_lost)
		log_warn("%" PRIu64 " events lost so far", lost);
	p->warned_lost = lost;
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
	struct jab_report report;
	int status = 0, ended = capture_loop(p->j, tick, p, &status), r, r2 = 0;

	r = jab_remove(p->j);
	report = *jab_get_report(p->j);
	if (!p->done && ended >= 0)
		r2 = jab_dispatch(p->j) < 0 ? -EIO : 0;
	if (fflush(p->to))
		output_failed();
	capture_summary(p->j, run.json ? p->to : stderr, &report);
	if (r < 0)
		return run_still_in(p->j);
	if ((ended < 0 && ended != -ECANCELED) || (r2 < 0 && !p->done))
		return complain(p->j);
	return run_child_status(p->j, p->to, ended > 0, status);
}

static int trace_from_start(struct printing *p, const text_list *probes, char **rest)
{
	int r;

	run_catch_signals();
	run.announce = true;
	p->style = look_flags(p->to, run.json);
	if (capture_new(&p->j) < 0)
		return complain(NULL);
	r = jab_on_event(p->j, print_event, p);
	if (r == 0)
		r = run_targets(p->j, rest);
	if (r == 0)
		r = run_place(p->j, probes);
	r = r < 0 ? complain(p->j) : run.dry_run ? run_say_plan(p->j, p->to, RUN_EVENTS) : trace(p);
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
	if (!r)
		r = look_usage("trace");
	if (!r)
		r = capture_usage("trace", &probes);
	if (!r && run.output && !(p.to = output_create(run.output)))
		r = complain(NULL);
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
