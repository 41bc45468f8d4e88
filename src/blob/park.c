/* SPDX-License-Identifier: MIT */
/*
 * A thread waits for the tracer, see arch/park.h. It goes on in any case: when the tracer says so, when the tracer
 * is dead, when it has not answered within the limit, when all slots are taken.
 */
#include "arch/park.h"
#include "blob/inside.h"

#define CLOCK_MONOTONIC 1
#define ETIMEDOUT 110
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1

struct pause { int64_t s, ns; };

void blob_park(const struct park_keeper *k, uint32_t kind, uint64_t arg0, uint64_t arg1);

static int64_t futex(uint32_t *word, int op, uint32_t value, const struct pause *t)
{
	return call4(NR_FUTEX, (uint64_t)word, op, value, t);
}

static int64_t now_ms(void)
{
	struct pause t = { 0, 0 };

	call2(NR_CLOCK_GETTIME, CLOCK_MONOTONIC, &t);
	return t.s * 1000 + t.ns / 1000000;
}

static struct park_slot *take(struct park *p)
{
	for (uint32_t i = 0; i < PARK_SLOTS; i++) {
		uint32_t none = PARK_FREE;

		/* Pairs with the release store of PARK_FREE at the end of blob_park(). `missed` is a statistic. */
		if (__atomic_compare_exchange_n(&p->slots[i].state, &none, PARK_CLAIMED, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return &p->slots[i];
	}
	return 0;
}

/* Numbers that are not known are counted elsewhere. */
static void miss(struct park *p, uint32_t kind)
{
	if (kind == PARK_IDS)
		return;
	__atomic_add_fetch(kind == PARK_LOADED ? &p->missed_loads : &p->missed, 1, __ATOMIC_RELAXED);
}

/* Relaxed: no other memory depends on these flags. */
static bool keeper_lives(const struct park_keeper *k)
{
	return __atomic_load_n(&k->open, __ATOMIC_RELAXED) &&
	       !(__atomic_load_n(&k->tid, __ATOMIC_RELAXED) & PARK_OWNER_DIED);
}

static uint64_t park_wait(const struct park_keeper *k, uint32_t kind, uint64_t arg0, uint64_t arg1)
{
	struct park *p = (struct park *)k->park;
	uint64_t answer = PARK_NO_ANSWER;
	int ms = PARK_SLICE_MS;
	struct park_slot *s;
	int64_t end;

	if (!keeper_lives(k))
		return PARK_NO_ANSWER;
	s = take(p);
	if (!s)
		return PARK_FULL;
	s->kind = kind;
	s->tid = call0(NR_GETTID);
	s->pid = call0(NR_GETPID);
	s->arg[0] = arg0;
	s->arg[1] = arg1;
	/* Pairs with the acquire load in is_asking() (session/watches/parks.c): the slot is filled before its state is seen. */
	__atomic_store_n(&s->state, PARK_WAITING, __ATOMIC_RELEASE);
	/* Pairs with the acquire load of the bell in poll_target() (session/watches/parks.c). */
	__atomic_add_fetch(&p->bell, 1, __ATOMIC_RELEASE);
	futex(&p->bell, FUTEX_WAKE, 1, 0);
	/*
	 * Signals end a wait early, and the process may be stopped for long: only waits that timed out count toward
	 * the limit. A process that shares this memory could wake the thread for ever, so there is a limit by the
	 * clock as well. The acquire load pairs with the exchange to PARK_GO in let_go() (session/watches/parks.c).
	 */
	end = now_ms() + PARK_END_MS;
	for (int slept = 0; slept < PARK_LIMIT_MS;) {
		struct pause slice = { 0, ms * 1000000 };

		if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != PARK_WAITING || !keeper_lives(k) || now_ms() > end)
			break;
		if (futex(&s->state, FUTEX_WAIT, PARK_WAITING, &slice) != -ETIMEDOUT)
			continue;
		slept += ms;
		ms = ms < PARK_SLICE_MOST_MS ? ms + PARK_SLICE_MS : ms;
	}
	/* Pairs with the exchange to PARK_GO in let_go(): the answer is there when the state says so. */
	if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) == PARK_GO)
		answer = s->arg[0];
	/* Pairs with the acquire exchange in take(). */
	if (__atomic_exchange_n(&s->state, PARK_FREE, __ATOMIC_ACQ_REL) == PARK_WAITING && keeper_lives(k))
		miss(p, kind);
	return answer;
}

void blob_park(const struct park_keeper *k, uint32_t kind, uint64_t arg0, uint64_t arg1)
{
	if (park_wait(k, kind, arg0, arg1) == PARK_FULL)
		miss((struct park *)k->park, kind);
}

/* Many threads that start at a time may want to know: each has its turn. Nobody wakes those that have no slot yet. */
uint64_t park_ask(const struct park_keeper *k, uint32_t kind)
{
	struct park *p = (struct park *)k->park;
	struct pause slice = { 0, PARK_TURN_MS * 1000000 };
	uint64_t answer = PARK_FULL;

	for (int i = 0; i < PARK_LIMIT_MS / PARK_TURN_MS && answer == PARK_FULL; i++) {
		if (i)
			futex(&p->missed, FUTEX_WAIT, __atomic_load_n(&p->missed, __ATOMIC_RELAXED), &slice);
		answer = park_wait(k, kind, PARK_NO_ANSWER, 0);
	}
	return answer == PARK_FULL ? PARK_NO_ANSWER : answer;
}
