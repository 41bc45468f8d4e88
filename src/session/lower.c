/* SPDX-License-Identifier: MIT */
/*
 * When the strangers are gone. A child on its parent's thread block (vfork, posix_spawn, system) makes the
 * watches clear the tables (arch/x86/raise.c), and then everybody takes the slow way. Most of them live
 * for milliseconds. So some time later the target is stopped for a moment: if nobody else shares its
 * memory, every thread has a block of its own and nobody stands between a watch and its system call,
 * the tables are filled again. Who keeps making strangers is asked less and less often.
 */
#include "session/rings.h"

#include <string.h>
#include "base/clock.h"
#include "base/err.h"

#define FIRST_WAIT 200000000ull
#define LONGEST_WAIT 30000000000ull

bool rings_are_raised(const struct target *t)
{
	const struct rings *r = t->rings;

	return r && r->ready && r->was_filled &&
	       !__atomic_load_n(&r->ring_table[r->first_cpu], __ATOMIC_ACQUIRE);
}

/* From the instruction that was replaced to the one behind the system call. */
static bool nobody_is_on_the_way(const struct target *t)
{
	gap_list ways = { 0 };
	bool quiet;

	for (size_t i = 0; i < t->watches.n; i++)
		if (!t->watches.v[i].parks && !t->watches.v[i].forgets)
			*vec_add(&ways) = (struct gap){ t->watches.v[i].at, t->watches.v[i].at + 8 };
	quiet = arena_is_quiet(t->arena, ways.v, ways.n);
	vec_free(&ways);
	return quiet;
}

static bool all_are_known(struct target *t)
{
	struct rseq_conf conf;
	int32_t off;

	if (strangers_present(t))
		return false;
	if (t->spec.has_rseq && (proc_rseq(t->proc, &conf) < 0 || !conf.usable || conf.offset != t->spec.rseq_off ||
				 conf.signature != t->spec.rseq_sig))
		return false;
	return !t->rings->spec.has_tid ||
	       (proc_tid_offset(t->proc, &off) == 0 && off == t->rings->spec.tid_off);
}

static void lower(struct target *t)
{
	if (proc_stop_now(t->proc) < 0)
		return;
	if (all_are_known(t) && nobody_is_on_the_way(t)) {
		counters_fill_table(t);
		rings_fill_table(t);
		log_info("process %d: the children on its own memory are gone; events go per CPU again", t->proc->pid);
	}
	proc_resume(t->proc);
}

void rings_lower(struct target *t)
{
	struct rings *r = t->rings;
	uint64_t now = now_ns();

	if (!rings_are_raised(t)) {
		r->raised_at = 0;
		return;
	}
	if (!r->raised_at) {	/* again soon after the last time: be patient */
		r->lower_wait = r->lowered_at && now - r->lowered_at < 2 * r->lower_wait ?
				MIN(2 * r->lower_wait, LONGEST_WAIT) : FIRST_WAIT;
		r->raised_at = now;
	}
	if (now - r->raised_at < r->lower_wait || !proc_alive(t->proc))
		return;
	lower(t);
	r->lowered_at = now;
	r->raised_at = rings_are_raised(t) ? now : 0;
	if (r->raised_at)
		r->lower_wait = MIN(2 * r->lower_wait, LONGEST_WAIT);
}
