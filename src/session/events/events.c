/* SPDX-License-Identifier: MIT */
#include "session/events/events.h"

#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/err.h"
#include "session/events/drain.h"
#include "session/events/names.h"
#include "session/events/rings.h"
#include "lang/ast.h"
#include "session/events/shapes.h"

int events_enable(struct jab *j, const struct events_options *o)
{
	if (arch_lacks(j->arch, ARCH_EVENTS))
		return fail(-ENOTSUP, "jab for %s records no events yet; `jab count` works", j->arch->name);
	if (!j->arch->clock->is_steady())
		return fail(-ENOTSUP, "the time stamp counter of this machine does not run at one rate, so events "
			    "would have no time; `jab count` works");
	if (o->buffer_size > RING_SIZE_MAX)
		return fail(-EINVAL, "a buffer of more than 1 GiB per CPU can't be had");
	j->events = xcalloc(1, sizeof(*j->events));
	j->events->o = *o;
	clock_look(&j->events->look);
	return 0;
}

int events_context(struct jab *j, const char *text)
{
	int r = line_check_context(text);

	if (r < 0)
		return r;
	*vec_add(&j->events->contexts) = xstrdup(text);
	return 0;
}

int events_clock(struct jab *j, struct tsc_clock *ret_clock)
{
	struct events *e = j->events;
	int r = 0;

	if (!e->has_clock)
		r = clock_measure(&e->look, &e->clock);
	if (r < 0)
		return r;
	e->has_clock = true;
	*ret_clock = e->clock;
	return 0;
}

void events_output(struct jab *j, struct ctf *trace)
{
	j->events->trace = trace;
}

void events_call(struct jab *j, int (*each)(void *arg, const struct trace_event *ev), void *arg)
{
	j->events->each = each;
	j->events->arg = arg;
}

void events_call_raw(struct jab *j, int (*raw)(void *arg, const struct raw_event *ev), void *arg)
{
	j->events->raw = raw;
	j->events->arg = arg;
}

/* Without an output, the classes still have to be known. */
int events_prepare(struct jab *j)
{
	struct ctf_options options = { 0 };
	int r = 0;

	if (!j->events->trace) {
		r = events_clock(j, &options.clock);
		if (r < 0)
			return r;
		ctf_create_memory(&options, &j->events->trace);
		j->events->in_memory = true;
	}
	return shapes_declare(j);
}

/* After the insertion, so that it costs no time before it. */
static int tell_names(struct jab *j, bool again)
{
	int r = 0;

	for (size_t i = 0; !r && i < j->targets.n; i++) {
		struct target *t = &j->targets.v[i];

		if (t->told_names ? !again : !t->inserted)
			continue;
		t->told_names = true;
		r = names_modules(j, t);
		if (!r)
			r = names_threads(j, t);
	}
	return r;
}

int64_t events_drain(struct jab *j, bool last)
{
	int64_t r = 0, names;

	if (!j->events->trace)
		return 0;
	/* Nobody reads them where events are only handed on; a snapshot tells them again, to its own trace. */
	names = j->events->in_memory && (j->events->each || j->events->raw) ? 0 : tell_names(j, false);
	r = drain(j, last);
	return names < 0 ? names : r;
}

uint64_t events_wait_ns(const struct jab *j)
{
	return j->events->wait_ns ? j->events->wait_ns : 1000000;
}

int64_t events_snapshot(struct jab *j, struct ctf *trace)
{
	struct ctf *before = j->events->trace;
	uint32_t rows = j->events->rows;
	int r = 0;

	/* The classes and names again, for this trace. */
	j->events->trace = trace;
	for (uint32_t i = 0; !r && i < rows; i++)
		r = shape_declare(j, i);
	if (!r)
		r = tell_names(j, true);
	j->events->trace = before;
	return r < 0 ? r : drain_snapshot(j, trace);
}

bool events_full(const struct jab *j)
{
	return j->events->trace && ctf_full(j->events->trace);
}

void events_totals(struct jab *j, struct events_totals *ret_totals)
{
	struct events *e = j->events;

	*ret_totals = (struct events_totals){ .events = e->events, .bytes = e->bytes, 
						  .lost = e->unread + e->damaged, .damaged = e->unread + e->damaged,
						  .damaged_bytes = e->unread_bytes, .timeless = e->any_timeless };
	for (uint32_t i = 0; i < e->rows; i++)
		ret_totals->lost += e->unwritten.v[i];
	for (size_t i = 0; i < j->past.n; i++) {
		ret_totals->lost += j->past.v[i].lost;
		ret_totals->no_stack += j->past.v[i].no_stack;
	}
	for (size_t i = 0; i < j->counters.n; i++) {
		const struct counter *c = &j->counters.v[i];

		if (c->role != COUNT_HITS)
			continue;
		ret_totals->lost += rings_lost(&j->targets.v[c->target], c->index);
		ret_totals->no_stack += rings_no_stack(&j->targets.v[c->target], c->index);
	}
}

int events_close(struct jab *j)
{
	struct ctf *trace = j->events ? j->events->trace : NULL;

	if (!trace)
		return 0;
	j->events->trace = NULL;
	return ctf_close(trace);
}

void events_free(struct events *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->contexts.n; i++)
		free(e->contexts.v[i]);
	vec_free(&e->contexts);
	vec_free(&e->recorded);
	vec_free(&e->unwritten);
	vec_free(&e->stacked);
	bytes_free(&e->wide);
	names_free(e->names);
	free(e->copy);
	ctf_close(e->trace);
	free(e);
}
