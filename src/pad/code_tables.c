/* SPDX-License-Identifier: MIT */
/*
 * Indirect jumps: which of them stay inside the function, and where they go. Compilers emit a switch in two ways: as a table of
 * distances from its own address, 4 bytes each, to which that is added, and as a table of addresses, 8 bytes each. The CPU's
 * idioms tell which of them a jump goes by.
 *
 * For the first kind every address that the function takes is tried as a table and read for as long as its
 * entries lead to instructions of this function. LLVM fills unused entries with the address of the function's end:
 * not a target, but the table continues. A false table only adds targets that are not needed. Addresses of the
 * second kind are found by their relocations (code_pointers()); here it is only decided whether the jump stays
 * inside. All other jumps are tail calls, except sums whose target is unknown: these are counted as lost.
 */
#include "pad/code_priv.h"

#include <string.h>

#define TABLE_MAX 65536		/* most entries of one table that are read */

/*
 * Whether `to` is in a cold part of this function, or this is a cold part of that function: one of them is marked
 * cold and they branch to each other; or a plain branch of this function leads to the same address, like the
 * default of a switch.
 */
static bool is_related(struct code *c, struct body *b, size_t num, uint64_t to)
{
	struct body *other;

	if (num == NO_FUNC || num == b->num)
		return false;
	for (size_t i = 0; i < b->outs.n; i++)
		if (b->outs.v[i].to == to)
			return true;
	if (!((c->m->funcs.v[num].flags | b->f.func->flags) & FUNC_COLD))
		return false;
	for (size_t i = 0; i < b->outs.n; i++)
		if (code_find(c, b->outs.v[i].to) == num)
			return true;
	other = code_raw(c, num);
	for (size_t i = 0; i < other->outs.n; i++)
		if (body_holds(b, other->outs.v[i].to))
			return true;
	return false;
}

/*
 * Adds the target of one entry; false if it can't be an entry: the table ends there. Counts the entries that lead
 * to an instruction.
 */
static bool take_entry(struct code *c, struct body *b, uint64_t from, uint64_t to, size_t *found)
{
	struct body *other;
	size_t num;

	if (to == b->f.end)
		return true;
	if (body_holds(b, to)) {
		if (b->f.index[to - b->f.lo] == NO_INSN)
			return false;
		body_mark(b, to, TARGET_TABLE);
		++*found;
		return true;
	}
	num = code_find(c, to);
	if (!is_related(c, b, num, to))
		return false;
	other = code_raw(c, num);
	if (other->f.index[to - other->f.lo] == NO_INSN)
		return false;
	*vec_add(&b->outs) = (struct out_edge){ from, to, INSN_JMP_IND };
	++*found;
	return true;
}

/* Another table of this function begins there: this one has ended. */
static bool begins_other(const struct body *b, uint64_t addr)
{
	size_t i = addr_lower(&b->leas, addr);

	return i < b->leas.n && b->leas.v[i] == addr;
}

static bool read_distance(struct code *c, uint64_t at, int32_t *ret_distance)
{
	const uint8_t *p = module_bytes(c->m, at, sizeof(*ret_distance));

	if (p)
		memcpy(ret_distance, p, sizeof(*ret_distance));
	return p;
}

/* Distances count from `base`, which is the table itself in compiled code. */
static size_t read_table4(struct code *c, struct body *b, uint64_t table, uint64_t base, uint64_t jump)
{
	size_t found = 0;

	for (size_t n = 0; n < TABLE_MAX; n++) {
		int32_t distance;

		if (n && begins_other(b, table + 4 * n))
			break;
		if (!read_distance(c, table + 4 * n, &distance) ||
		    !take_entry(c, b, jump, base + distance, &found))
			break;
	}
	return found;
}

/* Whether the table's entries may be distances from this label. Five in a row are taken as proof. */
static bool fits_label(struct code *c, const struct body *b, uint64_t table, uint64_t label)
{
	for (size_t n = 0; n < 5; n++) {
		int32_t distance;
		uint64_t to;

		if (!read_distance(c, table + 4 * n, &distance))
			return false;
		to = label + distance;
		if (!body_holds(b, to) || b->f.index[to - b->f.lo] == NO_INSN)
			return false;
	}
	return true;
}

/* In glibc's printf the distances count from a label of its own, which it takes with lea as well. */
static size_t try_labels(struct code *c, struct body *b, uint64_t table, uint64_t jump)
{
	size_t found = 0;

	for (size_t i = addr_lower(&b->leas, b->f.lo); i < b->leas.n && body_holds(b, b->leas.v[i]); i++)
		if (fits_label(c, b, table, b->leas.v[i]))
			found += read_table4(c, b, table, b->leas.v[i], jump);
	return found;
}

static size_t read_table8(struct code *c, struct body *b, uint64_t table, uint64_t jump)
{
	size_t found = 0;

	for (size_t n = 0; n < TABLE_MAX; n++) {
		const uint8_t *p = module_bytes(c->m, table + 8 * n, 8);
		uint64_t to;

		if (!p)
			break;
		memcpy(&to, p, sizeof(to));
		if (!take_entry(c, b, jump, to, &found))
			break;
	}
	return found;
}

/* Tries every lea of the function: the one for this jump may be far away from it. */
static size_t try_tables4(struct code *c, struct body *b, uint64_t jump)
{
	size_t found = 0;

	addr_sort(&b->leas);
	for (size_t i = 0; i < b->leas.n; i++) {
		uint64_t table = b->leas.v[i];
		size_t n;

		if (body_holds(b, table))
			continue;
		n = read_table4(c, b, table, table, jump);
		found += n ? n : try_labels(c, b, table, jump);
	}
	return found;
}

/* Whether there are pointers into the body other than to its entry. */
static bool has_inner_pointers(struct code *c, const struct body *b)
{
	const addr_list *list = code_pointers(c);
	size_t i = addr_lower(list, b->f.lo + 1);

	return i < list->n && list->v[i] < b->f.end;
}

static enum indirect classify_table8(struct code *c, struct body *b, uint64_t base, uint64_t jump)
{
	if (base)
		return read_table8(c, b, base, jump) ? IND_TABLE : IND_TAIL;
	return has_inner_pointers(c, b) ? IND_TABLE : IND_TAIL;
}

static struct code_view view_of(const struct body *b)
{
	return (struct code_view){ b->bytes, b->f.insns.v, b->at, b->f.insns.n, b->f.lo, b->f.end };
}

/* Classifies the jump at instruction `insn` to the address in a register; reg -1: by its own operand. */
enum indirect code_jump_by(struct code *c, struct body *b, uint32_t insn, int reg)
{
	const struct code_idioms *idioms = c->arch->idioms;
	struct code_view v = view_of(b);
	struct jump_from from;

	if (!idioms->jump_from(&v, insn, reg, &from))
		return IND_TAIL;
	switch (from.origin) {
	case JUMP_MADE_BY_SUM:
		return idioms->frame_goes(&v, insn) ? IND_TAIL : IND_LOST;	/* counts as lost until a table is found */
	case JUMP_MADE_BY_TABLE:
		return classify_table8(c, b, from.table, b->f.lo + b->at[insn]);
	case JUMP_MADE_BY_PLAIN_LOAD:
		return has_inner_pointers(c, b) && !idioms->frame_goes(&v, insn) ? IND_TABLE : IND_TAIL;
	case JUMP_MADE_BY_LOAD:
		return IND_TAIL;
	default:
		return idioms->takes_own_label(&v, from.reg) ? IND_TABLE : from.marked ? IND_LOST : IND_TAIL;
	}
}

void code_find_tables(struct code *c, struct body *b)
{
	uint64_t sum = 0;
	size_t found;

	if (b->tables_done)
		return;
	b->tables_done = true;
	if (c->arch->one_insn) {	/* targets don't matter, only whether the jump leaves the function */
		for (size_t i = 0; i < b->inds.n; i++)
			b->inds.v[i].what = c->arch->stays(b->bytes + (b->inds.v[i].addr - b->f.lo), b->inds.v[i].addr - b->f.lo) ?
					    IND_TABLE : IND_TAIL;
		return;
	}
	for (size_t i = 0; i < b->inds.n; i++)
		b->inds.v[i].what = code_jump_by(c, b, b->f.index[b->inds.v[i].addr - b->f.lo], -1);
	code_find_thunks(c, b);
	for (size_t i = 0; i < b->inds.n; i++)
		if (b->inds.v[i].what == IND_LOST)
			sum = b->inds.v[i].addr;
	if (!sum)
		return;
	found = try_tables4(c, b, sum);
	for (size_t i = 0; i < b->inds.n && found; i++)
		if (b->inds.v[i].what == IND_LOST)
			b->inds.v[i].what = IND_TABLE;
}
