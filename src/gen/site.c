/* SPDX-License-Identifier: MIT */
/* The context of a site: registers, pid and tid, CPU, the clock. */
#include "gen/emit.h"

#include "base/addr.h"
#include "base/err.h"

static void put_register(struct gen *g, const struct ir_ins *i)
{
	enum asm_reg r = g->a.ops->site(i->imm);

	if (i->imm == reg_pc(g->arch->regs))
		ins(g, address, ASM_A, g->site->addr);
	else if (i->imm == reg_flags(g->arch->regs))
		ins(g, flags_show, FRAME_FLAGS(g));
	else if (g_is_work(r))
		g_load_word(g, ASM_A, g_work_word(g, r));
	else if (r == ASM_SP && g->p->is_left)
		g_load_word(g, ASM_A, g_left_word(g, LEFT_SP));
	else if (r == ASM_SP)
		ins(g, lea, ASM_64, ASM_A, asm_at(ASM_SP, g_site_sp(g)));
	else
		ins(g, move, ASM_64, ASM_A, r);
	g_set(g, i->dst);
}

/* If the clause uses floats, the site's V0 and V1 are in the frame. */
static void put_vector(struct gen *g, const struct ir_ins *i)
{
	enum asm_vec from = ASM_SITE_V + i->imm;

	if (g->floats && i->imm < 2) {
		ins(g, vload, ASM_V0, asm_at(ASM_SP, g->fp + 16 * i->imm));
		from = ASM_V0;
	}
	if (i->type == IR_F32) {
		ins(g, widen, ASM_V0, from);
		from = ASM_V0;
	}
	ins(g, vstore_site, from, asm_at(ASM_SP, g->places[i->dst].off));
}

/* A = A * mult >> 32. If mult is below 2^32 (a counter faster than 1 GHz), that is the upper half of A * (mult << 32). */
void g_ns(struct gen *g)
{
	if (g->env->mult <= UINT32_MAX) {
		ins(g, address, ASM_B, g->env->mult << 32);
		ins(g, mul_full, ASM_B);
		ins(g, move, ASM_64, ASM_A, ASM_C);
		return;
	}
	ins(g, address, ASM_B, g->env->mult);
	ins(g, mul_full, ASM_B);
	/* A double-word shift would take longer than all of this. */
	ins(g, shift, ASM_SHR, ASM_64, ASM_A, 32);
	g_join(g);
}

/* A = C << 32 | A */
void g_join(struct gen *g)
{
	ins(g, shift, ASM_SHL, ASM_64, ASM_C, 32);
	ins(g, alu, ASM_OR, ASM_64, ASM_A, ASM_C);
}

/* A = ns of CLOCK_MONOTONIC since `since`; B and C change */
void g_clock(struct gen *g, uint64_t since)
{
	ins(g, ticks);
	g_join(g);
	ins(g, address, ASM_B, g->env->tsc0);
	ins(g, alu, ASM_SUB, ASM_64, ASM_A, ASM_B);
	g_ns(g);
	ins(g, address, ASM_B, g->env->ns0 - since);
	ins(g, alu, ASM_ADD, ASM_64, ASM_A, ASM_B);
}

static void put_ask(struct gen *g, struct cold *c)
{
	g->now = c->n[0];
	g_call(g, c->p);
	ins(g, jump, c->then);
}

/* A: pid or tid of the target's pid namespace -> of the tracer's, by ID_TABLE. If it is not in its first entry: `ask`, the blob. */
static void put_translated(struct gen *g, asm_label ask)
{
	ins(g, move, ASM_32, ASM_B, ASM_A);
	ins(g, alu_imm, ASM_AND, ASM_32, asm_in(ASM_B), ID_TABLE - 1);
	ins(g, address, ASM_C, g->env->ids_table);
	ins(g, load, ASM_U64, ASM_B, asm_indexed(ASM_C, ASM_B, 8));
	ins(g, alu, ASM_CMP, ASM_32, ASM_B, ASM_A);
	ins(g, branch, ASM_NE, ask);
	ins(g, move, ASM_64, ASM_A, ASM_B);
	ins(g, shift, ASM_SHR, ASM_64, ASM_A, 32);
	ins(g, branch, ASM_EQ, ask);
}

/*
 * The pid from the pid cell, the tid from the thread block, while event.fast says that they are right. Otherwise the blob asks
 * the kernel and returns pid << 32 | tid.
 */
static void put_ids(struct gen *g, const struct ir_ins *i)
{
	const struct event_spec *e = &g->env->event;
	struct cold *c = g_cold(g, put_ask);
	bool is_tid = i->imm == IR_CTX_TID || i->imm == IR_CTX_NS_TID;

	c->p = i;
	c->n[0] = g->now;
	if (e->has_tid) {
		ins(g, address, ASM_B, e->fast);
		ins(g, alu_imm, ASM_CMP, ASM_32, asm_at(ASM_B, 0), 0);
		ins(g, branch, ASM_EQ, c->here);
		ins(g, load_absolute, e->pid_cell);
		ins(g, alu, ASM_TEST, ASM_32, ASM_A, ASM_A);
		ins(g, branch, ASM_EQ, c->here);
		if (is_tid)
			ins(g, load, ASM_U32, ASM_A, asm_tls(e->tid_off));
		if (g_ids_are_theirs(g, i))
			put_translated(g, c->here);
	} else {
		ins(g, jump, c->here);
	}
	asm_bind(&g->a, c->then);
	g->acc = IR_NONE;
	g_store(g, i->dst);
}

static void put_cpu(struct gen *g)
{
	asm_label known = asm_new_label(&g->a), alike = asm_new_label(&g->a);

	if (g->env->event.has_rseq) {
		ins(g, address, ASM_B, g->env->event.fast);
		ins(g, alu_imm, ASM_CMP, ASM_32, asm_at(ASM_B, 0), 0);
		ins(g, branch_short, ASM_EQ, alike);
		ins(g, load, ASM_U32, ASM_A, asm_tls(g->env->event.rseq_off + RSEQ_CPU_ID));
		ins(g, alu, ASM_TEST, ASM_32, ASM_A, ASM_A);
		ins(g, branch_short, ASM_POS, known);
	}
	asm_bind(&g->a, alike);
	ins(g, cpu);
	asm_bind(&g->a, known);
}

static void put_random(struct gen *g)
{
	ins(g, ticks);
	ins(g, address, ASM_B, 0x9e3779b97f4a7c15);
	ins(g, alu, ASM_ADD, ASM_64, ASM_A, ASM_SP);
	ins(g, mul, ASM_A, ASM_B);
	ins(g, swap, ASM_64, ASM_A);
	ins(g, mul, ASM_A, ASM_B);
	ins(g, shift, ASM_SHR, ASM_64, ASM_A, 32);
}

/* Not by the thread block's pointer to itself: a thread without TLS has no thread block. */
static void put_thread(struct gen *g, const struct ir_ins *i)
{
	if (g->env->has_thread_insn)
		ins(g, thread);
	else
		g_call(g, i);
}

static void put_context(struct gen *g, const struct ir_ins *i)
{
	g->acc = IR_NONE;
	switch (i->imm) {
	case IR_CTX_SITE: ins(g, address, ASM_A, g->site->number); break;
	case IR_CTX_PID: case IR_CTX_TID: case IR_CTX_NS_PID: case IR_CTX_NS_TID: put_ids(g, i); return;
	case IR_CTX_CPU: put_cpu(g); break;
	case IR_CTX_NSECS: g_clock(g, 0); break;
	case IR_CTX_ELAPSED: g_clock(g, g->env->start_ns); break;
	case IR_CTX_UID: ins(g, address, ASM_A, g->env->uid); break;
	case IR_CTX_GID: ins(g, address, ASM_A, g->env->gid); break;
	case IR_CTX_RAND: put_random(g); break;
	case IR_CTX_NCPUS: ins(g, address, ASM_A, g->env->online_cpus); break;
	case IR_CTX_CPID: ins(g, address, ASM_A, g->env->cpid); break;
	case IR_CTX_THREAD: put_thread(g, i); break;
	case IR_CTX_TAIL: ins(g, address, ASM_A, g->site->tail ? ADDR_TAIL_CALL : 0); break;
	case IR_CTX_LEFT:
		if (!g->p->is_left)
			g->error = g_refuse(g, "the way that a frame was left, at an exit that returns,");
		g_load_word(g, ASM_A, g_left_word(g, LEFT_HOW));
		break;
	case IR_CTX_DURATION:
		if (g->p->where == IR_WHERE_EXIT) {
			g_pair_duration(g);
			break;
		}
		/* fall through */
	default:
		g->error = g_refuse(g, "the duration of a call");
		return;
	}
	g_set(g, i->dst);
}

bool g_site(struct gen *g, const struct ir_ins *i)
{
	switch (i->op) {
	case IR_REG:
		if (g->defs[i->dst] != 1 || i->imm == reg_flags(g->arch->regs) || g->a.ops->site(i->imm) == ASM_SP)
			put_register(g, i);
		return true;
	case IR_VECTOR:
		put_vector(g, i);
		return true;
	case IR_CTX:
		if (g->places[i->dst].home != HOME_IMM)
			put_context(g, i);
		return true;
	}
	return false;
}
