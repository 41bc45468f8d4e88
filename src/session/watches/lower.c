/* SPDX-License-Identifier: MIT */
/*
 * Can the threads of a target be told apart by their thread blocks (process_state.fast)? That is found out in the stop in which
 * the pads go in, and once more when strangers are gone. A child on its parent's thread block (vfork, posix_spawn, system)
 * makes the watches clear that word (arch.emit_raise), and then all threads take the slow way. Most of them live
 * for milliseconds. So some time later the target is stopped for a moment: if no other process shares its
 * memory, every thread has a block of its own and none is between a watch and its system call,
 * the word is set again. Where strangers keep coming, this is tried less and less often.
 *
 * Forked children have the word for themselves, as they had it when they were forked. We don't look after those.
 */
#include "session/events/rings.h"

#include <string.h>
#include "base/clock.h"
#include "base/err.h"

#define FIRST_WAIT 200000000ull
#define LONGEST_WAIT 30000000000ull

static bool watch_raises(const struct watch *w)
{
	return w->any || (!w->parks && !w->forgets && !w->hushes && !w->unmaps);
}

static uint64_t watched_len(const struct watch *w)
{
	return w->far ? FAR_LEN : WATCHED_LEN;
}

/* From the instruction that was replaced to the one behind the system call. */
static bool nobody_is_on_the_way(const struct target *t)
{
	gap_list ways = { 0 };
	bool quiet;

	for (size_t i = 0; i < t->watches.n; i++)
		if (watch_raises(&t->watches.v[i]))
			*vec_add(&ways) = (struct gap){ t->watches.v[i].at, t->watches.v[i].at + watched_len(&t->watches.v[i]) };
	quiet = arena_is_quiet(t->arena, ways.v, ways.n);
	vec_free(&ways);
	return quiet;
}

/*
 * A thread that has not registered yet finds the CPU of the one that had its block before: it is made to be none. That
 * is where the blocks of all threads have their number, so it is a block.
 */
static bool mend_new_threads(struct target *t, const struct rseq_conf *conf)
{
	int32_t off;

	if (conf->all)
		return true;
	return proc_tid_offset(t->proc, &off) == 0 && proc_rseq_unregister(t->proc, conf) == 0;
}

/* While stopped. */
static bool have_rseq(struct target *t)
{
	struct rseq_conf conf;

	return proc_rseq(t->proc, &conf) == 0 && conf.usable && conf.offset == t->spec.rseq_off &&
	       conf.signature == t->spec.rseq_sig && mend_new_threads(t, &conf);
}

/* Who takes the ring of its CPU reads the time stamp counter. */
static bool may_read_time(struct target *t)
{
	uint32_t timeless = 1;

	return !t->rings || (proc_read(t->proc, TADDR(t->rings->timeless_at), &timeless, sizeof(timeless)) == 0 && !timeless);
}

static bool all_are_known(struct target *t)
{
	int32_t off;

	if (!may_read_time(t) || t->unwatched || strangers_present(t) || (t->spec.has_rseq && !have_rseq(t)))
		return false;
	return !t->rings || !t->rings->spec.has_tid ||
	       (proc_tid_offset(t->proc, &off) == 0 && off == t->rings->spec.tid_off);
}

static int put_fast(struct target *t, uint32_t fast)
{
	return proc_write(t->proc, TADDR(t->spec.fast), &fast, sizeof(fast));
}

/* True if a thread has passed the watch of a call and has not made the call yet. */
static bool one_is_calling(const struct target *t)
{
	for (size_t i = 0; i < t->proc->threads.n; i++)
		for (size_t k = 0; k < t->watches.n; k++)
			if (watch_raises(&t->watches.v[k]) &&
			    t->proc->threads.v[i].regs.cpu.pc - t->watches.v[k].at - 1 < watched_len(&t->watches.v[k]) - 2)
				return true;
	return false;
}

static void set_word(struct target *t, uint64_t at, uint32_t *told)
{
	const uint32_t one = 1;

	if (proc_write(t->proc, TADDR(at), &one, sizeof(one)) == 0)
		__atomic_store_n(told, 1, __ATOMIC_RELEASE);
}

/* What the process forbade itself before jab attached. The watches see what it forbids later. */
static void note_forbidden(struct target *t)
{
	uint64_t word = t->state_at + offsetof(struct process_state, timeless);
	const uint32_t none = 0;

	if (proc_dispatches(t->proc)) {
		set_word(t, t->state_at + offsetof(struct process_state, quiet), &counters_told(t)->quiet);
		return;			/* jab's system calls would be forbidden as well */
	}
	if (!t->rings || !t->rings->ready || !t->rings->may_call)
		return;
	if (arena_is_timeless(t->arena, TADDR(word)))
		set_word(t, word, &counters_told(t)->timeless);
	else
		proc_write(t->proc, TADDR(word), &none, sizeof(none));
}

void target_settle(struct target *t)
{
	bool known = t->spec.has_rseq || (t->rings && t->rings->spec.has_tid);

	if (t->park || (t->rings && t->rings->ready))
		note_forbidden(t);
	known = known && may_read_time(t) && !t->unwatched && !strangers_present(t) && !one_is_calling(t) && (!t->spec.has_rseq || have_rseq(t));
	if (!known || put_fast(t, 1) < 0)
		__atomic_store_n(&counters_told(t)->raised, 1, __ATOMIC_RELEASE);
	log_info("process %d: its threads %s", t->proc->pid, known ? "can be told apart" : "can't be told apart now: locks are used");
}

/* The word is a hint only: any process of the family may have written it. */
static bool may_be_raised(const struct target *t)
{
	return t->rings && t->rings->ready && __atomic_load_n(&counters_told(t)->raised, __ATOMIC_ACQUIRE);
}

/* The word was cleared by another process of the family. */
static bool is_fast(struct target *t)
{
	uint32_t fast = 0;

	return proc_read(t->proc, TADDR(t->spec.fast), &fast, sizeof(fast)) == 0 && fast;
}

static void lower(struct target *t)
{
	if (proc_stop_now(t->proc) < 0)
		return;
	if (all_are_known(t) && nobody_is_on_the_way(t) && put_fast(t, 1) == 0) {
		__atomic_store_n(&counters_told(t)->raised, 0, __ATOMIC_RELEASE);
		log_info("process %d: the children on its own memory are gone; events go per CPU again", t->proc->pid);
	}
	proc_resume(t->proc);
}

void rings_lower(struct target *t)
{
	struct rings *r = t->rings;
	uint64_t now = now_ns();

	if (!may_be_raised(t) || t->unwatched) {
		r->raised_at = 0;
		return;
	}
	if (!r->raised_at) {	/* soon after the last time: waits longer */
		r->lower_wait = r->lowered_at && now - r->lowered_at < 2 * r->lower_wait ?
				MIN(2 * r->lower_wait, LONGEST_WAIT) : FIRST_WAIT;
		r->raised_at = now;
	}
	if (now - r->raised_at < r->lower_wait || !proc_alive(t->proc))
		return;
	if (is_fast(t))
		__atomic_store_n(&counters_told(t)->raised, 0, __ATOMIC_RELEASE);
	else
		lower(t);
	r->lowered_at = now;
	r->raised_at = may_be_raised(t) ? now : 0;
	if (r->raised_at)
		r->lower_wait = MIN(2 * r->lower_wait, LONGEST_WAIT);
}
