/* SPDX-License-Identifier: MIT */
/* Events of numbers alone, and the cells that count or limit hits. */
#include "gen/emit.h"

#include "arch/arch.h"
#include "base/err.h"

static bool depends_on_faults(const struct gen *g, const struct ir_ins *i)
{
	for (uint32_t k = 0; k < i->n; k++)
		if (g->p->args.v[i->first + k].mask & g->bits)
			return true;
	return false;
}

/* Such an event has no text and can't be faulty: it goes to the ring of the CPU. */
bool g_is_plain_event(const struct gen *g, const struct ir_ins *i)
{
	for (uint32_t k = 0; k < i->n; k++)
		if (ir_in_slot(g->p->args.v[i->first + k].type))
			return false;
	return !depends_on_faults(g, i);
}

static struct event_field field_of(struct gen *g, uint32_t r)
{
	const struct place *w = &g->places[r];

	if (w->home == HOME_IMM)
		return (struct event_field){ EVENT_IMM, 0, 8, w->imm };
	if (w->home == HOME_REG)
		return (struct event_field){ EVENT_REG, w->reg, 8, 0 };
	return (struct event_field){ EVENT_STACK, 0, 8, w->off - 128 };
}

/*
 * Event code skips a red zone of its own. So it is shown a stack pointer 128 bytes further up: what of the frame
 * is below is as safe there, and no stack is wasted.
 */
static void put_event(struct gen *g, uint32_t id, const struct event_field *fields, uint32_t n)
{
	struct event_spec spec = g->env->event;
	uint8_t out[EVENT_CODE_MAX];
	int len;

	spec.id = id;
	spec.fields = fields;
	spec.nfields = n;
	op(g, 0x48, 0x8d);				/* lea  128(%rsp),%rsp */
	g_rsp(g, RSP, 128);
	len = arch_x86_64.emit_event(out, g->at + g->code.n, &spec);
	if (len < 0)
		g->error = g_refuse(g, "an event of so many values");
	else
		g_bytes(g, out, len);
	op(g, 0x48, 0x8d);				/* lea  -128(%rsp),%rsp */
	g_rsp(g, RSP, -128);
}

static void put_emit(struct gen *g, const struct ir_ins *i)
{
	struct event_field fields[EVENT_FIELDS_MAX + 1];
	uint32_t n = 0;

	if (i->n >= EVENT_FIELDS_MAX) {
		g->error = g_refuse(g, "an event of so many values");
		return;
	}
	if (g->u->records.v[i->record].faulty)
		fields[n++] = (struct event_field){ EVENT_IMM, 0, 8, 0 };
	for (uint32_t k = 0; k < i->n; k++)
		fields[n++] = field_of(g, g->p->args.v[i->first + k].reg);
	put_event(g, g->env->ids ? g->env->ids[i->record] : 0, fields, n);
}

static void put_exit(struct gen *g, const struct ir_ins *i)
{
	put_emit(g, i);
	op(g, 0xe9);
	g_to_out(g);
	g->acc = IR_NONE;
}

static uint64_t cell(const struct gen *g, const struct ir_ins *i)
{
	return g->env->cells + 8ull * i->cell;
}

/* rax = the cell before one was added to it */
static void put_add_one(struct gen *g)
{
	g_mov_imm(g, RAX, 1);
	op(g, 0xf0, 0x48, 0x0f, 0xc1, 0x01);		/* lock xadd %rax,(%rcx) */
}

static void put_every(struct gen *g, const struct ir_ins *i)
{
	g_address(g, RCX, cell(g, i));
	put_add_one(g);
	op(g, 0x48, 0xff, 0xc0, 0x31, 0xd2);		/* inc  %rax; xor %edx,%edx */
	g_mov_imm(g, RCX, i->imm);
	op(g, 0x48, 0xf7, 0xf1);			/* div  %rcx */
	g_mov_imm(g, RAX, 0);
	op(g, 0x48, 0x85, 0xd2, 0x0f, 0x94, 0xc0);	/* test %rdx,%rdx; sete %al */
	g_set(g, i->dst);
}

static void put_limit(struct gen *g, const struct ir_ins *i)
{
	size_t over;

	g_address(g, RCX, cell(g, i));
	g_mov_imm(g, RDX, i->imm);
	op(g, 0x48, 0x8b, 0x01);			/* mov  (%rcx),%rax */
	op(g, 0x48, 0x39, 0xd0, 0x73, 0);		/* cmp  %rdx,%rax; jae 1f */
	over = g->code.n;
	put_add_one(g);
	g->code.v[over - 1] = g->code.n - over;
	op(g, 0x48, 0x39, 0xd0, 0x0f, 0x92, 0xc0);	/* 1: cmp %rdx,%rax; setb %al */
	op(g, 0x0f, 0xb6, 0xc0);			/* movzbl %al,%eax */
	g_set(g, i->dst);
}

static void put_enable(struct gen *g, const struct ir_ins *i)
{
	g_load(g, RAX, i->a);
	op(g, 0x31, 0xd2, 0x48, 0x85, 0xc0, 0x0f, 0x95, 0xc2);	/* xor %edx,%edx; test %rax,%rax; setne %dl */
	g_address(g, RCX, g->env->enabled + 4ull * i->imm);
	op(g, 0x89, 0x11);				/* mov  %edx,(%rcx) */
}

bool g_action(struct gen *g, const struct ir_ins *i)
{
	switch (i->op) {
	case IR_EMIT:
		if (!g_is_plain_event(g, i))
			return false;
		put_emit(g, i);
		return true;
	case IR_EXIT:
		put_exit(g, i);
		return true;
	case IR_EVERY:
		put_every(g, i);
		return true;
	case IR_LIMIT:
		put_limit(g, i);
		return true;
	case IR_ENABLE:
		put_enable(g, i);
		return true;
	}
	return false;
}
