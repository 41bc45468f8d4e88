/* SPDX-License-Identifier: MIT */
/* What is known at the site: registers, numbers of process and thread, the clock. */
#include "gen/emit.h"

#include "base/addr.h"
#include "base/err.h"

/* As pushf would show them. */
static void put_flags(struct gen *g)
{
	op(g, 0x9c, 0x58);				/* pushf; pop %rax */
	op(g, 0x25);					/* and  $~(status and trap),%eax */
	g_u32(g, ~(uint32_t)(0x8d5 | 0x100));
	op(g, 0x0f, 0xb6);				/* movzbl flags + 1(%rsp),%ecx */
	g_rsp(g, RCX, FRAME_FLAGS(g) + 1);
	op(g, 0x81, 0xe1);				/* and  $0xd5,%ecx */
	g_u32(g, 0xd5);
	op(g, 0x09, 0xc8);				/* or   %ecx,%eax */
	op(g, 0x0f, 0xb6);				/* movzbl flags(%rsp),%ecx */
	g_rsp(g, RCX, FRAME_FLAGS(g));
	op(g, 0xc1, 0xe1, 11, 0x09, 0xc8);		/* shl  $11,%ecx; or %ecx,%eax */
}

static void put_register(struct gen *g, const struct ir_ins *i)
{
	const int32_t saved[] = { FRAME_A(g), FRAME_B(g), FRAME_C(g) };

	if (i->imm < 3) {
		g_load_word(g, RAX, saved[i->imm]);
	} else if (i->imm == RSP && g->p->is_left) {
		g_load_word(g, RAX, g_left_word(g, LEFT_SP));
	} else if (i->imm == RSP) {
		op(g, 0x48, 0x8d);			/* lea  site(%rsp),%rax */
		g_rsp(g, RAX, g->frame + 128 + 8 * g->site->pushed);
	} else if (i->imm == BULK_RIP) {
		g_address(g, RAX, g->site->addr);
	} else if (i->imm == BULK_FLAGS) {
		put_flags(g);
	} else {
		op(g, 0x48 | (i->imm & 8) >> 1, 0x89, 0xc0 | (i->imm & 7) << 3);	/* mov %reg,%rax */
	}
	g_set(g, i->dst);
}

/* xmm0 and xmm1 may have been changed: they are in the frame then. */
static void put_xmm(struct gen *g, const struct ir_ins *i)
{
	int n = i->imm;

	if (g->floats && n < 2) {
		op(g, 0xf2, 0x0f, 0x10);		/* movsd saved(%rsp),%xmm0 */
		g_rsp(g, 0, g->fp + 16 * n);
		n = 0;
	}
	if (i->type == IR_F32) {
		op(g, 0xf3);				/* cvtss2sd %xmm,%xmm0 */
		if (n & 8)
			op(g, 0x41);
		op(g, 0x0f, 0x5a, 0xc0 | (n & 7));
		n = 0;
	}
	op(g, 0x66);					/* movq %xmm,off(%rsp) */
	if (n & 8)
		op(g, 0x44);
	op(g, 0x0f, 0xd6);
	g_rsp(g, n, g->places[i->dst].off);
}

/* rax * mult >> 32. With a clock of more than 1 GHz the upper half of a product is just that. */
void g_ns(struct gen *g)
{
	if (g->env->mult <= UINT32_MAX) {
		g_address(g, RCX, g->env->mult << 32);
		op(g, 0x48, 0xf7, 0xe1, 0x48, 0x89, 0xd0);	/* mul  %rcx; mov %rdx,%rax */
		return;
	}
	g_address(g, RCX, g->env->mult);
	op(g, 0x48, 0xf7, 0xe1);			/* mul  %rcx */
	/* Not shrd: it takes longer than all of this. */
	op(g, 0x48, 0xc1, 0xe8, 32, 0x48, 0xc1, 0xe2, 32);	/* shr $32,%rax; shl $32,%rdx */
	op(g, 0x48, 0x09, 0xd0);			/* or   %rdx,%rax */
}

/* rax = ns, CLOCK_MONOTONIC; rdx changes */
void g_clock(struct gen *g, uint64_t since)
{
	op(g, 0x0f, 0x31);				/* rdtsc */
	op(g, 0x48, 0xc1, 0xe2, 32, 0x48, 0x09, 0xd0);	/* shl  $32,%rdx; or %rdx,%rax */
	g_address(g, RCX, g->env->tsc0);
	op(g, 0x48, 0x29, 0xc8);			/* sub  %rcx,%rax */
	g_ns(g);
	g_address(g, RCX, g->env->ns0 - since);
	op(g, 0x48, 0x01, 0xc8);			/* add  %rcx,%rax */
}

static void put_ask(struct gen *g, struct cold *c)
{
	g->now = c->n[0];
	g_call(g, c->p);
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
}

/* eax: from their number to ours, see ID_TABLE. What is not at its first place is looked for by the blob. */
static void put_ours(struct gen *g, struct cold *c)
{
	size_t from;

	op(g, 0x89, 0xc1, 0x81, 0xe1);			/* mov  %eax,%ecx; and $ID_TABLE - 1,%ecx */
	g_u32(g, ID_TABLE - 1);
	g_address(g, RDX, g->env->ids_table);
	op(g, 0x48, 0x8b, 0x0c, 0xca);			/* mov  (%rdx,%rcx,8),%rcx */
	op(g, 0x39, 0xc1, 0x0f, 0x85);			/* cmp  %eax,%ecx; jne ask */
	from = g_later(g);
	c->from[2] = from;
	op(g, 0x48, 0x89, 0xc8, 0x48, 0xc1, 0xe8, 32, 0x0f, 0x84);	/* mov %rcx,%rax; shr $32,%rax; jz ask */
	from = g_later(g);
	c->from[3] = from;
}

/*
 * As noted in the pid cell and in the thread block, while they can be believed; else the kernel is asked,
 * which gives both: pid in the upper half.
 */
static void put_ids(struct gen *g, const struct ir_ins *i)
{
	const struct event_spec *e = &g->env->event;
	struct cold *c = g_cold(g, put_ask);
	size_t self = g->cold.n - 1, from;
	bool is_tid = i->imm == IR_CTX_TID || i->imm == IR_CTX_NS_TID;

	c->p = i;
	c->n[0] = g->now;
	if (e->has_tid) {
		g_address(g, RCX, e->fast);
		op(g, 0x83, 0x39, 0, 0x0f, 0x84);	/* cmpl $0,(%rcx); je ask */
		g->cold.v[self].from[0] = g_later(g);
		op(g, 0xa1);				/* movabs pid_cell,%eax */
		g_u64(g, e->pid_cell);
		op(g, 0x85, 0xc0, 0x0f, 0x84);		/* test %eax,%eax; jz ask */
		from = g_later(g);
		g->cold.v[self].from[1] = from;
		if (is_tid) {
			op(g, 0x64, 0x8b, 0x04, 0x25);	/* mov  %fs:tid,%eax */
			g_u32(g, e->tid_off);
		}
		if (g_ids_are_theirs(g, i))
			put_ours(g, &g->cold.v[self]);
	} else {
		op(g, 0xe9);
		g->cold.v[self].from[0] = g_later(g);
	}
	g->cold.v[self].back = g->a.code.n;
	g->acc = IR_NONE;
	g_store(g, i->dst);
}

static void put_cpu(struct gen *g)
{
	if (g->env->event.has_rseq) {
		size_t known, alike;

		g_address(g, RCX, g->env->event.fast);
		op(g, 0x83, 0x39, 0, 0x74, 0);		/* cmpl $0,(%rcx); je 2f */
		alike = g->a.code.n;
		op(g, 0x64, 0x8b, 0x04, 0x25);		/* mov  %fs:cpu_id,%eax */
		g_u32(g, g->env->event.rseq_off + RSEQ_CPU_ID);
		op(g, 0x85, 0xc0, 0x79, 0);		/* test %eax,%eax; jns 1f */
		known = g->a.code.n;
		g->a.code.v[alike - 1] = g->a.code.n - alike;	/* 2: */
		op(g, 0xb8, 0x7b, 0, 0, 0, 0x0f, 0x03, 0xc0, 0x25);	/* mov $0x7b,%eax; lsl %eax,%eax; and */
		g_u32(g, 0xfff);
		g->a.code.v[known - 1] = g->a.code.n - known;
		return;					/* 1: */
	}
	op(g, 0xb8, 0x7b, 0, 0, 0, 0x0f, 0x03, 0xc0, 0x25);
	g_u32(g, 0xfff);
}

static void put_random(struct gen *g)
{
	op(g, 0x0f, 0x31);				/* rdtsc */
	g_address(g, RCX, 0x9e3779b97f4a7c15);
	op(g, 0x48, 0x01, 0xe0);			/* add  %rsp,%rax */
	op(g, 0x48, 0x0f, 0xaf, 0xc1);			/* imul %rcx,%rax */
	op(g, 0x48, 0x0f, 0xc8);			/* bswap %rax */
	op(g, 0x48, 0x0f, 0xaf, 0xc1);			/* imul %rcx,%rax */
	op(g, 0x48, 0xc1, 0xe8, 32);			/* shr  $32,%rax */
}

/* Not from its own word at %fs:0: a thread without thread-local storage has none. */
static void put_thread(struct gen *g, const struct ir_ins *i)
{
	if (g->env->has_fsbase)
		op(g, 0xf3, 0x48, 0x0f, 0xae, 0xc0);	/* rdfsbase %rax */
	else
		g_call(g, i);
}

static void put_context(struct gen *g, const struct ir_ins *i)
{
	g->acc = IR_NONE;
	switch (i->imm) {
	case IR_CTX_SITE: g_address(g, RAX, g->site->number); break;
	case IR_CTX_PID: case IR_CTX_TID: case IR_CTX_NS_PID: case IR_CTX_NS_TID: put_ids(g, i); return;
	case IR_CTX_CPU: put_cpu(g); break;
	case IR_CTX_NSECS: g_clock(g, 0); break;
	case IR_CTX_ELAPSED: g_clock(g, g->env->start_ns); break;
	case IR_CTX_UID: g_address(g, RAX, g->env->uid); break;
	case IR_CTX_GID: g_address(g, RAX, g->env->gid); break;
	case IR_CTX_RAND: put_random(g); break;
	case IR_CTX_NCPUS: g_address(g, RAX, g->env->online_cpus); break;
	case IR_CTX_CPID: g_address(g, RAX, g->env->cpid); break;
	case IR_CTX_THREAD: put_thread(g, i); break;
	case IR_CTX_TAIL: g_address(g, RAX, g->site->tail ? ADDR_TAIL_CALL : 0); break;
	case IR_CTX_LEFT:
		if (!g->p->is_left)
			g->error = g_refuse(g, "how a frame was left that is there");
		g_load_word(g, RAX, g_left_word(g, LEFT_HOW));
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
		if (g->defs[i->dst] != 1 || i->imm == RSP || i->imm == BULK_FLAGS)
			put_register(g, i);
		return true;
	case IR_XMM:
		put_xmm(g, i);
		return true;
	case IR_CTX:
		if (g->places[i->dst].home != HOME_IMM)
			put_context(g, i);
		return true;
	}
	return false;
}
