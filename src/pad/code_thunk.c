/* SPDX-License-Identifier: MIT */
/*
 * Retpolines. A program that is built to avoid indirect branches calls or jumps to a thunk instead, which stores
 * the address over its own return address and returns there. It is a function of its own or in the middle of one, at a jump or after a call to it. So neither a jump to a
 * thunk nor its ret need be an exit: that depends on where the register points.
 */
#include "pad/code_priv.h"

/* The register of a thunk at addr, and the address of its ret; -1: there is no thunk. */
static int thunk_at(struct code *c, uint64_t addr, uint64_t *ret_exit)
{
	size_t len = THUNK_MOST, exit;
	int reg;

	while (len && !module_bytes(c->m, addr, len))
		len--;
	reg = len ? c->arch->idioms->thunk(module_bytes(c->m, addr, len), len, &exit) : -1;
	if (reg >= 0)
		*ret_exit = addr + exit;
	return reg;
}

static void note(struct body *b, uint64_t at, enum indirect what)
{
	if (what == IND_TAIL)
		return;
	*vec_add(&b->stays) = at;
	if (what == IND_LOST)
		*vec_add(&b->inds) = (struct ind_jump){ at, IND_LOST };
}

/* A thunk that is called from elsewhere in the function makes an indirect call. */
static bool is_called(const struct body *b, uint64_t thunk)
{
	for (size_t i = 0; i < b->f.insns.n; i++)
		if (b->f.insns.v[i].kind == INSN_CALL && b->f.insns.v[i].target == thunk)
			return true;
	return false;
}

static void inline_thunk(struct code *c, struct body *b, uint32_t insn)
{
	uint64_t at = b->f.lo + b->at[insn], exit;
	int reg = thunk_at(c, at, &exit);

	if (reg < 0 || at == b->f.lo || !body_holds(b, exit))
		return;
	note(b, exit, is_called(b, at) ? IND_TABLE : code_jump_by(c, b, insn, reg));
}

void code_find_thunks(struct code *c, struct body *b)
{
	uint64_t exit;

	for (size_t i = 0; i < b->f.insns.n; i++) {
		const struct insn *in = &b->f.insns.v[i];
		uint64_t next = b->f.lo + b->at[i] + in->len;

		if (in->kind == INSN_CALL && in->target > next && in->target - next <= THUNK_SEARCH)
			inline_thunk(c, b, i);
	}
	for (size_t i = 0; i < b->outs.n; i++) {
		const struct out_edge *e = &b->outs.v[i];
		int reg = e->kind == INSN_JMP ? thunk_at(c, e->to, &exit) : -1;

		if (reg >= 0)
			note(b, e->from, code_jump_by(c, b, b->f.index[e->from - b->f.lo], reg));
	}
	addr_sort(&b->stays);
}
