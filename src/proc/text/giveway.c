/* SPDX-License-Identifier: MIT */
/*
 * A breakpoint that another tool sets over a jump of jab. The kernel does so for a uprobe: it writes int3 over a byte of the
 * text, but takes the instruction to be executed instead from the file, and goes on after that instruction. This may be
 * in the middle of the jump, unless the first instruction of the window is as long as the jump. So the window
 * gets its old bytes back around the breakpoint, which stays: the probe there is removed, and the program goes on.
 *
 * Threads need not be moved. One that is at the breakpoint comes to the old bytes after it, and one in the
 * pad leaves it for the instruction after the window.
 */
#include "proc/undo/clean.h"

#include <string.h>
#include "base/err.h"
#include "proc/internal.h"
#include "proc/text/spans.h"

bool text_is_under_breakpoint(const uint8_t *now, const uint8_t *bytes, size_t n)
{
	const struct code_bytes *trap = &arch_host()->thread->trap;
	bool found = false;
	size_t at;

	for (size_t i = 0; i < n; i++) {
		if (now[i] == bytes[i])
			continue;
		at = i - i % trap->len;
		if (n - at < trap->len || memcmp(now + at, trap->bytes, trap->len))
			return false;
		i = at + trap->len - 1;
		found = true;
	}
	return found;
}

void text_put_around_breakpoint(uint8_t *now, const uint8_t *new, const uint8_t *old, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (now[i] == new[i])
			now[i] = old[i];
}

struct way { struct proc *p; const struct text_patch *patch; struct spans spans; };

static bool is_over(const struct way *w, const struct span_of_text *t, size_t i)
{
	const struct edit *e = &w->patch->edits.v[i];

	return !t->gone && text_is_under_breakpoint(span_at(t, e->at.v), e->new, e->len);
}

/* Only the bytes of the window: breakpoints may be set nearby at this very time. */
static int put_back(const struct way *w, const struct span_of_text *t, size_t i)
{
	const struct edit *e = &w->patch->edits.v[i];
	uint8_t *now = span_at(t, e->at.v);
	int r = 0;

	for (size_t k = 0; r == 0 && k < e->len; k++)
		if (now[k] == e->new[k] && e->new[k] != e->old[k])
			r = proc_write(w->p, TADDR(e->at.v + k), &e->old[k], 1);
	return r;
}

/* Returns how many edits have a breakpoint. put: also restore them; while held. */
static int64_t look(struct way *w, bool put, void (*given)(void *arg, taddr at), void *arg)
{
	int64_t r = spans_read(&w->spans, w->p), n = 0;

	for (size_t i = 0; r == 0 && i < w->spans.v.n; i++) {
		const struct span_of_text *t = &w->spans.v.v[i];

		for (size_t k = t->first; r == 0 && k < t->first + t->n; k++) {
			if (!is_over(w, t, k))
				continue;
			n++;
			r = put ? put_back(w, t, k) : 0;
			if (put && r == 0)
				given(arg, w->patch->edits.v[k].at);
		}
	}
	return r < 0 ? r : n;
}

int text_give_way(struct proc *p, const struct text_patch *patch, void (*given)(void *arg, taddr at), void *arg)
{
	struct way w = { .p = p, .patch = patch };
	int64_t r;
	int end;

	if (!patch->edits.n)
		return 0;
	spans_make(&w.spans, patch->edits.v, patch->edits.n, false);
	r = look(&w, false, given, arg);
	if (r > 0) {
		r = proc_stop(p);
		if (r == 0) {
			r = look(&w, true, given, arg);
			end = proc_resume(p);
			r = r < 0 ? r : end;
		}
	}
	spans_free(&w.spans);
	return target_left(p, r) ? 0 : MIN(r, 0);
}
