/* SPDX-License-Identifier: MIT */
/* Events of numbers alone, and the cells that count or limit hits. */
#include "gen/emit.h"

#include "arch/arch.h"
#include "base/err.h"

static bool has_text(const struct gen *g, const struct ir_ins *i)
{
	for (uint32_t k = 0; k < i->n; k++)
		if (ir_in_slot(g->p->args.v[i->first + k].type))
			return true;
	return false;
}

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
	return !has_text(g, i) && !depends_on_faults(g, i);
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
	len = arch_x86_64.emit_event(out, g->a.at + g->a.code.n, &spec);
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

static void put_faulty_emit(struct gen *g, struct cold *c)
{
	g->now = c->n[0];
	g_call(g, c->p);
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
}

/* Numbers that may be faulty. Without a ring there were no faults so far, and then it is as good as a plain one. */
static void put_emit_either(struct gen *g, const struct ir_ins *i)
{
	size_t self;

	g_cold(g, put_faulty_emit);
	self = g->cold.n - 1;
	g->cold.v[self].p = i;
	g->cold.v[self].n[0] = g->now;
	op(g, 0x48, 0x83);				/* cmpq $0,ring(%rsp) */
	g_rsp(g, 7, g->ring);
	op(g, 0, 0x0f, 0x85);				/* jne  by call */
	g->cold.v[self].from[0] = g_later(g);
	put_emit(g, i);
	g->cold.v[self].back = g->a.code.n;
	g->acc = IR_NONE;
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
	over = g->a.code.n;
	put_add_one(g);
	g->a.code.v[over - 1] = g->a.code.n - over;
	op(g, 0x48, 0x39, 0xd0, 0x0f, 0x92, 0xc0);	/* 1: cmp %rdx,%rax; setb %al */
	op(g, 0x0f, 0xb6, 0xc0);			/* movzbl %al,%eax */
	g_set(g, i->dst);
}

/*
 * The cell is the second in its upper half, and how many there were in it. rax: the cell as it was, edx: as it
 * would be without this one.
 */
static void put_rate(struct gen *g, const struct ir_ins *i)
{
	uint32_t most = i->imm > UINT32_MAX ? UINT32_MAX : (uint32_t)i->imm;
	size_t again, same, other, no;

	g_clock(g, 0);
	op(g, 0x31, 0xd2);				/* xor  %edx,%edx */
	g_mov_imm(g, RCX, 1000000000);
	op(g, 0x48, 0xf7, 0xf1, 0x48, 0xc1, 0xe0, 32);	/* div  %rcx; shl $32,%rax */
	g_store_word(g, RAX, g->out);
	g_address(g, RCX, cell(g, i));
	op(g, 0x48, 0x8b, 0x01);			/* mov  (%rcx),%rax */
	again = g->a.code.n;
	op(g, 0x48, 0x89, 0xc2, 0x48, 0x33);		/* 1: mov %rax,%rdx; xor second(%rsp),%rdx */
	g_rsp(g, RDX, g->out);
	op(g, 0x48, 0xc1, 0xea, 32, 0x74, 0);		/* shr  $32,%rdx; jz 2f */
	same = g->a.code.n;
	g_load_word(g, RDX, g->out);
	op(g, 0xeb, 0);					/* jmp  3f */
	other = g->a.code.n;
	g->a.code.v[same - 1] = g->a.code.n - same;
	op(g, 0x48, 0x89, 0xc2);			/* 2: mov %rax,%rdx */
	g->a.code.v[other - 1] = g->a.code.n - other;
	op(g, 0x81, 0xfa);				/* 3: cmp $most,%edx */
	g_u32(g, most);
	op(g, 0x73, 0);					/* jae  4f */
	no = g->a.code.n;
	op(g, 0x48, 0xff, 0xc2, 0xf0, 0x48, 0x0f, 0xb1, 0x11);	/* inc %rdx; lock cmpxchg %rdx,(%rcx) */
	op(g, 0x75, again - (g->a.code.n + 2));		/* jne  1b */
	op(g, 0xb8, 1, 0, 0, 0, 0xeb, 2);		/* mov  $1,%eax; jmp 5f */
	g->a.code.v[no - 1] = g->a.code.n - no;
	op(g, 0x31, 0xc0);				/* 4: xor %eax,%eax */
	g->acc = IR_NONE;
	g_set(g, i->dst);
}

static void put_enable(struct gen *g, const struct ir_ins *i)
{
	g_load(g, RAX, i->a);
	op(g, 0x31, 0xd2, 0x48, 0x85, 0xc0, 0x0f, 0x95, 0xc2);	/* xor %edx,%edx; test %rax,%rax; setne %dl */
	g_address(g, RCX, g->env->enabled + 4ull * i->imm);
	op(g, 0x38, 0x11, 0x74, 9);			/* cmp  %dl,(%rcx); je 1f */
	op(g, 0xf0, 0x81, 0x01);			/* lock addl $GEN_SWITCHED,(%rcx) */
	g_u32(g, GEN_SWITCHED);
	op(g, 0x88, 0x11);				/* mov  %dl,(%rcx); 1: */
}

bool g_action(struct gen *g, const struct ir_ins *i)
{
	switch (i->op) {
	case IR_EMIT:
		if (g_is_plain_event(g, i))
			put_emit(g, i);
		else if (!has_text(g, i) && i->n < EVENT_FIELDS_MAX)
			put_emit_either(g, i);
		else
			return false;
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
	case IR_RATE:
		put_rate(g, i);
		return true;
	case IR_ENABLE:
		put_enable(g, i);
		return true;
	}
	return false;
}
