/* SPDX-License-Identifier: MIT */
/*
 * Two bytes are enough if there is a long jump within reach of a rel8: in filler, in bytes that are dead because
 * their instructions are executed in a pad, or in the window of a neighbour that is displaced for it.
 */
#include "pad/plan_priv.h"

#define BACK_MAX 4

static bool in_reach(const struct plan *p, uint64_t start, uint64_t land)
{
	int64_t far = land - (start + hop_len(p));

	return far >= -128 && far <= 127;
}

static bool commit_hop(struct plan *p, struct site *s, const struct line *l, uint64_t land, enum tactic t,
		       uint64_t neighbour)
{
	struct window *w = window_new(p, l, SHAPE_HOP);

	w->n = hop_len(p);
	w->land = land;
	if (!window_commit(p, l, w, true))
		return false;
	window_settle(p, w, s, t, neighbour);
	return true;
}

/* Finds five free bytes in [lo, hi) that the hop can reach and that are not part of its own run; 0: none. */
static uint64_t find_five(const struct plan *p, const struct line *l, uint64_t lo, uint64_t hi)
{
	for (uint64_t at = lo; at + jump_len(p) <= hi; at++) {
		if (at < MAX(l->room, l->start + hop_len(p)) && at + jump_len(p) > l->start)
			continue;
		if (in_reach(p, l->start, at) && plan_is_free(p, at, jump_len(p)))
			return at;
	}
	return 0;
}

static uint64_t find_filler(struct plan *p, const struct line *l)
{
	uint64_t from = l->start + hop_len(p), end = from + 127, at;
	struct span sp;

	while (from <= end && code_filler_near(p->code, from, end - from, jump_len(p), &sp)) {
		at = find_five(p, l, sp.lo, sp.hi);
		if (at)
			return at;
		from = MAX(sp.hi, from + 1);
	}
	from = l->start;
	end = l->start + hop_len(p) - 128;
	while (from > end && code_filler_near(p->code, from, -(int64_t)(from - end), jump_len(p), &sp)) {
		at = find_five(p, l, sp.lo, sp.hi);
		if (at)
			return at;
		from = MIN(sp.lo, from - 1);
	}
	return 0;
}

/* Calls `try` with the run at the site and with runs that begin a little earlier. */
static bool each_start(struct plan *p, struct site *s, bool (*try)(struct plan *, struct site *, struct line *))
{
	uint64_t start = s->at;
	struct line l;

	for (int i = 0; i < BACK_MAX; i++) {
		if (line_walk(p, s, start, hop_len(p), s->at, s->flags, &l) && try(p, s, &l))
			return true;
		if (s->exact || !line_before(p, s, start, &start) || window_over(p, start, start + 1))
			return false;
	}
	return false;
}

static bool hop_to_filler(struct plan *p, struct site *s, struct line *l)
{
	uint64_t land = find_filler(p, l);

	return land && commit_hop(p, s, l, land, TACTIC_HOP, 0);
}

bool tactic_hop(struct plan *p, struct site *s)
{
	return each_start(p, s, hop_to_filler);
}

static bool has_target(struct plan *p, uint64_t lo, uint64_t hi)
{
	const struct fcode *f = code_func(p->code, lo);

	for (uint64_t at = lo; f && at < hi; at++)
		if (code_target(p->code, f, at) != TARGET_NONE)
			return true;
	return !f;
}

/* Finds bytes of a window in reach that are neither overwritten nor executed any more. */
static uint64_t find_dead(struct plan *p, const struct line *l)
{
	uint64_t lo = l->start - 126, hi = l->start + hop_len(p) + 127;
	struct window *w;

	for (; (w = window_over(p, lo, hi)); hi = w->start) {
		uint64_t at = find_five(p, l, w->start + w->n, w->end);

		if (at && plan_same_page(p, w->start, at + jump_len(p)) && !has_target(p, at, at + jump_len(p)))
			return at;
	}
	return 0;
}

/* Displaces ten bytes at v: five for its own jump, five for the hop's. */
static bool hop_over(struct plan *p, struct site *s, const struct line *l, uint64_t v)
{
	struct window *w;
	struct site other;
	struct line lv;
	size_t first;

	if (!in_reach(p, l->start, v + jump_len(p)) || !plan_same_page(p, v, v + 2 * jump_len(p)) || (v < l->room && v + 2 * jump_len(p) > l->start) ||
	    !plan_is_free(p, v, 2 * jump_len(p)) || !plan_site_at(p, v, &other) || other.exact)
		return false;
	if (!line_walk(p, &other, v, 2 * jump_len(p), v, LINE_NO_MERGE, &lv) || window_over(p, v, lv.end) ||
	    (v < l->start && lv.end > l->start))
		return false;
	w = window_new(p, &lv, SHAPE_JUMP);
	if (!window_commit(p, &lv, w, true))
		return false;
	if (!commit_hop(p, s, l, v + jump_len(p), TACTIC_HOP_NEIGHBOUR, slots_in(p, v, lv.end, &first) ? 0 : v)) {
		window_unwrite(p, w);
		window_drop(p, w);
		return false;
	}
	window_settle(p, w, NULL, TACTIC_JUMP, 0);
	return true;
}

static bool hop_to_neighbour(struct plan *p, struct site *s, struct line *l)
{
	uint64_t land = find_dead(p, l);
	const struct fcode *f = s->f;

	if (land && commit_hop(p, s, l, land, TACTIC_HOP_NEIGHBOUR, 0))
		return true;
	for (uint64_t far = 1; f && far < 140; far++) {
		uint64_t up = l->start + far, down = l->start - far;

		if (up < f->hi && f->index[up - f->lo] != UINT32_MAX && hop_over(p, s, l, up))
			return true;
		if (down >= f->lo && down < f->hi && f->index[down - f->lo] != UINT32_MAX &&
		    hop_over(p, s, l, down))
			return true;
	}
	return false;
}

bool tactic_hop_neighbour(struct plan *p, struct site *s)
{
	return each_start(p, s, hop_to_neighbour);
}
