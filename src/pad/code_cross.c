/* SPDX-License-Identifier: MIT */
/*
 * Branches from one function into the middle of another. Compilers don't make them, assembler programmers do, and a
 * cold part jumps back. To find them without decoding the module, every byte of the text is read as if a branch
 * began there; those that would lead into the middle of another function are kept. Few are left, and each is
 * checked when its target matters.
 *
 * The text is cut at every function start. A branch with a rel8 leaves its piece only near the edges, so the inside
 * of a piece is searched only for four-byte distances, 16 bytes at a time.
 */
#include "pad/code_priv.h"

#include <string.h>
#include <sys/mman.h>

#define REL8_REACH 130
#define GAP_REACH 64		/* filler after a function */

struct scan {
	struct code *c;
	const uint8_t *text;	/* bytes of the segment */
	uint64_t text_lo, text_hi;
	uint64_t all_lo, all_span;	/* all executable segments */
	uint8_t *inner;		/* bit per byte: after the start of a function, or in the gap after it */
};

/* jmp, jcc, loop and jrcxz with a rel8. */
static uint8_t rel8_opcode[256];

static void fill_opcodes(void)
{
	rel8_opcode[0xeb] = 1;
	memset(rel8_opcode + 0x70, 1, 16);
	memset(rel8_opcode + 0xe0, 1, 4);
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

static void keep(struct scan *s, uint64_t from, uint64_t to, const struct span *piece)
{
	if (to - s->all_lo >= s->all_span || to - piece->lo < piece->hi - piece->lo)
		return;
	if (is_inner(s, to))
		*vec_add(&priv(s->c)->cross) = (struct cross_edge){ to, from, EDGE_UNKNOWN };
}

static uint64_t rel32_target(const uint8_t *p, uint64_t at)
{
	int32_t distance;

	memcpy(&distance, p, sizeof(distance));
	return at + 4 + (int64_t)distance;
}

/* Offset of the distance of a call, jmp, jcc (0f 8x) or lea; 0 if it is none of them. */
static unsigned int rel32_at(const uint8_t *p)
{
	if ((p[0] & 0xfe) == 0xe8)
		return 1;
	if ((p[0] == 0x0f && (p[1] & 0xf0) == 0x80) || (p[0] == 0x8d && (p[1] & 0xc7) == 0x05))
		return 2;
	return 0;
}

static void look_rel32(struct scan *s, uint64_t at, const struct span *piece)
{
	const uint8_t *p = s->text + (at - s->text_lo);
	size_t room = s->text_hi - at;
	unsigned int off = room >= 6 ? rel32_at(p) : room == 5 && (p[0] & 0xfe) == 0xe8;

	if (off)
		keep(s, at, rel32_target(p + off, at + off), piece);
}

typedef uint8_t bytes16 __attribute__((vector_size(16)));

/* rel32_at() for 16 bytes at once: a byte of the result is 0xff where one may begin. */
static void rel32_mask(const uint8_t *p, uint64_t ret_mask[2])
{
	bytes16 a, b, hit;

	memcpy(&a, p, sizeof(a));
	memcpy(&b, p + 1, sizeof(b));
	hit = (bytes16)((a & 0xfe) == 0xe8);
	hit |= (bytes16)(a == 0x0f) & (bytes16)((b & 0xf0) == 0x80);
	hit |= (bytes16)(a == 0x8d) & (bytes16)((b & 0xc7) == 0x05);
	memcpy(ret_mask, &hit, sizeof(hit));
}

static void scan_rel32(struct scan *s, const struct span *piece)
{
	uint64_t at = piece->lo, mask[2];

	for (; at + 16 <= piece->hi && s->text_hi - at > 16; at += 16) {
		rel32_mask(s->text + (at - s->text_lo), mask);
		for (int half = 0; half < 2; half++)
			while (mask[half]) {
				unsigned int i = __builtin_ctzll(mask[half]) / 8;

				mask[half] &= ~(0xffull << 8 * i);
				look_rel32(s, at + 8 * half + i, piece);
			}
	}
	for (; at < piece->hi; at++)
		look_rel32(s, at, piece);
}

/* Both conditions in one test: each alone is often true, and a branch on it would be mispredicted. */
static void scan_rel8(struct scan *s, uint64_t lo, uint64_t hi, const struct span *piece)
{
	const uint8_t *p = s->text + (lo - s->text_lo);

	for (uint64_t at = lo; at < hi && at + 1 < s->text_hi; at++, p++) {
		uint64_t to = at + 2 + (int64_t)(int8_t)p[1];

		if (rel8_opcode[p[0]] & (to - piece->lo >= piece->hi - piece->lo))
			keep(s, at, to, piece);
	}
}

static void scan_piece(struct scan *s, const struct span *piece)
{
	uint64_t lo = piece->lo, hi = piece->hi;

	scan_rel32(s, piece);
	if (hi - lo <= 2 * REL8_REACH) {
		scan_rel8(s, lo, hi, piece);
		return;
	}
	scan_rel8(s, lo, lo + REL8_REACH, piece);
	scan_rel8(s, hi - REL8_REACH, hi, piece);
}

static void scan_segment(struct scan *s, const struct segment *seg)
{
	const struct module *m = s->c->m;
	struct span piece;
	size_t i = 0;

	s->text_lo = piece.lo = seg->addr;
	s->text_hi = seg->addr + seg->filesz;
	s->text = module_bytes(m, seg->addr, seg->filesz);
	for (; s->text && piece.lo < s->text_hi; piece.lo = piece.hi) {
		while (i < m->funcs.n && m->funcs.v[i].addr <= piece.lo)
			i++;
		piece.hi = i < m->funcs.n ? MIN(m->funcs.v[i].addr, s->text_hi) : s->text_hi;
		scan_piece(s, &piece);
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
	if (c->arch->one_insn || !span_text(c, &s))
		return;
	fill_opcodes();
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

typedef uint32_t words4 __attribute__((vector_size(16)));

/* Whether any four bytes of [p, p+size), as a distance, lead into `width` bytes at p+first. */
static bool any_distance(const uint8_t *p, size_t size, uint32_t first, uint32_t width)
{
	words4 index = { 4, 8, 12, 16 }, hit = { 0 };
	size_t i = 0;

	for (; i + 19 <= size; i += 16)
		for (uint32_t k = 0; k < 4; k++) {
			words4 v;

			memcpy(&v, p + i + k, sizeof(v));
			hit |= (words4)((v + index + ((uint32_t)i + k - first)) < width);
		}
	for (; i + 4 <= size; i++) {
		uint32_t v;

		memcpy(&v, p + i, sizeof(v));
		hit[0] |= (uint32_t)(v + (uint32_t)i + 4 - first) < width;
	}
	return hit[0] | hit[1] | hit[2] | hit[3];
}

static bool any_short_branch(const uint8_t *p, size_t size, uint32_t first, uint32_t width)
{
	size_t i = first > REL8_REACH ? first - REL8_REACH : 0;

	for (; i + 1 < size && i < (size_t)first + width + REL8_REACH; i++)
		if (rel8_opcode[p[i]] && (uint32_t)(i + 2 + (int8_t)p[i + 1] - first) < width)
			return true;
	return false;
}

/*
 * For a few windows, a simple pass over the text for each of them is faster than listing all branches between
 * functions. True is certain; false means that the list is needed.
 */
static bool surely_quiet(struct code *c, const struct span *w)
{
	for (size_t i = 0; i < c->m->segments.n; i++) {
		const struct segment *seg = &c->m->segments.v[i];
		const uint8_t *text = is_text(seg) ? module_bytes(c->m, seg->addr, seg->filesz) : NULL;
		uint32_t first = w->lo + 1 - seg->addr, width = w->hi - w->lo - 1;

		if (text && any_distance(text, seg->filesz, first, width))
			return false;
		if (text && w->lo - seg->addr < seg->filesz && any_short_branch(text, seg->filesz, first, width))
			return false;
	}
	return true;
}

static bool few_and_quiet(struct code *c, const struct span *windows, size_t n)
{
	if (priv(c)->have_cross || !n || n > 4)
		return false;
	fill_opcodes();
	for (size_t i = 0; i < n; i++)
		if (!surely_quiet(c, &windows[i]))
			return false;
	return true;
}

bool code_window_hit_from_outside(struct code *c, const struct span *windows, size_t n,
				  uint8_t *ret_hit)
{
	bool any = false;

	if (few_and_quiet(c, windows, n)) {
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
