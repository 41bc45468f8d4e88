/* SPDX-License-Identifier: MIT */
/* Events as the public header has them. */
#include "api/api.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "session/events/shapes.h"

_Static_assert((int)JAB_ADDRESSES == (int)CTF_ADDRS && (int)JAB_READ_FORBIDDEN == (int)READ_FORBIDDEN &&
	       JAB_NO_CPU == CTF_NO_CPU, "the numbers are the same inside");

void view_fill(struct event_view *v, const struct trace_event *ev)
{
	struct jab_event *p = &v->public;

	if (v->class != ev->class) {
		v->class = ev->class;
		p->name = ev->class->name;
		p->id = ev->class->id;
		p->is_own = ev->class->id >= CTF_MODULE_ID;
		p->nfields = ev->class->n - ev->class->has_faults;
	}
	v->ev = ev;
	v->i = v->pos = 0;
	p->stream = ev->stream;
	p->cpu = ev->cpu;
	p->pid = ev->pid;
	p->tid = ev->tid;
	p->ns = ev->ns;
	p->lost = ev->lost;
}

static struct event_view *view_of(const struct jab_event *ev)
{
	return (struct event_view *)((char *)ev - offsetof(struct event_view, public));
}

static void value_fill(struct jab_value *to, const struct trace_value *v)
{
	const struct ctf_field *f = v->field;
	bool number = field_is_number(f), faulty = v->fault != READ_WELL;

	to->name = f->name;
	to->kind = f->is_text ? JAB_STRING : (enum jab_kind)f->kind;
	to->bits = f->bits;
	to->base = f->base ? f->base : 10;
	to->is_array = f->count;
	to->fault = (enum jab_fault)v->fault;
	to->u = number ? v->u : 0;
	to->bytes = number ? NULL : v->bytes;
	to->len = number ? 0 : v->len;
	to->cut = f->kind == CTF_STRING && v->cut;
	to->has_address = faulty && v->has_address;
	to->address = faulty ? v->address : 0;
}

static const struct trace_value *value_at(struct event_view *v, size_t i)
{
	i += v->ev->class->has_faults;
	if (i >= v->ev->class->n)
		return NULL;
	if (v->i > i)
		v->i = v->pos = 0;
	while (v->i <= i)
		if (!trace_value(v->ev, &v->i, &v->pos, &v->value))
			return NULL;
	return &v->value;
}

const struct jab_value *jab_event_value(const struct jab_event *ev, size_t i)
{
	struct event_view *v = view_of(ev);
	const struct trace_value *value = value_at(v, i);

	if (!value)
		return NULL;
	value_fill(&v->last, value);
	return &v->last;
}

const struct jab_value *jab_event_find(const struct jab_event *ev, const char *name)
{
	const struct ctf_class *c = view_of(ev)->ev->class;

	for (size_t i = c->has_faults; i < c->n; i++)
		if (!strcmp(c->fields[i].name, name))
			return jab_event_value(ev, i - c->has_faults);
	return NULL;
}

const struct jab_value *jab_event_element(const struct jab_event *ev, size_t i, uint32_t element)
{
	struct event_view *v = view_of(ev);
	const struct trace_value *value = value_at(v, i);
	struct trace_value one;

	if (!value || !(value->field->count || value->field->kind == CTF_ADDRS) || element >= value->len)
		return NULL;
	one = trace_element(value, element);
	value_fill(&v->element, &one);
	v->element.name = value->field->name;
	v->element.is_array = false;
	return &v->element;
}

const char *jab_event_comm(const struct jab_event *ev)
{
	const struct event_view *v = view_of(ev);

	return v->style.comm(v->style.arg, v->ev);	/* of a trace: a search; live: within a call of the session */
}

int jab_event_print(const struct jab_event *ev, FILE *to, unsigned int flags)
{
	struct event_view *v = view_of(ev);
	struct mem_frame frame;
	int r;

	v->style.json = flags & JAB_PRINT_JSON;
	v->style.colour = flags & JAB_PRINT_COLOUR;
	v->style.full_names = flags & JAB_PRINT_FULL_NAMES;
	v->style.time = flags & JAB_PRINT_WALL ? TIME_WALL : flags & JAB_PRINT_RELATIVE ? TIME_RELATIVE :
			flags & JAB_PRINT_DELTA ? TIME_DELTA : TIME_BOOT;
	v->style.printed = &v->printed;
	if (v->live)		/* within a call of the session */
		return trace_print(to, v->ev, &v->style);
	if (!hold_enter(&frame))
		return -ENOMEM;
	r = trace_print(to, v->ev, &v->style);
	mem_leave(&frame);
	return r;
}

/* ---- of a session ---- */

/* The function of a return address is that of the call before it: it is looked up there, and the offset counts from here. */
static size_t live_address(void *arg, const struct trace_event *ev, uint64_t address, bool is_return, char *out, size_t room)
{
	const char *text = events_address(arg, ev->pid, address - is_return), *plus = strrchr(text, '+');
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

static const char *live_comm(void *arg, const struct trace_event *ev)
{
	return events_comm(arg, ev->pid, ev->tid);
}

static int to_callback(void *arg, const struct trace_event *ev)
{
	struct jab *j = arg;

	view_fill(&j->handle->view, ev);
	j->handle->view.style.realtime_ns = j->events->clock.realtime_ns;
	return j->handle->each(j->handle->arg, &j->handle->view.public);
}

static int no_events(void)
{
	return fail(-EINVAL, "this session counts: jab_options.events was not set");
}

static int on_event(struct jab *j, int (*each)(void *arg, const struct jab_event *ev), void *arg)
{
	if (!j->events)
		return no_events();
	if (j->handle->writer || j->handle->script)
		return fail(-EINVAL, "events go to a trace or a script already");
	j->handle->each = each;
	j->handle->arg = arg;
	j->handle->view.live = true;
	j->handle->view.style = (struct trace_style){ .name = live_address, .comm = live_comm, .arg = j };
	events_call(j, to_callback, j);
	return 0;
}

int jab_on_event(struct jab *j, int (*each)(void *arg, const struct jab_event *ev), void *arg)
{
	return API_CALL(j, STAGE_BEFORE, on_event(j, each, arg));
}

const struct jab_totals *jab_get_totals(struct jab *j)
{
	struct events_totals t = { 0 };

	if (j->events)
		events_totals(j, &t);
	j->handle->totals = (struct jab_totals){
		.events = t.events, .bytes = t.bytes, .lost = t.lost, .damaged = t.damaged, .damaged_bytes = t.damaged_bytes,
		.no_stack = t.no_stack, .timeless = t.timeless, .full = j->events && events_full(j),
	};
	return &j->handle->totals;
}

/* ---- traces that are written ---- */

struct jab_writer {
	struct jab *j;
	struct ctf *trace;	/* NULL: written as a snapshot, or the session has it */
};

static int writer_new(struct jab *j, const struct jab_writer_options *options, struct jab_writer **ret_writer)
{
	struct jab_writer_options o;
	struct ctf_options inner;
	struct jab_writer *w;
	struct ctf *trace;
	int r = options_copy(&o, sizeof(o), options);

	if (r == 0 && !j->events)
		r = no_events();
	if (r == 0 && !o.path)
		r = fail(-EINVAL, "a trace without a path");
	inner = (struct ctf_options){ .command = o.command, .max_size = o.max_size };
	if (r == 0)
		r = events_clock(j, &inner.clock);
	if (!j->handle->writers_from)
		j->handle->writers_from = clock_now();
	inner.start = j->handle->writers_from;
	if (r == 0)
		r = o.to_fd ? ctf_create_pipe(o.fd, o.path, &inner, &trace) : ctf_create(o.path, &inner, &trace);
	if (r < 0)
		return r;
	w = *ret_writer = xcalloc(1, sizeof(*w));
	*w = (struct jab_writer){ j, trace };
	return 0;
}

int jab_writer_new(struct jab *j, const struct jab_writer_options *options, struct jab_writer **ret_writer)
{
	return API_CALL(j, STAGE_ANY, writer_new(j, options, ret_writer));
}

static int write_to(struct jab *j, struct jab_writer *w)
{
	if (w->j != j || !w->trace || j->handle->each || j->handle->script || j->handle->writer)
		return fail(-EINVAL, "events go somewhere else already, or the writer is used or another session's");
	events_output(j, w->trace);
	w->trace = NULL;
	j->handle->writer = w;
	return 0;
}

int jab_write_to(struct jab *j, struct jab_writer *w)
{
	return API_CALL(j, STAGE_BEFORE, write_to(j, w));
}

static int64_t snapshot(struct jab *j, struct jab_writer *w)
{
	if (w->j != j || !w->trace)
		return fail(-EINVAL, "the writer is used already, or another session's");
	return j->events->o.overwrite ? events_snapshot(j, w->trace) :
	       fail(-EINVAL, "a snapshot is for jab_options.overwrite");
}

int64_t jab_snapshot(struct jab *j, struct jab_writer *w)
{
	return API_CALL(j, STAGE_RUNNING | STAGE_OVER, snapshot(j, w));
}

int jab_writer_close(struct jab_writer *w)
{
	struct jab *j = w ? w->j : NULL;
	struct mem_frame frame;
	int r;

	if (!w)
		return 0;
	mem_enter(&frame, true);
	if (j->handle->writer == w) {
		j->handle->writer = NULL;
		r = events_close(j);
	} else {
		r = ctf_close(w->trace);
	}
	mem_leave(&frame);
	if (r < 0 && j->handle->thread == gettid()) {
		free(j->handle->error);
		j->handle->error = strdup(err_text());
	}
	free(w);
	return r;
}
