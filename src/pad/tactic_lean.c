/* SPDX-License-Identifier: MIT */
/*
 * Jumps that share their displacement with other code. The site takes one to four bytes, and the CPU reads the
 * bytes after them as the high bytes of the displacement:
 *
 *	site: [prefixes] opcode d0 d1 | next: b0 b1 ...	goes to site + ... + (b1 b0 d1 d0)
 *
 * Prefixes have no effect on a jump; each shifts the displacement by a byte, so that other bytes become its top.
 *
 * pun: the bytes after the site stay unchanged, and the pad is mapped where they lead. evict: the next instruction
 * becomes a jump of its own, to a pad at a chosen address: its displacement bytes are chosen so that the site's
 * jump leads to free room. If the next instruction is too short itself, the one after it is displaced as well, and
 * so on (a chain).
 */
#include "pad/plan_priv.h"

#include <string.h>

#define BACK_MAX 4
#define CHAIN_MAX 4
#define TRIES 384

struct chain {
	struct window *w[CHAIN_MAX];	/* from the site upwards; the last one writes its whole displacement */
	int n;
	bool known;			/* the last one is already in the plan */
};

static struct window *short_window(struct plan *p, const struct line *l, int n, int prefixes)
{
	struct window *w = window_new(p, l, SHAPE_JUMP);

	memset(w->head, p->arch->jumps->prefix, prefixes);
	w->head[prefixes] = p->arch->jumps->opcode;
	w->rel = prefixes + 1;
	w->n = n;
	return w;
}

/* Calls `try` for the longest short run at the site and for runs that begin a little earlier. */
static bool each_run(struct plan *p, struct site *s, bool (*try)(struct plan *, struct site *, struct line *, int))
{
	uint64_t start = s->at;
	struct line l;

	for (int i = 0; i < BACK_MAX; i++) {
		for (int n = jump_len(p) - 1; n; n--)
			if (line_walk(p, s, start, n, s->at, s->flags, &l) && try(p, s, &l, n))
				return true;
		if (s->exact || !line_before(p, s, start, &start) || window_over(p, start, start + 1))
			return false;
	}
	return false;
}

static bool lean_as_is(struct plan *p, struct site *s, struct line *l, int n)
{
	bool moved = plan_is_written(p, l->start + n);

	for (int k = 0; k < n; k++) {
		struct window *w = short_window(p, l, n, k);

		if (!window_commit(p, l, w, false))
			continue;
		window_settle(p, w, s, moved ? TACTIC_EVICT : TACTIC_PUN, 0);
		return true;
	}
	return false;
}

bool tactic_pun(struct plan *p, struct site *s)
{
	return each_run(p, s, lean_as_is);
}

/* A pseudo-random address in reach, the same in every run. */
static uint64_t random_spot(const struct plan *p, uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 32) % p->spots_size;
	for (size_t i = 0; i < p->spots.n; i++) {
		uint64_t size = p->spots.v[i].hi - p->spots.v[i].lo;

		if (x < size)
			return p->spots.v[i].lo + x;
		x -= size;
	}
	return p->spots.v[0].lo;
}

/* The values of a displacement's top byte that lead to free room. */
static int good_tops(const struct plan *p, const struct window *w, uint8_t *tops)
{
	uint64_t base = w->start + w->rel + 4 + p->bias;
	int n = 0;

	for (int t = 0; t < 256; t++) {
		uint64_t lo = base + (int64_t)(int32_t)((uint32_t)t << 24), hi = lo + (1 << 24);

		lo = MAX(lo, p->reach_lo);
		hi = MIN(hi, p->reach_hi);
		if (lo < hi && room_open(p->room, lo, hi))
			tops[n++] = t;
	}
	return n;
}

/* Where ordinary pads are allocated at present: another pad there needs no new mapping. */
static uint64_t near_spot(struct plan *p)
{
	uint64_t at = room_alloc(p->room, 16, p->reach_lo, p->reach_hi);

	room_release(p->room, at, 16);
	return at;
}

/* The range for the pad of w, as far as the bytes after it decide. */
static bool pad_range(const struct plan *p, const struct window *w, uint64_t *ret_lo, uint64_t *ret_hi)
{
	*ret_lo = p->reach_lo;
	*ret_hi = p->reach_hi;
	return window_own(w) == 4 || window_lean_range(p, w, ret_lo, ret_hi);
}

/*
 * Allocates the pad of w in [lo, hi) near y, such that byte j of its displacement is t. salt varies the bytes below
 * j, on which other windows may depend.
 */
static uint64_t place_with(struct plan *p, const struct window *w, uint64_t lo, uint64_t hi, uint64_t y, int j,
			   uint8_t t, uint32_t salt)
{
	uint64_t base = w->start + w->rel + 4 + p->bias;
	uint64_t width = 1ull << 8 * j, at;

	if (j == 0) {
		lo = MAX(y & -65536ull, lo);
		hi = MIN((y & -65536ull) + 65536, hi);
		return lo < hi ? room_alloc_at(p->room, w->pad_size, lo, hi, (base + t) & 0xff, 256) : 0;
	}
	at = base + ((y - base) & -(width << 8)) + t * width;
	lo = MAX(lo, at + salt % width);
	hi = MIN(hi, at + width);
	return lo < hi ? room_alloc_at(p->room, w->pad_size, lo, hi, 0, 1) : 0;
}

static bool chain_place(struct plan *p, const struct chain *c, int i, int *tries);

/* The pad of window i is chosen: continues with the window below it. */
static bool chain_below(struct plan *p, const struct chain *c, int i, int *tries)
{
	window_write(p, c->w[i]);
	if (!i || chain_place(p, c, i - 1, tries))
		return true;
	window_unwrite(p, c->w[i]);
	window_unplace(p, c->w[i]);
	return false;
}

/*
 * Window i writes the byte that is the top of the displacement of the window below: tries only values that lead to
 * free room, first near other pads, then anywhere.
 */
static bool chain_aim(struct plan *p, const struct chain *c, int i, int j, uint64_t lo, uint64_t hi, int *tries)
{
	uint64_t near = window_own(c->w[i]) == 4 ? near_spot(p) : lo, y;
	uint8_t tops[256];
	int n = good_tops(p, c->w[i - 1], tops);

	for (int k = 0; n && k < 4 * n && *tries > 0; k++, --*tries) {
		if (k < n)
			y = near;
		else if (window_own(c->w[i]) == 4)
			y = random_spot(p, c->w[i]->start + k);
		else
			y = lo + (k * 0x9e3779b97f4a7c15ull >> 16) % (hi - lo);
		c->w[i]->pad = place_with(p, c->w[i], lo, hi, y, j, tops[k % n], i > 1 ? k * 40503u : 0);
		if (c->w[i]->pad && chain_below(p, c, i, tries))
			return true;
	}
	return false;
}

/* Finds places for the pads of windows i, i-1 ... 0, each leaning on those before. */
static bool chain_place(struct plan *p, const struct chain *c, int i, int *tries)
{
	struct window *w = c->w[i], *below = i ? c->w[i - 1] : NULL;
	uint64_t lo, hi;
	int j;

	if (!pad_range(p, w, &lo, &hi))
		return false;
	if (!below)
		return window_place_lean(p, w) && chain_below(p, c, i, tries);
	j = (int64_t)(below->start + below->rel + 3 - (w->start + w->rel));
	if (j >= 0 && j < window_own(w))
		return chain_aim(p, c, i, j, lo, hi, tries);
	if (window_own(w) < 4)
		return window_place_lean(p, w) && chain_below(p, c, i, tries);
	for (int k = 0; k < 16 && *tries > 0; k++, --*tries) {
		lo = k ? random_spot(p, w->start + k) : near_spot(p);
		w->pad = room_alloc_at(p->room, w->pad_size, lo, lo + 4096, 0, 1);
		if (w->pad && chain_below(p, c, i, tries))
			return true;
	}
	return false;
}

/* Searches a place for the last window's pad that gives all others a place, too. */
static bool chain_search(struct plan *p, const struct chain *c)
{
	int tries = TRIES;

	return p->spots_size && chain_place(p, c, c->n - 1, &tries);
}

static bool chain_solve(struct plan *p, const struct chain *c)
{
	struct window *last = c->w[c->n - 1], old = *last;

	if (c->known) {
		window_unwrite(p, last);
		last->pad = last->tramp = 0;
	}
	if (chain_search(p, c)) {
		if (c->known)
			window_unplace(p, &old);
		for (int i = 0; i < c->n - c->known; i++)
			window_add(p, c->w[i]);
		return true;
	}
	if (c->known) {
		*last = old;
		window_write(p, last);
	}
	return false;
}

/* The instruction at addr as a window that writes its whole displacement; NULL if that is not possible. */
static struct window *full_window(struct plan *p, uint64_t addr)
{
	struct window *w;
	struct site s;
	struct line l;

	if (!plan_site_at(p, addr, &s))
		return NULL;
	w = window_retarget(p, addr, &s.insn, false);
	if (!w && line_walk(p, &s, addr, jump_len(p), addr, LINE_NO_MERGE, &l) && !window_over(p, addr, l.end))
		w = window_new(p, &l, SHAPE_JUMP);
	if (w && plan_is_free(p, addr, w->n))
		return w;
	free(w);
	return NULL;
}

static bool chain_from(struct plan *p, struct chain *c, uint64_t addr);

static bool chain_with(struct plan *p, struct chain *c, struct window *w, uint64_t next)
{
	if (!c->known && !window_may_stand(p, w, true))
		return false;
	c->w[c->n++] = w;
	if (next ? chain_from(p, c, next) : chain_solve(p, c))
		return true;
	c->n--;
	return false;
}

/* The instruction at addr is too short for a jump of its own: it leans on the next one as well. */
static bool chain_short(struct plan *p, struct chain *c, uint64_t addr)
{
	struct site s;
	struct line l;

	if (c->n + 1 >= CHAIN_MAX || !plan_site_at(p, addr, &s))
		return false;
	for (int n = jump_len(p) - 1; n; n--) {
		if (!line_walk(p, &s, addr, n, addr, LINE_NO_MERGE, &l) || l.end > addr + n ||
		    window_over(p, addr, l.end) || !plan_is_free(p, addr, n))
			continue;
		for (int k = 0; k < n; k++) {
			struct window *w = short_window(p, &l, n, k);

			if (chain_with(p, c, w, addr + n))
				return true;
			free(w);
		}
		return false;
	}
	return false;
}

/* Continues the chain at addr, and solves it. */
static bool chain_from(struct plan *p, struct chain *c, uint64_t addr)
{
	struct window *w = window_at(p, addr);
	bool done;

	if (w) {
		if (window_own(w) != 4 || w->shape == SHAPE_HOP || w->tramp || plan_is_leaned_on(p, addr, w->n))
			return false;
		c->known = true;
		done = chain_with(p, c, w, 0);
		c->known = done;
		return done;
	}
	if (window_over(p, addr, addr + 1))
		return false;
	w = full_window(p, addr);
	if (!w)
		return chain_short(p, c, addr);
	if (chain_with(p, c, w, 0))
		return true;
	free(w);
	return false;
}

static bool evict_run(struct plan *p, struct site *s, struct line *l, int n)
{
	size_t first;

	if (plan_is_written(p, l->start + n) && lean_as_is(p, s, l, n))
		return true;
	if (l->nmerged || l->end > l->start + n || !plan_is_free(p, l->start, n))
		return false;
	for (int k = 0; k < n; k++) {
		struct chain c = { .n = 1 };

		c.w[0] = short_window(p, l, n, k);
		if (window_may_stand(p, c.w[0], true) && chain_from(p, &c, l->start + n)) {
			bool burden = !c.known && !slots_in(p, c.w[1]->start, c.w[1]->end, &first);

			window_settle(p, c.w[0], s, TACTIC_EVICT, burden ? c.w[1]->start : 0);
			for (int i = 1; i < c.n - c.known; i++)
				window_settle(p, c.w[i], NULL, TACTIC_JUMP, 0);
			return true;
		}
		free(c.w[0]);
	}
	return false;
}

bool tactic_evict(struct plan *p, struct site *s)
{
	return each_run(p, s, evict_run);
}
