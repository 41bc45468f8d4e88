/* SPDX-License-Identifier: MIT */
/* Instructions as text, to show what a pad does: the words, and where branches lead. */
#include "arch/aarch64/aarch64.h"

#include <stdio.h>

#include "base/err.h"

int a64_text(const uint8_t *code, size_t room, uint64_t addr, char *out, size_t out_room, uint64_t *ret_names)
{
	struct insn in;

	if (a64_decode(code, room, addr, &in) < 0)
		return -EILSEQ;
	*ret_names = in.flags & INSN_PCREL ? in.target : 0;
	snprintf(out, out_room, ".inst 0x%08x", a64_word(code));
	return 4;
}
