/* SPDX-License-Identifier: MIT */
/*
 * A page of text that was written to stays a private copy, also when its bytes are the old ones
 * again. MADV_DONTNEED drops the copy, and the file's page is mapped again, unnoticed even by a thread that
 * runs in it. But it would also drop what the program or another tool has written there, or leave zeroes if the mapping has
 * no file: so only pages that equal their file byte by byte are dropped.
 */
#include "arch/page.h"
#include "proc/undo/clean.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/file.h"
#include "proc/internal.h"
#include "proc/text/spans.h"

#define DROPS_PER_STOP 16	/* so that no pause gets long */

struct run { size_t first, n; };
typedef VEC(struct run) run_list;

enum {
	PAGE_KEPT,
	PAGE_KNOWN,		/* the file's bytes were read */
	PAGE_EQUAL,		/* equals its file: to be dropped */
	PAGE_DROPPED,
};

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

/* The file that is mapped: by /proc/PID/map_files, or by path if that leads to the same inode. */
static int open_mapped(struct proc *p, const struct map *m)
{
	char path[96];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", p->pid,
		 (unsigned long long)m->start, (unsigned long long)m->end);
	fd = open_below("", path);
	if (fd >= 0 || m->deleted || m->path[0] != '/')
		return fd;
	fd = open_below(p->root, m->path);
	if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_ino != m->inode)) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool read_page(int fd, uint64_t offset, uint8_t *to)
{
	ssize_t n = pread(fd, to, PAGE, offset);

	if (n <= 0)
		return false;
	memset(to + n, 0, PAGE - n);
	return true;
}

static void list_pages(struct pages *g, const struct spans *s)
{
	size_t i;
	uint64_t at;

	for (i = 0; i < s->v.n; i++)
		for (at = s->v.v[i].lo; at < s->v.v[i].hi; at += PAGE)
			*vec_add(&g->at) = at;
	g->file = xcalloc(g->at.n, PAGE);
	g->state = xcalloc(g->at.n, 1);
}

void pages_load(struct pages *g, struct proc *p, const struct spans *s)
{
	const struct map *m = NULL;
	int fd = -1;
	size_t i;

	list_pages(g, s);
	for (i = 0; i < g->at.n; i++) {
		uint64_t at = g->at.v[i];

		if (!m || at - m->start >= m->end - m->start) {
			if (fd >= 0)
				close(fd);
			m = proc_map_at(p, at);
			fd = m && m->inode && !m->shared ? open_mapped(p, m) : -1;
		}
		if (fd >= 0)
			g->state[i] = read_page(fd, at - m->start + m->offset, g->file + i * PAGE) ?
				      PAGE_KNOWN : PAGE_KEPT;
	}
	if (fd >= 0)
		close(fd);
}

void pages_compare(struct pages *g, const struct spans *s)
{
	size_t i, k = 0;
	uint64_t at;

	for (i = 0; i < s->v.n; i++) {
		const struct span_of_text *t = &s->v.v[i];

		for (at = t->lo; at < t->hi; at += PAGE, k++) {
			if (t->gone)
				g->state[k] = PAGE_DROPPED;
			else if (g->state[k] == PAGE_KNOWN && memcmp(g->file + k * PAGE, span_at(t, at), PAGE) == 0)
				g->state[k] = PAGE_EQUAL;
		}
	}
}

/* The target ran since the pages were compared: compare again before a page is dropped. */
static bool still_equal(struct pages *g, struct proc *p, size_t i)
{
	uint8_t now[PAGE];

	return proc_read(p, TADDR(g->at.v[i]), now, PAGE) == 0 && memcmp(now, g->file + i * PAGE, PAGE) == 0;
}

static bool drop_run(struct proc *p, uint64_t at, size_t len)
{
	return borrow(p, SYS_madvise, at, len, MADV_DONTNEED, 0, 0, 0) == 0 ||
	       borrow(p, SYS_madvise, at, len, MADV_DONTNEED_LOCKED, 0, 0, 0) == 0;
}

/* How many pages from i on can be dropped with one call. */
static size_t run_from(struct pages *g, struct proc *p, size_t i, bool check)
{
	size_t n = 0;

	while (i + n < g->at.n && g->state[i + n] == PAGE_EQUAL && g->at.v[i + n] == g->at.v[i] + n * PAGE &&
	       (!check || still_equal(g, p, i + n)))
		n++;
	return n;
}

/* The next run at or after i that is to be dropped. Pages that have changed since the comparison are kept. */
static struct run next_run(struct pages *g, struct proc *p, size_t i, bool check)
{
	for (; i < g->at.n; i++) {
		size_t n = g->state[i] == PAGE_EQUAL ? run_from(g, p, i, check) : 0;

		if (n)
			return (struct run){ i, n };
		if (g->state[i] == PAGE_EQUAL)
			g->state[i] = PAGE_KEPT;
	}
	return (struct run){ i, 0 };
}

/* All runs in one batch; returns how many of them were dropped. */
static size_t drop_from_desk(struct pages *g, struct proc *p, const run_list *runs, const struct desk *desk)
{
	struct batch b = { 0 };
	int64_t value;
	size_t done = 0;

	for (size_t i = 0; i < runs->n; i++)
		batch_add(&b, "remove: page dropped", 0, SYS_madvise, g->at.v[runs->v[i].first],
			  runs->v[i].n * PAGE, MADV_DONTNEED, 0, 0, 0);
	b.need = b.calls.n;
	batch_write(&b, desk->here);
	if (batch_run(p, &b, desk, &done, &value) < 0)
		done = 0;
	batch_free(&b);
	return done;
}

static void drop_runs(struct pages *g, struct proc *p, const run_list *runs, const struct desk *desk)
{
	size_t done = desk && runs->n ? drop_from_desk(g, p, runs, desk) : 0;

	for (size_t i = 0; i < runs->n; i++) {
		const struct run *r = &runs->v[i];
		bool gone = i < done || drop_run(p, g->at.v[r->first], r->n * PAGE);

		memset(g->state + r->first, gone ? PAGE_DROPPED : PAGE_KEPT, r->n);
	}
}

size_t pages_left(const struct pages *g)
{
	size_t left = 0;

	for (size_t i = 0; i < g->at.n; i++)
		left += g->state[i] == PAGE_EQUAL;
	return left;
}

void pages_drop(struct pages *g, struct proc *p, bool check, const struct desk *desk)
{
	run_list runs = { 0 };
	struct run r = next_run(g, p, 0, check);

	for (; r.n && runs.n < DROPS_PER_STOP; r = next_run(g, p, r.first + r.n, check))
		*vec_add(&runs) = r;
	drop_runs(g, p, &runs, desk);
	vec_free(&runs);
}

size_t pages_kept(const struct pages *g)
{
	size_t i, n = 0;

	for (i = 0; i < g->at.n; i++)
		n += g->state[i] != PAGE_DROPPED;
	return n;
}

int pages_drop_rest(struct pages *g, struct proc *p)
{
	int r = 0;

	while (r == 0 && pages_left(g)) {
		r = proc_stop(p);
		if (r < 0)
			return r;
		pages_drop(g, p, true, NULL);
		r = proc_resume(p);
	}
	return r;
}

void pages_free(struct pages *g)
{
	vec_free(&g->at);
	free(g->file);
	free(g->state);
	*g = (struct pages){ 0 };
}
