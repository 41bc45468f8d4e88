/* SPDX-License-Identifier: MIT */
/*
 * Which bytes of the target's free address space are used by pads. A page counts as taken while at least one of its
 * bytes is used; each has a bitmap of its bytes, because some pads must be at one exact address. Taken pages are
 * found by number in a hash, and in order through a second hash of 2 MiB regions with a bit per page.
 *
 * Most pads may be anywhere near their module. They are packed one after another in blocks of 64 KiB, so that
 * thousands of them need a handful of mappings.
 */
#include "arch/page.h"
#include "pad/room.h"

#include <string.h>

#define BLOCK 65536ull
#define REGION_PAGES 512
#define ADDR_END (arch_host()->user_top)

struct page {
	uint64_t no;
	uint32_t used;			/* bytes */
	uint64_t map[PAGE / 64];
};

struct region {
	uint64_t no;
	uint64_t taken[REGION_PAGES / 64];
};

/* A hash from a number to an object whose first member is that number. */
struct table { void **v; size_t n, cap; };

struct block {
	uint64_t lo, at, hi;
	size_t failed;			/* this many bytes did not fit between at and hi; 0: no attempt has failed */
};

struct room {
	VEC(struct gap) gaps;		/* sorted, page-aligned, not adjacent */
	struct table pages, regions;
	VEC(struct block) blocks;
	size_t areas;			/* runs of taken pages */
	bool full;
};

static size_t table_slot(const struct table *t, uint64_t no)
{
	size_t i = (no * 0x9e3779b97f4a7c15ull >> 20) & (t->cap - 1);

	while (t->v[i] && *(uint64_t *)t->v[i] != no)
		i = (i + 1) & (t->cap - 1);
	return i;
}

static void *table_get(const struct table *t, uint64_t no)
{
	return t->cap ? t->v[table_slot(t, no)] : NULL;
}

static void table_grow(struct table *t)
{
	struct table new = { .n = t->n, .cap = t->cap ? t->cap * 2 : 64 };

	new.v = xcalloc(new.cap, sizeof(*new.v));
	for (size_t i = 0; i < t->cap; i++)
		if (t->v[i])
			new.v[table_slot(&new, *(uint64_t *)t->v[i])] = t->v[i];
	free(t->v);
	*t = new;
}

static void *table_make(struct table *t, uint64_t no, size_t size)
{
	void *thing = table_get(t, no);
	size_t i;

	if (thing)
		return thing;
	if (t->n * 2 >= t->cap)
		table_grow(t);
	i = table_slot(t, no);
	t->v[i] = xcalloc(1, size);
	*(uint64_t *)t->v[i] = no;
	t->n++;
	return t->v[i];
}

static void table_free(struct table *t)
{
	for (size_t i = 0; i < t->cap; i++)
		free(t->v[i]);
	free(t->v);
}

static int gap_order(const void *a, const void *b)
{
	const struct gap *x = a, *y = b;

	return (x->lo > y->lo) - (x->lo < y->lo);
}

struct room *room_create(const struct gap *gaps, size_t n)
{
	struct room *r = xcalloc(1, sizeof(*r));
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t lo = (gaps[i].lo + PAGE - 1) & -PAGE, hi = MIN(gaps[i].hi, ADDR_END) & -PAGE;

		if (gaps[i].lo < ADDR_END && MAX(lo, PAGE) < hi)
			*vec_add(&r->gaps) = (struct gap){ MAX(lo, PAGE), hi };
	}
	if (!r->gaps.n)
		return r;
	qsort(r->gaps.v, r->gaps.n, sizeof(*r->gaps.v), gap_order);
	for (size_t i = 1; i < r->gaps.n; i++) {
		if (r->gaps.v[i].lo <= r->gaps.v[kept].hi)
			r->gaps.v[kept].hi = MAX(r->gaps.v[kept].hi, r->gaps.v[i].hi);
		else
			r->gaps.v[++kept] = r->gaps.v[i];
	}
	r->gaps.n = kept + 1;
	return r;
}

void room_free(struct room *r)
{
	if (!r)
		return;
	table_free(&r->pages);
	table_free(&r->regions);
	vec_free(&r->gaps);
	vec_free(&r->blocks);
	free(r);
}

/* The first gap that ends above addr; gaps.n if there is none. */
static size_t gap_above(const struct room *r, uint64_t addr)
{
	size_t lo = 0, hi = r->gaps.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->gaps.v[mid].hi <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool room_open(const struct room *r, uint64_t lo, uint64_t hi)
{
	size_t i = gap_above(r, lo);

	return i < r->gaps.n && r->gaps.v[i].lo < hi;
}

void room_gaps_in(const struct room *r, uint64_t lo, uint64_t hi, gap_list *ret_gaps)
{
	for (size_t i = gap_above(r, lo); i < r->gaps.n && r->gaps.v[i].lo < hi; i++)
		*vec_add(ret_gaps) = (struct gap){ MAX(lo, r->gaps.v[i].lo), MIN(hi, r->gaps.v[i].hi) };
}

bool room_full(const struct room *r)
{
	return r->full;
}

static bool page_taken(const struct room *r, uint64_t no)
{
	const struct region *g = table_get(&r->regions, no / REGION_PAGES);

	return g && (g->taken[no % REGION_PAGES / 64] >> (no % 64) & 1);
}

/* Toggles whether a page is taken; keeps the number of areas up to date. */
static void page_turn(struct room *r, uint64_t no)
{
	struct region *g = table_make(&r->regions, no / REGION_PAGES, sizeof(*g));
	int alone = 1 - page_taken(r, no - 1) - page_taken(r, no + 1);

	r->areas += page_taken(r, no) ? -alone : alone;
	g->taken[no % REGION_PAGES / 64] ^= 1ull << (no % 64);
}

static uint64_t word_mask(unsigned int word, unsigned int from, unsigned int to)
{
	uint64_t mask = ~0ull;

	if (from > word * 64)
		mask &= ~0ull << (from - word * 64);
	if (to < word * 64 + 64)
		mask &= ~0ull >> (word * 64 + 64 - to);
	return mask;
}

/* The last used byte in [from, to) of a page, or -1. */
static int page_clash(const struct page *p, unsigned int from, unsigned int to)
{
	for (int w = (to - 1) / 64; w >= (int)(from / 64); w--) {
		uint64_t hit = p->map[w] & word_mask(w, from, to);

		if (hit)
			return w * 64 + 63 - __builtin_clzll(hit);
	}
	return -1;
}

static void page_mark(struct page *p, unsigned int from, unsigned int to, bool use)
{
	for (unsigned int w = from / 64; w <= (to - 1) / 64; w++) {
		uint64_t mask = word_mask(w, from, to);

		p->map[w] = use ? p->map[w] | mask : p->map[w] & ~mask;
	}
	p->used += use ? to - from : from - to;
}

/*
 * Whether [at, at+size) is free. If not, *ret_next is the next address worth a try. A page that is already taken
 * was in a gap then, and jab has made no mapping since.
 */
static bool fits(struct room *r, uint64_t at, size_t size, uint64_t *ret_next)
{
	uint64_t end = at + size;
	size_t fresh = 0;

	for (uint64_t no = (end - 1) / PAGE; no + 1 > at / PAGE; no--) {
		uint64_t from = MAX(at, no * PAGE), to = MIN(end, (no + 1) * PAGE);
		const struct page *p = table_get(&r->pages, no);
		size_t g;
		int clash;

		if (p && p->used) {
			clash = page_clash(p, from - no * PAGE, to - no * PAGE);
			*ret_next = no * PAGE + clash + 1;
			if (clash >= 0)
				return false;
			continue;
		}
		g = gap_above(r, no * PAGE);
		if (g == r->gaps.n || r->gaps.v[g].lo > no * PAGE) {
			*ret_next = g == r->gaps.n ? ADDR_END : r->gaps.v[g].lo;
			return false;
		}
		fresh++;
	}
	*ret_next = end;
	if (fresh && r->areas >= ROOM_MAX_AREAS && !page_taken(r, at / PAGE - 1)) {
		r->full = true;
		return false;
	}
	return true;
}

static void mark(struct room *r, uint64_t at, size_t size, bool use)
{
	for (uint64_t from = at, to; from < at + size; from = to) {
		uint64_t no = from / PAGE;
		struct page *p = table_make(&r->pages, no, sizeof(*p));

		to = MIN(at + size, (no + 1) * PAGE);
		if (use && !p->used)
			page_turn(r, no);
		page_mark(p, from - no * PAGE, to - no * PAGE, use);
		if (!use && !p->used)
			page_turn(r, no);
	}
}

void room_release(struct room *r, uint64_t at, size_t size)
{
	struct block *b;

	if (!at || !size)
		return;
	mark(r, at, size, false);
	for (size_t i = r->blocks.n; i-- && i + 4 > r->blocks.n;) {
		b = &r->blocks.v[i];
		if (at >= b->lo && at < b->at && b->at - (at + size) < 16) {
			b->at = at;	/* the most recent allocation is returned to its block */
			b->failed = 0;
		}
	}
}

/* Allocates in a block. Pads at exact addresses fragment a block: a size that did not fit is not tried again. */
static uint64_t block_take(struct room *r, struct block *b, size_t size)
{
	uint64_t at = (b->at + 15) & -16ull, next;

	if (b->failed && size >= b->failed)
		return 0;
	while (at + size <= b->hi) {
		if (fits(r, at, size, &next)) {
			mark(r, at, size, true);
			b->at = at + size;
			return at;
		}
		if (next >= b->hi)
			break;
		at = (next + 15) & -16ull;
	}
	b->failed = size;
	return 0;
}

/* Whether no page of the block is taken. */
static bool block_is_fresh(const struct room *r, uint64_t lo, uint64_t len)
{
	for (uint64_t at = lo; at < lo + len; at += PAGE)
		if (page_taken(r, at / PAGE))
			return false;
	return true;
}

/* Finds a block without taken pages in [lo, hi), as near to its lower or upper end as possible; 0: none. */
static uint64_t block_at_end(const struct room *r, uint64_t lo, uint64_t hi, uint64_t len, bool upper)
{
	lo = (lo + len - 1) / len * len;
	hi = hi / len * len;
	if (lo >= hi)
		return 0;
	for (uint64_t i = 0; i < (hi - lo) / len; i++) {
		uint64_t at = upper ? hi - (i + 1) * len : lo + i * len;

		if (block_is_fresh(r, at, len))
			return at;
	}
	return 0;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Makes a new block of len bytes as near to the middle of [lo, hi) as the gaps allow. */
static bool block_make(struct room *r, uint64_t lo, uint64_t hi, uint64_t len)
{
	uint64_t middle = lo + (hi - lo) / 2, best = 0;

	for (size_t i = gap_above(r, lo); i < r->gaps.n && r->gaps.v[i].lo < hi; i++) {
		uint64_t from = MAX(lo, r->gaps.v[i].lo), to = MIN(hi, r->gaps.v[i].hi), at[2] = { 0 };

		if (from < middle)
			at[0] = block_at_end(r, from, MIN(to, middle), len, true);
		if (to > middle)
			at[1] = block_at_end(r, MAX(from, middle), to, len, false);
		for (int k = 0; k < 2; k++)
			if (at[k] && (!best || distance(at[k], middle) < distance(best, middle)))
				best = at[k];
	}
	if (!best)
		return false;
	*vec_add(&r->blocks) = (struct block){ .lo = best, .at = best, .hi = best + len };
	return true;
}

uint64_t room_alloc(struct room *r, size_t size, uint64_t lo, uint64_t hi)
{
	uint64_t lens[2] = { MAX(BLOCK, (size + PAGE - 1) & -PAGE), (size + PAGE - 1) & -PAGE };
	uint64_t at;

	if (!size || lo >= hi)
		return 0;
	for (size_t i = r->blocks.n; i--;) {
		struct block *b = &r->blocks.v[i];

		if (b->lo < lo || b->hi > hi || b->hi - b->at < size)
			continue;
		at = block_take(r, b, size);
		if (at)
			return at;
	}
	for (int k = 0; k < 2; k++) {
		if (!block_make(r, lo, hi, lens[k]))
			continue;
		at = block_take(r, &r->blocks.v[r->blocks.n - 1], size);
		if (at)
			return at;
	}
	return 0;
}

/* The number of the first taken page in [from, to), or `to`. */
static uint64_t next_taken(const struct room *r, uint64_t from, uint64_t to)
{
	while (from < to) {
		const struct region *g = table_get(&r->regions, from / REGION_PAGES);
		uint64_t word = g ? g->taken[from % REGION_PAGES / 64] >> (from % 64) : 0;

		if (word) {
			from += __builtin_ctzll(word);
			return MIN(from, to);
		}
		if (g)
			from = (from / 64 + 1) * 64;
		else
			from = (from / REGION_PAGES + 1) * REGION_PAGES;
	}
	return to;
}

static uint64_t align_to(uint64_t x, uint64_t value, uint64_t step)
{
	return x + (value - x % step + step) % step;
}

/* The first address x with lo <= x < hi that fits. */
static uint64_t first_fit(struct room *r, size_t size, uint64_t lo, uint64_t hi, uint64_t value,
			  uint64_t step, int tries)
{
	uint64_t x = align_to(lo, value, step), next;

	for (; x < hi && tries--; x = align_to(MAX(next, x + 1), value, step))
		if (fits(r, x, size, &next))
			return x;
	return 0;
}

static uint64_t find_at(struct room *r, size_t size, uint64_t lo, uint64_t hi, uint64_t value, uint64_t step)
{
	uint64_t no = next_taken(r, lo / PAGE, (hi - 1) / PAGE + 1), end = (hi - 1) / PAGE + 1, at;

	for (int tries = 0; no < end && tries < 48 && step <= PAGE; tries++) {
		const struct page *p = table_get(&r->pages, no);

		if (p->used + size <= PAGE || tries < 4) {
			at = first_fit(r, size, MAX(lo, no * PAGE), MIN(hi, (no + 1) * PAGE), value,
				       step, 64);
			if (at)
				return at;
		}
		no = next_taken(r, no + 1, end);
	}
	return first_fit(r, size, lo, hi, value, step, 4096);
}

uint64_t room_alloc_at(struct room *r, size_t size, uint64_t lo, uint64_t hi, uint64_t value, uint64_t step)
{
	uint64_t at;

	hi = MIN(hi, ADDR_END);
	if (!size || !step || lo >= hi || !room_open(r, lo, hi + size))
		return 0;
	at = find_at(r, size, lo, hi, value % step, step);
	if (at)
		mark(r, at, size, true);
	return at;
}

static int area_order(const void *a, const void *b)
{
	const struct area *x = a, *y = b;

	return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Whether the addresses between two areas may be mapped with them: they are not far apart and in one gap. */
static bool may_join(const struct room *r, const struct area *a, const struct area *b, uint64_t most)
{
	size_t g = gap_above(r, a->lo);

	return b->lo == a->hi || (b->lo - a->hi <= most && g < r->gaps.n && r->gaps.v[g].lo <= a->lo &&
				  r->gaps.v[g].hi >= b->hi);
}

void room_areas_joined(const struct room *r, uint64_t most, area_list *ret_areas)
{
	size_t first = ret_areas->n, kept = first;

	for (size_t i = 0; i < r->pages.cap; i++) {
		const struct page *p = r->pages.v[i];

		if (p && p->used)
			*vec_add(ret_areas) = (struct area){ p->no * PAGE, (p->no + 1) * PAGE };
	}
	if (ret_areas->n == first)
		return;
	qsort(ret_areas->v + first, ret_areas->n - first, sizeof(*ret_areas->v), area_order);
	for (size_t i = first + 1; i < ret_areas->n; i++) {
		if (may_join(r, &ret_areas->v[kept], &ret_areas->v[i], most))
			ret_areas->v[kept].hi = ret_areas->v[i].hi;
		else
			ret_areas->v[++kept] = ret_areas->v[i];
	}
	ret_areas->n = kept + 1;
}

void room_areas(const struct room *r, area_list *ret_areas)
{
	room_areas_joined(r, 0, ret_areas);
}
