/* SPDX-License-Identifier: MIT */
/* Reading traces. */
#include "api/api.h"
#include "trace/names.h"

struct jab_trace {
	struct trace *t;
	struct trace_names *names;
	struct trace_event ev;
	struct event_view view;
	struct jab_trace_info info;
};

static int open_trace(const char *path, struct jab_trace **ret_trace)
{
	struct trace_names *names;
	struct jab_trace *x;
	struct trace *t;
	int r = trace_open(path, &t);

	if (r < 0)
		return r;
	r = trace_names_open(path, &names);
	if (r < 0) {
		trace_close(t);
		return r;
	}
	x = *ret_trace = xcalloc(1, sizeof(*x));
	x->t = t;
	x->names = names;
	x->view.style = (struct trace_style){ .name = trace_names_address, .comm = trace_names_comm, .arg = names,
						 .realtime_ns = trace_clock(t)->realtime_ns };
	return 0;
}

int jab_trace_open(const char *path, struct jab_trace **ret_trace)
{
	return mem_try(open_trace(path, ret_trace), no_memory());
}

void jab_trace_close(struct jab_trace *t)
{
	if (!t)
		return;
	trace_names_close(t->names);
	trace_close(t->t);
	free(t);
}

void jab_trace_seek(struct jab_trace *t, int64_t ns)
{
	trace_seek(t->t, ns);
}

const struct jab_event *jab_trace_next(struct jab_trace *t)
{
	struct mem_frame frame;
	int r;

	t->info.no_memory = !hold_enter(&frame);
	if (t->info.no_memory)
		return NULL;
	r = trace_next(t->t, &t->ev);
	mem_leave(&frame);
	if (r <= 0)
		return NULL;
	view_fill(&t->view, &t->ev);
	return &t->view.public;
}

const struct jab_trace_info *jab_trace_get_info(struct jab_trace *t)
{
	struct trace_totals totals = trace_totals(t->t);
	const struct tsc_clock *c = trace_clock(t->t);
	struct trace_stream s;

	if (!t->info.clock_hz) {
		while (trace_stream(t->t, t->info.streams, &s))
			t->info.streams++;
		t->info.classes = trace_classes(t->t);
		t->info.clock_hz = c->hz;
		t->info.realtime_ns = c->realtime_ns;
	}
	t->info.events = totals.events;
	t->info.lost = totals.lost;
	t->info.damaged = totals.damaged;
	return &t->info;
}

const char *jab_trace_env(const struct jab_trace *t, const char *key)
{
	return trace_env(t->t, key);
}

int jab_trace_each_stream(struct jab_trace *t, int (*each)(void *arg, const struct jab_stream *s), void *arg)
{
	struct trace_stream s;
	int r = 0;

	for (size_t i = 0; !r && trace_stream(t->t, i, &s); i++) {
		struct jab_stream out = { s.stream, s.cpu, s.events, s.lost, s.damaged, s.damage, s.stream == CTF_OWN_STREAM };

		r = each(arg, &out);
	}
	return r;
}

void jab_trace_each_missing(struct jab_trace *t, void (*each)(void *arg, const char *path, const char *why), void *arg)
{
	trace_names_missing(t->names, each, arg);
}
