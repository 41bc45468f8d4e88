/* SPDX-License-Identifier: MIT */
/* The module and thread tables of a trace, and the symbols of files that have not changed since. */
#include "arch/page.h"
#include "trace/names.h"

#include <stdio.h>

#include "base/err.h"
#include "sym/sym.h"

/* A file: opened when an address in it is first looked up. */
struct named_file {
	char *path, *build_id;
	struct module *m;
	bool tried;
	const char *why;		/* why it can't be used; NULL: it can, or was not tried */
};

struct mapped {
	uint32_t pid, file;
	uint64_t time, address, size;
};

struct named_thread {
	uint32_t pid, tid;
	uint64_t time;
	char *comm;
};

struct trace_names {
	VEC(struct named_file) files;
	VEC(struct mapped) maps;		/* by pid, then time */
	VEC(struct named_thread) threads;	/* by tid, pid, time */
};

static char *take_text(const struct trace_value *v)
{
	return xstrndup((const char *)v->bytes, v->len);
}

static uint32_t find_file(struct trace_names *n, char *path, char *build_id)
{
	uint32_t i;

	for (i = 0; i < n->files.n; i++)
		if (!strcmp(n->files.v[i].path, path) && !strcmp(n->files.v[i].build_id, build_id))
			break;
	if (i == n->files.n) {
		*vec_add(&n->files) = (struct named_file){ .path = path, .build_id = build_id };
	} else {
		free(path);
		free(build_id);
	}
	return i;
}

/* The values of one of jab's own events, if they have the known types. */
static bool take_values(const struct trace_event *ev, const enum ctf_kind *kinds, size_t n, struct trace_value *v)
{
	size_t pos = 0, i = 0;

	while (i < n)
		if (!trace_value(ev, &i, &pos, &v[i]) || v[i - 1].field->kind != kinds[i - 1])
			return false;
	return true;
}

static void add_module(struct trace_names *n, const struct trace_event *ev)
{
	static const enum ctf_kind kinds[] = { CTF_STRING, CTF_STRING, CTF_POINTER, CTF_UNSIGNED };
	struct trace_value v[4];

	if (!take_values(ev, kinds, 4, v))
		return;
	*vec_add(&n->maps) = (struct mapped){
		.pid = ev->pid, .time = ev->ticks, .address = v[2].u, .size = v[3].u,
		.file = find_file(n, take_text(&v[0]), take_text(&v[1])),
	};
}

static void add_thread(struct trace_names *n, const struct trace_event *ev)
{
	static const enum ctf_kind kinds[] = { CTF_STRING };
	struct trace_value v;

	if (take_values(ev, kinds, 1, &v))
		*vec_add(&n->threads) = (struct named_thread){ ev->pid, ev->tid, ev->ticks, take_text(&v) };
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_pid(const void *a, const void *b)
{
	const struct mapped *x = a, *y = b;
	int r = compare(x->pid, y->pid);

	return r ? r : compare(x->time, y->time);
}

static int by_tid(const void *a, const void *b)
{
	const struct named_thread *x = a, *y = b;
	int r = compare(x->tid, y->tid);

	r = r ? r : compare(x->pid, y->pid);
	return r ? r : compare(x->time, y->time);
}

int trace_names_open(const char *path, struct trace_names **ret_names)
{
	struct trace_names *n;
	struct trace_event ev;
	struct trace *t;
	int r = trace_open_own(path, &t);

	if (r < 0)
		return r;
	n = xcalloc(1, sizeof(*n));
	while (trace_next(t, &ev) > 0) {
		if (ev.class->id == CTF_MODULE_ID)
			add_module(n, &ev);
		else if (ev.class->id == CTF_THREAD_ID)
			add_thread(n, &ev);
	}
	trace_close(t);
	if (n->maps.n)
		qsort(n->maps.v, n->maps.n, sizeof(*n->maps.v), by_pid);
	if (n->threads.n)
		qsort(n->threads.v, n->threads.n, sizeof(*n->threads.v), by_tid);
	*ret_names = n;
	return 0;
}

static bool covers(const struct mapped *m, uint64_t address)
{
	return address - m->address < m->size;
}

/* Finds the newest mapping that existed at that time; if all came later, the first. */
static const struct mapped *find_in(const struct trace_names *n, size_t from, size_t to, uint64_t time,
				    uint64_t address)
{
	const struct mapped *best = NULL;

	for (size_t i = from; i < to; i++) {
		const struct mapped *m = &n->maps.v[i];

		if (covers(m, address) && (!best || m->time <= time))
			best = m;
	}
	return best;
}

/* Finds the mapping of an address. A forked child of which the trace lists no modules has those of another process. */
static const struct mapped *find_mapped(const struct trace_names *n, const struct trace_event *ev, uint64_t address)
{
	size_t lo = 0, hi = n->maps.n, end;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (n->maps.v[mid].pid < ev->pid)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (end = lo; end < n->maps.n && n->maps.v[end].pid == ev->pid; end++)
		;
	return end > lo ? find_in(n, lo, end, ev->ticks, address) : find_in(n, 0, n->maps.n, ev->ticks, address);
}

static bool same_build(const struct module *m, const char *build_id)
{
	char text[2 * sizeof(m->build_id) + 1] = "";

	for (size_t i = 0; i < m->build_id_len && i < sizeof(m->build_id); i++)
		sprintf(text + 2 * i, "%02x", m->build_id[i]);
	return strcmp(text, build_id) == 0;
}

static struct module *file_symbols(struct named_file *f)
{
	if (f->tried)
		return f->m;
	f->tried = true;
	if (mem_try(module_open("", f->path, &f->m), -ENOMEM) < 0) {	/* the caller may not be left for want of memory */
		f->m = NULL;
		f->why = "can't be read";
	} else if (!same_build(f->m, f->build_id)) {
		module_close(f->m);
		f->m = NULL;
		f->why = "is not the same file any more: its build id differs";
	}
	return f->m;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* The number of bytes that snprintf() has written, not the number it would have. */
static size_t clip(int n, size_t room)
{
	return n < 0 ? 0 : MIN((size_t)n, room - 1);
}

size_t trace_names_address(void *arg, const struct trace_event *ev, uint64_t address, bool is_return, char *out,
			   size_t room)
{
	struct trace_names *n = arg;
	const struct mapped *at = find_mapped(n, ev, address - is_return);
	const struct func *f = NULL;
	struct module *m;
	uint64_t link, off;
	const char *file;

	if (!at)
		return 0;
	file = last_part(n->files.v[at->file].path);
	m = file_symbols(&n->files.v[at->file]);
	link = address - at->address + (m ? PAGE_DOWN(m->lo) : 0);
	if (m)
		f = module_func_at(m, link - is_return);
	off = f ? link - f->addr : link;
	if (f && !off)
		return clip(snprintf(out, room, "%s:%s", file, func_name(m, f)), room);
	return clip(snprintf(out, room, "%s%s%s+%#llx", file, f ? ":" : "", f ? func_name(m, f) : "",
			     (unsigned long long)off), room);
}

const char *trace_names_comm(void *arg, const struct trace_event *ev)
{
	const struct trace_names *n = arg;
	const char *comm = "";
	size_t lo = 0, hi = n->threads.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (n->threads.v[mid].tid < ev->tid)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < n->threads.n && n->threads.v[lo].tid == ev->tid; lo++)
		if (n->threads.v[lo].pid == ev->pid && (!*comm || n->threads.v[lo].time <= ev->ticks))
			comm = n->threads.v[lo].comm;
	return comm;
}

void trace_names_missing(const struct trace_names *names, void (*add)(void *arg, const char *path, const char *why),
			 void *arg)
{
	for (size_t i = 0; i < names->files.n; i++)
		if (names->files.v[i].why)
			add(arg, names->files.v[i].path, names->files.v[i].why);
}

void trace_names_close(struct trace_names *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->files.n; i++) {
		free(n->files.v[i].path);
		free(n->files.v[i].build_id);
		module_close(n->files.v[i].m);
	}
	for (size_t i = 0; i < n->threads.n; i++)
		free(n->threads.v[i].comm);
	vec_free(&n->files);
	vec_free(&n->maps);
	vec_free(&n->threads);
	free(n);
}
