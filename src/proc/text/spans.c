/* SPDX-License-Identifier: MIT */
/* Text in runs of pages: grouping, reading many at once, looking edits and moves up. */
#include "arch/page.h"
#include "proc/text/spans.h"

#include <string.h>
#include <sys/uio.h>
#include "proc/internal.h"

#define READ_AT_ONCE 512

static uint64_t page_down(uint64_t v)
{
	return v & ~(PAGE - 1);
}

void spans_make(struct spans *s, const struct edit *edits, size_t n, bool whole_pages)
{
	struct span_of_text *t = NULL;
	uint8_t *at;
	size_t i;

	*s = (struct spans){ 0 };
	for (i = 0; i < n; i++) {
		uint64_t lo = edits[i].at.v, hi = lo + edits[i].len;

		if (!t || page_down(lo) > page_down(t->hi - 1) + PAGE) {
			t = vec_add(&s->v);
			t->lo = whole_pages ? page_down(lo) : lo;
			t->first = i;
		}
		t->n++;
		t->hi = whole_pages ? page_down(hi + PAGE - 1) : hi;
	}
	for (i = 0; i < s->v.n; i++)
		s->size += s->v.v[i].hi - s->v.v[i].lo;
	s->bytes = xcalloc(1, s->size);
	memset(s->bytes, 1, s->size);	/* no page fault of ours while threads are stopped */
	for (i = 0, at = s->bytes; i < s->v.n; i++) {
		s->v.v[i].now = at;
		at += s->v.v[i].hi - s->v.v[i].lo;
	}
}

void spans_free(struct spans *s)
{
	vec_free(&s->v);
	free(s->bytes);
	*s = (struct spans){ 0 };
}

/* Read spans [i, i + n) with one call. Returns how many came whole. */
static size_t read_some(struct spans *s, pid_t tid, size_t i, size_t n)
{
	struct iovec here[READ_AT_ONCE], there[READ_AT_ONCE];
	size_t k, done;
	ssize_t got;

	for (k = 0; k < n; k++) {
		const struct span_of_text *t = &s->v.v[i + k];

		here[k] = (struct iovec){ t->now, t->hi - t->lo };
		there[k] = (struct iovec){ (void *)(uintptr_t)t->lo, t->hi - t->lo };
	}
	got = process_vm_readv(tid, here, n, there, n, 0);
	for (done = 0; done < n && got >= (ssize_t)here[done].iov_len; done++)
		got -= here[done].iov_len;
	return done;
}

static pid_t any_tid(const struct proc *p)
{
	size_t i;

	for (i = 0; i < p->threads.n; i++)
		if (!p->threads.v[i].gone)
			return p->threads.v[i].tid;
	return p->pid;
}

int spans_read(struct spans *s, struct proc *p)
{
	size_t i = 0;

	while (i < s->v.n) {
		struct span_of_text *t;

		i += read_some(s, any_tid(p), i, MIN(s->v.n - i, (size_t)READ_AT_ONCE));
		if (i == s->v.n)
			break;
		/* Text without read permission, or none at all: /proc/PID/mem reads it, or shows that it is gone. */
		t = &s->v.v[i++];
		t->gone = proc_read(p, TADDR(t->lo), t->now, t->hi - t->lo) < 0;
		if (t->gone && p->gone)
			return -ESRCH;
	}
	return 0;
}

/*
 * The kernel writes in chunks of a page's length, counted from the start of the write, and a SIGKILL may end
 * the write after any chunk. So a write begins at a page border: then no page is ever written in part.
 */
int span_write(struct proc *p, const struct span_of_text *t)
{
	size_t len = t->hi - t->lo, first = MIN(len, (size_t)(PAGE - t->lo % PAGE));
	int r = proc_write(p, TADDR(t->lo), t->now, first);

	if (r < 0 || first == len)
		return r;
	proc_step("text: first page written");
	return proc_write(p, TADDR(t->lo + first), t->now + first, len - first);
}

const struct edit *edit_around(const struct edit *edits, size_t n, uint64_t pc)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (pc - edits[mid].at.v < edits[mid].len)
			return &edits[mid];
		if (pc < edits[mid].at.v)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

uint64_t move_find(const struct move *moves, size_t n, uint64_t pc)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (moves[mid].from.v == pc)
			return moves[mid].to.v;
		if (pc < moves[mid].from.v)
			hi = mid;
		else
			lo = mid + 1;
	}
	return 0;
}
