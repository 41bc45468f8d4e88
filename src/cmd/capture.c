/* SPDX-License-Identifier: MIT */
#include "cmd/capture.h"

#include <inttypes.h>
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

int capture_new(struct jab **ret_jab)
{
	struct jab_options o = {
		.size = sizeof(o), .log_level = log_level, .follow = !capture.no_follow, .events = true,
		.overwrite = capture.overwrite, .buffer_size = capture.buffer_size, .max_events = capture.most,
		.max_overhead = capture.max_overhead / 100,
		.context = (const char *const *)capture.contexts.v, .ncontext = capture.contexts.n,
	};

	if (capture.max_overhead && capture.contexts.n)
		return fail(-EINVAL, "--max-overhead and -t don't go together: write the fields after the probe");
	return jab_new(&o, ret_jab);
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
}
