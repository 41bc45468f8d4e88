/* SPDX-License-Identifier: MIT */
/* jab view: prints a trace, a part of it, or statistics of it. */
#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/err.h"
#include "cmd/common.h"
#include "cmd/view.h"

static const char *from_text, *to_text, *output;
static text_list tids, pids, cpus, probes;
static uint64_t most;
#define NS_PER_S 1000000000ll

static bool json, stats, with_fields;

static const struct opt opts[] = {
	{ 0, "from", "TIME", OPT_TEXT, &from_text, "from this time on: seconds as printed, or +S from the start" },
	{ 0, "to", "TIME", OPT_TEXT, &to_text, "up to this time" },
	{ 't', "tid", "TID", OPT_LIST, &tids, "events of this thread; may be repeated, as the next three" },
	{ 'p', "pid", "PID", OPT_LIST, &pids, "events of this process" },
	{ 0, "probe", "GLOB", OPT_LIST, &probes, "events of probes whose names match" },
	{ 0, "cpu", "CPU", OPT_LIST, &cpus, "events on this CPU" },
	{ 'n', "count", "COUNT", OPT_NUMBER, &most, "stop after that many events" },
	{ 's', "stats", NULL, OPT_FLAG, &stats, "statistics per probe, thread and stream instead of events" },
	{ 0, "fields", NULL, OPT_FLAG, &with_fields, "with --stats: least, average and largest of each number" },
	{ 'o', "output", "FILE", OPT_TEXT, &output, "write there instead of stdout" },
	{ 0, "json", NULL, OPT_FLAG, &json, "one JSON object a line" },
	LOOK_TIME,
	LOOK_NAMES,
	LOOK_COLOUR,
	{ 'v', "verbose", NULL, OPT_MORE, &log_level, "print facts about the trace; show jab's own events, too" },
	{ 0 }
};

struct filter {
	VEC(uint32_t) tids, pids, cpus;
	int64_t from, to;
	bool from_start, to_start;	/* `from`, `to` count from the first event */
	bool started;
	int8_t *chosen;			/* by event id: 1 yes, -1 no, 0 not known yet */
	size_t nchosen;
};

/* "12.5" or "+12.5" -> nanoseconds, exactly. */
static bool parse_time(const char *text, int64_t *ret_ns, bool *ret_relative)
{
	const char *p = text + (*text == '+' || *text == '-');
	uint64_t s = 0, ns = 0;
	int digits = 0;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		if (s > 9000000000 || (s = s * 10 + (*p - '0')) > 9000000000)
			return false;
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++)
			if (digits++ < 9)
				ns = ns * 10 + (*p - '0');
	for (; digits < 9; digits++)
		ns *= 10;
	if (*p)
		return false;
	*ret_relative = *text == '+';
	*ret_ns = (*text == '-' ? -1 : 1) * (int64_t)(s * NS_PER_S + ns);
	return true;
}

static bool parse_number(const char *text, uint32_t *ret)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(text, &end, 0);
	*ret = n;
	return end != text && !*end && !errno && *text != '-' && n <= UINT32_MAX;
}

static int wrong(const char *what, const char *word)
{
	fprintf(stderr, "jab view: %s '%s'; try `jab view --help`\n", what, word);
	return 2;
}

#define TAKE_NUMBERS(list, to) \
	for (size_t i = 0; i < (list).n; i++) \
		if (!parse_number((list).v[i], vec_add(to))) \
			return wrong("not a valid number:", (list).v[i])

static int filter_make(struct filter *f)
{
	TAKE_NUMBERS(tids, &f->tids);
	TAKE_NUMBERS(pids, &f->pids);
	TAKE_NUMBERS(cpus, &f->cpus);
	f->from = INT64_MIN;
	f->to = INT64_MAX;
	if (from_text && !parse_time(from_text, &f->from, &f->from_start))
		return wrong("not a time:", from_text);
	if (to_text && !parse_time(to_text, &f->to, &f->to_start))
		return wrong("not a time:", to_text);
	return 0;
}

static void filter_free(struct filter *f)
{
	vec_free(&f->tids);
	vec_free(&f->pids);
	vec_free(&f->cpus);
	free(f->chosen);
}

/* Whether a glob matches an event's name, also without the suffix of the library: libc:malloc is libc.so.6:malloc. */
static bool is_named(const char *glob, const char *name)
{
	const char *colon = strchr(name, ':'), *so = strstr(name, ".so");
	char *brief;
	bool same;

	if (!fnmatch(glob, name, 0))
		return true;
	if (!colon || !so || so > colon)
		return false;
	brief = xasprintf("%.*s%s", (int)(so - name), name, colon);
	same = !fnmatch(glob, brief, 0);
	free(brief);
	return same;
}

/* Whether --probe selects the event. jab's own events are shown only with -v, or if their name is given. */
static bool matches(const struct jab_event *ev)
{
	if (!probes.n)
		return !ev->is_own || log_level > 0;
	for (size_t i = 0; i < probes.n; i++)
		if (is_named(probes.v[i], ev->name))
			return true;
	return false;
}

static bool is_chosen(struct filter *f, const struct jab_event *ev)
{
	size_t id = ev->is_own ? 0 : 1 + (size_t)ev->id;

	if (id >= f->nchosen) {
		size_t n = MAX(id + 1, 2 * f->nchosen);

		f->chosen = xrealloc(f->chosen, n);
		memset(f->chosen + f->nchosen, 0, n - f->nchosen);
		f->nchosen = n;
	}
	if (!f->chosen[id] || !id)
		f->chosen[id] = matches(ev) ? 1 : -1;
	return f->chosen[id] > 0;
}

static bool in_list(const uint32_t *v, size_t n, uint32_t what)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] == what)
			return true;
	return !n;
}

static void start_at(struct filter *f, int64_t ns)
{
	if (f->from_start)
		f->from += ns;
	if (f->to_start)
		f->to += ns;
	f->started = true;
}

/* 1: the event is selected; 0: it is not; -1: neither it nor any later event is. */
static int filter_event(struct filter *f, const struct jab_event *ev)
{
	if (!f->started && !ev->is_own)
		start_at(f, ev->ns);
	if (f->started && ev->ns > f->to)
		return -1;
	return (f->started ? ev->ns >= f->from : !f->from_start && ev->ns >= f->from) && is_chosen(f, ev) &&
	       in_list(f->tids.v, f->tids.n, ev->tid) && in_list(f->pids.v, f->pids.n, ev->pid) &&
	       in_list(f->cpus.v, f->cpus.n, ev->cpu);
}

static void add_missing(void *arg, const char *path, const char *why)
{
	log_info("no symbols from %s: it %s", path, why);
}

static void describe(struct jab_trace *t, const char *path)
{
	const struct jab_trace_info *i = jab_trace_get_info(t);

	log_info("%s: by jab %s on %s, format %s", path, jab_trace_env(t, "tracer_version"), jab_trace_env(t, "hostname"),
		 jab_trace_env(t, "trace_format"));
	log_info("command: %s", jab_trace_env(t, "command"));
	log_info("%" PRIu64 " kinds of events, %" PRIu64 " streams, clock of %" PRIu64 " Hz, times are CLOCK_MONOTONIC (real time is "
		 "%" PRId64 ".%09d s more)", i->classes, i->streams, i->clock_hz, (int64_t)(i->realtime_ns / NS_PER_S),
		 (int)(i->realtime_ns % NS_PER_S));
}

static int each_event(struct jab_trace *t, struct filter *f, unsigned int style, struct view_stats *sums, FILE *to,
		      uint64_t *ret_shown)
{
	const struct jab_event *ev;
	uint64_t shown = 0;
	int r = 0, want;

	while (r == 0 && (ev = jab_trace_next(t))) {
		want = filter_event(f, ev);
		if (want < 0)
			break;
		if (!want)
			continue;
		if (sums)
			stats_add(sums, ev, jab_event_comm(ev));
		else
			r = MIN(jab_event_print(ev, to, style), 0);
		if (++shown == most)
			break;
	}
	*ret_shown = shown;
	return r;
}

static int say_damage(void *arg, const struct jab_stream *s)
{
	if (s->damaged)
		log_warn("%s: damaged: %s%s; its valid events were shown", (const char *)arg, s->damage, s->damaged > 1 ? ", and more" : "");
	return 0;
}

/* Prints the JSON summary and warnings of losses and damage. Returns the exit status: 1 if the trace is damaged. */
static int say_rest(struct jab_trace *t, const char *path, uint64_t shown, FILE *to)
{
	struct jab_trace_info totals = *jab_trace_get_info(t);

	if (json && !stats)
		fprintf(to, "{\"summary\":{\"events\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"damaged\":%" PRIu64 "}}\n",
			shown, totals.lost, totals.damaged);
	fflush(to);
	if (totals.lost && !stats)
		log_warn("%s: %" PRIu64 " events were lost while it was recorded (--stats shows in which streams)", path, totals.lost);
	jab_trace_each_stream(t, say_damage, (void *)path);
	return totals.damaged ? 1 : 0;
}

static int view(const char *path, struct filter *f, FILE *to)
{
	unsigned int style = look_flags(to, json);
	struct view_stats *sums = stats ? stats_new(with_fields) : NULL;
	struct jab_trace *t = NULL;
	uint64_t shown = 0;
	int r = jab_trace_open(path, &t);

	if (r == 0) {
		if (log_level > 0)
			describe(t, path);
		if (from_text && !f->from_start && !f->to_start)
			jab_trace_seek(t, f->from);
		if (each_event(t, f, style, sums, to, &shown) < 0)
			output_failed();
		if (sums)
			(json ? stats_json : stats_print)(sums, t, to);
		jab_trace_each_missing(t, add_missing, NULL);
		r = say_rest(t, path, shown, to);
	}
	stats_free(sums);
	jab_trace_close(t);
	return r;
}

static int run(text_list *words, char **rest)
{
	struct filter f = { 0 };
	FILE *to = stdout;
	int r;

	if (words->n != 1 || rest) {
		fprintf(stderr, "jab view: %s; try `jab view --help`\n", words->n ? "more than one trace given" : "no trace given");
		return 2;
	}
	r = look_usage("view");
	if (!r)
		r = filter_make(&f);
	if (r == 0 && output && !(to = output_create(output)))
		r = -1;
	if (r == 0) {
		if (!isatty(fileno(to)))
			setvbuf(to, NULL, _IOFBF, 1 << 18);
		r = view(words->v[0], &f, to);
	}
	r = r < 0 ? complain(NULL) : r;
	filter_free(&f);
	if (to == stdout || !to)
		return r;
	r = output_status(to, output, r);
	fclose(to);
	return r;
}

const struct command cmd_view = {
	"view", "[OPTIONS] DIR", "Print a trace that jab record made, or statistics of it.", opts, run
};
