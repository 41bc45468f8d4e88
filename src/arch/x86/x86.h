/* SPDX-License-Identifier: MIT */
/* Shared by the files of this folder. The rest of jab sees only arch_x86_64. */
#ifndef JAB_ARCH_X86_H
#define JAB_ARCH_X86_H

#include "arch/arch.h"

#define NR_TIME 201		/* the one system call that writes to an address and has no other effect */

extern const struct arch_regs x86_regs;
const char *x86_operand(const char *text, size_t len, struct text_operand *ret_operand);
extern const struct call_abi x86_c_call, x86_go_call;
extern const struct unwind_abi x86_unwind;
extern const struct elf_abi x86_elf;
extern const struct code_idioms x86_idioms;
extern const struct clock_abi x86_clock;
extern const struct jump_abi x86_jumps;
extern const struct branch_scan x86_scan;
extern const struct asm_ops x86_asm;
extern const struct thread_abi x86_thread_abi;
extern const struct signal_abi x86_signal_abi;
extern const struct batch_code x86_batch;

int x86_decode(const uint8_t *code, size_t room, uint64_t addr, struct insn *ret_insn);
int x86_relocate(const uint8_t *code, const struct insn *insn, uint64_t from, uint64_t to,
		 uint8_t *out);
int x86_perform(struct cpu *c, const struct cpu_memory *m);
void x86_find_calls(const uint8_t *bytes, size_t n, call_found found, void *arg);
bool x86_jumps_by_word(const uint8_t *code);
int x86_jump(uint8_t *out, uint64_t from, uint64_t to);
int x86_emit_count(uint8_t *out, uint64_t at, const struct count_spec *spec);
int x86_emit_raise(uint8_t *out, const struct raise_spec *spec);
int x86_emit_forget(uint8_t *out, const struct forget_spec *spec);
int x86_emit_gate(uint8_t *out, const struct gate_spec *spec);
int x86_emit_unmap(uint8_t *out, const struct unmap_spec *spec);
int x86_emit_hush(uint8_t *out, const struct hush_spec *spec);
int x86_emit_space(uint8_t *out, const struct space_spec *spec);
int x86_emit_tail(uint8_t *out, const struct tail_spec *spec);
uint64_t x86_tail_known(uint64_t func, uint64_t ret, uint32_t *ret_bucket);
int x86_emit_event(uint8_t *out, uint64_t at, const struct event_spec *spec);
int x86_emit_event_slow(uint8_t *out, const struct event_slow_spec *spec);
int x86_emit_bulk(uint8_t *out, const struct bulk_spec *spec);
int x86_emit_park(uint8_t *out, const struct park_spec *spec);
int x86_text(const uint8_t *code, size_t room, uint64_t addr, char *out, size_t out_room, uint64_t *ret_names);

#endif
