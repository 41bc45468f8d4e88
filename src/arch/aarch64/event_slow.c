/* SPDX-License-Identifier: MIT */
/*
 * The routines that event code calls; see arch/aarch64/event.h for the registers. They change x0, x1, x8, x16 and x17 besides, and no
 * stack. What they do, and why a fork in the middle does no harm, is explained in arch/x86/event_slow.c; here each thread asks the kernel
 * for its numbers at each event.
 *
 *	first	takes a ring: each is tried once, beginning with the one that the tid selects
 *	second	sets the time of the event, commits it and releases the lock in one step
 *	third	releases the lock without an event; w0 is not 0 in a copy of the owner
 */
#include "arch/aarch64/aarch64.h"

#include <assert.h>

#include "arch/aarch64/event.h"
#include "base/err.h"

#define REF_SHIFT 5
_Static_assert(sizeof(struct ring_ref) == 1 << REF_SHIFT && offsetof(struct ring_ref, ring) == 0, "code knows it");
_Static_assert(offsetof(struct ring_head, head) == 0 && offsetof(struct ring_head, lock) == 8, "changed at once");

#define NR_GETPID 172
#define NR_GETTID 178

static void put_ask(uint8_t **p, int nr)
{
	a64_put(p, a64_movz(8, nr, 0));
	a64_put(p, A64_SVC);
}

/* Fills in the distance of a cbz, cbnz or b.cond. */
static void land(uint8_t *branch, const uint8_t *target)
{
	uint32_t w = a64_word(branch) | ((uint32_t)((target - branch) / 4) & 0x7ffff) << 5;

	memcpy(branch, &w, sizeof(w));
}

static uint8_t *put_later(uint8_t **p, uint32_t branch)
{
	a64_put(p, branch);
	return *p - 4;
}

/*
 * x0 is the lock; taken if its lower half is 0. The ldaxr acquires: pairs with the stlxp in put_finish(), the stlxr in put_give_back(),
 * ring_free() in ring/ring.c. Returns the branch that is taken if it is busy.
 */
static uint8_t *put_try(uint8_t **p)
{
	uint8_t *busy, *again;

	a64_put(p, a64_add_imm(16, RING, offsetof(struct ring_head, lock)));
	again = *p;
	a64_put(p, a64_ldaxr(0, 16));
	busy = put_later(p, a64_cbz32(0, true, 0));
	a64_put(p, 0x8b000000u | TID << 16 | 0 << 5 | EVENT);	/* add x3, x0, tid */
	a64_put(p, a64_stlxr(8, EVENT, 16));
	land(put_later(p, a64_cbz32(8, true, 0)), again);
	return busy;
}

/* The first routine. The head is read before the last check for a fork; a child that finds itself there starts again, and its lock is left to the tracer. */
static void put_take(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *quiet = NULL, *ask, *again, *absent, *busy, *got;

	if (!spec->may_call) {
		a64_put(p, a64_movz(RING, 0, 0));
		a64_put(p, a64_ret(A64_LR));
		return;
	}
	ask = *p;
	if (spec->quiet) {
		a64_put_address(p, 16, spec->quiet);
		a64_put(p, a64_ldr32(0, 16, 0));
		quiet = put_later(p, a64_cbz32(0, true, 0));
	}
	put_ask(p, NR_GETTID);
	a64_put(p, 0x2a0003e0u | TID);		/* mov tid, w0 */
	put_ask(p, NR_GETPID);
	a64_put(p, 0x2a0003e0u | PID);		/* mov pid, w0 */
	a64_put(p, 0x2a0003e0u | TID << 16 | 1);	/* mov w1, tid */
	a64_put(p, a64_movz(17, spec->nrings, 0));
	again = *p;
	a64_put(p, a64_movz(16, spec->nrings - 1, 0));
	a64_put(p, 0x8a100021u);		/* and x1, x1, x16 */
	a64_put_address(p, 16, spec->rings);
	a64_put(p, 0x8b011610u);		/* add x16, x16, x1, lsl #5 */
	a64_put(p, a64_ldr(RING, 16, 0));
	absent = put_later(p, a64_cbz(RING, false, 0));
	busy = put_try(p);
	got = *p;
	a64_put(p, 0);
	land(busy, *p);
	a64_put(p, A64_CLREX);
	land(absent, *p);
	a64_put(p, a64_add_imm(1, 1, 1));
	a64_put(p, a64_sub_imm(17, 17, 1));
	land(put_later(p, a64_cbz(17, true, 0)), again);
	if (quiet)
		land(quiet, *p);
	a64_put(p, a64_movz(RING, 0, 0));
	a64_put(p, a64_ret(A64_LR));
	a64_put(&got, a64_b(*p - got));
	a64_put(p, a64_ldr(HEAD, RING, 0));
	put_ask(p, NR_GETTID);
	a64_put(p, 0x4b000000u | TID << 16 | 0 << 5 | 0);	/* sub w0, w0, tid */
	land(put_later(p, a64_cbz32(0, true, 0)), ask);
	a64_put(p, a64_ret(A64_LR));
}

/* Branches if this is not the process whose pid is in the frame; w0 is not 0 then. */
static uint8_t *put_own(uint8_t **p)
{
	put_ask(p, NR_GETPID);
	a64_put(p, a64_ldr32(16, A64_SP, SAVED_PID));
	a64_put(p, 0x4b100000u);		/* sub w0, w0, w16 */
	return put_later(p, a64_cbz32(0, true, 0));
}

/* x16 = ring_lock_given_back(x17) */
static void put_given_back(uint8_t **p)
{
	a64_put(p, 0xd360fe30u);		/* lsr x16, x17, #32 */
	a64_put(p, a64_add_imm(16, 16, 1));
	a64_put(p, 0xd3607e10u);		/* lsl x16, x16, #32 */
}

/*
 * The second routine. Lock and time are read before the check for a fork. The isb keeps the counter from being read before the lock was
 * taken: times in a ring don't run backwards. The stlxp releases: it pairs with the acquire load of head in ring_peek_some() and with the
 * ldaxr in put_try().
 */
static void put_finish(uint8_t **p)
{
	uint8_t *other, *again, *differs;

	a64_put(p, a64_ldr(17, RING, offsetof(struct ring_head, lock)));
	a64_put(p, a64_ldr32(1, EVENT, offsetof(struct event_head, len)));
	a64_put(p, A64_ISB);
	a64_put(p, a64_mrs_cntvct(PID));
	other = put_own(p);
	a64_put(p, a64_str(PID, EVENT, offsetof(struct event_head, time)));
	a64_put(p, 0x8b010041u);		/* add x1, x2, x1: the next head */
	put_given_back(p);
	again = *p;
	a64_put(p, 0xc87fa120u);		/* ldaxp x0, x8, [x9] */
	a64_put(p, 0xca020000u);		/* eor x0, x0, x2 */
	a64_put(p, 0xca110108u);		/* eor x8, x8, x17 */
	a64_put(p, 0xaa080000u);		/* orr x0, x0, x8 */
	differs = put_later(p, a64_cbz(0, true, 0));
	a64_put(p, 0xc820c121u);		/* stlxp w0, x1, x16, [x9] */
	land(put_later(p, a64_cbz32(0, true, 0)), again);
	a64_put(p, a64_ret(A64_LR));
	land(differs, *p);
	a64_put(p, A64_CLREX);
	land(other, *p);
	a64_put(p, a64_ret(A64_LR));
}

/* The third routine. */
static void put_give_back(uint8_t **p)
{
	uint8_t *other, *again, *differs;

	a64_put(p, a64_ldr(17, RING, offsetof(struct ring_head, lock)));
	other = put_own(p);
	put_given_back(p);
	a64_put(p, a64_add_imm(1, RING, offsetof(struct ring_head, lock)));
	again = *p;
	a64_put(p, a64_ldaxr(0, 1));
	a64_put(p, 0xca110000u);		/* eor x0, x0, x17 */
	differs = put_later(p, a64_cbz(0, true, 0));
	a64_put(p, a64_stlxr(0, 16, 1));
	land(put_later(p, a64_cbz32(0, true, 0)), again);
	a64_put(p, a64_ret(A64_LR));
	land(differs, *p);
	a64_put(p, A64_CLREX);
	a64_put(p, a64_movz(0, 0, 0));
	land(other, *p);
	a64_put(p, a64_ret(A64_LR));
}

static uint8_t *fill(uint8_t *p, uint8_t *to)
{
	assert(p <= to);
	memset(p, 0, to - p);			/* udf */
	return to;
}

int a64_emit_event_slow(uint8_t *out, const struct event_slow_spec *spec)
{
	uint8_t scratch[EVENT_SLOW_MAX];
	uint8_t *base = out ? out : scratch, *p = base;

	if (!spec->nrings || spec->nrings & (spec->nrings - 1) || spec->nrings > UINT16_MAX || spec->ring_size < RING_SIZE_MIN ||
	    spec->ring_size > RING_SIZE_MAX || spec->ring_size & (spec->ring_size - 1))
		return -EINVAL;
	put_take(&p, spec);
	p = fill(p, base + EVENT_FINISH);
	put_finish(&p);
	p = fill(p, base + EVENT_GIVE_BACK);
	put_give_back(&p);
	p = fill(p, base + EVENT_ROOM);
	a64_put(&p, A64_BRK);			/* event code takes too little stack to ask */
	return p - base;
}
