/* SPDX-License-Identifier: MIT */
/*
 * Where a want's body really goes. An endbr64 stays in its place, so what is wanted there is done
 * before the next instruction. A Go function that needs more stack begins a second time: its entry
 * is behind the check, where registers and stack pointer are still those of the call.
 */
#include "pad/plan_priv.h"

#include <string.h>

#define ENDBR_LEN 4

static const uint8_t *bytes_at(const struct plan *p, uint64_t addr, const struct insn *in)
{
	return module_bytes(p->m, addr, in->len);
}

static bool begins(const uint8_t *code, size_t len, const char *with, size_t n)
{
	return len >= n && !memcmp(code, with, n);
}

/* One of the instructions in front of the comparison with the stack's limit. */
static bool is_frame_size(const uint8_t *c, size_t len)
{
	return begins(c, len, "\x4c\x8d\x64\x24", 4) ||		/* lea -8(%rsp),%r12 */
	       begins(c, len, "\x4c\x8d\xa4\x24", 4) ||		/* lea -400(%rsp),%r12 */
	       begins(c, len, "\x49\x89\xe4", 3) ||		/* mov %rsp,%r12 */
	       begins(c, len, "\x49\x81\xec", 3) ||		/* sub $size,%r12 */
	       begins(c, len, "\x64\x48\x8b\x0c\x25", 5);	/* mov %fs:-8,%rcx (before Go 1.17) */
}

static bool is_limit_check(const uint8_t *c, size_t len)
{
	return begins(c, len, "\x49\x3b\x66\x10", 4) ||		/* cmp 16(%r14),%rsp */
	       begins(c, len, "\x4d\x3b\x66\x10", 4) ||		/* cmp 16(%r14),%r12 */
	       begins(c, len, "\x49\x3b\x66\x18", 4) ||		/* cmp 24(%r14),%rsp: of the run time's own stacks */
	       begins(c, len, "\x4d\x3b\x66\x18", 4) ||
	       begins(c, len, "\x48\x3b\x61\x10", 4);		/* cmp 16(%rcx),%rsp */
}

/* It reads the run time's own block, which is always there. */
bool plan_is_stack_check(const struct plan *p, uint64_t at, const struct insn *in)
{
	const uint8_t *code = bytes_at(p, at, in);

	return code && is_limit_check(code, in->len);
}

static uint64_t behind_stack_check(const struct plan *p, uint64_t entry)
{
	uint64_t at = entry;
	bool checked = false;
	struct insn in;

	for (int i = 0; i < 6 && line_insn(p, NULL, at, &in); i++) {
		const uint8_t *code = bytes_at(p, at, &in);

		at += in.len;
		if (checked)
			return in.kind == INSN_JCC ? at : entry;
		if (is_limit_check(code, in.len))
			checked = true;
		else if (!is_frame_size(code, in.len) && (in.kind != INSN_JCC || !i))
			return entry;
	}
	return entry;
}

uint64_t plan_effective(struct plan *p, const struct want *w)
{
	const struct fcode *f;
	const uint8_t *code;
	uint64_t at = w->addr;

	if (w->kind == WANT_EXIT)
		return at;
	if (w->kind == WANT_ENTRY && p->m->is_go)
		at = behind_stack_check(p, at);
	code = module_bytes(p->m, at, ENDBR_LEN);
	if (!code || memcmp(code, "\xf3\x0f\x1e\xfa", ENDBR_LEN))
		return at;
	if (w->kind == WANT_ENTRY)
		return at + ENDBR_LEN;
	f = code_func(p->code, at);
	return f && code_target(p->code, f, at + ENDBR_LEN) == TARGET_NONE ? at + ENDBR_LEN : at;
}
