/* SPDX-License-Identifier: MIT */
/* Jumps of 5 and of 2 bytes, and branches that get another destination. */
#include "arch/x86/x86.h"

#include <string.h>

#include "base/err.h"

int x86_jump(uint8_t *out, uint64_t from, uint64_t to)
{
	int64_t distance = to - (from + 5);
	int32_t rel = distance;

	if (rel != distance)
		return -ERANGE;
	out[0] = 0xe9;
	memcpy(out + 1, &rel, sizeof(rel));
	return 0;
}

/* jmp *word(%rip) */
bool x86_jumps_by_word(const uint8_t *code)
{
	return code[0] == 0xff && code[1] == 0x25;
}

static int by_slot(uint8_t *out, uint64_t from, uint64_t slot)
{
	int64_t distance = slot - (from + 6);
	int32_t rel = distance;

	if (rel != distance)
		return -ERANGE;
	out[0] = 0xff;
	out[1] = 0x25;
	memcpy(out + 2, &rel, sizeof(rel));
	return 0;
}

/* call *slot(%rip), without a prefix that changes its meaning. */
static bool is_slot_call(const uint8_t *code, const struct insn *in)
{
	if (in->kind != INSN_CALL_IND || in->len < 6 || !(in->flags & INSN_PCREL))
		return false;
	for (int i = 0; i < in->len - 6; i++)
		if (code[i] == 0x67 || code[i] == 0x64 || code[i] == 0x65)
			return false;
	return code[in->len - 6] == 0xff && code[in->len - 5] == 0x15;
}

static enum retarget retarget(const uint8_t *code, const struct insn *in, uint8_t *head)
{
	if (is_slot_call(code, in)) {
		memset(head, 0x67, in->len - 5);	/* prefixes before a call */
		head[in->len - 5] = 0xe8;
		return RETARGET_CALL_SLOT;
	}
	if (in->rel_size != 4 || (in->kind != INSN_CALL && in->kind != INSN_JCC))
		return RETARGET_NONE;
	memcpy(head, code, in->len - 4);
	return in->kind == INSN_CALL ? RETARGET_CALL : RETARGET_JCC;
}

static void fill(uint8_t *out, size_t n)
{
	memset(out, 0x90, n);
}

/* ud2 */
static bool is_end(const uint8_t *code)
{
	return code[0] == 0x0f;
}

const struct jump_abi x86_jumps = {
	.len = 5,
	.insn_least = 1,
	.reach = (2ull << 30) - (1ull << 20),
	.fill = fill,
	.is_end = is_end,
	.opcode = 0xe9,
	.prefix = 0x26,
	.short_len = 2,
	.short_opcode = 0xeb,
	.retarget = retarget,
	.slot_len = 6,
	.by_slot = by_slot,
	.scan = &x86_scan,
};
