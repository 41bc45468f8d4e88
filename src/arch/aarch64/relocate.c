/* SPDX-License-Identifier: MIT */
/*
 * Copies an instruction to another address. Those that depend on their own address get a form that does not: an address is
 * loaded in four instructions into the register that the instruction writes anyway, so that no other register is needed.
 *
 *	b, b.cond, cbz, tbz	to a `b`, which reaches 128 MB: pads are never further from their module
 *	bl, blr			the return address is loaded into x30, then b or br
 *	adr, adrp		the address is loaded
 *	ldr, ldrsw (literal)	the address is loaded into the register, and then what is there
 *	ldr of a vector		likewise by way of x16, which is on the stack meanwhile
 *	prfm (literal)		nop: it only asks for speed
 */
#include "arch/aarch64/aarch64.h"

#include "arch/aarch64/encode.h"
#include "base/err.h"

static int put_b(uint8_t **p, uint64_t at, uint64_t target)
{
	int64_t distance = target - at;

	if (distance < -A64_REACH || distance >= A64_REACH || distance & 3)
		return -ERANGE;
	a64_put(p, a64_b(distance));
	return 0;
}

/* The branch over its `taken` leads to the `b` that has the reach. */
static int put_conditional(uint32_t w, const struct insn *insn, uint64_t to, uint8_t *out)
{
	bool tests_bit = (w & 0x7e000000) == 0x36000000;
	uint32_t field = tests_bit ? 0x3fffu << 5 : 0x7ffffu << 5;
	uint8_t *p = out;

	a64_put(&p, (w & ~field) | 2u << 5);	/* b.cond 1f */
	a64_put(&p, a64_b(8));			/* b 2f */
	if (put_b(&p, to + 8, insn->target) < 0)	/* 1: b target */
		return -ERANGE;
	return p - out;				/* 2: */
}

static int put_call(uint32_t w, const struct insn *insn, uint64_t from, uint64_t to, uint8_t *out)
{
	uint8_t *p = out;

	if (insn->kind == INSN_CALL_IND && ((w & 0xfffffc1f) != 0xd63f0000 || (w >> 5 & 31) == A64_LR))
		return -ENOTSUP;		/* authenticated, or by x30 itself */
	a64_put_address(&p, A64_LR, from + 4);
	if (insn->kind == INSN_CALL_IND)
		a64_put(&p, a64_br(w >> 5 & 31));
	else if (put_b(&p, to + (p - out), insn->target) < 0)
		return -ERANGE;
	return p - out;
}

/* ldr x, [x] in the width that the load has. */
static uint32_t load_of(uint32_t w, int x)
{
	static const uint32_t loads[] = { 0xb9400000, 0xf9400000, 0xb9800000 };	/* ldr w, ldr x, ldrsw */

	return loads[w >> 30] | (uint32_t)x << 5 | x;
}

static int put_literal(uint32_t w, const struct insn *insn, uint8_t *out)
{
	static const uint32_t vectors[] = { 0xbd400000, 0xfd400000, 0x3dc00000 };	/* ldr s, d, q */
	int x = w & 31;
	uint8_t *p = out;

	if (w >> 30 == 3)			/* prfm; of vectors there is none */
		return w >> 26 & 1 ? -ENOTSUP : (a64_put(&p, A64_NOP), 4);
	if (w >> 26 & 1) {
		a64_put(&p, a64_stp_pre(16, 17, A64_SP, -16));
		a64_put_address(&p, 16, insn->target);
		a64_put(&p, vectors[w >> 30] | 16 << 5 | x);
		a64_put(&p, a64_ldp_post(16, 17, A64_SP, 16));
	} else if (x == A64_ZR) {
		a64_put(&p, A64_NOP);
	} else {
		a64_put_address(&p, x, insn->target);
		a64_put(&p, load_of(w, x));
	}
	return p - out;
}

static int put_adr(uint32_t w, const struct insn *insn, uint8_t *out)
{
	uint8_t *p = out;

	if ((w & 31) == A64_ZR)
		a64_put(&p, A64_NOP);
	else
		a64_put_address(&p, w & 31, insn->target);
	return p - out;
}

/* cpy and set of FEAT_MOPS: three that the kernel expects side by side. And what adds its own address to a signature (FEAT_PAuth_LR). */
static bool is_bound(uint32_t w)
{
	return (w & 0x3b200c00) == 0x19000400 || (w & 0xff000000) == 0x55000000 || (w & 0xff000000) == 0xf3000000;
}

int a64_relocate(const uint8_t *code, const struct insn *insn, uint64_t from, uint64_t to, uint8_t *out)
{
	uint32_t w = a64_word(code);
	uint8_t *p = out;

	switch (insn->kind) {
	case INSN_ENDBR:
	case INSN_SYSCALL:
		return -ENOTSUP;
	case INSN_JMP:
		return put_b(&p, to, insn->target) < 0 ? -ERANGE : 4;
	case INSN_JCC:
		return put_conditional(w, insn, to, out);
	case INSN_CALL:
	case INSN_CALL_IND:
		return put_call(w, insn, from, to, out);
	default:
		break;
	}
	if (insn->flags & INSN_LITERAL)
		return put_literal(w, insn, out);
	if (insn->flags & INSN_PCREL)
		return put_adr(w, insn, out);
	if (is_bound(w) || insn->flags & INSN_EXCLUSIVE_END)
		return -ENOTSUP;
	a64_put(&p, w);
	return 4;
}
