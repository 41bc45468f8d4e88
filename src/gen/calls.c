/* SPDX-License-Identifier: MIT */
/*
 * What the blob does for a program: keys of maps, checked reads, text. Operands go to words of the
 * frame; a description of the operation stands behind the code. One local routine saves the registers that C
 * may change and calls; a second one also sees to it that there is scratch memory: at the first such
 * operation the program takes a locked ring, which it keeps to its end. If there is none, it ends.
 */
#include "gen/emit.h"

#include <string.h>

#include "base/err.h"
#include "blob/blob.h"

static const uint8_t kept[] = { RDI, RSI, R8, R9, R10, R11 };

static bool has_slot(const struct gen *g, const struct ir_ins *i)
{
	for (uint32_t k = 0; k < i->n; k++)
		if (ir_in_slot(g->p->args.v[i->first + k].type))
			return true;
	return false;
}

bool g_is_heavy(const struct gen *g, const struct ir_ins *i)
{
	switch (i->op) {
	case IR_LOAD:
		return !(i->flags & IR_GOOD);
	case IR_READ_STR: case IR_READ_BUF: case IR_COMM: case IR_SLOT_COPY: case IR_SLOT_AND: case IR_SLOT_LOAD:
	case IR_STR_CMP: case IR_STR_LEN: case IR_STR_FIND: case IR_STACK:
		return true;
	case IR_EMIT:
		return !g_is_plain_event(g, i);
	}
	if (i->op < IR_MAP_GET || i->op > IR_MAP_HAS)
		return false;
	return has_slot(g, i) || !maps_is_simple(&g->u->maps.v[i->map]);
}

static bool is_ids(const struct ir_ins *i)
{
	return i->op == IR_CTX && (i->imm == IR_CTX_PID || i->imm == IR_CTX_TID || i->imm == IR_CTX_NS_PID || i->imm == IR_CTX_NS_TID);
}

/* Numbers that must be translated. */
bool g_ids_are_theirs(const struct gen *g, const struct ir_ins *i)
{
	return g->env->ids_table && i->op == IR_CTX && (i->imm == IR_CTX_PID || i->imm == IR_CTX_TID);
}

bool g_is_call(const struct gen *g, const struct ir_ins *i)
{
	if (i->op >= IR_MAP_GET && i->op <= IR_MAP_LEN)
		return i->op != IR_MAP_AGG || g->u->maps.v[i->map].nkeys;
	if (i->op == IR_CTX)
		return is_ids(i) || (i->imm == IR_CTX_THREAD && !g->env->has_fsbase);
	return g_is_heavy(g, i);
}

/* ---- the routines ---- */

static void put_keep(struct gen *g, int32_t off, bool back)
{
	for (size_t k = 0; k < ARRAY_SIZE(kept); k++) {
		if (back)
			g_load_word(g, kept[k], g->keep + off + 8 * k);
		else
			g_store_word(g, kept[k], g->keep + off + 8 * k);
	}
}

static void put_blob_call(struct gen *g)
{
	g_address(g, RAX, g->env->blob + blob_offset(BLOB_PROGRAM));
	op(g, 0xff, 0xd0);				/* call *%rax */
}

/* In rax: the description. */
static void put_light(struct gen *g)
{
	put_keep(g, 8, false);
	op(g, 0x48, 0x8d);				/* lea  8(%rsp),%rdi: the frame */
	g_rsp(g, RDI, 8);
	op(g, 0x48, 0x89, 0xc6, 0x31, 0xd2);		/* mov  %rax,%rsi; xor %edx,%edx */
	put_blob_call(g);
	put_keep(g, 8, true);
	op(g, 0xc3);
}

static bool emits(const struct gen *g)
{
	for (size_t i = 0; i < g->p->ins.n; i++)
		if (g->p->ins.v[i].op == IR_EMIT)
			return true;
	return false;
}

/*
 * Take a ring: rdx; rax stays. Returns the branch of those who got none. A program that writes no event only needs the
 * scratch memory: it gets a ring also where the time can't be read (what it reads of the time itself, the door asks for).
 */
static void put_take(struct gen *g, size_t lost[2])
{
	op(g, 0x49, 0x89, 0xc0);			/* mov  %rax,%r8 */
	g_address(g, RAX, g->env->event.slow + (g->env->timeless && !emits(g) ? EVENT_UNTIMED : 0));
	op(g, 0xff, 0xd0);				/* call *%rax */
	op(g, 0x48, 0x85, 0xc9, 0x0f, 0x84);		/* test %rcx,%rcx; jz lost */
	lost[0] = g_later(g);
	op(g, 0x48, 0x8b);				/* mov  scratch(%rcx),%rdi */
	g_mem(g, RDI, RCX, offsetof(struct ring_ref, scratch));
	op(g, 0x48, 0x85, 0xff, 0x0f, 0x84);		/* test %rdi,%rdi; jz unlock */
	lost[1] = g_later(g);
	g_store_word(g, RCX, g->ring + 16);
	op(g, 0x89);					/* mov  %eax,pid(%rdi) */
	g_mem(g, RAX, RDI, offsetof(struct bulk_context, pid));
	op(g, 0x89);					/* mov  %edx,tid(%rdi) */
	g_mem(g, RDX, RDI, offsetof(struct bulk_context, tid));
	op(g, 0x31, 0xc0, 0x48, 0x89);			/* xor  %eax,%eax; mov %rax,faults(%rdi) */
	g_mem(g, RAX, RDI, PROG_RUN + offsetof(struct prog_run, faults));
	op(g, 0x48, 0x89);				/* mov  %rax,ahead(%rdi) */
	g_mem(g, RAX, RDI, PROG_RUN + offsetof(struct prog_run, ahead));
	for (size_t k = 0; k < g->p->slots.n; k++) {
		if (!g->slots[k])
			continue;
		op(g, 0x89);				/* mov  %eax,slot(%rdi) */
		g_mem(g, RAX, RDI, g->slots[k]);
	}
	op(g, 0x48, 0x89, 0xca, 0x4c, 0x89, 0xc0);	/* mov  %rcx,%rdx; mov %r8,%rax */
}

/* Registers that C keeps are noted for stacks, where the others are. */
static void put_note(struct gen *g)
{
	static const uint8_t noted[] = { RBX, RBP, 12, 13, 14, 15 };

	op(g, 0x48, 0x8b);				/* mov  scratch(%rdx),%rcx */
	g_mem(g, RCX, RDX, offsetof(struct ring_ref, scratch));
	for (size_t k = 0; k < ARRAY_SIZE(noted); k++) {
		op(g, 0x48 | (noted[k] & 8) >> 1, 0x89);	/* mov %reg,regs(%rcx) */
		g_mem(g, noted[k], RCX, offsetof(struct bulk_context, regs) + 8 * noted[k]);
	}
}

/* C wants the direction flag clear; how it was stays on the stack. */
static void put_heavy(struct gen *g)
{
	size_t have, lost[2], back;

	put_keep(g, 8, false);
	op(g, 0x9c, 0xfc);				/* pushf; cld */
	g_load_word(g, RDX, g->ring + 16);
	op(g, 0x48, 0x85, 0xd2, 0x0f, 0x85);		/* test %rdx,%rdx; jnz 1f */
	have = g_later(g);
	put_take(g, lost);
	g_land(g, have, g->a.code.n);			/* 1: */
	if (g->stacks)
		put_note(g);
	op(g, 0x48, 0x8d);				/* lea  16(%rsp),%rdi */
	g_rsp(g, RDI, 16);
	op(g, 0x48, 0x89, 0xc6);			/* mov  %rax,%rsi */
	put_blob_call(g);
	back = g->a.code.n;
	op(g, 0x59, 0xf6, 0xc5, 4, 0x74, 1, 0xfd);	/* pop  %rcx; test $4,%ch; jz 2f; std */
	put_keep(g, 8, true);
	op(g, 0xc3);
	g_land(g, lost[1], g->a.code.n);
	op(g, 0x89, 0xc2, 0x48, 0x8b);			/* unlock: mov %eax,%edx; mov ring(%rcx),%rcx */
	g_mem(g, RCX, RCX, offsetof(struct ring_ref, ring));
	g_address(g, RAX, g->env->event.slow + EVENT_GIVE_BACK);
	op(g, 0xff, 0xd0, 0x75, 10 + 4);		/* call *%rax; jnz 3f */
	g_land(g, lost[0], g->a.code.n);
	g_address(g, RCX, g->env->event.lost_shared);	/* lost: */
	op(g, 0xf0, 0x48, 0xff, 0x01);			/* lock incq (%rcx) */
	g_mov_imm(g, RAX, (uint64_t)PROG_STOP);		/* 3: */
	op(g, 0xe9);
	g_land(g, g_later(g), back);
}

void g_routines(struct gen *g)
{
	for (int k = 0; k < 2; k++) {
		if (!g->to_routine[k].n)
			continue;
		for (size_t i = 0; i < g->to_routine[k].n; i++)
			g_land(g, g->to_routine[k].v[i], g->a.code.n);
		if (k)
			put_heavy(g);
		else
			put_light(g);
	}
}

/* ---- operations ---- */

static void put_stop(struct gen *g, struct cold *c)
{
	op(g, 0x48, 0xc7);				/* movq $0,ring(%rsp) */
	g_rsp(g, 0, g->ring);
	g_u32(g, 0);
	if (g->p->where == IR_WHERE_ENTRY)
		g_pair_forget(g);
	op(g, 0xe9);
	g_to_out(g);
}

/* Numbers that have a word stay there. For k == n: how many bytes the others take. */
int32_t g_event_word(const struct gen *g, const struct ir_ins *i, uint32_t k)
{
	int32_t off = g->out;

	for (uint32_t n = 0; n < i->n && n <= k; n++) {
		const struct ir_arg *a = &g->p->args.v[i->first + n];
		bool has_none = !ir_in_slot(a->type) &&
				(g->places[a->reg].home == HOME_IMM || g->places[a->reg].home == HOME_REG);

		if (n == k)
			return has_none || ir_in_slot(a->type) ? off : g->places[a->reg].off;
		off += has_none ? 8 : 0;
	}
	return off;
}

static void put_fields(struct gen *g, const struct ir_ins *i)
{
	for (uint32_t k = 0; k < i->n; k++) {
		const struct ir_arg *a = &g->p->args.v[i->first + k];

		if (!ir_in_slot(a->type) && g->places[a->reg].home != HOME_WORD)
			g_arg(g, a, g_event_word(g, i, k));
	}
}

static void put_operands(struct gen *g, const struct ir_ins *i)
{
	bool get = i->op == IR_MAP_GET;

	if (i->op == IR_EMIT) {
		put_fields(g, i);
		return;
	}

	if (i->n || i->nkeys || (i->op >= IR_MAP_GET && i->op <= IR_MAP_LEN)) {
		uint32_t n = get ? i->nkeys : i->n;

		for (uint32_t k = 0; k < n; k++)
			if (!ir_in_slot(g->p->args.v[i->first + k].type))
				g_arg(g, &g->p->args.v[i->first + k], g->out + 8 * k);
		if (i->a != IR_NONE && i->op == IR_MAP_ADD) {
			g_load(g, RAX, i->a);
			g_store_word(g, RAX, g->out + 8 * i->n);
		}
		return;
	}
	if (i->a != IR_NONE) {
		g_load(g, RAX, i->a);
		g_store_word(g, RAX, g->out);
	}
	if (i->b != IR_NONE) {
		g_load(g, RAX, i->b);
		g_store_word(g, RAX, g->out + 8);
	}
}

static void put_error_at(struct gen *g, struct cold *c)
{
	g_error(g, c->p, c->n[0]);
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
}

/* If the answer in eax is this: count an error. */
static void put_error_if(struct gen *g, const struct ir_ins *i, int answer, enum ir_error e)
{
	struct cold *c = g_cold(g, put_error_at);

	op(g, 0x83, 0xf8, answer, 0x0f, 0x84);		/* cmp  $answer,%eax; je */
	c->from[0] = g_later(g);
	c->p = i;
	c->n[0] = e;
	c->back = g->a.code.n;
}

/* F32 has come as 4 bytes, a bool as a byte of any value. */
static void put_widen(struct gen *g, const struct ir_ins *i)
{
	int32_t off = g->places[i->dst].off;

	if (i->type == IR_F32) {
		op(g, 0xf3, 0x0f, 0x5a);		/* cvtss2sd off(%rsp),%xmm0 */
		g_rsp(g, 0, off);
		g_store_f(g, 0, i->dst);
	} else if (i->type == IR_BOOL) {
		op(g, 0x31, 0xc0, 0x48, 0x83);		/* xor  %eax,%eax; cmpq $0,off(%rsp) */
		g_rsp(g, 7, off);
		op(g, 0, 0x0f, 0x95, 0xc0);		/* setne %al */
		g_store_word(g, RAX, off);
	}
}

static void put_answer(struct gen *g, const struct ir_ins *i)
{
	switch (i->op) {
	case IR_CTX:
		if (i->imm == IR_CTX_PID || i->imm == IR_CTX_NS_PID)
			op(g, 0x48, 0xc1, 0xe8, 32);	/* shr  $32,%rax */
		else if (is_ids(i))
			op(g, 0x89, 0xc0);		/* mov  %eax,%eax */
		if (g_ids_are_theirs(g, i))
			put_error_if(g, i, 0, IR_ERR_IDS);
		break;
	case IR_SLOT_LOAD:
		put_error_if(g, i, PROG_RANGE, IR_ERR_RANGE);
		put_widen(g, i);
		break;
	case IR_MAP_SET: case IR_MAP_ADD: case IR_STACK:
		put_error_if(g, i, PROG_FULL, IR_ERR_MAP_FULL);
		break;
	case IR_MAP_DEL:
		if (i->dst == IR_NONE)
			put_error_if(g, i, PROG_ABSENT, IR_ERR_DELETE);
		break;
	}
}

static void put_call(struct gen *g, const struct ir_ins *i, bool heavy)
{
	g->acc = IR_NONE;
	op(g, 0x48, 0x8d, 0x05);			/* lea  description(%rip),%rax */
	*vec_add(&g->ops) = (__typeof__(*g->ops.v)){ g_later(g), i };
	op(g, 0xe8);
	*vec_add(&g->to_routine[heavy]) = g_later(g);
	if (heavy) {
		struct cold *c = g_cold(g, put_stop);

		op(g, 0x85, 0xc0, 0x0f, 0x88);		/* test %eax,%eax; js stop */
		c->from[0] = g_later(g);
	}
}

void g_heavy(struct gen *g, const struct ir_ins *i)
{
	put_call(g, i, true);
}

bool g_call(struct gen *g, const struct ir_ins *i)
{
	if (!g_is_call(g, i))
		return false;
	if (i->op == IR_SLOT_LOAD && i->type > IR_F64 && i->type != IR_BOOL && i->type != IR_PTR && i->type != IR_CHAR)
		g->error = g_refuse(g, "such a member");
	put_operands(g, i);
	put_call(g, i, g_is_heavy(g, i));
	put_answer(g, i);
	return true;
}

/* ---- descriptions ---- */

static uint64_t slot_of(const struct gen *g, uint32_t slot)
{
	if (slot == IR_NONE)
		return 0;
	return g->slots[slot] ? g->slots[slot] : g->texts[slot];
}

static uint32_t cap_of(const struct gen *g, uint32_t slot)
{
	return slot == IR_NONE ? 0 : g->p->slots.v[slot].cap;
}

static int op_of(const struct gen *g, const struct ir_ins *i)
{
	static const uint8_t ops[IR_NOPS] = {
		[IR_SAVED] = PROG_FAULTS, [IR_STACK] = PROG_STACK,
		[IR_LOAD] = PROG_LOAD, [IR_READ_STR] = PROG_READ_STR, [IR_READ_BUF] = PROG_READ_BUF, [IR_COMM] = PROG_COMM,
		[IR_SLOT_COPY] = PROG_SLOT_COPY, [IR_SLOT_AND] = PROG_SLOT_AND, [IR_SLOT_LOAD] = PROG_SLOT_LOAD, [IR_STR_CMP] = PROG_STR_CMP,
		[IR_STR_LEN] = PROG_STR_LEN, [IR_STR_FIND] = PROG_STR_FIND, [IR_EMIT] = PROG_EMIT, [IR_CTX] = PROG_IDS,
		[IR_MAP_AGG] = PROG_KEY, [IR_MAP_GET] = PROG_GET, [IR_MAP_SET] = PROG_SET, [IR_MAP_ADD] = PROG_ADD,
		[IR_MAP_DEL] = PROG_DEL, [IR_MAP_HAS] = PROG_HAS, [IR_MAP_LEN] = PROG_LEN,
	};

	if (i->op == IR_CTX && i->imm == IR_CTX_THREAD)
		return PROG_THREAD;
	switch (g_reads_agg(g, i) ? i->op : IR_NOP) {
	case IR_MAP_GET: return PROG_AGG_GET;
	case IR_MAP_HAS: return PROG_AGG_HAS;
	case IR_MAP_LEN: return PROG_AGG_LEN;
	case IR_MAP_DEL: return PROG_AGG_DEL;
	}
	return ops[i->op];
}

static uint32_t wanted_cap(const struct gen *g, const struct ir_ins *i, uint32_t k)
{
	const struct ir_map *m;

	if (i->op == IR_EMIT)
		return g->u->records.v[i->record].fields[k].cap;
	m = &g->u->maps.v[i->map];
	return k < i->nkeys ? m->keys[k].cap : m->kind == IR_MAP_VALUE ? m->values[k - i->nkeys].cap : 0;
}

static struct prog_arg describe_arg(const struct gen *g, const struct ir_ins *i, uint32_t k)
{
	const struct ir_arg *a = &g->p->args.v[i->first + k];
	struct prog_arg d = { .mask = a->mask & g->bits, .word = g->out + 8 * k };

	if (ir_in_slot(a->type)) {
		d.slot = slot_of(g, a->reg);
		d.slot_cap = cap_of(g, a->reg);
		d.cap = wanted_cap(g, i, k);
		d.nul = a->type == IR_STR;
	} else if (i->op == IR_MAP_GET && k >= i->nkeys) {
		d.word = g->places[a->reg].off;
	} else if (i->op == IR_EMIT) {
		d.word = g_event_word(g, i, k);
	}
	return d;
}

static int32_t dst_of(const struct gen *g, const struct ir_ins *i)
{
	return i->dst == IR_NONE ? PROG_NONE : g->places[i->dst].off;
}

static bool is_keyed(const struct gen *g, const struct ir_ins *i)
{
	return i->op >= IR_MAP_GET && i->op <= IR_MAP_LEN && maps_has_table(&g->u->maps.v[i->map]);
}

static void describe_event(const struct gen *g, const struct ir_ins *i, struct prog_op *d)
{
	const struct ir_record *r = &g->u->records.v[i->record];

	d->imm = g->env->ids ? g->env->ids[i->record] : 0;
	d->max_len = g_event_len(g, i);
	d->flags |= r->faulty ? PROG_FAULTY : 0;
}

static struct prog_op describe(const struct gen *g, const struct ir_ins *i)
{
	const struct event_spec *e = &g->env->event;
	bool map = i->op >= IR_MAP_GET && i->op <= IR_MAP_LEN, many = map || i->op == IR_EMIT;
	struct prog_op d = {
		.op = op_of(g, i), .bit = i->bit, .n = i->n, .nkeys = i->nkeys, .dst = dst_of(g, i),
		.a = i->a == IR_NONE ? PROG_NONE : g->out + (many ? 8 * i->n : 0),
		.b = i->b == IR_NONE ? PROG_NONE : g->out + 8,
		.cap = cap_of(g, i->slot), .cap2 = cap_of(g, i->slot2), .slot = slot_of(g, i->slot),
		.slot2 = slot_of(g, i->slot2), .area = g->area, .imm = i->imm, .mask = i->mask & g->bits,
		.ring_size = e->ring_size, .pid_cell = e->pid_cell, .lost_index = e->lost_index, .quiet = g->env->quiet,
		.flags = (g->env->may_call ? PROG_MAY_CALL : 0) | (e->overwrite ? PROG_OVERWRITE : 0),
	};

	if (i->op == IR_LOAD || i->op == IR_SLOT_LOAD) {
		d.size = ir_size(i->type);
		d.flags |= !ir_is_float(i->type) && (!ir_is_unsigned(i->type) || i->type == IR_CHAR) ? PROG_SIGNED : 0;
	}
	if (i->op == IR_EMIT)
		describe_event(g, i, &d);
	if (i->op == IR_STACK)
		g_describe_stack(g, i, &d);
	if (g_ids_are_theirs(g, i)) {
		d.table = g->env->ids_table;
		d.shape = g->env->park;
	}
	if (i->op == IR_SAVED)
		d.a = g->pair + 8 * PAIR_FAULTS;
	if (is_keyed(g, i))
		d.table = g->env->maps + (g->layout ? g->layout->maps[i->map].table : 0);
	return d;
}

static void put_texts(struct gen *g)
{
	for (size_t k = 0; k < g->p->slots.n; k++) {
		const struct ir_slot *s = &g->p->slots.v[k];

		if (!s->text)
			continue;
		g->texts[k] = g->a.at + g->a.code.n;
		g_u32(g, s->cap);
		g_bytes(g, (const uint8_t *)s->text, s->cap);
		while ((g->a.at + g->a.code.n) & 7)
			op(g, 0);
	}
}

/* Aligned by their address; the room for that is always taken. */
void g_descriptions(struct gen *g)
{
	uint32_t pad = -(g->a.at + g->a.code.n) & 7;

	if (!g->ops.n)
		return;
	for (uint32_t k = 0; k < pad; k++)
		op(g, 0xcc);
	put_texts(g);
	for (size_t k = 0; k < g->ops.n; k++) {
		const struct ir_ins *i = g->ops.v[k].i;
		struct prog_op d = describe(g, i);
		struct prog_ahead ahead[PROG_AHEAD];
		uint32_t nahead = i->op == IR_LOAD ? g_describe_load(g, i, &d, ahead) : 0;

		if (d.op == PROG_EMIT && d.max_len > EVENT_LEN_MAX && !g_fits_ring(g, d.max_len))
			return;
		if (g_reads_agg(g, i)) {
			struct prog_agg a = g_describe_agg(g, i);

			d.slot = g->a.at + g->a.code.n;
			g_bytes(g, (const uint8_t *)&a, sizeof(a));
		}
		if (is_keyed(g, i)) {
			struct prog_shape shape = maps_shape(&g->u->maps.v[i->map], g_map_place(g, i->map));

			d.shape = g->a.at + g->a.code.n;
			g_bytes(g, (const uint8_t *)&shape, sizeof(shape));
		}
		g_land(g, g->ops.v[k].at, g->a.code.n);
		g_bytes(g, (const uint8_t *)&d, sizeof(d));
		for (uint32_t n = 0; n < i->n; n++) {
			struct prog_arg a = describe_arg(g, i, n);

			g_bytes(g, (const uint8_t *)&a, sizeof(a));
		}
		g_bytes(g, (const uint8_t *)ahead, nahead * sizeof(ahead[0]));
	}
	for (uint32_t k = pad; k < 7; k++)
		op(g, 0xcc);
}
