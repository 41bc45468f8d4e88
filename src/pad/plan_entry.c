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

static bool near_branch_hits(const struct look *l)
{
	const struct branch_scan *scan = l->p->arch->jumps->scan;
	uint64_t end = MIN(l->addr + l->size, l->hi + scan->near), at = l->addr;
	struct insn in;

	if (!scan->any_short(l->code, l->size, l->lo + 1 - l->addr, l->hi - l->lo - 1))
		return false;
	for (; at < end; at += in.len) {
		if (l->p->arch->decode(l->code + (at - l->addr), MIN(l->addr + l->size - at, INSN_MAX), at, &in) < 0)
			return true;
		if (in.rel_size && is_inside(l, in.target))
			return true;
	}
	return false;
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

static bool any_table_hits(const struct look *l)
{
	const struct branch_scan *scan = l->p->arch->jumps->scan;
	int64_t to;

	for (size_t at = 0; (at = scan->next_address(l->code, l->size, at, &to)) < l->size; at++)
		if (!is_text(l->p, l->addr + to) && table_hits(l, l->addr + to))
			return true;
	return false;
}

static bool is_quiet(struct plan *p, const struct func *fn, uint64_t lo, uint64_t hi)
{
	const struct branch_scan *scan = p->arch->jumps->scan;
	struct look l = { .p = p, .addr = fn->addr, .size = fn->size, .lo = lo, .hi = hi };

	if (code_window_is_quiet(p->code, fn, lo, hi))
		return true;
	if (!scan)
		return false;
	l.code = fn->size < INT32_MAX ? module_bytes(p->m, fn->addr, fn->size) : NULL;
	return l.code && !is_known_target(&l) && !scan->far_may_enter(l.code, l.size, l.addr, lo + 1 - l.addr, hi - lo - 1, p->m->is_exec) && !near_branch_hits(&l) &&
	       !any_table_hits(&l);
}

/* Gives a plain entry its jump without decoding the function. False: the function must be decoded. */
bool plan_entry_quickly(struct plan *p, const struct slot *slot)
{
	const struct func *fn = module_func_at(p->m, slot->want->addr);
	struct site s = { .at = slot->at, .is_entry = true };
	struct window *w;
	struct line l;

	if (!fn || fn->addr != slot->want->addr || p->m->runtime->parks_anywhere)
		return false;
	if (!line_walk(p, &s, s.at, jump_len(p), s.at, LINE_NO_MERGE, &l) || !l.goes_on || l.room > l.end ||
	    l.end > fn->addr + fn->size || !is_quiet(p, fn, s.at, l.end))
		return false;
	w = window_new(p, &l, SHAPE_JUMP);
	if (!window_commit(p, &l, w, true))
		return false;
	window_settle(p, w, &s, l.nops ? TACTIC_NOP : TACTIC_JUMP, 0);
	return true;
}
