/* SPDX-License-Identifier: MIT */
/*
 * Loads. What lowering knows to be good is loaded as it is, and what is above the stack pointer if it is in the same page: at the top of
 * a coroutine's stack there may be nothing in the next one. Any other address is looked up first in the ranges that
 * stay readable as long as the program runs (struct gen_good): the one that is hit most in line, the stack and the
 * others behind the end, and there also the call of the kernel for what is in none of them. Branches are
 * foreseen, so a chain of pointers waits for its loads alone.
 */
#include "gen/emit.h"

#define STACK_ABOVE 2040

/* Integers are extended as they come; a float is its bits. */
static void put_load(struct gen *g, const struct ir_ins *i, int32_t off)
{
	static const uint8_t how[][3] = {
		[IR_I8] = { 0x48, 0x0f, 0xbe }, [IR_I16] = { 0x48, 0x0f, 0xbf }, [IR_I32] = { 0x48, 0x63 },
		[IR_I64] = { 0x48, 0x8b }, [IR_U8] = { 0x48, 0x0f, 0xb6 }, [IR_U16] = { 0x48, 0x0f, 0xb7 },
		[IR_U32] = { 0x8b }, [IR_U64] = { 0x48, 0x8b }, [IR_F32] = { 0x8b }, [IR_F64] = { 0x48, 0x8b },
	};
	uint8_t type = i->type == IR_BOOL ? IR_U8 : i->type == IR_CHAR ? IR_I8 : i->type > IR_F64 ? IR_U64 : i->type;

	for (int k = 0; k < 3 && (how[type][k] || !k); k++)
		op(g, how[type][k]);
	g_mem(g, RAX, RAX, off);
}

/* What was loaded is in rax. */
static void put_result(struct gen *g, const struct ir_ins *i)
{
	if (i->type == IR_BOOL)
		g_wrap(g, IR_BOOL);
	if (!ir_is_float(i->type)) {
		g_set(g, i->dst);
		return;
	}
	g->acc = IR_NONE;
	if (i->type == IR_F64) {
		g_store_word(g, RAX, g->places[i->dst].off);
		return;
	}
	op(g, 0x66, 0x0f, 0x6e, 0xc0);			/* movd %eax,%xmm0 */
	op(g, 0xf3, 0x0f, 0x5a, 0xc0);			/* cvtss2sd %xmm0,%xmm0 */
	g_store_f(g, 0, i->dst);
}

static void put_plain(struct gen *g, const struct ir_ins *i)
{
	g_load(g, RAX, i->a);
	if (i->imm != (int32_t)i->imm) {
		g_address(g, RCX, i->imm);
		op(g, 0x48, 0x01, 0xc8);		/* add  %rcx,%rax */
	}
	put_load(g, i, i->imm == (int32_t)i->imm ? i->imm : 0);
	put_result(g, i);
}

/* By the blob, which leaves it in its word, too. The pointer is in rax. */
static void put_checked(struct gen *g, const struct ir_ins *i)
{
	g_store_word(g, RAX, g->out);
	g_heavy(g, i);
	g_load_word(g, RAX, g->places[i->dst].off);
}

/* rdx = where the load would read, from the start of the range at rcx; is it in there? */
static void put_is_in(struct gen *g, const struct ir_ins *i)
{
	op(g, 0x48, 0x8d);				/* lea  imm(%rax),%rdx */
	g_mem(g, RDX, RAX, i->imm);
	op(g, 0x48, 0x2b, 0x11);			/* sub  (%rcx),%rdx */
	op(g, 0x48, 0x3b, 0x51, 8);			/* cmp  8(%rcx),%rdx */
}

static uint64_t range_at(const struct gen *g, uint32_t k)
{
	return g->env->good + offsetof(struct gen_good, range) + 16 * k;
}

/* In the stack, not below rsp, and rsp not below the stack. */
static void put_is_in_stack(struct gen *g, const struct ir_ins *i, size_t load)
{
	size_t no[2];

	g_address(g, RCX, range_at(g, GEN_GOOD_STACK));
	put_is_in(g, i);
	op(g, 0x73, 0);					/* jae  1f */
	no[0] = g->a.code.n;
	op(g, 0x48, 0x03, 0x11);			/* add  (%rcx),%rdx */
	op(g, 0x48, 0x39, 0xe2, 0x72, 0);		/* cmp  %rsp,%rdx; jb 1f */
	no[1] = g->a.code.n;
	op(g, 0x48, 0x3b, 0x21, 0x0f, 0x83);		/* cmp  (%rcx),%rsp; jae load */
	g_land(g, g_later(g), load);
	for (int k = 0; k < 2; k++)			/* 1: */
		g->a.code.v[no[k] - 1] = g->a.code.n - no[k];
}

/* From the last one down to the second. */
static void put_is_in_others(struct gen *g, const struct ir_ins *i, size_t load)
{
	size_t again = g->a.code.n;

	op(g, 0x48, 0x83, 0xe9, 16);			/* 1: sub $16,%rcx */
	put_is_in(g, i);
	op(g, 0x0f, 0x82);				/* jb   load */
	g_land(g, g_later(g), load);
	op(g, 0x81, 0xf9);				/* cmp  $second,%ecx; jne 1b */
	g_u32(g, range_at(g, 1));
	op(g, 0x75, again - (g->a.code.n + 2));
}

/* A pointer that could not be read is none, whatever it looks like. */
static size_t put_is_faulty(struct gen *g, const struct ir_ins *i, size_t look)
{
	g_load_word(g, RCX, g->ring);
	op(g, 0x48, 0x8b);				/* mov  scratch(%rcx),%rcx */
	g_mem(g, RCX, RCX, offsetof(struct ring_ref, scratch));
	g_address(g, RDX, i->mask & g->bits);
	op(g, 0x48, 0x85);				/* test %rdx,faults(%rcx) */
	g_mem(g, RDX, RCX, PROG_RUN + offsetof(struct prog_run, faults));
	op(g, 0x0f, 0x84);				/* jz   look */
	g_land(g, g_later(g), look);
	op(g, 0xe9);					/* jmp  checked */
	return g_later(g);
}

enum { FROM_LOOK, FROM_FAULTS, TO_LOOK, TO_LOAD };

/* At the site's stack pointer + imm? Where it is in the same page as that, it is there. */
static bool is_above_rsp(const struct gen *g, const struct ir_ins *i)
{
	if (i->imm < 0 || i->imm > STACK_ABOVE || g->defs[i->a] != 1)
		return false;
	for (size_t k = 0; k < g->p->ins.n; k++)
		if (g->p->ins.v[k].dst == i->a)
			return g->p->ins.v[k].op == IR_REG && g->p->ins.v[k].imm == RSP;
	return false;
}

/* rax: the stack pointer. CF: it is in its page. */
static void put_is_in_page(struct gen *g, const struct ir_ins *i)
{
	op(g, 0x89, 0xc1, 0x81, 0xe1);			/* mov  %eax,%ecx; and $4095,%ecx */
	g_u32(g, 4095);
	op(g, 0x81, 0xf9);				/* cmp  $4096 - size - imm + 1,%ecx */
	g_u32(g, 4096 - ir_size(i->type) - i->imm + 1);
}

static void put_elsewhere(struct gen *g, struct cold *c)
{
	const struct ir_ins *i = c->p;
	size_t faulty = 0;

	if (c->n[FROM_FAULTS]) {
		g_land(g, c->n[FROM_FAULTS], g->a.code.n);
		faulty = put_is_faulty(g, i, c->n[TO_LOOK]);
	}
	g_land(g, c->n[FROM_LOOK], g->a.code.n);
	if (g->env->good) {
		put_is_in_stack(g, i, c->n[TO_LOAD]);
		put_is_in_others(g, i, c->n[TO_LOAD]);
	}
	if (faulty)
		g_land(g, faulty, g->a.code.n);
	put_checked(g, i);
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
}

static void put_looked_up(struct gen *g, const struct ir_ins *i)
{
	struct cold c = { .put = put_elsewhere, .p = i };

	g_load(g, RAX, i->a);
	if (i->mask & g->bits) {			/* no ring, no faults */
		op(g, 0x48, 0x83);			/* cmpq $0,ring(%rsp) */
		g_rsp(g, 7, g->ring);
		op(g, 0, 0x0f, 0x85);			/* jne  is it faulty? */
		c.n[FROM_FAULTS] = g_later(g);
	}
	c.n[TO_LOOK] = g->a.code.n;
	if (is_above_rsp(g, i)) {
		put_is_in_page(g, i);
	} else {
		g_address(g, RCX, range_at(g, 0));
		put_is_in(g, i);
	}
	op(g, 0x0f, 0x83);				/* jae  elsewhere */
	c.n[FROM_LOOK] = g_later(g);
	c.n[TO_LOAD] = g->a.code.n;
	put_load(g, i, i->imm);
	c.back = g->a.code.n;
	*vec_add(&g->cold) = c;
	put_result(g, i);
}

bool g_load_memory(struct gen *g, const struct ir_ins *i)
{
	if (i->op != IR_LOAD)
		return false;
	if (i->flags & IR_GOOD) {
		put_plain(g, i);
	} else if ((g->env->good || is_above_rsp(g, i)) && i->imm == (int32_t)i->imm) {
		put_looked_up(g, i);
	} else {
		g_load(g, RAX, i->a);
		put_checked(g, i);
		put_result(g, i);
	}
	return true;
}
