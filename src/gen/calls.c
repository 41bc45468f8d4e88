/* SPDX-License-Identifier: MIT */
/*
 * Operations that the blob does for clause code: keys of maps, checked reads, text. Operands are stored in words of the frame;
 * a description of the operation (struct prog_op) is placed after the code. A local routine (light) saves the registers that C
 * code may change and calls the blob; a second one (heavy) also provides scratch memory: at the first such operation it takes
 * the lock of a ring, which the clause code keeps to its end. If no ring can be taken, the clause code ends.
 */
#include "gen/emit.h"

#include <string.h>

#include "arch/known.h"
#include "base/err.h"
#include "blob/blob.h"

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
	case IR_STR_CMP: case IR_STR_LEN: case IR_STR_FIND: case IR_STACK: case IR_FRAMES:
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

/* Whether the pid or tid must be translated from the target's pid namespace to the tracer's. */
bool g_ids_are_theirs(const struct gen *g, const struct ir_ins *i)
{
	return g->env->ids_table && i->op == IR_CTX && (i->imm == IR_CTX_PID || i->imm == IR_CTX_TID);
}

bool g_is_call(const struct gen *g, const struct ir_ins *i)
{
	if (i->op >= IR_MAP_GET && i->op <= IR_MAP_LEN)
		return i->op != IR_MAP_AGG || g->u->maps.v[i->map].nkeys;
	if (i->op == IR_CTX)
		return is_ids(i) || (i->imm == IR_CTX_THREAD && !g->env->has_thread_insn);
	return g_is_heavy(g, i);
}

/* ---- the routines ---- */

/* Saves the registers that C code may change; off: how far SP is below the frame. */
static void put_keep(struct gen *g, int32_t off)
{
	for (int k = 0; k < g->a.ops->nkept; k++)
		g_store_word(g, ASM_KEPT + k, g->keep + off + 8 * k);
}

static void put_back(struct gen *g, int32_t off)
{
	for (int k = 0; k < g->a.ops->nkept; k++)
		g_load_word(g, ASM_KEPT + k, g->keep + off + 8 * k);
}

/* A: address of the description; C: the ring, if has_ring; off: how far SP is below the frame. */
static void put_blob_call(struct gen *g, int32_t off, bool has_ring)
{
	ins(g, lea, ASM_64, ASM_ARG0, asm_at(ASM_SP, off));
	ins(g, move, ASM_64, ASM_ARG1, ASM_A);
	if (has_ring)
		ins(g, move, ASM_64, ASM_ARG2, ASM_C);
	else
		ins(g, imm, ASM_ARG2, 0);
	ins(g, call, g->env->blob + blob_offset(BLOB_PROGRAM));
}

/* A: address of the description. */
static void put_light(struct gen *g)
{
	put_keep(g, 8);
	put_blob_call(g, 8, false);
	put_back(g, 8);
	ins(g, ret);
}

static bool emits(const struct gen *g)
{
	for (size_t i = 0; i < g->p->ins.n; i++)
		if (g->p->ins.v[i].op == IR_EMIT)
			return true;
	return false;
}

/*
 * Takes a locked ring: C = its struct ring_ref; A is kept. Branches to `lost` if no ring could be taken, to `unlock` if the one
 * taken has no scratch memory. A clause that writes no events needs only the scratch memory, so it gets a ring even while the
 * clock must not be read (if the clause reads the clock itself, the door has checked that).
 */
static void put_take(struct gen *g, asm_label lost, asm_label unlock)
{
	ins(g, move, ASM_64, ASM_ASIDE, ASM_A);
	ins(g, call, g->env->event.slow + (g->env->timeless && !emits(g) ? EVENT_UNTIMED : 0));
	ins(g, alu, ASM_TEST, ASM_64, ASM_B, ASM_B);
	ins(g, branch, ASM_EQ, lost);
	ins(g, load, ASM_U64, ASM_E, asm_far(ASM_B, offsetof(struct ring_ref, scratch)));
	ins(g, alu, ASM_TEST, ASM_64, ASM_E, ASM_E);
	ins(g, branch, ASM_EQ, unlock);
	g_store_word(g, ASM_B, g->ring + 16);
	ins(g, store, ASM_32, ASM_A, asm_far(ASM_E, offsetof(struct bulk_context, pid)));
	ins(g, store, ASM_32, ASM_C, asm_far(ASM_E, offsetof(struct bulk_context, tid)));
	ins(g, imm, ASM_A, 0);
	ins(g, store, ASM_64, ASM_A, asm_far(ASM_E, PROG_RUN + offsetof(struct prog_run, faults)));
	ins(g, store, ASM_64, ASM_A, asm_far(ASM_E, PROG_RUN + offsetof(struct prog_run, ahead)));
	for (size_t k = 0; k < g->p->slots.n; k++)
		if (g->slots[k])
			ins(g, store, ASM_32, ASM_A, asm_far(ASM_E, g->slots[k]));
	ins(g, move, ASM_64, ASM_C, ASM_B);
	ins(g, move, ASM_64, ASM_A, ASM_ASIDE);
}

/* Stores the registers that C code preserves in the ring's bulk_context, for the stack walk. */
static void put_note(struct gen *g)
{
	ins(g, load, ASM_U64, ASM_B, asm_far(ASM_C, offsetof(struct ring_ref, scratch)));
	ins(g, note_saved, ASM_B, offsetof(struct bulk_context, regs));
}

static void put_heavy(struct gen *g)
{
	asm_label have = asm_new_label(&g->a), lost = asm_new_label(&g->a), unlock = asm_new_label(&g->a);
	asm_label stop = asm_new_label(&g->a), back = asm_new_label(&g->a);

	put_keep(g, 8);
	ins(g, c_enter);
	g_load_word(g, ASM_C, g->ring + 16);
	ins(g, alu, ASM_TEST, ASM_64, ASM_C, ASM_C);
	ins(g, branch, ASM_NE, have);
	put_take(g, lost, unlock);
	asm_bind(&g->a, have);
	if (g->stacks)
		put_note(g);
	put_blob_call(g, 16, true);
	asm_bind(&g->a, back);
	ins(g, c_leave);
	put_back(g, 8);
	ins(g, ret);
	asm_bind(&g->a, unlock);
	ins(g, move, ASM_32, ASM_C, ASM_A);
	ins(g, load, ASM_U64, ASM_B, asm_far(ASM_B, offsetof(struct ring_ref, ring)));
	ins(g, call, g->env->event.slow + EVENT_GIVE_BACK);
	ins(g, branch_short, ASM_NE, stop);
	asm_bind(&g->a, lost);
	g_count(g, ASM_B, g->env->event.lost_shared);
	asm_bind(&g->a, stop);
	ins(g, imm, ASM_A, (uint64_t)PROG_STOP);
	ins(g, jump, back);
}

void g_routines(struct gen *g)
{
	for (int k = 0; k < 2; k++) {
		if (!g->routine[k])
			continue;
		asm_bind(&g->a, g->routine[k]);
		if (k)
			put_heavy(g);
		else
			put_light(g);
	}
}

/* ---- operations ---- */

static void put_stop(struct gen *g, struct cold *c)
{
	g_zero_word(g, g->ring);
	if (g->p->where == IR_WHERE_ENTRY)
		g_pair_forget(g);
	ins(g, jump, g->to_out);
}

/*
 * The offset of the word with field k of an event: a number's own word in the frame, or, if it has none, one of the words for
 * operands. For k == i->n: the offset after these words.
 */
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
			g_load(g, ASM_A, i->a);
			g_store_word(g, ASM_A, g->out + 8 * i->n);
		}
		return;
	}
	if (i->a != IR_NONE) {
		g_load(g, ASM_A, i->a);
		g_store_word(g, ASM_A, g->out);
	}
	if (i->b != IR_NONE) {
		g_load(g, ASM_A, i->b);
		g_store_word(g, ASM_A, g->out + 8);
	}
}

static void put_error_at(struct gen *g, struct cold *c)
{
	g_error(g, c->p, c->n[0]);
	ins(g, jump, c->then);
}

/* Counts an error if the blob's result in A equals `answer`. */
static void put_error_if(struct gen *g, const struct ir_ins *i, int answer, enum ir_error e)
{
	struct cold *c = g_cold(g, put_error_at);

	c->p = i;
	c->n[0] = e;
	ins(g, alu_imm, ASM_CMP, ASM_32, asm_in(ASM_A), answer);
	ins(g, branch, ASM_EQ, c->here);
	asm_bind(&g->a, c->then);
}

/* The blob has stored an F32 as 4 bytes and a bool as a byte of any value; converts them to a double and to 0 or 1. */
static void put_widen(struct gen *g, const struct ir_ins *i)
{
	int32_t off = g->places[i->dst].off;

	if (i->type == IR_F32) {
		ins(g, widen_from, ASM_V0, asm_at(ASM_SP, off));
		g_store_f(g, ASM_V0, i->dst);
	} else if (i->type == IR_BOOL) {
		ins(g, imm, ASM_A, 0);
		ins(g, alu_imm, ASM_CMP, ASM_64, asm_at(ASM_SP, off), 0);
		ins(g, set, ASM_NE, ASM_A);
		g_store_word(g, ASM_A, off);
	}
}

static void put_answer(struct gen *g, const struct ir_ins *i)
{
	switch (i->op) {
	case IR_CTX:
		if (i->imm == IR_CTX_PID || i->imm == IR_CTX_NS_PID)
			ins(g, shift, ASM_SHR, ASM_64, ASM_A, 32);
		else if (is_ids(i))
			ins(g, extend, ASM_U32, ASM_A, ASM_A);
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
	asm_label description = asm_new_label(&g->a);

	g->acc = IR_NONE;
	if (!g->routine[heavy])
		g->routine[heavy] = asm_new_label(&g->a);
	*vec_add(&g->ops) = (__typeof__(*g->ops.v)){ description, i };
	ins(g, lea, ASM_64, ASM_A, asm_const(description));
	ins(g, call_label, g->routine[heavy]);
	if (heavy) {
		struct cold *c = g_cold(g, put_stop);

		ins(g, alu, ASM_TEST, ASM_32, ASM_A, ASM_A);
		ins(g, branch, ASM_NEG, c->here);
	}
}

void g_heavy(struct gen *g, const struct ir_ins *i)
{
	put_call(g, i, true);
}

void g_blob_call(struct gen *g, const struct ir_ins *i)
{
	if (i->op == IR_SLOT_LOAD && i->type > IR_F64 && i->type != IR_BOOL && i->type != IR_PTR && i->type != IR_CHAR)
		g->error = g_refuse(g, "a member of this type");
	put_operands(g, i);
	put_call(g, i, g_is_heavy(g, i));
	put_answer(g, i);
}

bool g_call(struct gen *g, const struct ir_ins *i)
{
	if (!g_is_call(g, i))
		return false;
	g_blob_call(g, i);
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
		[IR_SAVED] = PROG_FAULTS, [IR_STACK] = PROG_STACK, [IR_FRAMES] = PROG_FRAMES,
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
		d.form = a->type == IR_STR ? PROG_TEXT : a->type == IR_ARRAY ? PROG_FIXED : a->type == IR_ADDRS ? PROG_ADDRS : PROG_BYTES;
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

	d->imm = gen_event_id(g->env, g->site, i->record);
	d->max_len = g_event_len(g, i);
	d->flags |= r->faulty ? PROG_FAULTY : 0;
}

/* Strings and buffers in known memory are copied. */
static void describe_known(const struct gen *g, struct prog_op *d)
{
	const struct event_spec *e = &g->env->event;

	if (!g->env->known || !e->has_rseq || e->rseq_sig != KNOWN_SIGNATURE)
		return;
	d->flags |= PROG_KNOWN;
	d->table = g->env->known;
	d->shape = e->fast;
	d->max_len = (uint32_t)e->rseq_off;
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
	if (i->op == IR_STACK || i->op == IR_FRAMES)
		g_describe_stack(g, i, &d);
	if (i->op == IR_READ_BUF && (i->flags & IR_PARTIAL))
		d.flags |= PROG_PARTIAL;
	if (i->op == IR_READ_BUF || i->op == IR_READ_STR)
		describe_known(g, &d);
	if (g_ids_are_theirs(g, i)) {
		d.table = g->env->ids_table;
		d.shape = g->env->keeper;
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
		asm_u32(&g->a, s->cap);
		asm_bytes(&g->a, s->text, s->cap);
		asm_bytes(&g->a, "\0\0\0\0\0\0\0", -(g->a.at + g->a.code.n) & 7);
	}
}

/* Descriptions are 8-aligned by their address. Padding before and after them is always 7 bytes together. */
void g_descriptions(struct gen *g)
{
	uint32_t pad = -(g->a.at + g->a.code.n) & 7;

	if (!g->ops.n)
		return;
	asm_fill(&g->a, pad);
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
			asm_bytes(&g->a, &a, sizeof(a));
		}
		if (is_keyed(g, i)) {
			struct prog_shape shape = maps_shape(&g->u->maps.v[i->map], g_map_place(g, i->map));

			d.shape = g->a.at + g->a.code.n;
			asm_bytes(&g->a, &shape, sizeof(shape));
		}
		asm_bind(&g->a, g->ops.v[k].description);
		asm_bytes(&g->a, &d, sizeof(d));
		for (uint32_t n = 0; n < i->n; n++) {
			struct prog_arg a = describe_arg(g, i, n);

			asm_bytes(&g->a, &a, sizeof(a));
		}
		asm_bytes(&g->a, ahead, nahead * sizeof(ahead[0]));
	}
	asm_fill(&g->a, 7 - pad);
}
