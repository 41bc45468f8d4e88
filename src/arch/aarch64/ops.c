/* SPDX-License-Identifier: MIT */
/* The table of arch.h for aarch64. What is missing in it jab refuses by name: see arch_lacks(). */
#include "arch/aarch64/aarch64.h"

#include <assert.h>
#include <elf.h>

#include "arch/aarch64/encode.h"
#include "arch/asm.h"
#include "base/err.h"

static int jump(uint8_t *out, uint64_t from, uint64_t to)
{
	int64_t distance = to - from;

	if (distance < -A64_REACH || distance >= A64_REACH || distance & 3)
		return -ERANGE;
	a64_put(&out, a64_b(distance));
	return 0;
}

static int call(uint8_t *out, uint64_t from, uint64_t to)
{
	int64_t distance = to - from;

	if (distance < -A64_REACH || distance >= A64_REACH || distance & 3)
		return -ERANGE;
	a64_put(&out, a64_bl(distance));
	return 0;
}

/* Code is made of whole instructions: nothing is left over that is shorter than a jump. */
static void fill(uint8_t *out, size_t n)
{
	assert(n == 0);
}

static bool is_end(const uint8_t *code)
{
	return true;
}

static const struct jump_abi jumps = {
	.len = 4,
	.insn_least = 4,
	.reach = A64_REACH - (1 << 20),
	.fill = fill,
	.is_end = is_end,
};

static bool jumps_by_word(const uint8_t *code)
{
	return false;
}

/* No code of the language yet: what is asked for elsewhere. There is no red zone. */
const struct asm_ops a64_asm = {
	.red_zone = 0,
	.fill = 0,		/* udf #0 */
	.page_shift = 12,
};

const struct arch arch_aarch64 = {
	.name = "aarch64",
	.elf_machine = EM_AARCH64,
	.one_insn = true,
	.user_top = 1ull << 48,
	.regs = &a64_regs,
	.operand = a64_operand,
	.c_call = &a64_c_call,
	.go_call = &a64_go_call,
	.unwind = &a64_unwind,
	.clock = &a64_clock,
	.elf = &a64_elf,
	.idioms = &a64_idioms,
	.thread = &a64_thread_abi,
	.signal = &a64_signal_abi,
	.batch = &a64_batch,
	.assembler = &a64_asm,
	.decode = a64_decode,
	.relocate = a64_relocate,
	.jumps = &jumps,
	.jump = jump,
	.call = call,
	.stays = a64_stays,
	.find_calls = a64_find_calls,
	.emit_count = a64_emit_count,
	.emit_hush = a64_emit_hush,
	.emit_event = a64_emit_event,
	.emit_event_slow = a64_emit_event_slow,
	.perform = a64_perform,
	.text = a64_text,
	.jumps_by_word = jumps_by_word,
};
