/* SPDX-License-Identifier: MIT */
/*
 * Reads a trace: finds the files, then returns the events of all streams by time. Each stream is one entry of a
 * heap, with its next event ready; source.c advances it.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "trace/meta.h"
#include "trace/source.h"
#include "trace/trace.h"

#define MAX_METADATA (256u << 20)

struct trace {
	char *path;
	int dir;
	struct meta meta;
	VEC(struct source *) sources;	/* all streams */
	struct source **heap;		/* streams with an event ready; the oldest first */
	size_t n;
	bool advance;			/* the first event has been returned */
	bool own_only, filled;
	struct trace_totals totals;
	bool has_second;		/* second_at and second_ns are set: the start of the second of the previous event */
	uint64_t second_at;
	int64_t second_ns;
};

static int read_text(struct trace *t, char **ret_text, size_t *ret_len)
{
	int fd = openat(t->dir, "metadata", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	size_t len = 0;
	char *text;
	ssize_t n;

	if (fd < 0)
		return fail(-errno, "%s is no trace: can't open its metadata: %m", t->path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > MAX_METADATA) {
		close(fd);
		return fail(-EBADMSG, "%s: its metadata is no file of reasonable size", t->path);
	}
	text = xcalloc(1, st.st_size + 1);
	while (len < (size_t)st.st_size && (n = read(fd, text + len, st.st_size - len)) > 0)
		len += n;
	close(fd);
	*ret_text = text;
	*ret_len = len;
	return 0;
}

static int read_metadata(struct trace *t)
{
	char *text = NULL;
	size_t len = 0;
	int r = read_text(t, &text, &len);

	if (r < 0)
		return r;
	r = meta_parse(&t->meta, text, len);
	free(text);
	return r < 0 ? fail_in(r, "%s", t->path) : 0;
}

static struct source *find_source(struct trace *t, uint32_t stream)
{
	for (size_t i = 0; i < t->sources.n; i++)
		if (t->sources.v[i]->stream == stream)
			return t->sources.v[i];
	return *vec_add(&t->sources) = source_new(t->dir, stream, &t->meta);
}

static int by_stream(const void *a, const void *b)
{
	const struct source *x = *(struct source *const *)a, *y = *(struct source *const *)b;

	return x->stream < y->stream ? -1 : x->stream > y->stream;
}

static int find_files(struct trace *t)
{
	int fd = openat(t->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d)
		return fail(-errno, "can't read %s: %m", t->path);
	while ((e = readdir(d))) {
		unsigned int stream, part;
		char again[64];

		if (sscanf(e->d_name, "stream_%u_%u", &stream, &part) != 2)
			continue;
		snprintf(again, sizeof(again), "stream_%u_%u", stream, part);
		if (strcmp(again, e->d_name) == 0 && (!t->own_only || stream == CTF_OWN_STREAM))
			source_add_part(find_source(t, stream), part);
	}
	closedir(d);
	if (t->sources.n)
		qsort(t->sources.v, t->sources.n, sizeof(*t->sources.v), by_stream);
	return 0;
}

static bool older(const struct source *a, const struct source *b)
{
	return a->time != b->time ? a->time < b->time : a->stream < b->stream;
}

static void sift_down(struct trace *t, size_t i)
{
	struct source *s = t->heap[i];

	for (;;) {
		size_t k = 2 * i + 1;

		if (k + 1 < t->n && older(t->heap[k + 1], t->heap[k]))
			k++;
		if (k >= t->n || !older(t->heap[k], s))
			break;
		t->heap[i] = t->heap[k];
		i = k;
	}
	t->heap[i] = s;
}

static void fill_heap(struct trace *t)
{
	t->filled = true;
	t->heap = xcalloc(t->sources.n, sizeof(*t->heap));
	for (size_t i = 0; i < t->sources.n; i++)
		if (source_next(t->sources.v[i]))
			t->heap[t->n++] = t->sources.v[i];
	for (size_t i = t->n / 2; i-- > 0;)
		sift_down(t, i);
}

static int open_some(const char *path, bool own_only, struct trace **ret_trace)
{
	struct trace *t = xcalloc(1, sizeof(*t));
	int r;

	t->path = xstrdup(path);
	t->own_only = own_only;
	t->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = t->dir < 0 ? fail(-errno, "can't open %s: %m", path) : read_metadata(t);
	if (r == 0)
		r = find_files(t);
	if (r < 0) {
		trace_close(t);
		return r;
	}
	*ret_trace = t;
	return 0;
}

int trace_open(const char *path, struct trace **ret_trace)
{
	return open_some(path, false, ret_trace);
}

int trace_open_own(const char *path, struct trace **ret_trace)
{
	return open_some(path, true, ret_trace);
}

/* clock_ns(), but faster: most events are in the same second as the one before. */
static int64_t fast_ns(struct trace *t, uint64_t ticks)
{
	const struct tsc_clock *c = &t->meta.clock;
	uint64_t into;

	if (c->hz > UINT64_MAX / NS_PER_S)
		return clock_ns(c, ticks);
	if (!t->has_second || ticks - t->second_at >= c->hz) {
		into = ((unsigned __int128)ticks + c->offset) % c->hz;
		if (into > ticks)
			return clock_ns(c, ticks);
		t->has_second = true;
		t->second_at = ticks - into;
		t->second_ns = clock_ns(c, t->second_at);
	}
	if (t->second_ns > INT64_MAX - NS_PER_S || t->second_ns == INT64_MIN)
		return clock_ns(c, ticks);
	return t->second_ns + (int64_t)((ticks - t->second_at) * NS_PER_S / c->hz);
}

static void fill_event(struct trace *t, struct source *s, struct trace_event *ev)
{
	struct ctf_event_head h;

	memcpy(&h, s->event, sizeof(h));
	*ev = (struct trace_event){
		.class = s->class,
		.ticks = h.time,
		.ns = fast_ns(t, h.time),
		.stream = s->stream,
		.cpu = s->cpu,
		.pid = h.pid,
		.tid = h.tid,
		.lost = s->lost_unsaid,
		.payload = s->event + sizeof(h),
		.len = h.len - sizeof(h),
	};
	s->lost_unsaid = 0;
	s->events++;
}

void trace_seek(struct trace *t, int64_t ns)
{
	uint64_t ticks = clock_ticks(&t->meta.clock, ns > INT64_MIN + 2 ? ns - 2 : ns);	/* rounding */

	for (size_t i = 0; i < t->sources.n; i++)
		source_seek(t->sources.v[i], ticks);
}

int trace_next(struct trace *t, struct trace_event *ret_event)
{
	if (!t->filled)
		fill_heap(t);
	if (t->advance) {
		if (!source_next(t->heap[0]))
			t->heap[0] = t->heap[--t->n];
		if (t->n)
			sift_down(t, 0);
	}
	t->advance = t->n > 0;
	if (!t->n)
		return 0;
	fill_event(t, t->heap[0], ret_event);
	t->totals.events++;
	return 1;
}

struct trace_totals trace_totals(const struct trace *t)
{
	struct trace_totals totals = t->totals;

	for (size_t i = 0; i < t->sources.n; i++) {
		totals.lost += t->sources.v[i]->lost;
		totals.damaged += t->sources.v[i]->damaged;
	}
	return totals;
}

bool trace_stream(const struct trace *t, size_t i, struct trace_stream *ret_stream)
{
	const struct source *s;

	if (i >= t->sources.n)
		return false;
	s = t->sources.v[i];
	*ret_stream = (struct trace_stream){ s->stream, s->cpu, s->events, s->lost, s->damaged, s->damage };
	return true;
}

const struct tsc_clock *trace_clock(const struct trace *t)
{
	return &t->meta.clock;
}

const char *trace_env(const struct trace *t, const char *key)
{
	return meta_env(&t->meta, key);
}

size_t trace_classes(const struct trace *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->meta.classes.n; i++)
		n += t->meta.classes.v[i] != NULL;
	return n;
}

void trace_close(struct trace *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->sources.n; i++)
		source_close(t->sources.v[i]);
	vec_free(&t->sources);
	meta_free(&t->meta);
	if (t->dir >= 0)
		close(t->dir);
	free(t->heap);
	free(t->path);
	free(t);
}
