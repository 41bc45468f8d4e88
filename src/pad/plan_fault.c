/* SPDX-License-Identifier: MIT */
/*
 * Faults that the traced program handles. C++ and Ada turn a fault into an exception if its pc is in a guarded
 * range. Go turns it into a panic, from which a server recovers, if the pc is in Go code; if not, it takes the word
 * on top of the stack for the return address. In a function without a frame that is right, so there an instruction
 * may fault in a pad. Everywhere else it is not moved.
 */
#include "pad/plan_priv.h"

static bool has_no_frame(const struct fcode *f)
{
	for (size_t i = 0; i < f->insns.n && fcode_addr(f, i) < f->end; i++) {
		const struct insn *in = &f->insns.v[i];

		if (in->kind == INSN_CALL || in->kind == INSN_CALL_IND)
			return false;
		if (in->kind != INSN_RET && (in->flags & INSN_USES_SP))
			return false;
	}
	return true;
}

static bool go_looks(struct plan *p, uint64_t at, const struct insn *in)
{
	const struct fcode *f;

	if (plan_is_stack_check(p, at, in))
		return false;
	f = code_func(p->code, at);
	return f && !has_no_frame(f);
}

bool plan_fault_is_seen(struct plan *p, uint64_t at, const struct insn *in)
{
	if (!(in->flags & INSN_MAY_FAULT))
		return false;
	return p->m->runtime->sees_faults ? go_looks(p, at, in) : module_is_guarded(p->m, at);
}
