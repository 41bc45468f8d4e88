/* SPDX-License-Identifier: MIT */
#include "cmd/capture.h"

#include <inttypes.h>
#include <jab/symbols.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"

struct capture capture;

void capture_probes(const text_list *words, text_list *ret_probes)
{
	const text_list *lists[] = { words, &capture.places, &capture.functions };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (size_t k = 0; k < lists[i]->n; k++)
			*vec_add(ret_probes) = lists[i]->v[k];
}

static bool is_call(const char *probe)
{
	struct jab_spec *spec;
	bool is;

	if (jab_spec_parse(probe, &spec) < 0)
		return true;	/* jab_add_probe() says what is wrong with it */
	is = spec->kind == JAB_SPEC_CALL;
	jab_spec_free(spec);
	return is;
}

int capture_usage(const char *command, const text_list *probes)
{
	pid_t tid;

	for (size_t i = 0; i < capture.tids.n; i++)
		if (!is_pid(capture.tids.v[i], &tid)) {
			fprintf(stderr, "jab %s: '%s' is not a thread's number; try `jab %s --help`\n", command, capture.tids.v[i], command);
			return 2;
		}
	for (size_t i = 0; capture.slower && i < probes->n; i++)
		if (!is_call(probes->v[i])) {
			fprintf(stderr, "jab %s: --slower is for call probes, and '%s' is none: a call is written call:OBJECT:FUNCTION\n",
				command, probes->v[i]);
			return 2;
		}
	return 0;
}

/* A string of the language. */
static void put_string(FILE *f, const char *s)
{
	putc('"', f);
	for (; *s; s++)
		fprintf(f, strchr("\"\\", *s) || (unsigned char)*s < ' ' ? "\\x%02x" : "%c", (unsigned char)*s);
	putc('"', f);
}

/* --comm, --tid and --slower as an expression; NULL: none of them. Names as calls: the program may have variables of these names. */
static char *filter_condition(void)
{
	char *text = NULL;
	size_t size;
	FILE *f = xmemstream(&text, &size);

	for (size_t i = 0; i < capture.comms.n; i++) {
		fputs(i ? " || comm() == " : "(comm() == ", f);
		put_string(f, capture.comms.v[i]);
	}
	fputs(!capture.comms.n ? "" : capture.tids.n || capture.slower ? ") && " : ")", f);
	for (size_t i = 0; i < capture.tids.n; i++)
		fprintf(f, "%stid() == %s", i ? " || " : "(", capture.tids.v[i]);
	fputs(!capture.tids.n ? "" : capture.slower ? ") && " : ")", f);
	if (capture.slower)
		fprintf(f, "duration() >= %" PRIu64, capture.slower);
	fclose(f);
	if (*text)
		return text;
	free(text);
	return NULL;
}

static int64_t offset_at_start;	/* of the system's clock */

#define CLOCK_STEP_NS 10000000		/* less may be the time between two readings */

/* Times go on with the clock of the start; a reader who compares them with a log should know. */
static void say_clock_step(void)
{
	int64_t step = realtime_offset_ns() - offset_at_start;

	if (llabs(step) >= CLOCK_STEP_NS)
		log_warn("the system's clock was set %.3f s %s during the run; times of the day are those of the clock as it was at the start",
			 llabs(step) / 1e9, step > 0 ? "forward" : "back");
}

int capture_new(struct jab **ret_jab)
{
	char *condition = filter_condition();
	int r;

	struct jab_options o = {
		.size = sizeof(o), .log_level = log_level, .follow = !capture.no_follow, .events = true,
		.overwrite = capture.overwrite, .buffer_size = capture.buffer_size, .max_events = capture.most,
		.max_overhead = capture.max_overhead / 100,
		.context = (const char *const *)capture.contexts.v, .ncontext = capture.contexts.n,
		.condition = condition,
	};

	r = jab_new(&o, ret_jab);
	free(condition);
	offset_at_start = realtime_offset_ns();
	return r;
}

/* Whether the output has reached --max-size. */
static bool is_full(struct jab *j)
{
	return capture.max_size && (jab_get_totals(j)->full || capture.printed >= capture.max_size);
}

static bool enough(struct jab *j)
{
	if (is_full(j))
		return true;
	return capture.most && !capture.overwrite && jab_get_totals(j)->events >= capture.most;
}

static void wait_a_little(struct jab *j, uint64_t start)
{
	double left = run.duration - (now_ns() - start) / 1e9;

	jab_wait(j, run.duration < 0 ? UINT64_MAX : left > 0 ? (uint64_t)(left * 1e9) + 1000 : 1000);
}

int capture_loop(struct jab *j, int (*tick)(void *arg, int64_t drained), void *arg, int *ret_status)
{
	uint64_t start = now_ns();

	while (!run_interrupted) {
		int64_t drained = jab_dispatch(j);
		int over = run_over(j, start, ret_status), r = tick(arg, drained);

		if (r < 0)
			return r;
		if (over >= 0 || enough(j))
			return over > 0;
		wait_a_little(j, start);
	}
	return 0;
}

static int print_probe(void *arg, const struct jab_probe_info *p)
{
	char hits[24] = "-";

	if (p->not_placed)
		strcpy(hits, "not placed");
	else if (!p->uncounted)
		snprintf(hits, sizeof(hits), "%" PRIu64, p->hits);
	fprintf(arg, "%14s %14" PRIu64 " %14" PRIu64 "  ", hits, p->recorded, p->lost);
	print_safe(arg, p->probe);
	putc('\n', arg);
	return 0;
}

static void say_damaged(const struct jab_totals *t)
{
	if (t->damaged)
		log_warn("a buffer held invalid data, %" PRIu64 " times: %" PRIu64 " bytes were skipped, and count as one lost event "
			 "each time; the traced program may have written to the buffer", t->damaged, t->damaged_bytes);
}

void capture_say_lost(const struct jab_totals *t, const char *also)
{
	uint64_t lost = t->lost - MIN(t->no_stack + t->damaged, t->lost);

	if (t->no_stack)
		log_warn("%" PRIu64 " hits were left out, because the stack had too little room for what the probe does there",
			 t->no_stack);
	if (lost)
		log_warn("%" PRIu64 " events were lost%s; %s", lost, also,
			 t->timeless ? "a process has forbidden itself to read the time stamp counter" :
			 capture.write_failed ? "the trace could not be written for a time" : "a larger --buffer-size may help");
	say_damaged(t);
}

void capture_summary(struct jab *j, FILE *to, const struct jab_report *report)
{
	struct jab_totals t = *jab_get_totals(j);

	if (run.json) {
		run_json_summary(j, to, report, true);
	} else {
		fprintf(to, "%14s %14s %14s  %s\n", "HITS", "RECORDED", "LOST", "PROBE");
		jab_each_probe(j, print_probe, to);
		run_say_times(j, report);
	}
	jab_log_faults(j);
	run_say_refused(j);
	jab_log_hints(j);
	if (is_full(j) && t.lost)
		log_warn("ended by --max-size; %" PRIu64 " more events happened until the probes were removed, or were lost before", t.lost);
	else if (is_full(j))
		log_warn("ended by --max-size");
	else if (t.lost && enough(j))
		log_warn("ended by -n; %" PRIu64 " more events happened before the probes were removed", t.lost);
	if (enough(j))
		say_damaged(&t);
	else
		capture_say_lost(&t, "");
	run_say_report(j, report);
	say_clock_step();
}
