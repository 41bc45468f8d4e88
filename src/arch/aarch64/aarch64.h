/* SPDX-License-Identifier: MIT */
/* Shared by the files of this folder. The rest of jab sees only arch_aarch64. */
#ifndef JAB_ARCH_AARCH64_H
#define JAB_ARCH_AARCH64_H

#include "arch/arch.h"

extern const struct arch_regs a64_regs;
const char *a64_operand(const char *text, size_t len, struct text_operand *ret_operand);
extern const struct call_abi a64_c_call, a64_go_call;
extern const struct unwind_abi a64_unwind;
extern const struct clock_abi a64_clock;
extern const struct elf_abi a64_elf;
extern const struct code_idioms a64_idioms;
extern const struct asm_ops a64_asm;
extern const struct thread_abi a64_thread_abi;
extern const struct signal_abi a64_signal_abi;
extern const struct batch_code a64_batch;

#define A64_REACH (1ll << 27)		/* of b and bl, either way */

bool a64_has_lse(void);			/* whether this machine has atomic instructions besides the exclusive ones */

int a64_decode(const uint8_t *code, size_t room, uint64_t addr, struct insn *ret_insn);
int a64_relocate(const uint8_t *code, const struct insn *insn, uint64_t from, uint64_t to, uint8_t *out);
int a64_perform(struct cpu *c, const struct cpu_memory *m);
void a64_find_calls(const uint8_t *bytes, size_t n, call_found found, void *arg);
int a64_emit_count(uint8_t *out, uint64_t at, const struct count_spec *spec);
int a64_emit_event(uint8_t *out, uint64_t at, const struct event_spec *spec);
int a64_emit_event_slow(uint8_t *out, const struct event_slow_spec *spec);
int a64_emit_hush(uint8_t *out, const struct hush_spec *spec);
int a64_text(const uint8_t *code, size_t room, uint64_t addr, char *out, size_t out_room, uint64_t *ret_names);
bool a64_stays(const uint8_t *code, size_t before);

static inline uint32_t a64_word(const uint8_t *code)
{
	return code[0] | code[1] << 8 | code[2] << 16 | (uint32_t)code[3] << 24;
}

static inline int64_t a64_signed(uint32_t v, int bits)
{
	return (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits);
}

#endif
