/* SPDX-License-Identifier: MIT */
/* Shared by the files of the assembler for x86-64: the encoding of an instruction. */
#ifndef JAB_ARCH_X86_ASM_H
#define JAB_ARCH_X86_ASM_H

#include "arch/asm.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

#define bytes(a, ...) asm_bytes(a, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

/* Prefixes of enc(). */
enum { PREFIX_NONE, PREFIX_16 = 0x66, PREFIX_SD = 0xf2, PREFIX_SS = 0xf3, PREFIX_LOCK = 0xf0 };

int x86_reg(enum asm_reg r);		/* its number */
int x86_cc(enum asm_cond c);

/*
 * One instruction with a ModRM byte. opcode: one byte, or two after 0x0f as 0x0fXX; reg: a number, or the digit that is
 * part of the opcode; o: registers in it are roles, unless they are vector registers.
 */
void x86_enc(struct assembler *a, uint8_t prefix, bool wide, uint16_t opcode, int reg, struct asm_operand o);
void x86_enc_reg(struct assembler *a, uint8_t prefix, bool wide, uint16_t opcode, int reg, int rm);	/* all are numbers */

void x86_asm_address(struct assembler *a, enum asm_reg to, uint64_t v);

/* asm_float.c */
void x86_vload(struct assembler *a, enum asm_vec to, struct asm_operand from);
void x86_vstore(struct assembler *a, enum asm_vec from, struct asm_operand to);
void x86_vstore_site(struct assembler *a, enum asm_vec from, struct asm_operand to);
void x86_vmove(struct assembler *a, enum asm_vec to, enum asm_vec from);
void x86_vset(struct assembler *a, enum asm_width w, enum asm_vec to, enum asm_reg from);
void x86_vget(struct assembler *a, enum asm_width w, enum asm_reg to, enum asm_vec from);
void x86_farith(struct assembler *a, enum asm_float op, enum asm_vec to, enum asm_vec from);
void x86_farith_from(struct assembler *a, enum asm_float op, enum asm_vec to, struct asm_operand from);
void x86_fcmp(struct assembler *a, enum asm_vec x, enum asm_vec y);
void x86_fset_equal(struct assembler *a, bool equal);
void x86_fzero(struct assembler *a, enum asm_vec to);
void x86_widen(struct assembler *a, enum asm_vec to, enum asm_vec from);
void x86_widen_from(struct assembler *a, enum asm_vec to, struct asm_operand from);
void x86_narrow(struct assembler *a, enum asm_vec to, enum asm_vec from);
void x86_from_int(struct assembler *a, bool is_float);
void x86_from_unsigned(struct assembler *a, bool is_float);
void x86_to_int(struct assembler *a);
void x86_to_unsigned(struct assembler *a);
void x86_float_enter(struct assembler *a, int32_t off);
void x86_float_leave(struct assembler *a, int32_t off);

/* asm_thread.c */
void x86_flags_take(struct assembler *a);
void x86_flags_give(struct assembler *a);
void x86_flags_show(struct assembler *a, int32_t off);
void x86_c_enter(struct assembler *a);
void x86_c_leave(struct assembler *a);
void x86_note_saved(struct assembler *a, enum asm_reg base, int32_t off);
void x86_ticks(struct assembler *a);
void x86_cpu(struct assembler *a);
void x86_thread(struct assembler *a);
void x86_ask_room(struct assembler *a, uint64_t room, int32_t lowest, int32_t save);
void x86_seq_begin(struct assembler *a, struct asm_sequence *s);
void x86_seq_commit(struct assembler *a, struct asm_sequence *s);
void x86_seq_rest(struct assembler *a, struct asm_sequence *s, asm_label leave);

#endif
