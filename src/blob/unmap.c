/* SPDX-License-Identifier: MIT */
/*
 * What is done before a call that takes memory away: known ranges that it meets are cut, and nobody is left who may still load
 * from what was cut (arch/known.h). Two such calls at the same time both wait: a range leaves hold[] only when the waiting is over.
 */
#include "arch/known.h"
#include "blob/inside.h"

#define MEMBARRIER_RSEQ (1 << 7)
#define MEMBARRIER_REGISTER_RSEQ (1 << 8)
#define FUTEX_WAIT_PRIVATE 128

/*
 * A reader that was preempted comes out when it runs again, one in a page fault when the page is there. The time that both take has no
 * limit, but the program's call must not wait for ever: the reader may be this thread, interrupted by a signal.
 */
#define SPINS 2000
#define SLICE_NS 100000
#define SLICES 1000

void blob_unmap(struct known *k, uint64_t at, uint64_t len, uint32_t how, uint32_t ncpus, const uint32_t *quiet);

struct pause { int64_t s, ns; };

/* Only ever less: another call may cut the same range at the same time. */
static void cut(uint64_t *len, uint64_t to)
{
	uint64_t now = __atomic_load_n(len, __ATOMIC_RELAXED);

	while (now > to && !__atomic_compare_exchange_n(len, &now, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

/* The bytes that stay of a range, from its start. */
static uint64_t rest_of(const struct known_range *r, uint64_t at, uint32_t how)
{
	uint64_t from = at & -(uint64_t)PAGE;

	return how == KNOWN_CUT_RANGE && from > r->lo ? from - r->lo : 0;
}

static bool meets(const struct known_range *r, uint64_t at, uint64_t len, uint32_t how)
{
	uint64_t n = __atomic_load_n(&r->len, __ATOMIC_ACQUIRE);

	return n && (how != KNOWN_CUT_RANGE || r->lo - at < len || at - r->lo < n);
}

/* What a thread has waited for so far, in steps. */
struct waiting { const uint32_t *quiet; int n; };

static bool wait_more(struct waiting *w)
{
	struct pause slice = { 0, SLICE_NS };
	uint32_t word = 0;

	if (w->n++ < SPINS)
		spin();
	else if (!__atomic_load_n(w->quiet, __ATOMIC_RELAXED))
		call4(NR_FUTEX, (uint64_t)&word, FUTEX_WAIT_PRIVATE, 0, &slice);
	return w->n < SPINS + SLICES;
}

/* Sums that are equal, of which `out` was read first: there was a moment between them in which no reader of the phase was in. */
static bool all_are_out(const struct known *k, uint32_t phase, uint32_t ncpus)
{
	uint64_t out = __atomic_load_n(&k->left[phase], __ATOMIC_ACQUIRE) + __atomic_load_n(&k->went[phase], __ATOMIC_ACQUIRE), in;

	for (uint32_t i = 0; i < ncpus; i++)
		out += __atomic_load_n(&k->cpu[i].out[phase], __ATOMIC_ACQUIRE);
	in = __atomic_load_n(&k->came[phase], __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < ncpus; i++)
		in += __atomic_load_n(&k->cpu[i].in[phase], __ATOMIC_ACQUIRE);
	return in == out;
}

static bool wait_for_readers(const struct known *k, uint32_t phase, uint32_t ncpus, struct waiting *w)
{
	while (!all_are_out(k, phase, ncpus))
		if (!wait_more(w))
			return false;
	return true;
}

static bool take_lock(struct known *k, struct waiting *w)
{
	uint32_t none = 0;

	while (!__atomic_compare_exchange_n(&k->lock, &none, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
		if (!wait_more(w))
			return false;
		none = 0;
	}
	return true;
}

/* A forked child may have to register itself. */
static bool barrier(void)
{
	if (call4(NR_MEMBARRIER, MEMBARRIER_RSEQ, 0, 0, 0) == 0)
		return true;
	call4(NR_MEMBARRIER, MEMBARRIER_REGISTER_RSEQ, 0, 0, 0);
	return call4(NR_MEMBARRIER, MEMBARRIER_RSEQ, 0, 0, 0) == 0;
}

/* What readers find. Returns which ranges are met, as bits. */
static uint32_t cut_loads(struct known *k, uint64_t at, uint64_t len, uint32_t how)
{
	uint32_t met = 0;

	for (uint32_t i = 0; i < KNOWN_RANGES; i++)
		if (meets(&k->hold[i], at, len, how)) {
			uint64_t rest = rest_of(&k->hold[i], at, how);

			cut(&k->load[i].len, rest ? rest - KNOWN_SHORT : 0);
			met |= 1u << i;
		}
	return met;
}

/*
 * Readers that come in from now on do not find what was cut, but without a phase of their own they would be waited for as well, and
 * on many CPUs there is always one. One that has read the phase before the last change may be late: so the other phase must be
 * empty when it begins again. After the barrier a reader that has looked before either starts again or is in.
 */
static uint32_t change_phase(struct known *k, uint32_t ncpus, struct waiting *w)
{
	uint32_t old = k->phase / sizeof(k->left[0]) % KNOWN_PHASES, next = (old + 1) % KNOWN_PHASES;
	uint32_t off = KNOWN_ON;

	if (wait_for_readers(k, next, ncpus, w))
		__atomic_store_n(&k->phase, next * sizeof(k->left[0]), __ATOMIC_SEQ_CST);
	else
		off = KNOWN_OFF_READER;
	if (!barrier())
		return KNOWN_OFF_BARRIER;
	return off || wait_for_readers(k, old, ncpus, w) ? off : KNOWN_OFF_READER;
}

static uint32_t wait_for_all(struct known *k, uint32_t ncpus, const uint32_t *quiet)
{
	struct waiting w = { quiet, 0 };
	uint32_t off;

	if (!take_lock(k, &w))
		return KNOWN_OFF_READER;
	off = change_phase(k, ncpus, &w);
	__atomic_store_n(&k->lock, 0, __ATOMIC_SEQ_CST);
	return off;
}

void blob_unmap(struct known *k, uint64_t at, uint64_t len, uint32_t how, uint32_t ncpus, const uint32_t *quiet)
{
	uint32_t met, off;

	if (how == KNOWN_CUT_OFF)
		__atomic_store_n(&k->off, KNOWN_OFF_CALL, __ATOMIC_RELAXED);
	met = cut_loads(k, at, len, how);
	if (!met)
		return;
	off = wait_for_all(k, ncpus, quiet);
	if (off) {	/* once and for all: no later call shall wait in vain again */
		__atomic_store_n(&k->off, off, __ATOMIC_RELAXED);
		how = KNOWN_CUT_ALL;
		met |= cut_loads(k, at, len, how);
		wait_for_all(k, ncpus, quiet);
	}
	for (uint32_t i = 0; i < KNOWN_RANGES; i++)
		if (met >> i & 1)
			cut(&k->hold[i].len, rest_of(&k->hold[i], at, how));
	__atomic_add_fetch(&k->cuts, 1, __ATOMIC_RELAXED);
}
