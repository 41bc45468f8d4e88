/* SPDX-License-Identifier: MIT */
/* jab view --stats: number, first and last time and rate of events per probe; number per thread and stream. */
#include "cmd/view.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "base/text.h"
#include "cmd/common.h"

#define MOST_THREADS 30
#define OWN_CLASSES 8	/* room for jab's own event classes */

/* Doubles: exact for whole numbers up to 2^53, which is enough for an average. */
struct field_sum {
	char *name;
	uint64_t n;
	double min, max, sum;
};

struct probe_sum {
	char *name;
	uint64_t events;
	int64_t first, last;
	struct field_sum *fields;
	size_t nfields;
};

struct thread_sum {
	uint32_t pid, tid;
	uint64_t events;
	char comm[16];
};

struct view_stats {
	bool with_fields;
	VEC(struct probe_sum) probes;		/* jab's own classes first, then by event id */
	VEC(struct thread_sum) threads;
	uint32_t *hash;				/* hash table: index in threads + 1; 0: empty */
	size_t nhash;
};

struct view_stats *stats_new(bool with_fields)
{
	struct view_stats *s = xcalloc(1, sizeof(*s));

	s->with_fields = with_fields;
	return s;
}

static void add_number(struct field_sum *f, double v)
{
	if (!isfinite(v))
		return;
	f->min = f->n ? MIN(f->min, v) : v;
	f->max = f->n ? MAX(f->max, v) : v;
	f->sum += v;
	f->n++;
}

static void add_fields(struct probe_sum *p, const struct jab_event *ev)
{
	const struct jab_value *v;

	if (!p->fields) {
		p->fields = xcalloc(ev->nfields, sizeof(*p->fields));
		p->nfields = ev->nfields;
	}
	for (size_t i = 0; (v = jab_event_value(ev, i)); i++) {
		if (v->is_array || v->fault != JAB_READ_WELL ||
		    (v->kind != JAB_SIGNED && v->kind != JAB_UNSIGNED && v->kind != JAB_FLOAT))
			continue;
		if (!p->fields[i].name)
			p->fields[i].name = xstrdup(v->name);
		add_number(&p->fields[i], v->kind == JAB_FLOAT ? v->f : v->kind == JAB_SIGNED ? (double)v->i : (double)v->u);
	}
}

static void add_probe(struct view_stats *s, const struct jab_event *ev)
{
	/* jab's own classes have very large ids: they come first */
	size_t i = ev->is_own ? (ev->id & 0xff) % OWN_CLASSES : OWN_CLASSES + ev->id;
	struct probe_sum *p;

	while (s->probes.n <= i)
		(void)vec_add(&s->probes);
	p = &s->probes.v[i];
	if (!p->events++) {
		p->name = xstrdup(ev->name);
		p->first = ev->ns;
	}
	p->last = ev->ns;
	if (s->with_fields && ev->nfields)
		add_fields(p, ev);
}

static size_t hash_of(const struct view_stats *s, uint32_t pid, uint32_t tid)
{
	return (tid * 0x9e3779b97f4a7c15ull ^ pid * 0xc2b2ae3d27d4eb4full) >> 20 & (s->nhash - 1);
}

static void grow_hash(struct view_stats *s)
{
	s->nhash = s->nhash ? 4 * s->nhash : 256;
	free(s->hash);
	s->hash = xcalloc(s->nhash, sizeof(*s->hash));
	for (uint32_t i = 0; i < s->threads.n; i++) {
		size_t at = hash_of(s, s->threads.v[i].pid, s->threads.v[i].tid);

		while (s->hash[at])
			at = (at + 1) & (s->nhash - 1);
		s->hash[at] = i + 1;
	}
}

static struct thread_sum *find_thread(struct view_stats *s, uint32_t pid, uint32_t tid)
{
	struct thread_sum *t;
	size_t at;

	if (2 * s->threads.n >= s->nhash)
		grow_hash(s);
	for (at = hash_of(s, pid, tid); s->hash[at]; at = (at + 1) & (s->nhash - 1)) {
		t = &s->threads.v[s->hash[at] - 1];
		if (t->pid == pid && t->tid == tid)
			return t;
	}
	t = vec_add(&s->threads);
	t->pid = pid;
	t->tid = tid;
	s->hash[at] = s->threads.n;
	return t;
}

void stats_add(struct view_stats *s, const struct jab_event *ev, const char *comm)
{
	struct thread_sum *t = find_thread(s, ev->pid, ev->tid);

	add_probe(s, ev);
	t->events++;
	if (*comm)
		snprintf(t->comm, sizeof(t->comm), "%s", comm);
}

static int by_events(const void *a, const void *b)
{
	const struct thread_sum *x = a, *y = b;

	if (x->events != y->events)
		return x->events < y->events ? 1 : -1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int by_hits(const void *a, const void *b)
{
	const struct probe_sum *x = a, *y = b;

	if (x->events != y->events)
		return x->events < y->events ? 1 : -1;
	return x->first < y->first ? -1 : x->first > y->first;
}

/* Invalidates the hash table. */
static void sort_all(struct view_stats *s)
{
	if (s->probes.n)
		qsort(s->probes.v, s->probes.n, sizeof(*s->probes.v), by_hits);
	if (s->threads.n)
		qsort(s->threads.v, s->threads.n, sizeof(*s->threads.v), by_events);
}

/* Events per second between the first and the last one; 0 for a single event. */
static double rate(const struct probe_sum *p)
{
	return p->last > p->first ? (p->events - 1) * 1e9 / (p->last - p->first) : 0;
}

static void print_fields(const struct probe_sum *p, FILE *to)
{
	for (size_t i = 0; i < p->nfields; i++) {
		const struct field_sum *f = &p->fields[i];

		if (!f->n)
			continue;
		fprintf(to, "%14s    ", "");
		print_safe(to, f->name);
		fprintf(to, ": least %.15g, average %.6g, largest %.15g\n", f->min, f->sum / f->n, f->max);
	}
}

static int print_stream(void *arg, const struct jab_stream *s)
{
	if (!s->is_own)
		fprintf(arg, s->cpu == JAB_NO_CPU ? "%14" PRIu64 " %14" PRIu64 "  %u\n" : "%14" PRIu64 " %14" PRIu64 "  %u (CPU %u)\n",
			s->events, s->lost, s->stream, s->cpu);
	return 0;
}

void stats_print(struct view_stats *s, struct jab_trace *t, FILE *to)
{
	sort_all(s);
	fprintf(to, "%14s %19s %19s %12s  %s\n", "EVENTS", "FIRST", "LAST", "PER SECOND", "PROBE");
	for (size_t i = 0; i < s->probes.n && s->probes.v[i].events; i++) {
		const struct probe_sum *p = &s->probes.v[i];

		fprintf(to, "%14" PRIu64 " %19.9f %19.9f %12.0f  ", p->events, p->first / 1e9, p->last / 1e9, rate(p));
		print_safe(to, p->name);
		putc('\n', to);
		print_fields(p, to);
	}
	fprintf(to, "\n%14s  %s\n", "EVENTS", "THREAD");
	for (size_t i = 0; i < MIN(s->threads.n, MOST_THREADS); i++) {
		const struct thread_sum *one = &s->threads.v[i];

		fprintf(to, "%14" PRIu64 "  %u/%u ", one->events, one->pid, one->tid);
		print_safe(to, one->comm);
		putc('\n', to);
	}
	if (s->threads.n > MOST_THREADS)
		fprintf(to, "%14s  %zu more threads (--json has all)\n", "", s->threads.n - MOST_THREADS);
	fprintf(to, "\n%14s %14s  %s\n", "IN STREAM", "LOST", "STREAM");
	jab_trace_each_stream(t, print_stream, to);
}

static void json_fields(const struct probe_sum *p, FILE *to)
{
	bool more = false;

	fputs(",\"fields\":{", to);
	for (size_t i = 0; i < p->nfields; i++) {
		const struct field_sum *f = &p->fields[i];

		if (!f->n)
			continue;
		fputs(more ? "," : "", to);
		more = true;
		json_text(to, f->name);
		fprintf(to, ":{\"min\":%.17g,\"avg\":%.17g,\"max\":%.17g}", f->min, f->sum / f->n, f->max);
	}
	putc('}', to);
}

static void json_probe(const struct view_stats *s, const struct probe_sum *p, FILE *to)
{
	putc('{', to);
	json_pair(to, "probe", p->name, true);
	fprintf(to, ",\"events\":%" PRIu64 ",\"first\":%" PRId64 ",\"last\":%" PRId64 ",\"rate\":%.3f", p->events, p->first,
		p->last, rate(p));
	if (s->with_fields)
		json_fields(p, to);
	fputs("}\n", to);
}

static int json_stream(void *arg, const struct jab_stream *s)
{
	if (s->is_own)
		return 0;
	fprintf(arg, "{\"stream\":%u,\"cpu\":", s->stream);
	fprintf(arg, s->cpu == JAB_NO_CPU ? "null" : "%u", s->cpu);
	fprintf(arg, ",\"events\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"damaged\":%" PRIu64 "}\n", s->events, s->lost, s->damaged);
	return 0;
}

void stats_json(struct view_stats *s, struct jab_trace *t, FILE *to)
{
	const struct jab_trace_info *totals = jab_trace_get_info(t);
	uint64_t events = 0;

	sort_all(s);
	for (size_t i = 0; i < s->probes.n && s->probes.v[i].events; i++)
		json_probe(s, &s->probes.v[i], to);
	for (size_t i = 0; i < s->threads.n; i++) {
		fprintf(to, "{\"pid\":%u,\"tid\":%u,\"events\":%" PRIu64, s->threads.v[i].pid, s->threads.v[i].tid,
			s->threads.v[i].events);
		json_pair(to, "comm", s->threads.v[i].comm, false);
		fputs("}\n", to);
		events += s->threads.v[i].events;
	}
	jab_trace_each_stream(t, json_stream, to);
	fprintf(to, "{\"summary\":{\"events\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"damaged\":%" PRIu64 "}}\n", events,
		totals->lost, totals->damaged);
}

void stats_free(struct view_stats *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->probes.n; i++) {
		for (size_t k = 0; k < s->probes.v[i].nfields; k++)
			free(s->probes.v[i].fields[k].name);
		free(s->probes.v[i].fields);
		free(s->probes.v[i].name);
	}
	vec_free(&s->probes);
	vec_free(&s->threads);
	free(s->hash);
	free(s);
}
