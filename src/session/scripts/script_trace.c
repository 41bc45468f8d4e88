/* SPDX-License-Identifier: MIT */
/*
 * record() of scripts, into a trace. Events come one by one, in the order of their time; they are kept
 * by the ring they came from, and what a round has brought becomes one packet each.
 */
#include "session/scripts/script_trace.h"

#include <string.h>
#include "lang/store.h"
#include "session/events/shapes.h"
#include "session/stacks.h"

/* extra: lost in rings that have no events, so that a trace has no stream for them. */
struct part { uint32_t stream, cpu; bool begun; uint64_t lost, extra, told; struct bytes events; };

struct script_trace {
	struct jab *j;
	uint32_t unit;
	VEC(bool) declared;		/* by record */
	VEC(struct part) parts;
	struct bytes event;		/* that gets its stacks */
};

struct script_trace *script_trace_new(struct jab *j, uint32_t unit)
{
	struct script_trace *t = xcalloc(1, sizeof(*t));

	t->j = j;
	t->unit = unit;
	return t;
}

void script_trace_free(struct script_trace *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->parts.n; i++)
		bytes_free(&t->parts.v[i].events);
	vec_free(&t->parts);
	vec_free(&t->declared);
	bytes_free(&t->event);
	free(t);
}

/* The clause that emits it gives the name. */
static const char *name_of(const struct unit *u, uint32_t record)
{
	const struct ir_unit *ir = lang_unit(u->lang);

	for (size_t i = 0; i < ir->progs.n; i++)
		for (size_t k = 0; k < ir->progs.v[i]->ins.n; k++) {
			const struct clause *c = u->script->clauses.v[ir->progs.v[i]->clause];

			if (ir->progs.v[i]->ins.v[k].op == IR_EMIT && ir->progs.v[i]->ins.v[k].record == record && c->nprobes)
				return c->probes[0]->name ? c->probes[0]->name : c->probes[0]->text;
		}
	return "record";
}

static int declare(struct script_trace *t, uint32_t record)
{
	const struct unit *u = &t->j->units.v[t->unit];

	while (t->declared.n <= record)
		*vec_add(&t->declared) = false;
	if (t->declared.v[record])
		return 0;
	t->declared.v[record] = true;
	return record_declare(t->j, record, name_of(u, record), lang_unit(u->lang), &lang_unit(u->lang)->records.v[record]);
}

static struct part *part_of(struct script_trace *t, uint32_t stream, uint32_t cpu)
{
	for (size_t i = 0; i < t->parts.n; i++)
		if (t->parts.v[i].stream == stream)
			return &t->parts.v[i];
	*vec_add(&t->parts) = (struct part){ .stream = stream, .cpu = cpu };
	return &t->parts.v[t->parts.n - 1];
}

/* What was lost may have been of another kind; a gap that is not told would be worse. */
void script_trace_lost(struct script_trace *t, const struct raw_event *ev)
{
	part_of(t, ev->stream, ev->cpu)->lost = ev->lost;
}

int script_trace_add(struct script_trace *t, const struct raw_event *ev)
{
	const struct ir_record *rec = &lang_unit(t->j->units.v[t->unit].lang)->records.v[ev->head.id];
	struct bytes *to;
	size_t at;
	int r = declare(t, ev->head.id);

	if (r < 0)
		return r;
	to = record_has_stacks(rec) ? &t->event : &part_of(t, ev->stream, ev->cpu)->events;
	at = to->n;
	bytes_add(to, &ev->head, sizeof(ev->head));
	bytes_add(to, ev->payload, ev->head.len - sizeof(ev->head));
	if (to != &t->event)
		return 0;
	stacks_add_event(t->j, t->unit, ev->target, rec, to->p + at, ev->head.len, &part_of(t, ev->stream, ev->cpu)->events);
	to->n = 0;
	return 0;
}

/* An empty packet has the time of the one before it; what has none is told by another stream. */
static void find_homes(struct script_trace *t)
{
	struct part *home = NULL;

	for (size_t i = 0; i < t->parts.n; i++) {
		t->parts.v[i].begun |= t->parts.v[i].events.n > 0;
		if (t->parts.v[i].begun)
			home = &t->parts.v[i];
	}
	for (size_t i = 0; home && i < t->parts.n; i++)
		if (!t->parts.v[i].begun) {
			home->extra += t->parts.v[i].lost + t->parts.v[i].extra;
			t->parts.v[i].extra = -t->parts.v[i].lost;
		}
}

int script_trace_flush(struct script_trace *t)
{
	int r = 0;

	find_homes(t);
	for (size_t i = 0; i < t->parts.n; i++) {
		struct part *p = &t->parts.v[i];
		uint64_t lost = p->lost + p->extra;
		struct ctf_span span = { 0 };

		if (!p->begun || (!p->events.n && lost == p->told))
			continue;
		if (ctf_check(t->j->events->trace, p->events.p, p->events.n, &span) < 0) {
			t->j->events->damaged++;
			lost = p->lost + ++p->extra;
		}
		if (span.events || lost != p->told)
			r = ctf_packet(t->j->events->trace, p->stream, p->cpu, &span, lost) ?: r;
		p->told = lost;
		p->events.n = 0;
	}
	return r;
}
