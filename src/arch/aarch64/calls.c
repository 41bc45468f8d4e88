/* SPDX-License-Identifier: MIT */
/*
 * System calls in text: `svc #0` whose number is loaded into x8 in the straight line before it. The place for a jump is the
 * instruction right before the `svc`, if it writes neither the number nor the first two arguments, which code there looks at.
 */
#include "arch/aarch64/aarch64.h"

#include "arch/aarch64/encode.h"

#define LOOK_BACK 16		/* instructions */

static bool is_number(uint32_t w)
{
	return (w & 0xffe0001f) == a64_movz(8, 0, 0);
}

/* Loads and computations name the register that they write in the lowest bits, and stores the one that they read. */
static bool may_write(uint32_t w, uint32_t reg)
{
	return (w & 31) == reg;
}

static bool is_place(uint32_t w)
{
	struct insn in;

	if (is_number(w))
		return true;
	return a64_decode((const uint8_t *)&w, sizeof(w), 0, &in) == 0 && (in.kind == INSN_PLAIN || in.kind == INSN_NOP) &&
	       !(in.flags & (INSN_PCREL | INSN_EXCLUSIVE | INSN_EXCLUSIVE_END)) && !may_write(w, 0) && !may_write(w, 1) && !may_write(w, 8);
}

static void look_before(const uint8_t *bytes, size_t at, call_found found, void *arg)
{
	for (size_t back = 4; back <= 4 * LOOK_BACK && back <= at; back += 4) {
		uint32_t w = a64_word(bytes + at - back);
		struct insn in;

		if (is_number(w)) {
			found(arg, at - 4, is_place(a64_word(bytes + at - 4)) ? 4 : 0, w >> 5 & 0xffff);
			return;
		}
		if (a64_decode(bytes + at - back, 4, 0, &in) < 0 || (in.kind != INSN_PLAIN && in.kind != INSN_NOP) || may_write(w, 8))
			return;
	}
}

void a64_find_calls(const uint8_t *bytes, size_t n, call_found found, void *arg)
{
	for (size_t i = 4; i + 4 <= n; i += 4) {
		if (a64_word(bytes + i) != A64_SVC)
			continue;
		if (a64_word(bytes + i - 4) == a64_mov(6, 7))	/* glibc's syscall(): the last argument is moved last */
			found(arg, i - 4, 4, ANY_CALL);
		else
			look_before(bytes, i, found, arg);
	}
}
