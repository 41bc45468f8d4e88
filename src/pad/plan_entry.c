/* SPDX-License-Identifier: MIT */
/*
 * Plain entries, thousands of them. Nearly all of them get a jump over their first instructions, and all that must
 * be known is that nothing branches into these few bytes. The quick check of code_window_is_quiet() decides most;
 * where it can't, a closer one follows here, which still decodes no more than the first instructions:
 *
 * - a branch with a rel8 must be near: these bytes are decoded;
 * - a branch or address of four bytes is searched at every byte, as before;
 * - an indirect jump takes its targets from a table: each address that the function forms is read
 *   as one. (Tables of 8-byte addresses are among the pointers that code_target() knows.)
 */
#include "pad/plan_priv.h"

#include <string.h>
#include <sys/mman.h>

#define TABLE_MAX 1024
#define REL8_REACH 130

struct look {
	struct plan *p;
	const uint8_t *code;
	uint64_t addr, size;	/* the function */
	uint64_t lo, hi;	/* bytes lo < byte < hi must not be targets */
	bool hit;
};

static int32_t get32(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static bool is_inside(const struct look *l, uint64_t to)
{
	return to > l->lo && to < l->hi;
}

static void note_landing(void *arg, uint64_t addr)
{
	struct look *l = arg;

	l->hit |= is_inside(l, addr);
}

/* Targets that are known from elsewhere: pointers, entries, branches from other functions, landing pads. */
static bool is_known_target(struct look *l)
{
	for (uint64_t at = l->lo + 1; at < l->hi; at++)
		if (code_target(l->p->code, NULL, at) != TARGET_NONE)
			return true;
	module_landing_pads(l->p->m, l->addr, l->addr + l->size, note_landing, l);
	return l->hit;
}

/* Whether there would be a jmp, jcc, loop or jrcxz with a rel8 into the window, if an instruction began at any byte. */
static bool near_branch_may_hit(const struct look *l)
{
	uint64_t end = MIN(l->size, l->hi + REL8_REACH - l->addr);

	for (uint64_t i = 0; i + 1 < end; i++) {
		uint8_t op = l->code[i];

		if (is_inside(l, l->addr + i + 2 + (int8_t)l->code[i + 1]) &&
		    (op == 0xeb || (op & 0xf0) == 0x70 || (op & 0xfc) == 0xe0))
			return true;
	}
	return false;
}

static bool near_branch_hits(const struct look *l)
{
	uint64_t end = MIN(l->addr + l->size, l->hi + REL8_REACH), at = l->addr;
	struct insn in;

	if (!near_branch_may_hit(l))
		return false;
	for (; at < end; at += in.len) {
		if (l->p->arch->decode(l->code + (at - l->addr), MIN(l->addr + l->size - at, INSN_MAX), at, &in) < 0)
			return true;
		if (in.rel_size && is_inside(l, in.target))
			return true;
	}
	return false;
}

/* Without a branch in the loop, so that it is vectorized. */
static bool far_branch_hits(const struct look *l)
{
	uint32_t first = l->lo + 1 - l->addr, width = l->hi - l->lo - 1, hit = 0, hit_abs = 0;
	uint32_t base = l->addr;

	for (size_t i = 0; i + 4 <= l->size; i++) {
		uint32_t v = get32(l->code + i);

		hit |= v + (uint32_t)i + 4 - first < width;
		hit_abs |= v - base - first < width;
	}
	return hit || (l->p->m->is_exec && hit_abs);
}

static bool is_text(const struct plan *p, uint64_t addr)
{
	return addr >= p->text_lo && addr <= p->text_hi;
}

/* Distances from the table's own address, as long as they lead into text. */
static bool table_hits(const struct look *l, uint64_t table)
{
	for (int i = 0; i < TABLE_MAX; i++) {
		const uint8_t *entry = module_bytes(l->p->m, table + 4 * i, 4);
		uint64_t to = entry ? table + get32(entry) : 0;

		if (!entry || !is_text(l->p, to))
			return false;
		if (is_inside(l, to))
			return true;
	}
	return false;
}

/* lea table(%rip),%reg */
static bool any_table_hits(const struct look *l)
{
	const uint8_t *p = l->code, *end = l->code + l->size;

	while (end - p >= 6 && (p = memchr(p, 0x8d, end - p - 5))) {
		if ((p[1] & 0xc7) == 0x05) {
			uint64_t table = l->addr + (p - l->code) + 6 + get32(p + 2);

			if (!is_text(l->p, table) && table_hits(l, table))
				return true;
		}
		p++;
	}
	return false;
}

static bool is_quiet(struct plan *p, const struct func *fn, uint64_t lo, uint64_t hi)
{
	struct look l = { .p = p, .addr = fn->addr, .size = fn->size, .lo = lo, .hi = hi };

	if (code_window_is_quiet(p->code, fn, lo, hi))
		return true;
	l.code = fn->size < INT32_MAX ? module_bytes(p->m, fn->addr, fn->size) : NULL;
	return l.code && !is_known_target(&l) && !far_branch_hits(&l) && !near_branch_hits(&l) &&
	       !any_table_hits(&l);
}

/* Gives a plain entry its jump without decoding the function. False: the function must be decoded. */
bool plan_entry_quickly(struct plan *p, const struct slot *slot)
{
	const struct func *fn = module_func_at(p->m, slot->want->addr);
	struct site s = { .at = slot->at, .is_entry = true };
	struct window *w;
	struct line l;

	if (!fn || fn->addr != slot->want->addr || p->m->is_go)
		return false;
	if (!line_walk(p, &s, s.at, JUMP_LEN, s.at, LINE_NO_MERGE, &l) || !l.goes_on || l.room > l.end ||
	    l.end > fn->addr + fn->size || !is_quiet(p, fn, s.at, l.end))
		return false;
	w = window_new(p, &l, SHAPE_JUMP);
	if (!window_commit(p, &l, w, true))
		return false;
	window_settle(p, w, &s, l.nops ? TACTIC_NOP : TACTIC_JUMP, 0);
	return true;
}
