/* SPDX-License-Identifier: MIT */
/*
 * Where a want's body is executed. The mark of indirect branches stays in its place, so a want at it is served before the next
 * instruction. A Go function that needs more stack starts a second time: its entry is after the check, where
 * registers and stack pointer are still those of the call.
 */
#include "pad/plan_priv.h"

#include <string.h>

/* The check reads the run time's own g, which is always mapped. */
bool plan_is_stack_check(const struct plan *p, uint64_t at, const struct insn *in)
{
	const uint8_t *code = module_bytes(p->m, at, in->len);

	return code && p->arch->idioms->go_checks_stack(code, in->len);
}

/* The address after the check, unless its bytes differ from the file. */
static uint64_t behind_stack_check(const struct plan *p, uint64_t entry)
{
	uint64_t behind = module_behind_go_check(p->m, entry);

	return plan_has_bytes(p, entry, behind - entry) ? behind : entry;
}

uint64_t plan_effective(struct plan *p, const struct want *w)
{
	const struct fcode *f;
	const uint8_t *code;
	uint64_t at = w->addr;
	size_t len = p->arch->idioms->landing_len;
	struct insn in;

	if (w->kind == WANT_EXIT)
		return at;
	if (w->kind == WANT_ENTRY && p->m->runtime->enters_again)
		at = behind_stack_check(p, at);
	code = module_bytes(p->m, at, len);
	if (!code || p->arch->decode(code, len, at, &in) < 0 || in.kind != INSN_ENDBR || in.len != len)
		return at;
	if (w->kind == WANT_ENTRY)
		return at + len;
	f = code_func(p->code, at);
	return f && code_target(p->code, f, at + len) == TARGET_NONE ? at + len : at;
}
