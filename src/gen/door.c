/* SPDX-License-Identifier: MIT */
/*
 * The way in, and the short way out. Many hits end at once: the clause is switched off, or what it asks for first does not
 * hold. So that is found out while there is hardly anything to be undone: the flags wait in rax, as lahf and seto have
 * left them, and only rcx may have been used. Who stays stores the rest of the frame.
 *
 * The first questions are comparisons of machine registers as they are at the site with each other or with constants, which need
 * no register; constants that no instruction can hold stand behind the code.
 *
 * Then there must be stack for the rest. What the door itself takes, every hit takes; if the program's whole frame and what it
 * calls is in the same page there is room, else it asks (arch/event.h: STACK_PAGES). Who has none counts that and leaves.
 */
#include "gen/emit.h"

#include "base/err.h"

enum where { NOWHERE, IN_REG, IN_FRAME, CONSTANT };

struct operand {
	enum where where;
	int reg;
	int32_t off;
	int64_t imm;
};

static void put_early(struct gen *g, int cc)
{
	op(g, 0x0f, 0x80 | cc);				/* jcc  early */
	*vec_add(&g->to_early) = g_later(g);
}

static bool reads_time(const struct gen *g)
{
	if (g->p->timed && (g->p->where == IR_WHERE_ENTRY || g->p->where == IR_WHERE_EXIT))
		return true;
	for (size_t i = 0; i < g->p->ins.n; i++) {
		const struct ir_ins *x = &g->p->ins.v[i];

		if (x->op == IR_RATE || (x->op == IR_CTX && (x->imm == IR_CTX_NSECS || x->imm == IR_CTX_ELAPSED || x->imm == IR_CTX_RAND)))
			return true;
	}
	return false;
}

static void put_free_rcx(struct gen *g)
{
	if (!g->rcx_used)
		g_store_word(g, RCX, FRAME_RCX(g));
	g->rcx_used = true;
}

/* An event is written at each hit, whatever the program finds; at an exit also whatever the entry has found. */
static bool always_emits(const struct gen *g)
{
	if (g->p->choosy)
		return false;
	for (size_t i = 0; i < g->p->ins.n; i++) {
		uint8_t o = g->p->ins.v[i].op;

		if (o == IR_EMIT)
			return true;
		if (o == IR_JMP || o == IR_JZ || o == IR_JNZ || o == IR_IF_FAULT || o == IR_RET)
			return false;
	}
	return false;
}

static void put_out(struct gen *g)
{
	if (g->rcx_used)
		g_load_word(g, RCX, FRAME_RCX(g));
	op(g, 0x04, 0x7f, 0x9e);			/* add  $127,%al; sahf */
	g_load_word(g, RAX, FRAME_RAX(g));
	op(g, 0x48, 0x8d);				/* lea  128 + frame(%rsp),%rsp */
	g_rsp(g, RSP, 128 + g->frame);
}

static void put_lost(struct gen *g, struct cold *c)
{
	(void)c;
	g_address(g, RCX, g->env->event.lost_shared);
	op(g, 0xf0, 0x48, 0xff, 0x01);			/* lock incq (%rcx) */
	put_out(g);
	op(g, 0xe9);					/* jmp  behind all */
	*vec_add(&g->to_end) = g_later(g);
}

/* May the time stamp counter be read? If not, the event of this hit is lost; who might have written none counts none. */
static void put_timeless(struct gen *g)
{
	struct cold *c;

	if (!g->env->timeless || !reads_time(g))
		return;
	put_free_rcx(g);
	g_address(g, RCX, g->env->timeless);
	op(g, 0x83, 0x39, 0);				/* cmpl $0,(%rcx) */
	if (!always_emits(g)) {
		put_early(g, 5);
		return;
	}
	op(g, 0x0f, 0x85);				/* jne  lost */
	c = g_cold(g, put_lost);
	c->from[0] = g_later(g);
}

/* Is this clause switched on? */
static void put_enabled(struct gen *g)
{
	if (!g->env->enabled)
		return;
	put_free_rcx(g);
	g_address(g, RCX, g->env->enabled + 4ull * g->p->clause);
	op(g, 0x66, 0x83, 0x39, GEN_ON);		/* cmpw $GEN_ON,(%rcx) */
	put_early(g, 5);
}

static struct operand operand(const struct gen *g, uint32_t r)
{
	const struct place *w = &g->places[r];

	if (w->home == HOME_IMM)
		return (struct operand){ .where = CONSTANT, .imm = w->imm };
	if (w->home == HOME_REG)
		return (struct operand){ .where = IN_REG, .reg = w->reg };
	if (w->home != HOME_WORD)
		return (struct operand){ .where = NOWHERE };
	if (w->off == FRAME_RDX(g))
		return (struct operand){ .where = IN_REG, .reg = RDX };
	if (w->off == FRAME_RCX(g) && !g->rcx_used)
		return (struct operand){ .where = IN_REG, .reg = RCX };
	return (struct operand){ .where = w->off == FRAME_RAX(g) || w->off == FRAME_RCX(g) ? IN_FRAME : NOWHERE, .off = w->off };
}

/* opcode reg,operand; the operand is a register or in the frame */
static void put_form(struct gen *g, uint8_t opcode, int reg, const struct operand *o)
{
	op(g, 0x48 | (reg & 8) >> 1 | (o->where == IN_REG && o->reg & 8), opcode);
	if (o->where == IN_REG)
		op(g, 0xc0 | (reg & 7) << 3 | (o->reg & 7));
	else
		g_rsp(g, reg, o->off);
}

static void put_compare_constant(struct gen *g, const struct operand *a, int64_t imm)
{
	if (imm == (int8_t)imm) {
		put_form(g, 0x83, 7, a);		/* cmp  $imm,a */
		op(g, imm);
	} else if (imm == (int32_t)imm) {
		put_form(g, 0x81, 7, a);
		g_u32(g, imm);
	} else {
		op(g, 0x48 | (a->reg & 8) >> 1, 0x3b, 0x05 | (a->reg & 7) << 3);	/* cmp  imm(%rip),a */
		*vec_add(&g->constants) = (__typeof__(*g->constants.v)){ g_later(g), imm };
	}
}

/* Flags of a - b; false, and nothing is put: not in this way. */
static bool compares(struct gen *g, const struct operand *a, const struct operand *b)
{
	if (a->where == NOWHERE || a->where == CONSTANT || b->where == NOWHERE)
		return false;
	if (b->where == CONSTANT) {
		if (a->where == IN_FRAME && b->imm != (int32_t)b->imm)
			return false;
		put_compare_constant(g, a, b->imm);
	} else if (b->where == IN_REG) {
		put_form(g, 0x39, b->reg, a);		/* cmp  %b,a */
	} else if (a->where == IN_REG) {
		put_form(g, 0x3b, a->reg, b);		/* cmp  b,%a */
	} else {
		return false;
	}
	return true;
}

/* Nothing comes behind that label but the end. */
static bool is_end(const struct gen *g, uint32_t label)
{
	bool found = false;

	for (size_t i = 0; i < g->p->ins.n; i++) {
		const struct ir_ins *x = &g->p->ins.v[i];

		if (x->op == IR_LABEL && x->label == label)
			found = true;
		else if (found && x->op != IR_LABEL && x->op != IR_NOP && x->op != IR_RET)
			return false;
	}
	return found;
}

/* What is used as it is, and needs no code. */
static bool is_given(const struct gen *g, const struct ir_ins *i)
{
	if (i->op == IR_NOP)
		return true;
	if (i->op != IR_CONST && (i->op != IR_REG || i->imm >= 16 || i->imm == RSP))
		return false;
	return g->places[i->dst].home != HOME_NONE && g->defs[i->dst] == 1;
}

/* One question at instruction n. Returns how many instructions that was, 0: it is none of ours. */
static int put_question(struct gen *g, size_t n)
{
	const struct ir_ins *i = &g->p->ins.v[n], *next = n + 1 < g->p->ins.n ? i + 1 : NULL;
	const struct operand zero = { .where = CONSTANT };
	struct operand a, b;

	if (i->op == IR_JZ || i->op == IR_JNZ) {
		a = operand(g, i->a);
		if (!is_end(g, i->label) || !compares(g, &a, &zero))
			return 0;
		put_early(g, i->op == IR_JZ ? 4 : 5);
		return 1;
	}
	if (i->op < IR_EQ || i->op > IR_GE || ir_is_float(i->type) || !next || (next->op != IR_JZ && next->op != IR_JNZ) ||
	    next->a != i->dst || g->reads[i->dst] != 1 || !is_end(g, next->label))
		return 0;
	a = operand(g, i->a);
	b = operand(g, i->b);
	if (!compares(g, &a, &b))
		return 0;
	put_early(g, g_condition(i) ^ (next->op == IR_JZ));
	return 2;
}

/* Of the pages that it would take, only that of the words stored so far is known to be there. */
static void put_ask(struct gen *g, struct cold *c)
{
	size_t back;

	g_store_word(g, R11, g->head - 8);
	g_store_word(g, RDI, g->head - 16);
	op(g, 0x48, 0x8d);				/* lea  lowest(%rsp),%rdi */
	g_rsp(g, RDI, 128 + g->frame - (int32_t)c->n[0]);
	op(g, 0x48, 0x8d, 0x15);			/* lea  1f(%rip),%rdx */
	back = g_later(g);
	g_address(g, RAX, g->env->event.slow + EVENT_ROOM);
	op(g, 0xff, 0xe0);				/* jmp  *%rax */
	g_land(g, back, g->code.n);
	g_load_word(g, R11, g->head - 8);		/* 1: */
	g_load_word(g, RDI, g->head - 16);
	op(g, 0x85, 0xc9, 0x0f, 0x84);			/* test %ecx,%ecx; jz back */
	g_land(g, g_later(g), c->back);
	g_address(g, RCX, g->site->no_stack);
	op(g, 0xf0, 0x48, 0xff, 0x01);			/* lock incq (%rcx) */
	g_load_head(g);
	op(g, 0xe9);					/* jmp  behind all */
	*vec_add(&g->to_end) = g_later(g);
}

/* Go on only if there is as much stack as the program takes. */
static void put_stack(struct gen *g)
{
	const int32_t stored = 128 + HEAD_SIZE;
	int32_t need = MAX(g->site->need, g_stack(g));
	struct cold *c;

	if (need <= STACK_UNASKED)
		return;
	op(g, 0x8d);					/* lea  head(%rsp),%ecx */
	g_rsp(g, RCX, g->head);
	op(g, 0x81, 0xe1);				/* and  $4095,%ecx */
	g_u32(g, 4095);
	op(g, 0x81, 0xf9);				/* cmp  $need - stored,%ecx */
	g_u32(g, need - stored);
	op(g, 0x0f, 0x82);				/* jb   ask */
	c = g_cold(g, put_ask);
	c->from[0] = g_later(g);
	c->back = g->code.n;
	c->n[0] = need;
}

size_t g_door(struct gen *g)
{
	size_t n = 0, done = 0;
	int len = 1;

	op(g, 0x48, 0x8d);				/* lea  -(128 + frame)(%rsp),%rsp */
	g_rsp(g, RSP, -(128 + g->frame));
	g_store_word(g, RAX, FRAME_RAX(g));
	op(g, 0x9f, 0x0f, 0x90, 0xc0);			/* lahf; seto %al */
	if (g->p->where == IR_WHERE_ENTRY || g->p->where == IR_WHERE_EXIT)
		len = 0;
	put_enabled(g);
	put_timeless(g);
	while (len && n < g->p->ins.n) {
		if (is_given(g, &g->p->ins.v[n])) {
			n++;
			continue;
		}
		len = put_question(g, n);
		n += len;
		done = len ? n : done;
	}
	g_store_word(g, RAX, FRAME_FLAGS(g));
	if (!g->rcx_used)
		g_store_word(g, RCX, FRAME_RCX(g));
	g_store_word(g, RDX, FRAME_RDX(g));
	put_stack(g);
	return done;
}

void g_load_head(struct gen *g)
{
	g_load_word(g, RCX, FRAME_RCX(g));
	g_load_word(g, RDX, FRAME_RDX(g));
	g_load_word(g, RAX, FRAME_FLAGS(g));
	op(g, 0x04, 0x7f, 0x9e);			/* add  $127,%al; sahf */
	g_load_word(g, RAX, FRAME_RAX(g));
	op(g, 0x48, 0x8d);				/* lea  128 + frame(%rsp),%rsp */
	g_rsp(g, RSP, 128 + g->frame);
}

static void put_constants(struct gen *g)
{
	for (size_t k = 0; k < g->constants.n; k++) {
		g_land(g, g->constants.v[k].from, g->code.n);
		g_u64(g, g->constants.v[k].value);
	}
}

/* It goes to the very end of the room that there is, so that no jump is needed behind it. */
void g_early(struct gen *g)
{
	size_t begin, len = 0;

	put_constants(g);
	begin = g->code.n;
	if (g->to_early.n) {
		put_out(g);
		len = g->code.n - begin;
		g->code.n = begin;
	}
	while (g->code.n + len < g->site->size)
		op(g, 0xcc);
	if (!len)
		return;
	for (size_t k = 0; k < g->to_early.n; k++)
		g_land(g, g->to_early.v[k], g->code.n);
	put_out(g);
}
