/* SPDX-License-Identifier: MIT */
/*
 * Branches from one function into the middle of another. Compilers don't make them, assembler programmers do, and a
 * cold part jumps back. To find them without decoding the module, every byte of the text is read as if a branch
 * began there; those that would lead into the middle of another function are kept. Few are left, and each is
 * checked when its target matters.
 *
 * The text is cut at every function start.
 */
#include "pad/code_priv.h"

#include <string.h>
#include <sys/mman.h>

#define GAP_REACH 64		/* filler after a function */

struct scan {
	struct code *c;
	uint64_t all_lo, all_span;	/* all executable segments */
	uint8_t *inner;		/* bit per byte: after the start of a function, or in the gap after it */
};

static void set_inner(struct scan *s, uint64_t lo, uint64_t hi)
{
	uint64_t i = lo - s->all_lo, end = hi - s->all_lo;

	for (; i < end && i % 8; i++)
		s->inner[i / 8] |= 1 << i % 8;
	if (end > i) {
		memset(s->inner + i / 8, 0xff, (end - i) / 8);
		i += (end - i) / 8 * 8;
	}
	for (; i < end; i++)
		s->inner[i / 8] |= 1 << i % 8;
}

/* Excludes function starts, to which most calls lead (but not those of cold parts), and the linker's stubs. */
static void map_inner(struct scan *s)
{
	const struct module *m = s->c->m;

	for (size_t i = 0; i < m->funcs.n; i++) {
		uint64_t lo = m->funcs.v[i].addr, end = code_func_end(s->c, i) + GAP_REACH;

		if (!(m->funcs.v[i].flags & FUNC_COLD))
			lo++;
		if (i + 1 < m->funcs.n)
			end = MIN(end, m->funcs.v[i + 1].addr);
		end = MIN(end, s->all_lo + s->all_span);
		if (lo >= s->all_lo && lo < end)
			set_inner(s, lo, end);
	}
}

static void note_edge(void *arg, uint64_t from, uint64_t to)
{
	struct scan *s = arg;

	*vec_add(&priv(s->c)->cross) = (struct cross_edge){ to, from, EDGE_UNKNOWN };
}

static void scan_segment(struct scan *s, const struct segment *seg)
{
	const struct module *m = s->c->m;
	struct branch_search b = {
		.text = module_bytes(m, seg->addr, seg->filesz), .text_lo = seg->addr, .text_hi = seg->addr + seg->filesz,
		.all_lo = s->all_lo, .all_span = s->all_span, .inner = s->inner, .found = note_edge, .arg = s,
	};
	uint64_t lo = seg->addr, hi;
	size_t i = 0;

	for (; b.text && lo < b.text_hi; lo = hi) {
		while (i < m->funcs.n && m->funcs.v[i].addr <= lo)
			i++;
		hi = i < m->funcs.n ? MIN(m->funcs.v[i].addr, b.text_hi) : b.text_hi;
		m->arch->jumps->scan->list(&b, lo, hi);
	}
}

static int compare_cross(const void *a, const void *b)
{
	const struct cross_edge *x = a, *y = b;

	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

static bool is_text(const struct segment *seg)
{
	return (seg->prot & PROT_EXEC) && seg->filesz;
}

/* The range of all text; false if there is none, or if the file claims an impossible size. */
static bool span_text(struct code *c, struct scan *s)
{
	uint64_t lo = UINT64_MAX, hi = 0;

	for (size_t i = 0; i < c->m->segments.n; i++) {
		const struct segment *seg = &c->m->segments.v[i];

		if (!is_text(seg))
			continue;
		lo = MIN(lo, seg->addr);
		hi = MAX(hi, seg->addr + seg->filesz);
	}
	s->all_lo = lo;
	s->all_span = hi - lo;
	return hi > lo && hi - lo < 1ull << 36;
}

void code_scan_text(struct code *c)
{
	struct scan s = { .c = c };

	if (priv(c)->have_cross)
		return;
	priv(c)->have_cross = true;
	if (!c->arch->jumps->scan || !span_text(c, &s))
		return;
	s.inner = xcalloc(s.all_span / 8 + 1, 1);
	map_inner(&s);
	for (size_t i = 0; i < c->m->segments.n; i++)
		if (is_text(&c->m->segments.v[i]))
			scan_segment(&s, &c->m->segments.v[i]);
	free(s.inner);
	if (priv(c)->cross.n)
		qsort(priv(c)->cross.v, priv(c)->cross.n, sizeof(struct cross_edge), compare_cross);
}

size_t cross_lower(struct code *c, uint64_t addr)
{
	size_t lo = 0, hi = priv(c)->cross.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (priv(c)->cross.v[mid].to < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Whether the instruction around `from` leads to `to`. Decodes no further than that. */
static bool is_branch_at(struct code *c, size_t num, uint64_t from, uint64_t to)
{
	uint64_t at = c->m->funcs.v[num].addr, end = code_func_end(c, num);
	const uint8_t *code = module_bytes(c->m, at, end - at);
	struct insn in;

	for (; code && at <= from; at += in.len, code += in.len) {
		/* Not decodable: taken as a branch. */
		if (c->arch->decode(code, MIN(end - at, (uint64_t)INSN_MAX), at, &in) < 0)
			return true;
		if (from < at + in.len)
			return (in.flags & INSN_PCREL) && in.target == to;
	}
	return true;
}

/*
 * Whether it is a branch. Code outside of all functions can't be decoded with certainty: there, bytes that look
 * like a branch count as one.
 */
bool cross_confirm(struct code *c, size_t edge)
{
	struct cross_edge *e = &priv(c)->cross.v[edge];
	size_t num;

	if (e->state == EDGE_UNKNOWN) {
		num = code_find(c, e->from);
		e->state = num == NO_FUNC || is_branch_at(c, num, e->from, e->to) ? EDGE_REAL : EDGE_FALSE;
	}
	return e->state == EDGE_REAL;
}

static bool window_hit(struct code *c, const struct span *w)
{
	bool hit = false;

	for (size_t i = cross_lower(c, w->lo + 1); i < priv(c)->cross.n; i++) {
		uint64_t to = priv(c)->cross.v[i].to;

		if (to >= w->hi)
			break;
		if (cross_confirm(c, i))
			hit |= code_add_target(c, to, TARGET_BRANCH);
	}
	return hit;
}

/*
 * For a few windows, a simple pass over the text for each of them is faster than listing all branches between
 * functions. True is certain; false means that the list is needed.
 */
static bool surely_quiet(struct code *c, const struct span *w)
{
	const struct branch_scan *scan = c->arch->jumps->scan;

	for (size_t i = 0; i < c->m->segments.n; i++) {
		const struct segment *seg = &c->m->segments.v[i];
		const uint8_t *text = is_text(seg) ? module_bytes(c->m, seg->addr, seg->filesz) : NULL;
		uint32_t first = w->lo + 1 - seg->addr, width = w->hi - w->lo - 1;

		if (text && scan->any_distance(text, seg->filesz, first, width))
			return false;
		if (text && w->lo - seg->addr < seg->filesz && scan->any_short(text, seg->filesz, first, width))
			return false;
	}
	return true;
}

static bool few_and_quiet(struct code *c, const struct span *windows, size_t n)
{
	if (priv(c)->have_cross || !n || n > 4)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!surely_quiet(c, &windows[i]))
			return false;
	return true;
}

bool code_window_hit_from_outside(struct code *c, const struct span *windows, size_t n,
				  uint8_t *ret_hit)
{
	bool any = false;

	if (!c->arch->jumps->scan || few_and_quiet(c, windows, n)) {
		memset(ret_hit, 0, n);
		return false;
	}
	code_scan_text(c);
	for (size_t i = 0; i < n; i++) {
		ret_hit[i] = window_hit(c, &windows[i]);
		any |= ret_hit[i];
	}
	return any;
}
