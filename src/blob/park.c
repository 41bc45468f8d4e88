/* SPDX-License-Identifier: MIT */
/*
 * A thread waits for us, see arch/park.h. Whatever happens it goes on: when we say so, when we are dead,
 * when nobody has come within the limit, when all slots are taken.
 */
#include "arch/park.h"
#include "blob/inside.h"

#define NR_FUTEX 202
#define NR_GETTID 186
#define NR_CLOCK_GETTIME 228
#define CLOCK_MONOTONIC 1
#define ETIMEDOUT 110
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1

struct pause { int64_t s, ns; };

void blob_park(struct park *p, uint32_t kind, uint64_t arg0, uint64_t arg1);

static int64_t futex(uint32_t *word, int op, uint32_t value, const struct pause *t)
{
	register uint64_t r10 __asm__("r10") = (uint64_t)t;
	int64_t r;

	__asm__ volatile("syscall" : "=a"(r)
			 : "0"((long)NR_FUTEX), "D"(word), "S"((long)op), "d"((uint64_t)value), "r"(r10)
			 : "rcx", "r11", "memory");
	return r;
}

static int64_t now_ms(void)
{
	struct pause t = { 0, 0 };
	int64_t r;

	__asm__ volatile("syscall" : "=a"(r) : "0"((long)NR_CLOCK_GETTIME), "D"((long)CLOCK_MONOTONIC), "S"(&t) : "rcx", "r11", "memory");
	return t.s * 1000 + t.ns / 1000000;
}

static struct park_slot *take(struct park *p)
{
	for (uint32_t i = 0; i < PARK_SLOTS; i++) {
		uint32_t none = PARK_FREE;

		if (__atomic_compare_exchange_n(&p->slots[i].state, &none, PARK_CLAIMED, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return &p->slots[i];
	}
	return 0;
}

static void miss(struct park *p, uint32_t kind)
{
	__atomic_add_fetch(kind == PARK_LOADED ? &p->missed_loads : &p->missed, 1, __ATOMIC_RELAXED);
}

static bool keeper_lives(const struct park *p)
{
	return __atomic_load_n(&p->open, __ATOMIC_RELAXED) &&
	       !(__atomic_load_n(&p->keeper, __ATOMIC_RELAXED) & PARK_OWNER_DIED);
}

void blob_park(struct park *p, uint32_t kind, uint64_t arg0, uint64_t arg1)
{
	int ms = PARK_SLICE_MS;
	struct park_slot *s;
	int64_t end;

	if (!keeper_lives(p))
		return;
	s = take(p);
	if (!s) {
		miss(p, kind);
		return;
	}
	s->kind = kind;
	s->tid = call0(NR_GETTID);
	s->pid = call0(NR_GETPID);
	s->arg[0] = arg0;
	s->arg[1] = arg1;
	/* Pairs with the acquire load of whoever looks at the slots. */
	__atomic_store_n(&s->state, PARK_WAITING, __ATOMIC_RELEASE);
	__atomic_add_fetch(&p->bell, 1, __ATOMIC_RELEASE);
	futex(&p->bell, FUTEX_WAKE, 1, 0);
	/*
	 * Signals wake us, too; only what was slept through counts, for the process may be stopped meanwhile. But whoever
	 * shares this memory could wake us for ever, so there is an end by the clock as well.
	 */
	end = now_ms() + PARK_END_MS;
	for (int slept = 0; slept < PARK_LIMIT_MS;) {
		struct pause slice = { 0, ms * 1000000 };

		if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != PARK_WAITING || !keeper_lives(p) || now_ms() > end)
			break;
		if (futex(&s->state, FUTEX_WAIT, PARK_WAITING, &slice) != -ETIMEDOUT)
			continue;
		slept += ms;
		ms = ms < PARK_SLICE_MOST_MS ? ms + PARK_SLICE_MS : ms;
	}
	if (__atomic_exchange_n(&s->state, PARK_FREE, __ATOMIC_ACQ_REL) == PARK_WAITING && keeper_lives(p))
		miss(p, kind);
}
