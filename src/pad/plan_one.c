/* SPDX-License-Identifier: MIT */
/*
 * Planning where all instructions have the length of a jump. Each site is a window of its own: nothing else is displaced, so
 * branches into a window, filler and neighbours don't matter. What remains is whether the instruction may be replaced and run
 * elsewhere, and a pad in reach.
 *
 * A direct call stays a call, to the pad: it leaves the right return address, and the CPU's return stack stays balanced. The other
 * instructions become a jump.
 */
#include "pad/plan_priv.h"

#include <string.h>

#include "base/err.h"

#define EXCLUSIVE_MOST 32	/* instructions between a load-exclusive and its store-exclusive */

/*
 * Between a load-exclusive and its store-exclusive a pad's own stores would make the store fail, each time: the program would
 * never get on. Code is laid out in the order in which it runs there.
 */
static bool is_exclusive(const struct fcode *f, uint32_t at)
{
	uint32_t lo = at > EXCLUSIVE_MOST ? at - EXCLUSIVE_MOST : 0, i = at;

	while (i > lo && !(f->insns.v[i - 1].flags & (INSN_EXCLUSIVE | INSN_EXCLUSIVE_END)))
		i--;
	if (i == lo || !(f->insns.v[i - 1].flags & INSN_EXCLUSIVE))
		return false;
	for (i = at; i < f->insns.n && i - at < EXCLUSIVE_MOST; i++)
		if (f->insns.v[i].flags & INSN_EXCLUSIVE_END)
			return true;
	return false;
}

/* Why the instruction can't be replaced; NULL: it can. f is NULL at a function's entry. */
static const char *refusal(struct plan *p, const struct fcode *f, uint64_t at, const struct insn *in)
{
	const char *why = plan_forbidden(p, at, at + in->len);
	uint8_t out[RELOC_MAX];

	if (!why)
		why = code_never(p->code, at);
	if (why)
		return why;
	if (in->kind == INSN_SYSCALL)
		return "is a system call";
	if (in->kind == INSN_ENDBR)
		return "is a landing mark of indirect branches, which is never displaced";
	if (f && f->target[at - f->lo] == TARGET_DATA)
		return "is a constant that the function loads, no instruction";
	if (in->flags & INSN_EXCLUSIVE_END || (f && is_exclusive(f, f->index[at - f->lo])))
		return "is between a load-exclusive and its store-exclusive: that store would never succeed";
	if (plan_fault_is_seen(p, at, in))
		return why_text(p, &(struct why){ .stop = STOP_FAULT });
	if (p->arch->relocate(module_bytes(p->m, at, in->len), in, at, at, out) < 0)
		return why_text(p, &(struct why){ .stop = STOP_BAD });
	return NULL;
}

static bool place(struct plan *p, uint64_t at, const struct insn *in)
{
	struct line l = { .start = at, .end = at + in->len, .last = at, .n = 1 };
	bool is_call = in->kind == INSN_CALL;
	struct site s = { .at = at, .insn = *in };
	uint8_t out[RELOC_MAX];
	struct window *w;

	l.reloc = is_call ? 0 : p->arch->relocate(module_bytes(p->m, at, in->len), in, at, at, out);
	w = window_new(p, &l, is_call ? SHAPE_CALL : SHAPE_JUMP);
	if (!window_commit(p, &l, w, true))
		return false;
	window_settle(p, w, &s, is_call ? TACTIC_RETARGET : in->kind == INSN_NOP ? TACTIC_NOP : TACTIC_JUMP, 0);
	return true;
}

void plan_group_one(struct plan *p, size_t first, size_t n)
{
	uint64_t at = p->slots[first].at;
	const struct func *fn = module_func_at(p->m, at);
	bool is_entry = fn && fn->addr == at;
	const struct fcode *f = is_entry ? NULL : code_func(p->code, at);
	const char *why;
	struct insn in;

	if (p->m->runtime != &runtime_c) {
		plan_refuse(p, first, n, true, plan_text(p, xasprintf("%s programs can't be probed on %s yet", p->m->runtime->name, p->arch->name)));
		return;
	}
	if (!is_entry && (!f || f->broken)) {
		plan_refuse(p, first, n, true, !f ? "no function is known there" : "the function holds bytes that are no instructions");
		return;
	}
	if (!line_insn(p, f, at, &in)) {
		plan_refuse(p, first, n, true, plan_text(p, xasprintf("inside an instruction; try +%llu", (unsigned long long)
								  (f ? (at - f->lo) & ~3ull : 0))));
		return;
	}
	why = refusal(p, f, at, &in);
	if (!why && place(p, at, &in))
		return;
	if (!why)
		why = !p->spots.n ? "no room for a pad: every address that a jump reaches from it is in use" : "no room for a pad in reach";
	plan_refuse(p, first, n, false, why);
}
