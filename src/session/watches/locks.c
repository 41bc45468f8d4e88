/* SPDX-License-Identifier: MIT */
/*
 * Locks of rings that nobody will give back. There are three ways to come by one: its owner was killed in
 * a pad; a signal handler left the middle of an event by longjmp(); or it forked there, and the child took a lock in
 * its parent's name (see arch.emit_event_slow).
 *
 * The first is seen at once. The other two look like an owner that is slow, or stopped. So a lock that
 * was held for long without a new event is looked at more closely: the target is stopped for a
 * moment, and if none of its threads stands in a pad, with whatever their signal handlers interrupted, none of
 * them has a lock. The search becomes less frequent where it finds nothing.
 */
#include "session/events/rings.h"

#include <stdio.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/threads/ids.h"

#define HELD_LONG 1000000000ull
#define LONGEST_WAIT 60000000000ull

/* A forked child writes to the same rings, but is not stopped with its parent. */
static bool is_own_thread(struct target *t, uint32_t tid)
{
	uint32_t pid = t->rings->ns_pid;
	char path[64];

	if (t->rings->foreign_ids) {
		if (!t->rings->ids)
			t->rings->ids = id_map_new(t->proc);
		id_map_translate(t->rings->ids, &pid, &tid);
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%u", t->proc->pid, tid);
	return access(path, F_OK) == 0;
}

/* Nobody else can have the number of a dead thread so soon. */
static bool free_dead(struct target *t, struct own_ring *own, uint32_t owner)
{
	return owner && owner == own->owner && !proc_has_tid(t->proc, owner, t->rings->foreign_ids) &&
	       ring_free(&own->r, owner);
}

/* True if it is held and no event was written there for long. */
static bool is_stale(struct target *t, struct own_ring *own, uint64_t now)
{
	uint32_t owner = ring_owner(&own->r);
	uint64_t head = __atomic_load_n(&own->r.head->head, __ATOMIC_RELAXED);
	bool held = owner;

	if (held && free_dead(t, own, owner))
		held = false;
	if (!held || owner != own->owner || head != own->held_head)
		own->held_since = held ? now : 0;
	own->owner = held ? owner : 0;
	own->held_head = head;
	return held && own->held_since && now - own->held_since > HELD_LONG;
}

static uint32_t free_stale(struct target *t)
{
	struct rings *r = t->rings;
	uint32_t freed = 0;

	for (uint32_t i = r->ncpu; i < r->ncpu + r->nlocked; i++) {
		struct own_ring *own = &r->v[i];

		if (own->stale && is_own_thread(t, own->owner))
			freed += ring_free(&own->r, own->owner);
	}
	return freed;
}

static void look_closely(struct target *t)
{
	uint32_t freed = 0;

	if (!proc_alive(t->proc) || proc_stop_now(t->proc) < 0)
		return;
	if (arena_is_quiet(t->arena, NULL, 0))
		freed = free_stale(t);
	proc_resume(t->proc);
	if (freed)
		log_info("process %d: %u rings whose locks nobody had are free again", t->proc->pid, freed);
}

void rings_free_locks(struct target *t)
{
	struct rings *r = t->rings;
	uint64_t now = now_ns();
	bool any = false;

	for (uint32_t i = r->ncpu; i < r->ncpu + r->nlocked; i++) {
		struct own_ring *own = &r->v[i];

		own->stale = own->live && is_stale(t, own, now);
		any |= own->stale;
	}
	if (!any) {
		r->look_wait = 0;
		return;
	}
	if (now - r->looked_at < r->look_wait)
		return;
	look_closely(t);
	r->looked_at = now;
	r->look_wait = MIN(MAX(2 * r->look_wait, HELD_LONG), LONGEST_WAIT);
}
