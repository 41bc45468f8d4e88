/* SPDX-License-Identifier: MIT */
/*
 * The second step of analysing a function: what comes from elsewhere. A compiler may split a function into a hot
 * body and cold parts far away; together they are one function, so a jump between them is no exit, and an exit in a
 * cold part is an exit of the function that jumps into it. Which function that is follows from the jumps, never
 * from names.
 *
 * At the end is the check for what was missed: a block after a jump or return that no known branch reaches must be
 * reached by an unknown one.
 */
#include "pad/code_priv.h"

static void note_pointers(struct code *c, struct body *b)
{
	const addr_list *list = code_pointers(c);

	for (size_t i = addr_lower(list, b->f.lo); i < list->n && list->v[i] < b->f.hi; i++)
		body_mark(b, list->v[i], TARGET_POINTER);
}

/* Marks other entries inside this body; at the start of an FDE execution may start, too. */
static void note_entries(struct code *c, struct body *b)
{
	const struct fde_range *fdes;
	size_t n = module_fdes(c->m, &fdes), lo = 0, hi = n;

	for (size_t i = b->num + 1; i < c->m->funcs.n && c->m->funcs.v[i].addr < b->f.hi; i++)
		body_mark(b, c->m->funcs.v[i].addr, TARGET_ENTRY);
	body_mark(b, c->m->entry, TARGET_ENTRY);
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (fdes[mid].lo < b->f.lo)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < n && fdes[lo].lo < b->f.hi; lo++)
		body_mark(b, fdes[lo].lo, TARGET_ENTRY);
}

static void note_rseqs(struct code *c, struct body *b)
{
	const struct rseq_range *r;
	size_t n = module_rseqs(c->m, &r);

	for (size_t i = 0; i < n; i++) {
		body_mark(b, r[i].start, TARGET_RSEQ);
		body_mark(b, r[i].start + r[i].len, TARGET_RSEQ);
		body_mark(b, r[i].abort, TARGET_RSEQ);
	}
}

/* A landing pad outside of the body is in a cold part of this function: entered by the unwinder, not an exit. */
static void note_landing(void *arg, uint64_t addr)
{
	struct body *b = arg;

	if (addr >= b->f.lo && addr < b->f.hi)
		body_mark(b, addr, TARGET_LANDING);
	else
		*vec_add(&b->outs) = (struct out_edge){ addr, addr, INSN_JMP_IND };
}

static bool is_cold(struct code *c, size_t num)
{
	return c->m->funcs.v[num].flags & FUNC_COLD;
}

static bool has_part(const struct body *b, size_t num)
{
	for (size_t i = 0; i < b->parts.n; i++)
		if (b->parts.v[i] == num)
			return true;
	return false;
}

static void add_part(struct code *c, struct body *b, size_t num)
{
	struct body *part;

	if (num == b->num || has_part(b, num))
		return;
	*vec_add(&b->parts) = num;
	part = code_raw(c, num);
	code_find_tables(c, part);
	for (size_t i = 0; i < part->outs.n; i++) {
		const struct out_edge *e = &part->outs.v[i];

		body_mark(b, e->to, e->kind == INSN_JMP_IND ? TARGET_TABLE : TARGET_BRANCH);
	}
}

/* Whether function num branches to a byte of b after its entry. */
static bool branches_into(struct code *c, size_t num, const struct body *b)
{
	bool was_there = priv(c)->bodies[num] != NULL, yes = false;
	struct body *other = code_raw(c, num);

	for (size_t i = 0; i < other->outs.n && !yes; i++)
		yes = body_holds(b, other->outs.v[i].to) && other->outs.v[i].to != b->f.lo;
	if (!was_there && !yes)
		code_forget(c, num);
	return yes;
}

/*
 * A cold part: marked as cold, or without a name and either a case of this function's switch, a landing pad of it,
 * or code that jumps back into the middle of it. Stripped programs have cold parts whose unwind data looks like
 * that of a function.
 */
static bool is_part(struct code *c, const struct body *b, size_t num, uint8_t edge_kind)
{
	if (num == NO_FUNC || num == b->num || has_part(b, num))
		return false;
	if (is_cold(c, num))
		return true;
	if (is_cold(c, b->num) || c->m->funcs.v[num].name)
		return false;
	return edge_kind == INSN_JMP_IND || branches_into(c, num, b);
}

/* Finds the functions that jump into this cold part by the scan of the text, and those that it jumps back to. */
static void find_owners(struct code *c, struct body *b)
{
	code_scan_text(c);
	for (size_t i = cross_lower(c, b->f.lo); i < priv(c)->cross.n; i++) {
		const struct cross_edge *e = &priv(c)->cross.v[i];
		size_t num = code_find(c, e->from);

		if (e->to >= b->f.end)
			break;
		if (num != NO_FUNC && !has_part(b, num) && cross_confirm(c, i))
			add_part(c, b, num);
	}
	for (size_t i = 0; i < b->outs.n; i++) {
		size_t num = code_find(c, b->outs.v[i].to);

		if (num == NO_FUNC || num == b->num || c->m->funcs.v[num].addr == b->outs.v[i].to)
			continue;
		add_part(c, b, num);
	}
}

static void find_parts(struct code *c, struct body *b)
{
	if (is_cold(c, b->num))
		find_owners(c, b);
	for (size_t i = 0; i < b->outs.n; i++) {
		size_t num = code_find(c, b->outs.v[i].to);

		if (is_part(c, b, num, b->outs.v[i].kind))
			add_part(c, b, num);
	}
	for (size_t i = 0; i < b->parts.n; i++) {
		struct body *part = code_raw(c, b->parts.v[i]);

		for (size_t j = 0; j < part->outs.n; j++) {
			size_t num = code_find(c, part->outs.v[j].to);

			if (num != NO_FUNC && is_cold(c, num))
				add_part(c, b, num);
		}
	}
}

/* Whether this function shares bytes with another one: then branches to it are also in the other's range. */
static bool is_overlapped(struct code *c, const struct body *b)
{
	return b->num && code_func_end(c, b->num - 1) > b->f.lo;
}

static void note_cross(struct code *c, struct body *b)
{
	code_scan_text(c);
	for (size_t i = cross_lower(c, b->f.lo); i < priv(c)->cross.n; i++) {
		const struct cross_edge *e = &priv(c)->cross.v[i];

		if (e->to >= b->f.hi)
			break;
		if (!b->f.target[e->to - b->f.lo] && cross_confirm(c, i))
			body_mark(b, e->to, TARGET_BRANCH);
	}
}

/*
 * Whether execution does not continue with the next instruction. After hlt or int it does not either, but compilers
 * assume that it does and put the following code after it; only ud2 and similar instructions end a block for them.
 */
static bool ends_block(const struct code *c, const struct body *b, size_t i)
{
	switch (b->f.insns.v[i].kind) {
	case INSN_JMP:
	case INSN_JMP_IND:
	case INSN_RET:
		return true;
	case INSN_STOP:
		return c->arch->jumps->is_end(b->bytes + b->at[i]);
	default:
		return false;
	}
}

static bool is_filler_kind(uint8_t kind)
{
	return kind == INSN_NOP || kind == INSN_INT3;
}

static bool any_target(const struct fcode *f, size_t at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (f->target[at + i])
			return true;
	return false;
}

/*
 * Adds an instruction of a block that no known branch reaches, up to the first byte that is a target: the decoding
 * of data runs into the code after it. False: the block ends there.
 */
static bool add_orphan(struct body *b, size_t i)
{
	uint64_t at = b->f.lo + b->at[i];
	size_t n = b->orphans.n, whole = b->f.insns.v[i].len, len = 1;

	while (len < whole && !b->f.target[b->at[i] + len])
		len++;
	if (n && b->orphans.v[n - 1].hi == at)
		b->orphans.v[n - 1].hi = at + len;
	else
		*vec_add(&b->orphans) = (struct span){ at, at + len };
	return len == whole;
}

static uint32_t count_orphans(struct code *c, struct body *b)
{
	const struct fcode *f = &b->f;
	bool dead = false, orphan = false;
	uint32_t n = 0;

	b->orphans.n = 0;
	for (size_t i = 0; i < f->insns.n && f->lo + b->at[i] < f->end; i++) {
		const struct insn *in = &f->insns.v[i];

		if (dead && any_target(f, b->at[i], is_filler_kind(in->kind) ? in->len : 1))
			dead = false;
		/* Such an instruction is no sign of a missed branch: compilers put it where nothing comes. */
		if (dead && (is_filler_kind(in->kind) || in->kind == INSN_STOP))
			continue;
		n += dead;
		orphan = dead || (orphan && !any_target(f, b->at[i], 1));
		orphan = orphan && add_orphan(b, i);
		dead = ends_block(c, b, i);
	}
	return n;
}

static bool in_family(struct code *c, const struct body *b, uint64_t to)
{
	if (body_holds(b, to))
		return true;
	for (size_t i = 0; i < b->parts.n; i++)
		if (body_holds(code_raw(c, b->parts.v[i]), to))
			return true;
	return false;
}

static void add_exit(struct body *b, uint64_t addr, enum exit_kind kind)
{
	*vec_add(&b->f.exits) = (struct code_exit){ addr, kind };
}

static bool stays(const struct body *b, uint64_t addr)
{
	size_t i = addr_lower(&b->stays, addr);

	return i < b->stays.n && b->stays.v[i] == addr;
}

/*
 * A jump to the first instruction is a call of the function by itself, or a loop that looks like one: its entry is hit again. In Go it
 * comes after the stack was made larger, and is no second call.
 */
static bool enters_again(const struct code *c, const struct body *b, const struct insn *in)
{
	return (in->kind == INSN_JMP || in->kind == INSN_JCC) && in->target == b->f.lo && !c->m->runtime->enters_again;
}

/* Adds the exits of b in `in`, which is b itself or one of its cold parts. */
static void add_exits(struct code *c, struct body *b, const struct body *in)
{
	for (size_t i = 0; i < in->f.insns.n; i++) {
		const struct insn *n = &in->f.insns.v[i];
		uint64_t at = in->f.lo + in->at[i];

		if (n->kind == INSN_RET && !stays(in, at))
			add_exit(b, at, EXIT_RET);
		else if (enters_again(c, b, n))
			add_exit(b, at, n->kind == INSN_JMP ? EXIT_JMP : EXIT_JCC);
	}
	for (size_t i = 0; i < in->inds.n; i++)
		if (in->inds.v[i].what == IND_TAIL)
			add_exit(b, in->inds.v[i].addr, EXIT_JMP_IND);
	for (size_t i = 0; i < in->outs.n; i++) {
		const struct out_edge *e = &in->outs.v[i];

		if (e->kind != INSN_JMP_IND && !in_family(c, b, e->to) && !stays(in, e->from))
			add_exit(b, e->from, e->kind == INSN_JMP ? EXIT_JMP : EXIT_JCC);
	}
}

static int compare_exit(const void *a, const void *b)
{
	const struct code_exit *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void find_exits(struct code *c, struct body *b)
{
	add_exits(c, b, b);
	for (size_t i = 0; i < b->parts.n && !is_cold(c, b->num); i++)
		add_exits(c, b, code_raw(c, b->parts.v[i]));
	if (b->f.exits.n)
		qsort(b->f.exits.v, b->f.exits.n, sizeof(*b->f.exits.v), compare_exit);
}

static void add_filler(struct body *b, uint64_t lo, uint64_t hi)
{
	size_t n = b->filler.n;

	if (n && b->filler.v[n - 1].hi == lo)
		b->filler.v[n - 1].hi = hi;
	else
		*vec_add(&b->filler) = (struct span){ lo, hi };
}

/*
 * After the function the run must extend to the next known function. If something else follows, it may be code that
 * begins with a nop: then only the alignment padding is filler.
 */
static uint64_t filler_limit(struct code *c, const struct body *b)
{
	const struct segment *s = code_text_at(c, b->f.lo);

	if (!s || b->f.hi == s->addr + s->filesz || code_next_start(c, b->f.hi) == b->f.hi)
		return b->f.hi;
	return MIN(b->f.hi, (b->f.end + 15) & ~15ull);
}

static void find_filler(struct code *c, struct body *b)
{
	const struct fcode *f = &b->f;
	uint64_t limit = filler_limit(c, b);
	uint8_t last = INSN_PLAIN;
	bool dead = false;

	for (size_t i = 0; i < f->insns.n; i++) {
		const struct insn *in = &f->insns.v[i];
		uint64_t at = f->lo + b->at[i];

		/* A call as the last instruction calls a function that does not return. */
		if (at == f->end)
			dead = dead || last == INSN_CALL || last == INSN_CALL_IND || last == INSN_INT3;
		if (any_target(f, b->at[i], in->len))
			dead = false;
		if (dead && is_filler_kind(in->kind)) {
			if (at + in->len <= limit)
				add_filler(b, at, at + in->len);
			continue;
		}
		last = in->kind;
		dead = ends_block(c, b, i);
	}
}

void code_link(struct code *c, struct body *b)
{
	note_entries(c, b);
	note_rseqs(c, b);
	note_pointers(c, b);
	module_landing_pads(c->m, b->f.lo, b->f.hi, note_landing, b);
	code_mark_extra(c, b);
	code_find_tables(c, b);
	find_parts(c, b);
	if (c->arch->one_insn) {
		find_exits(c, b);
		return;
	}
	if (priv(c)->have_cross || is_overlapped(c, b))
		note_cross(c, b);
	b->f.orphans = count_orphans(c, b);
	if (b->f.orphans && !priv(c)->have_cross) {
		note_cross(c, b);
		b->f.orphans = count_orphans(c, b);
	}
	for (size_t i = 0; i < b->inds.n; i++)
		b->f.lost_jumps += b->inds.v[i].what == IND_LOST;
	b->f.uncertain = b->f.orphans || b->f.lost_jumps;
	find_exits(c, b);
	find_filler(c, b);
}
