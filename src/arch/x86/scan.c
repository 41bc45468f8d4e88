/* SPDX-License-Identifier: MIT */
/*
 * Branches, searched in bytes that were not decoded: every byte is taken for the start of a branch with a rel8 or a rel32. Few of those that
 * are found are real, and the callers check them; but none is missed.
 */
#include "arch/x86/x86.h"

#include <string.h>

#include "base/mem.h"

#define REL8_REACH 130

/* jmp, jcc, loop and jrcxz with a rel8. */
static const uint8_t rel8_opcode[256] = { [0x70 ... 0x7f] = 1, [0xe0 ... 0xe3] = 1, [0xeb] = 1 };

static uint32_t read32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* The inside of a window, as offsets from the start of the function. */
struct inside { uint32_t first, width; };

static bool leads_inside(const struct inside *w, uint32_t to)
{
	return to - w->first < w->width;
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

static bool any_short(const uint8_t *p, size_t size, uint32_t first, uint32_t width)
{
	size_t i = first > REL8_REACH ? first - REL8_REACH : 0;

	for (; i + 1 < size && i < (size_t)first + width + REL8_REACH; i++)
		if (rel8_opcode[p[i]] && (uint32_t)(i + 2 + (int8_t)p[i + 1] - first) < width)
			return true;
	return false;
}

/* Whether any 4 bytes, as an absolute address, lead inside: where addresses fit into 32 bits. */
static bool any_abs32(const uint8_t *code, size_t size, const struct inside *w, uint32_t base)
{
	uint32_t hit = 0, first = base + w->first, width = w->width;

	for (size_t i = 0; i + 4 <= size; i++)
		hit |= (uint32_t)(read32(code + i) - first) < width;
	return hit;
}

static size_t last_rel32(const uint8_t *code, size_t size, const struct inside *w)
{
	size_t i = size >= 4 ? size - 4 : 0;

	while (i && !leads_inside(w, read32(code + i) + (uint32_t)i + 4))
		i--;
	return i;
}

/* Offset of the distance of the last such branch that leads inside; 0: there is none. (At 0 it would be the window itself.) */
static size_t last_rel8(const uint8_t *code, size_t size, const struct inside *w)
{
	size_t from = w->first > 130 ? w->first - 130 : 1;
	size_t i = MIN(size - 1, (size_t)w->first + w->width + 128);

	for (; i > from; i--)
		if (rel8_opcode[code[i - 1]] && leads_inside(w, (int8_t)code[i] + (uint32_t)i + 1))
			return i;
	return 0;
}

/*
 * Bytes that look like a branch into the window are mostly the middle of another instruction. Decodes up to the
 * last such offset to decide; nothing is kept, so this costs a fraction of code_func().
 */
static bool really_branches(const uint8_t *code, size_t size, uint64_t addr, size_t last,
			    const struct inside *w)
{
	size_t at = 0;

	while (at <= last) {
		struct insn in;

		if (x86_decode(code + at, size - at, addr + at, &in) < 0)
			return true;	/* in doubt */
		if ((in.flags & INSN_PCREL) && in.target - addr - w->first < w->width)
			return true;
		at += in.len;
	}
	return false;
}

static bool branches_inside(const uint8_t *code, size_t size, uint64_t addr,
			    const struct inside *w)
{
	size_t last = last_rel8(code, size, w);

	if (any_distance(code, size, w->first, w->width))
		last = MAX(last, last_rel32(code, size, w));
	else if (!last)
		return false;
	return really_branches(code, size, addr, last, w);
}

/* jmp *reg and jmp *mem: opcode ff with 4 in the middle of the next byte. */
static bool any_indirect_jump(const uint8_t *code, size_t size)
{
	const uint8_t *p = code, *end = code + size;

	while (p + 1 < end && (p = memchr(p, 0xff, end - p - 1))) {
		if ((p[1] & 0x38) == 0x20)
			return true;
		p++;
	}
	return false;
}

static bool enters(const uint8_t *code, size_t size, uint64_t addr, uint32_t first, uint32_t width, bool fixed)
{
	struct inside w = { first, width };

	if (any_indirect_jump(code, size) || (fixed && any_abs32(code, size, &w, addr)))
		return true;
	return branches_inside(code, size, addr, &w);
}

static bool far_may_enter(const uint8_t *code, size_t size, uint64_t addr, uint32_t first, uint32_t width, bool fixed)
{
	struct inside w = { first, width };

	return any_distance(code, size, first, width) || (fixed && any_abs32(code, size, &w, addr));
}

/* lea table(%rip),%reg */
static size_t next_address(const uint8_t *code, size_t size, size_t from, int64_t *ret_to)
{
	const uint8_t *p = code + from, *end = code + size;

	for (; end - p >= 6 && (p = memchr(p, 0x8d, end - p - 5)); p++)
		if ((p[1] & 0xc7) == 0x05) {
			*ret_to = (p - code) + 6 + (int32_t)read32(p + 2);
			return p - code;
		}
	return size;
}

struct piece { uint64_t lo, hi; };

static void keep(const struct branch_search *s, uint64_t from, uint64_t to, const struct piece *piece)
{
	uint64_t i = to - s->all_lo;

	if (i >= s->all_span || to - piece->lo < piece->hi - piece->lo)
		return;
	if (s->inner[i / 8] >> i % 8 & 1)
		s->found(s->arg, from, to);
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

static void look_rel32(const struct branch_search *s, uint64_t at, const struct piece *piece)
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

static void scan_rel32(const struct branch_search *s, const struct piece *piece)
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
static void scan_rel8(const struct branch_search *s, uint64_t lo, uint64_t hi, const struct piece *piece)
{
	const uint8_t *p = s->text + (lo - s->text_lo);

	for (uint64_t at = lo; at < hi && at + 1 < s->text_hi; at++, p++) {
		uint64_t to = at + 2 + (int64_t)(int8_t)p[1];

		if (rel8_opcode[p[0]] & (to - piece->lo >= piece->hi - piece->lo))
			keep(s, at, to, piece);
	}
}

/* A branch with a rel8 leaves its piece only near the edges, so the inside is searched only for four-byte distances, 16 bytes at a time. */
static void list(const struct branch_search *s, uint64_t lo, uint64_t hi)
{
	const struct piece here = { lo, hi }, *piece = &here;

	scan_rel32(s, piece);
	if (hi - lo <= 2 * REL8_REACH) {
		scan_rel8(s, lo, hi, piece);
		return;
	}
	scan_rel8(s, lo, lo + REL8_REACH, piece);
	scan_rel8(s, hi - REL8_REACH, hi, piece);
}

const struct branch_scan x86_scan = {
	.near = REL8_REACH,
	.enters = enters,
	.far_may_enter = far_may_enter,
	.any_distance = any_distance,
	.any_short = any_short,
	.next_address = next_address,
	.list = list,
};
