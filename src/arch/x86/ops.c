/* SPDX-License-Identifier: MIT */
/* The table of arch.h for x86-64. */
#include "arch/x86/x86.h"

#include <elf.h>

const struct arch arch_x86_64 = {
	.name = "x86-64",
	.elf_machine = EM_X86_64,
	.user_top = 1ull << 47,
	.regs = &x86_regs,
	.operand = x86_operand,
	.c_call = &x86_c_call,
	.go_call = &x86_go_call,
	.unwind = &x86_unwind,
	.elf = &x86_elf,
	.idioms = &x86_idioms,
	.thread = &x86_thread_abi,
	.signal = &x86_signal_abi,
	.batch = &x86_batch,
	.assembler = &x86_asm,
	.decode = x86_decode,
	.relocate = x86_relocate,
	.clock = &x86_clock,
	.jumps = &x86_jumps,
	.jump = x86_jump,
	.find_calls = x86_find_calls,
	.emit_count = x86_emit_count,
	.emit_raise = x86_emit_raise,
	.emit_forget = x86_emit_forget,
	.emit_gate = x86_emit_gate,
	.emit_unmap = x86_emit_unmap,
	.emit_hush = x86_emit_hush,
	.emit_space = x86_emit_space,
	.emit_tail = x86_emit_tail,
	.tail_known = x86_tail_known,
	.emit_event = x86_emit_event,
	.emit_event_slow = x86_emit_event_slow,
	.perform = x86_perform,
	.emit_bulk = x86_emit_bulk,
	.emit_park = x86_emit_park,
	.text = x86_text,
	.jumps_by_word = x86_jumps_by_word,
};
