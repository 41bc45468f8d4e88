/* SPDX-License-Identifier: MIT */
/*
 * Branches from one function into the middle of another. Compilers don't make them, assembler
 * programmers do, and a cold part jumps back. To find them without decoding the module, every byte
 * of the text is read as if a branch stood there; what would lead into the middle of another
 * function is kept. Few are left, and each is looked at closely when its target matters.
 *
 * The text is cut at every function start. A two-byte branch leaves its piece only near the edges,
 * so the inside of a piece is searched for four-byte distances alone.
 */
#include "pad/code_priv.h"

#include <string.h>

#define REL8_REACH 130
#define GAP_REACH 64		/* filler behind a function */

struct scan {
	struct code *c;
	const uint8_t *text;	/* bytes of the segment */
	uint64_t text_lo, text_hi;
	uint64_t all_lo, all_span;	/* all executable segments */
	uint8_t *inner;		/* bit per byte: behind the start of a function, or in the gap behind it */
};

enum form { FORM_NONE, FORM_REL32, FORM_0F, FORM_LEA, FORM_REL8 };

static uint8_t forms[256];	/* by first byte */

static void fill_forms(void)
{
	forms[0xe8] = forms[0xe9] = FORM_REL32;
	forms[0x0f] = FORM_0F;
	forms[0x8d] = FORM_LEA;
	forms[0xeb] = FORM_REL8;
	for (int i = 0x70; i <= 0x7f; i++)
		forms[i] = FORM_REL8;
	for (int i = 0xe0; i <= 0xe3; i++)
		forms[i] = FORM_REL8;
}

static bool is_inner(const struct scan *s, uint64_t addr)
{
	uint64_t i = addr - s->all_lo;

	return s->inner[i / 8] >> i % 8 & 1;
}

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

/* Not the starts themselves, where most calls lead to, and not the linker's stubs. */
static void map_inner(struct scan *s)
{
	const struct module *m = s->c->m;

	for (size_t i = 0; i < m->funcs.n; i++) {
		uint64_t lo = m->funcs.v[i].addr, end = code_func_end(s->c, i) + GAP_REACH;

		if (i + 1 < m->funcs.n)
			end = MIN(end, m->funcs.v[i + 1].addr);
		end = MIN(end, s->all_lo + s->all_span);
		if (lo >= s->all_lo && lo + 1 < end)
			set_inner(s, lo + 1, end);
	}
}

static void keep(struct scan *s, uint64_t from, uint64_t to, const struct span *piece)
{
	if (to - s->all_lo >= s->all_span || to - piece->lo < piece->hi - piece->lo)
		return;
	if (is_inner(s, to))
		*vec_add(&priv(s->c)->cross) = (struct cross_edge){ to, from };
}

static uint64_t rel32_target(const uint8_t *p, uint64_t at)
{
	int32_t distance;

	memcpy(&distance, p, sizeof(distance));
	return at + 4 + (int64_t)distance;
}

static void scan_byte(struct scan *s, uint64_t at, enum form form, const struct span *piece)
{
	const uint8_t *p = s->text + (at - s->text_lo);
	size_t room = s->text_hi - at;

	if (form == FORM_REL8) {
		if (room >= 2)
			keep(s, at, at + 2 + (int64_t)(int8_t)p[1], piece);
		return;
	}
	if (form == FORM_REL32) {
		if (room >= 5)
			keep(s, at, rel32_target(p + 1, at + 1), piece);
		return;
	}
	if (room < 6)
		return;
	if (form == FORM_0F ? (p[1] & 0xf0) == 0x80 : (p[1] & 0xc7) == 0x05)
		keep(s, at, rel32_target(p + 2, at + 2), piece);
}

static void scan_range(struct scan *s, uint64_t lo, uint64_t hi, const struct span *piece, enum form most)
{
	const uint8_t *p = s->text + (lo - s->text_lo);

	for (uint64_t n = hi - lo, i = 0; i < n; i++) {
		enum form form = forms[p[i]];

		if (form != FORM_NONE && form <= most)
			scan_byte(s, lo + i, form, piece);
	}
}

static void scan_piece(struct scan *s, const struct span *piece)
{
	uint64_t lo = piece->lo, hi = piece->hi;

	if (hi - lo <= 2 * REL8_REACH) {
		scan_range(s, lo, hi, piece, FORM_REL8);
		return;
	}
	scan_range(s, lo, lo + REL8_REACH, piece, FORM_REL8);
	scan_range(s, lo + REL8_REACH, hi - REL8_REACH, piece, FORM_LEA);
	scan_range(s, hi - REL8_REACH, hi, piece, FORM_REL8);
}

static void scan_segment(struct scan *s, const struct segment *seg)
{
	s->text_lo = seg->addr;
	s->text_hi = seg->addr + seg->filesz;
	s->text = module_bytes(s->c->m, seg->addr, seg->filesz);
	for (uint64_t at = s->text_lo; s->text && at < s->text_hi; ) {
		uint64_t next = code_next_start(s->c, at + 1);
		struct span piece = { at, MIN(next, s->text_hi) };

		scan_piece(s, &piece);
		at = piece.hi;
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
	return (seg->prot & 4) && seg->filesz;	/* PROT_EXEC */
}

/* Around all text; false if there is none, or if the file lies about its size. */
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
	if (!span_text(c, &s))
		return;
	fill_forms();
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

/* The instruction that holds addr. */
static const struct insn *insn_around(const struct body *b, uint64_t addr)
{
	uint64_t off = addr - b->f.lo;

	for (uint64_t back = 0; back < INSN_MAX && back <= off; back++) {
		uint32_t i = b->f.index[off - back];

		if (i != NO_INSN)
			return back < b->f.insns.v[i].len ? &b->f.insns.v[i] : NULL;
	}
	return NULL;
}

/*
 * Is it really a branch? Code that no function holds can't be decoded with certainty: there, what
 * looks like a branch counts as one.
 */
bool cross_confirm(struct code *c, const struct cross_edge *e)
{
	size_t num = code_find(c, e->from);
	const struct insn *in;
	bool was_there, yes;
	struct body *b;

	if (num == NO_FUNC)
		return true;
	was_there = priv(c)->bodies[num] != NULL;
	b = code_raw(c, num);
	in = insn_around(b, e->from);
	yes = b->f.broken || (in && (in->flags & INSN_PCREL) && in->target == e->to);
	if (!was_there)
		code_forget(c, num);
	return yes;
}

static bool window_hit(struct code *c, const struct span *w)
{
	bool hit = false;

	for (size_t i = cross_lower(c, w->lo + 1); i < priv(c)->cross.n; i++) {
		const struct cross_edge e = priv(c)->cross.v[i];

		if (e.to >= w->hi)
			break;
		if (cross_confirm(c, &e)) {
			code_add_target(c, e.to, TARGET_BRANCH);
			hit = true;
		}
	}
	return hit;
}

bool code_window_hit_from_outside(struct code *c, const struct span *windows, size_t n, uint8_t *ret_hit)
{
	bool any = false;

	code_scan_text(c);
	for (size_t i = 0; i < n; i++) {
		ret_hit[i] = window_hit(c, &windows[i]);
		any |= ret_hit[i];
	}
	return any;
}
