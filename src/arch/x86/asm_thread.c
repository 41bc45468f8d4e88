/* SPDX-License-Identifier: MIT */
/* The assembler for x86-64: flags, clock, CPU number, calls of C, and restartable sequences. */
#include "arch/x86/asm.h"
#include "arch/rseq.h"

/* Not by pushf: one that is single-stepped saves the trap flag, and popf would set it again. */
void x86_flags_take(struct assembler *a)
{
	bytes(a, 0x9f, 0x0f, 0x90, 0xc0);		/* lahf; seto %al */
}

void x86_flags_give(struct assembler *a)
{
	bytes(a, 0x04, 0x7f, 0x9e);			/* add  $127,%al; sahf */
}

#define STATUS_FLAGS 0x8d5
#define TRAP_FLAG 0x100

/* As pushf would show them at the site. */
void x86_flags_show(struct assembler *a, int32_t off)
{
	bytes(a, 0x9c, 0x58);				/* pushf; pop %rax */
	a->ops->alu_wide(a, ASM_AND, ASM_32, ASM_A, ~(STATUS_FLAGS | TRAP_FLAG));
	x86_enc(a, 0, false, 0x0fb6, RCX, asm_at(ASM_SP, off + 1));	/* movzbl off + 1(%rsp),%ecx: lahf's */
	a->ops->alu_wide(a, ASM_AND, ASM_32, ASM_B, STATUS_FLAGS & 0xff);
	a->ops->alu(a, ASM_OR, ASM_32, ASM_A, ASM_B);
	x86_enc(a, 0, false, 0x0fb6, RCX, asm_at(ASM_SP, off));		/* seto's */
	a->ops->shift(a, ASM_SHL, ASM_32, ASM_B, 11);
	a->ops->alu(a, ASM_OR, ASM_32, ASM_A, ASM_B);
}

/* C wants the direction flag clear; how it was stays on the stack. */
void x86_c_enter(struct assembler *a)
{
	bytes(a, 0x9c, 0xfc);				/* pushf; cld */
}

void x86_c_leave(struct assembler *a)
{
	bytes(a, 0x59, 0xf6, 0xc5, 4, 0x74, 1, 0xfd);	/* pop  %rcx; test $4,%ch; jz 1f; std; 1: */
}

void x86_note_saved(struct assembler *a, enum asm_reg base, int32_t off)
{
	static const uint8_t saved[] = { RBX, RBP, R12, R13, R14, R15 };

	for (size_t k = 0; k < sizeof(saved); k++)
		x86_enc(a, 0, true, 0x89, saved[k], asm_far(base, off + 8 * saved[k]));
}

void x86_ticks(struct assembler *a)
{
	bytes(a, 0x0f, 0x31);				/* rdtsc */
}

/* The limit of a segment that the kernel has for this. */
void x86_cpu(struct assembler *a)
{
	bytes(a, 0xb8, 0x7b, 0, 0, 0);			/* mov  $0x7b,%eax */
	bytes(a, 0x0f, 0x03, 0xc0);			/* lsl  %eax,%eax */
	a->ops->alu_wide(a, ASM_AND, ASM_32, ASM_A, 0xfff);
}

void x86_thread(struct assembler *a)
{
	bytes(a, 0xf3, 0x48, 0x0f, 0xae, 0xc0);		/* rdfsbase %rax */
}

/* The routine gets the address in rdi, where to go on in rdx, and changes rax, rcx, rdx and r11. ecx is 0: there is room. */
void x86_ask_room(struct assembler *a, uint64_t room, int32_t lowest, int32_t save)
{
	asm_label back = asm_new_label(a);

	x86_enc(a, 0, true, 0x89, R11, asm_at(ASM_SP, save + 8));
	x86_enc(a, 0, true, 0x89, RDI, asm_at(ASM_SP, save));
	x86_enc(a, 0, true, 0x8d, RDI, asm_at(ASM_SP, lowest));
	a->ops->lea(a, ASM_64, ASM_C, asm_const(back));
	x86_asm_address(a, ASM_A, room);
	bytes(a, 0xff, 0xe0);				/* jmp  *%rax */
	asm_bind(a, back);
	x86_enc(a, 0, true, 0x8b, R11, asm_at(ASM_SP, save + 8));
	x86_enc(a, 0, true, 0x8b, RDI, asm_at(ASM_SP, save));
	a->ops->alu(a, ASM_TEST, ASM_32, ASM_B, ASM_B);
}

/* Nothing between the store and the start, or a signal there would disarm it unseen. */
void x86_seq_begin(struct assembler *a, struct asm_sequence *s)
{
	s->start = asm_new_label(a);
	s->end = asm_new_label(a);
	s->descriptor = asm_new_label(a);
	a->ops->lea(a, ASM_64, ASM_A, asm_const(s->descriptor));
	a->ops->store(a, ASM_64, ASM_A, asm_tls(s->rseq_off + RSEQ_CS));
	asm_bind(a, s->start);
}

/* The descriptor may be unmapped later. */
static void put_disarm(struct assembler *a, const struct asm_sequence *s)
{
	a->ops->store_imm(a, ASM_64, asm_tls(s->rseq_off + RSEQ_CS), 0);
}

void x86_seq_commit(struct assembler *a, struct asm_sequence *s)
{
	asm_bind(a, s->end);
	put_disarm(a, s);
}

#define DISARM_LEN 13
#define OVER_LEN 2
#define SIG_LEN 4

/* The descriptor, aligned by its address, in room that is always as long; the way out; and where an aborted one goes on, which the kernel
 * has disarmed. */
void x86_seq_rest(struct assembler *a, struct asm_sequence *s, asm_label leave)
{
	const size_t room = RSEQ_DESCRIPTOR_ALIGN - 1 + sizeof(struct rseq_descriptor);
	uint64_t here = a->at + a->code.n;
	size_t before = -here & (RSEQ_DESCRIPTOR_ALIGN - 1);
	struct rseq_descriptor d = {
		.start_ip = a->at + asm_offset(a, s->start),
		.post_commit_offset = asm_offset(a, s->end) - asm_offset(a, s->start),
		.abort_ip = here + room + DISARM_LEN + OVER_LEN + SIG_LEN,
	};

	asm_fill(a, before);
	asm_bind(a, s->descriptor);
	asm_bytes(a, &d, sizeof(d));
	asm_fill(a, room - sizeof(d) - before);
	asm_bind(a, leave);
	put_disarm(a, s);
	bytes(a, 0xeb, SIG_LEN);			/* jmp  over the signature */
	asm_u32(a, s->sig);
}
