/* SPDX-License-Identifier: MIT */
/*
 * The code in a pad that writes an event, to a ring with a lock:
 *
 *		save
 *		the first routine takes a ring; none: lost
 *		room in the ring?		no: the third one gives it back; lost
 *		write the event at head; the second routine sets the time, commits and unlocks
 *	out	restore; branch over the cold part
 *
 * There are no rings by CPU yet: pid and tid of a thread come from system calls (spec.has_rseq and has_tid are not used).
 * Fields are registers, constants and words on the stack.
 */
#include "arch/aarch64/aarch64.h"

#include "arch/aarch64/event.h"
#include "base/err.h"

struct body {
	const struct event_spec *spec;
	uint8_t *base, *p;
	uint32_t len;			/* of the event */
	uint8_t *to_lost, *to_full;	/* branches whose target comes later */
	uint8_t *out;
};

/* x = v, in two instructions. */
static void put_u32(uint8_t **p, int x, uint32_t v)
{
	a64_put(p, a64_movz(x, v, 0));
	a64_put(p, a64_movk(x, v >> 16, 1));
}

static void put_enter(uint8_t **p)
{
	a64_put(p, a64_stp_pre(0, 1, A64_SP, -FRAME));
	a64_put(p, a64_stp(2, 3, A64_SP, 16));
	a64_put(p, a64_stp(8, 9, A64_SP, 32));
	a64_put(p, a64_stp(10, 11, A64_SP, 48));
	a64_put(p, a64_stp(16, 17, A64_SP, 64));
	a64_put(p, a64_mrs_nzcv(0));
	a64_put(p, a64_stp(A64_LR, 0, A64_SP, SAVED_LINK));
}

static void put_leave(uint8_t **p)
{
	a64_put(p, a64_ldp(A64_LR, 0, A64_SP, SAVED_LINK));
	a64_put(p, a64_msr_nzcv(0));
	a64_put(p, a64_ldp(16, 17, A64_SP, 64));
	a64_put(p, a64_ldp(10, 11, A64_SP, 48));
	a64_put(p, a64_ldp(8, 9, A64_SP, 32));
	a64_put(p, a64_ldp(2, 3, A64_SP, 16));
	a64_put(p, a64_ldp_post(0, 1, A64_SP, FRAME));
}

/* Offset in the frame of a register that put_enter() has saved; -1: it has its value still. */
static int saved_at(int reg)
{
	if (reg < 4)
		return 8 * reg;
	if (reg >= 8 && reg < 12)
		return 32 + 8 * (reg - 8);
	if (reg == 16 || reg == 17)
		return 64 + 8 * (reg - 16);
	return reg == A64_LR ? SAVED_LINK : -1;
}

static void put_call(struct body *b, uint32_t routine)
{
	a64_put_address(&b->p, 16, b->spec->slow + routine);
	a64_put(&b->p, a64_blr(16));
}

/*
 * Branches if the event does not fit. The load of tail acquires, and pairs with the release store in set_tail() (ring/ring.c): the
 * event is not written before the reader is done with these bytes.
 */
static void put_check(struct body *b)
{
	uint8_t **p = &b->p;

	a64_put(p, a64_add_imm(16, RING, offsetof(struct ring_head, tail)));
	a64_put(p, a64_ldar(0, 16));
	a64_put(p, 0xcb000000u | 0 << 16 | HEAD << 5 | 0);	/* sub x0, head, x0 */
	put_u32(p, 1, b->spec->ring_size - b->len);
	a64_put(p, 0xeb01001fu);		/* cmp x0, x1 */
	b->to_full = *p;
	a64_put(p, a64_b_cond(A64_HI, 0));
}

/* x3 = address of the event */
static void put_place(struct body *b)
{
	uint8_t **p = &b->p;

	put_u32(p, 1, b->spec->ring_size - 1);
	a64_put(p, 0x8a010000u | HEAD << 5 | EVENT);		/* and x3, head, x1 */
	a64_put(p, 0x8b000000u | RING << 16 | EVENT << 5 | EVENT);	/* add x3, x3, ring */
	a64_put(p, a64_add_imm(EVENT, EVENT, RING_HEAD_SIZE >> 12) | 1 << 22);	/* add x3, x3, #RING_HEAD_SIZE */
}

/* If the event ends in another stretch than it begins in, the next event is the first one there: sets that stretch's mark. */
static void put_mark(struct body *b)
{
	uint32_t stretch = ring_stretch(b->spec->ring_size), shift = __builtin_ctz(stretch);
	uint8_t **p = &b->p;

	put_u32(p, 1, b->len);
	a64_put(p, 0x8b010000u | HEAD << 5 | 0);		/* add x0, head, x1 */
	a64_put(p, 0xca000000u | HEAD << 16 | 0 << 5 | 16);	/* eor x16, x0, head */
	a64_put(p, 0xd340fc00u | shift << 16 | 16 << 5 | 16);	/* lsr x16, x16, #shift */
	a64_put(p, a64_cbz(16, false, 4 * 7));
	a64_put(p, 0xd340fc00u | shift << 16 | 0 << 5 | 16);	/* lsr x16, x0, #shift */
	put_u32(p, 17, b->spec->ring_size / stretch - 1);
	a64_put(p, 0x8a110210u);		/* and x16, x16, x17 */
	a64_put(p, a64_add_imm(17, RING, offsetof(struct ring_head, marks)));
	a64_put(p, 0xf8307a20u);		/* str x0, [x17, x16, lsl #3] */
}

/* x0 = f->size bytes at the address f->value */
static void put_absolute(uint8_t **p, const struct event_field *f)
{
	static const uint32_t loads[] = { [1] = 0x39400000, [2] = 0x79400000, [4] = 0xb9400000, [8] = 0xf9400000 };

	a64_put_address(p, 16, f->value);
	a64_put(p, loads[f->size] | 16 << 5);
}

static void put_field(uint8_t **p, const struct event_field *f, uint32_t off)
{
	int from = 0;

	switch (f->kind) {
	case EVENT_REG:
		if (f->reg == A64_SP)
			a64_put(p, a64_add_imm(0, A64_SP, FRAME));
		else if (saved_at(f->reg) >= 0)
			a64_put(p, a64_ldr(0, A64_SP, saved_at(f->reg)));
		else
			from = f->reg;
		break;
	case EVENT_IMM:
		a64_put_address(p, 0, f->value);
		break;
	case EVENT_STACK:
		a64_put_address(p, 16, FRAME + f->value);
		a64_put(p, 0xf8706be0u);	/* ldr x0, [sp, x16] */
		break;
	case EVENT_VECTOR:
		a64_put(p, 0xfd000000u | off / 8 << 10 | EVENT << 5 | f->reg);	/* str d, [x3, #off] */
		return;
	case EVENT_ABS:
		put_absolute(p, f);
		break;
	}
	a64_put(p, a64_str(from, EVENT, off));
}

static void put_payload(struct body *b)
{
	const struct event_spec *spec = b->spec;

	a64_put_address(&b->p, 0, (uint64_t)b->len << 32 | spec->id);
	a64_put(&b->p, a64_str(0, EVENT, 0));
	a64_put(&b->p, a64_ldr(0, A64_SP, SAVED_PID));
	a64_put(&b->p, a64_str(0, EVENT, offsetof(struct event_head, pid)));
	for (uint32_t i = 0; i < spec->nfields; i++)
		put_field(&b->p, &spec->fields[i], event_len(i));
}

static void land(uint8_t *branch, const uint8_t *target)
{
	uint32_t w = a64_word(branch);

	w |= ((uint32_t)((target - branch) / 4) & 0x7ffff) << 5;
	memcpy(branch, &w, sizeof(w));
}

static void put_branch(struct body *b, const uint8_t *to)
{
	a64_put(&b->p, a64_b(to - b->p));
}

static void put_lost(struct body *b)
{
	uint8_t **p = &b->p;

	land(b->to_lost, *p);
	a64_put_address(p, 16, b->spec->lost_shared);
	a64_put(p, a64_ldxr(17, 16));		/* a statistic: in no order with anything */
	a64_put(p, a64_add_imm(17, 17, 1));
	a64_put(p, a64_stxr(0, 17, 16));
	a64_put(p, a64_cbz32(0, true, -12));
	put_branch(b, b->out);
}

int a64_emit_event(uint8_t *out, uint64_t at, const struct event_spec *spec)
{
	uint8_t scratch[EVENT_CODE_MAX];
	struct body b = { .spec = spec, .len = event_len(spec->nfields) };
	uint8_t *over;
	int r = spec->far ? -ERANGE : event_spec_check(spec, 32, 0);

	if (r < 0)
		return r;
	b.base = b.p = out ? out : scratch;
	put_enter(&b.p);
	put_call(&b, 0);
	b.to_lost = b.p;
	a64_put(&b.p, a64_cbz(RING, false, 0));
	a64_put(&b.p, a64_str32(PID, A64_SP, SAVED_PID));
	a64_put(&b.p, a64_str32(TID, A64_SP, SAVED_TID));
	if (!spec->overwrite)
		put_check(&b);
	put_place(&b);
	if (spec->overwrite)
		put_mark(&b);
	put_payload(&b);
	put_call(&b, EVENT_FINISH);
	b.out = b.p;
	put_leave(&b.p);
	over = b.p;
	a64_put(&b.p, 0);
	if (b.to_full) {			/* a copy of the owner has lost nothing: see ring_lock_owner() */
		land(b.to_full, b.p);
		put_call(&b, EVENT_GIVE_BACK);
		a64_put(&b.p, a64_cbz32(0, true, b.out - b.p));
	}
	put_lost(&b);
	a64_put(&over, a64_b(b.p + spec->behind - over));
	return b.p - b.base;
}
