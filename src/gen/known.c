/* SPDX-License-Identifier: MIT */
/*
 * Loads from known memory (arch/known.h, docs/why/reads.md). Two restartable sequences: the thread comes in; it looks, loads and is
 * out. Whoever takes the memory away first cuts the range and then has the kernel interrupt all readers (membarrier): one that is
 * between look and load does not load any more. One whose load is in a page fault is not interrupted there, but it is in and not
 * out, and is waited for.
 */
#include "gen/emit.h"

#include "arch/known.h"

/* B = the CPU's offset in known.cpu[]; branches to `none` if the number is no CPU's: a thread that has not registered yet */
static void put_cpu(struct gen *g, enum asm_reg reg, asm_label none)
{
	ins(g, load, ASM_U32, reg, asm_tls(g->env->event.rseq_off + RSEQ_CPU_ID));
	ins(g, alu_wide, ASM_CMP, ASM_32, reg, g->env->known_cpus);
	ins(g, branch, ASM_UGE, none);
	ins(g, shift, ASM_SHL, ASM_64, reg, KNOWN_CPU_SHIFT);
}

/* Adds 1 to a word of the CPU in one instruction, which no other thread of the CPU can interrupt halfway. cpu: and the phase. */
static void put_one_more(struct gen *g, enum asm_reg cpu, enum asm_reg base, size_t word)
{
	ins(g, address, base, g->env->known + offsetof(struct known, cpu) + word);
	ins(g, unary, ASM_INC, ASM_64, asm_indexed(base, cpu, 1));
}

/* The phase in which this reader came in, which the second word at g->out tells. */
static void put_phase(struct gen *g, enum asm_reg reg)
{
	g_load_word(g, reg, g->out + 8);
	ins(g, alu_imm, ASM_AND, ASM_64, asm_in(reg), sizeof(uint64_t) * (KNOWN_PHASES - 1));
}

/* C: the address. B: its range; branches to `none` if there is none. */
static void put_look(struct gen *g, asm_label none)
{
	asm_label again = asm_new_label(&g->a), found = asm_new_label(&g->a);
	uint64_t first = g->env->known + offsetof(struct known, load);

	ins(g, address, ASM_B, first);
	asm_bind(&g->a, again);
	ins(g, move, ASM_64, ASM_A, ASM_C);
	ins(g, alu_from, ASM_SUB, ASM_64, ASM_A, asm_at(ASM_B, offsetof(struct known_range, lo)));
	ins(g, alu_from, ASM_CMP, ASM_64, ASM_A, asm_at(ASM_B, offsetof(struct known_range, len)));
	ins(g, branch_short, ASM_ULT, found);
	ins(g, alu_imm, ASM_ADD, ASM_64, asm_in(ASM_B), sizeof(struct known_range));
	ins(g, alu_wide, ASM_CMP, ASM_32, ASM_B, first + KNOWN_RANGES * sizeof(struct known_range));
	ins(g, branch_short, ASM_NE, again);
	ins(g, jump, none);
	asm_bind(&g->a, found);
}

static void put_delay(struct gen *g)
{
	asm_label again = asm_new_label(&g->a);

	ins(g, imm32, ASM_A, g->env->known_delay);
	asm_bind(&g->a, again);
	ins(g, alu_imm, ASM_SUB, ASM_32, asm_in(ASM_A), 1);
	ins(g, branch_short, ASM_NE, again);
}

void g_load_known(struct gen *g, enum asm_type type, asm_label then)
{
	const struct event_spec *e = &g->env->event;
	struct asm_sequence in = { .rseq_off = e->rseq_off, .sig = e->rseq_sig }, look = in;
	asm_label not_in = asm_new_label(&g->a), not_found = asm_new_label(&g->a), ask = asm_new_label(&g->a);

	if (!g->env->known || !e->has_rseq)
		return;
	ins(g, address, ASM_B, e->fast);
	ins(g, alu_imm, ASM_CMP, ASM_32, asm_at(ASM_B, 0), 0);
	ins(g, branch, ASM_EQ, ask);
	ins(g, seq_begin, &in);
	put_cpu(g, ASM_A, not_in);
	ins(g, address, ASM_B, g->env->known + offsetof(struct known, phase));
	ins(g, alu_from, ASM_ADD, ASM_64, ASM_A, asm_at(ASM_B, 0));
	g_store_word(g, ASM_A, g->out + 8);
	put_one_more(g, ASM_A, ASM_B, offsetof(struct known_cpu, in));
	ins(g, seq_commit, &in);
	ins(g, seq_begin, &look);
	put_look(g, not_found);
	if (g->env->known_delay)
		put_delay(g);
	ins(g, load, type, ASM_A, asm_at(ASM_C, 0));
	put_cpu(g, ASM_B, not_found);
	put_phase(g, ASM_C);
	ins(g, alu, ASM_ADD, ASM_64, ASM_B, ASM_C);
	put_one_more(g, ASM_B, ASM_C, offsetof(struct known_cpu, out));
	ins(g, seq_commit, &look);
	ins(g, jump, then);

	ins(g, seq_rest, &in, not_in);
	ins(g, jump, ask);
	ins(g, seq_rest, &look, not_found);
	put_phase(g, ASM_A);
	ins(g, address, ASM_B, g->env->known + offsetof(struct known, left));
	ins(g, alu, ASM_ADD, ASM_64, ASM_B, ASM_A);
	ins(g, atomic_inc, asm_at(ASM_B, 0));
	asm_bind(&g->a, ask);
}
