/* SPDX-License-Identifier: MIT */
/*
 * Watching for strangers (see arch.emit_raise): in front of every system call of the text that makes
 * a child on its parent's thread block stands a probe of our own. The place is the instruction that
 * loads the number, right before the system call, or another one of the length of a jump, so a jump fits
 * there by itself and no symbol has to be read; the calls that matter most (posix_spawn goes through clone3) are in functions
 * without a name anyway. Where the module is being probed, the planner gets the place as one more
 * want. Where there is no place for such a probe, all threads take the locked counter instead.
 *
 * glibc's syscall() makes all calls: the probe there looks at the number (arch.emit_gate). A program that loads it in
 * yet another way is not seen. Threads that are made so while we are there, on the block of another
 * thread or a copy of it, have that one's number in their events. (Who is there already when we come is noticed: see proc/threads/tid.c.)
 */
#include "arch/written.h"
#include "arch/syscalls.h"
#include "arch/page.h"
#include "session/arrivals/follow.h"
#include "session/events/rings.h"
#include "session/events/shapes.h"
#include "session/scripts/units.h"
#include "session/watches/known.h"

#include <string.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include "base/err.h"

#define HUSHES 6		/* before a call of any number */
#define SET_DISPATCH 59		/* PR_SET_SYSCALL_USER_DISPATCH */

static int abi_of(uint32_t nr)
{
	switch (nr) {
	case SYS_vfork:
	case FAR_ARCH_PRCTL:	/* the arguments of arch_prctl are not known there */
		return CLONE_ABI_VFORK;
	case SYS_clone:
		return CLONE_ABI_CLONE;
	case SYS_clone3:
		return CLONE_ABI_CLONE3;
	case SYS_arch_prctl:
		return CLONE_ABI_SET_FS;
	default:
		return -1;
	}
}

/* The module around a live address, if it will be planned. */
static struct loaded *planned_at(struct target *t, uint64_t at)
{
	for (size_t i = 0; i < t->loaded.n; i++) {
		struct loaded *l = &t->loaded.v[i];

		if (l->wants.n && at >= l->start && at < l->end)
			return l;
	}
	return NULL;
}

static size_t pad_size(struct target *t, uint32_t watch)
{
	uint8_t scratch[GATE_MAX + HUSHES * HUSH_MAX + UNMAP_MAX];

	return strangers_body(t, watch, 0, scratch) + 2 * t->proc->arch->jumps->len;
}

/*
 * The instruction must still be what was found: somebody may have put a breakpoint there. And in one
 * page, for these jumps are written like all others (see docs/why/windows.md).
 */
static bool is_watchable(struct target *t, const struct text_call *c, uint8_t *ret_bytes)
{
	size_t len = t->proc->arch->jumps->len;

	if (c->len != len || PAGE_DOWN(c->at.v) != PAGE_DOWN(c->at.v + len - 1))
		return false;
	return proc_read(t->proc, c->at, ret_bytes, len) == 0 && !memcmp(ret_bytes, c->bytes, len);
}

/* Where a module is planned anyway, it is one more want; otherwise it gets a pad by itself. */
static bool watch_add(struct target *t, const struct watch *w)
{
	uint64_t reach = t->proc->arch->jumps->reach;
	uint32_t n = t->watches.n;
	struct loaded *l;
	struct want *want;

	*vec_add(&t->watches) = *w;
	l = planned_at(t, w->at);
	if (l) {
		want = vec_add(&l->wants);
		want->addr = w->at - l->bias;
		want->kind = WANT_INSN;
		want->id = WATCH_ID | n;
		if (w->any || w->hushes || w->unmaps)
			want->body = (w->any ? GATE_MAX : COUNT_MAX) + HUSHES * HUSH_MAX + UNMAP_MAX;
		return true;
	}
	t->watches.v[n].pad = room_alloc(t->room, pad_size(t, n), w->at > reach ? w->at - reach : 0, w->at + reach);
	return t->watches.v[n].pad;
}

bool watch_call(struct target *t, const struct text_call *c, const struct watch *w)
{
	struct watch own = *w;

	return is_watchable(t, c, own.bytes) && watch_add(t, &own);
}

void watch_planned(struct target *t, uint32_t watch, bool fits)
{
	const struct watch *w = &t->watches.v[watch];

	t->unguarded |= !fits && w->forgets;
	t->unwatched |= !fits && (w->any || (!w->forgets && !w->parks && !w->hushes && !w->unmaps));
	if (!fits && w->unmaps)
		known_refuse(t, "a call that may take memory away has no room for a probe");
}

static int forget_of(uint32_t nr)
{
	switch (nr) {
	case SYS_munmap: case SYS_mremap: case SYS_madvise:
		return FORGET_RANGE;
	case SYS_mprotect: case SYS_pkey_mprotect:
		return FORGET_PROTECT;
	case SYS_mmap:
		return FORGET_MAP;
	default:
		return -1;
	}
}

/* In front of calls that may take away what programs read plainly (session/watches/good.c, known.c). */
static void guard(struct target *t, const struct text_call *calls, size_t n)
{
	for (size_t i = 0; !t->unguarded && i < n; i++) {
		struct watch w = { .at = calls[i].at.v, .forgets = forget_of(calls[i].nr) + 1, .unmaps = known_unmaps(t, calls[i].nr) };

		if (w.forgets)
			t->unguarded = !watch_call(t, &calls[i], &w);
		else if (w.unmaps && !watch_call(t, &calls[i], &w))
			known_refuse(t, "a call that may take memory away has no room for a probe");
	}
}

/* In front of calls by which a program forbids itself others: ours are among them. */
static void watch_sandboxes(struct target *t, const struct text_call *calls, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((calls[i].nr == SYS_prctl || calls[i].nr == SYS_seccomp) &&
		    !watch_call(t, &calls[i], &(struct watch){ .at = calls[i].at.v, .hushes = true, .abi = calls[i].nr == SYS_seccomp,
							       .unmaps = known_forbids(t, calls[i].nr) })) {
			log_info("process %d: a call at %#llx that may forbid others can't be watched", t->proc->pid,
				 (unsigned long long)calls[i].at.v);
			known_refuse(t, "a call that may forbid system calls has no room for a probe");
		}
}

/* In front of calls of any number. Returns false if one of them has no place for a probe. */
static bool watch_gates(struct target *t, const struct text_call *calls, size_t n, bool hush)
{
	bool all = true;

	for (size_t i = 0; i < n; i++)
		if (calls[i].nr == ANY_CALL)
			all &= watch_call(t, &calls[i], &(struct watch){ .at = calls[i].at.v, .any = true,
								    .forgets = !t->unguarded, .hushes = hush,
								    .unmaps = t->known ? UNMAP_ANY + 1 : 0 });
	return all;
}

/* Go's runtime gives a new thread its block itself, by arch_prctl, before the thread runs anything else of Go. */
static bool gets_own_block(const struct jab *j, const struct target *t, const struct text_call *c)
{
	for (size_t i = 0; abi_of(c->nr) == CLONE_ABI_SET_FS && i < t->loaded.n; i++) {
		const struct loaded *l = &t->loaded.v[i];
		/* A file that no probe asks for is not opened. */
		const struct module *m = l->file < j->files.n ? j->files.v[l->file].m : NULL;

		if (c->at.v >= l->start && c->at.v < l->end)
			return m && m->runtime->own_blocks;
	}
	return false;
}

void strangers_watch(struct jab *j, struct target *t)
{
	bool hush = (j->events || follow_parks(j, t)) && !t->scout;	/* whatever makes system calls there */
	const struct text_call *calls;
	size_t n;

	t->watches.n = 0;
	known_plan(j, t);
	t->unwatched = false;
	t->unguarded = true;
	if (!t->proc || proc_text_calls(t->proc, &calls, &n) < 0)
		return;
	if (!t->proc->arch->emit_raise) {	/* there is no code for these places: all threads take the locked counter and rings */
		t->unwatched = true;
		if (hush) {
			watch_sandboxes(t, calls, n);
			watch_gates(t, calls, n, true);
		}
		return;
	}
	for (size_t i = 0; !t->scout && i < n; i++)
		if (abi_of(calls[i].nr) >= 0 && !gets_own_block(j, t, &calls[i]))
			t->unwatched |= !watch_call(t, &calls[i], &(struct watch){ .at = calls[i].at.v,
								   .abi = abi_of(calls[i].nr), .far = calls[i].nr == FAR_ARCH_PRCTL });
	follow_watch(j, t, calls, n);
	if (hush)
		watch_sandboxes(t, calls, n);
	t->unguarded = !units_read_memory(j) || t->scout;
	if (!t->scout && !watch_gates(t, calls, n, hush))
		t->unwatched = t->unguarded = true;
	guard(t, calls, n);
	if (t->unguarded)
		known_refuse(t, "a call that may take memory away has no room for a probe");
}

/* Go's runtime does: a new thread of it asks for its number before it runs anything else. It is in front of the block. */
static bool writes_own_numbers(const struct target *t)
{
	return t->rings && t->rings->spec.has_tid && t->rings->spec.tid_off < 0;
}

static uint64_t state_at(const struct target *t, size_t member)
{
	return t->state_at + member;
}

static uint64_t told_at(const struct target *t, size_t member)
{
	return t->counters_at + member;
}

/* For a call that takes the time stamp counter away. */
static void set_timeless(const struct target *t, struct hush_spec *spec)
{
	spec->word = state_at(t, offsetof(struct process_state, timeless));
	spec->told = told_at(t, offsetof(struct told, timeless));
	spec->clears = t->spec.fast ? t->spec.fast : 1;	/* its address is not known yet when this code is measured */
}

/* seccomp(SECCOMP_SET_MODE_...); the strict mode forbids the clock, too. any: the number of the call is only known when it is made. */
static size_t put_hush_seccomp(const struct target *t, bool any, uint8_t *out)
{
	struct hush_spec spec = { .word = state_at(t, offsetof(struct process_state, quiet)), .told = told_at(t, offsetof(struct told, quiet)),
				  .first = SECCOMP_SET_MODE_STRICT, .n = 2, .number = any ? SYS_seccomp : 0 };
	size_t n = t->proc->arch->emit_hush(out, &spec);

	spec.n = 1;
	set_timeless(t, &spec);
	return n + t->proc->arch->emit_hush(out + n, &spec);
}

/*
 * prctl(): PR_SET_SECCOMP, PR_SET_SYSCALL_USER_DISPATCH, PR_SET_TSC, whatever their other arguments are; and the strict mode
 * of the first one, which forbids the clock, too.
 */
static size_t put_hush_prctl(const struct target *t, bool any, uint8_t *out)
{
	struct hush_spec spec = { .word = state_at(t, offsetof(struct process_state, quiet)), .told = told_at(t, offsetof(struct told, quiet)),
				  .n = 1, .number = any ? SYS_prctl : 0 };
	size_t n;

	spec.first = PR_SET_SECCOMP;
	n = t->proc->arch->emit_hush(out, &spec);
	spec.first = SET_DISPATCH;
	n += t->proc->arch->emit_hush(out + n, &spec);
	spec.first = PR_SET_TSC;
	set_timeless(t, &spec);
	n += t->proc->arch->emit_hush(out + n, &spec);
	spec.first = PR_SET_SECCOMP;
	spec.second = SECCOMP_MODE_STRICT;
	return n + t->proc->arch->emit_hush(out + n, &spec);
}

static size_t put_watch(const struct target *t, const struct watch *w, uint8_t *out)
{
	struct raise_spec spec = {
		.fast = t->spec.fast, .raised = told_at(t, offsetof(struct told, raised)), .rseq_off = t->spec.rseq_off,
		.has_rseq = t->spec.has_rseq, .abi = w->abi, .own_numbers = writes_own_numbers(t),
	};

	if (t->arena && arena_tid(t->arena, &spec.tid_off) < 0)
		spec.tid_off = 0;

	if (w->any) {
		size_t n = w->hushes ? put_hush_prctl(t, true, out) : 0;

		n += w->hushes ? put_hush_seccomp(t, true, out + n) : 0;
		if (!t->proc->arch->emit_gate)
			return n;
		return n + t->proc->arch->emit_gate(out + n, &(struct gate_spec){ spec, { units_good_at(t), GEN_GOOD + 1, 0 },
									       w->forgets });
	}
	if (w->hushes)
		return w->abi ? put_hush_seccomp(t, false, out) : put_hush_prctl(t, false, out);
	if (w->parks)
		return follow_body(t, w->park_kind, out);
	if (w->forgets)
		return t->proc->arch->emit_forget(out, &(struct forget_spec){ units_good_at(t), GEN_GOOD + 1, w->forgets - 1 });
	return w->unmaps ? 0 : t->proc->arch->emit_raise(out, &spec);
}

size_t strangers_body(struct target *t, uint32_t watch, uint64_t at, uint8_t *out)
{
	struct watch *w = &t->watches.v[watch];
	size_t n = put_watch(t, w, out);

	w->body = at;
	return n + (w->unmaps ? known_body(t, w->unmaps - 1, out + n) : 0);
}

/* The pad: our code, the instruction, the way back. All registers are the program's at the last two. */
static void emit(struct target *t, uint32_t n)
{
	const struct watch *w = &t->watches.v[n];
	uint8_t *here = arena_view(t->arena, TADDR(w->pad));
	size_t body = strangers_body(t, n, w->pad, here), len = t->proc->arch->jumps->len;
	struct edit *e = vec_add(&t->patch.edits);

	memcpy(here + body, w->bytes, len);
	t->proc->arch->jump(here + body + len, w->pad + body + len, w->at + len);
	code_written(here, body + 2 * len);
	*vec_add(&t->patch.moves_out) = (struct move){ TADDR(w->pad), TADDR(w->at) };
	*vec_add(&t->patch.moves_out) = (struct move){ TADDR(w->pad + body), TADDR(w->at) };
	*vec_add(&t->patch.moves_out) = (struct move){ TADDR(w->pad + body + len), TADDR(w->at + len) };
	e->at = e->resume = TADDR(w->at);
	e->len = len;
	memcpy(e->old, w->bytes, len);
	t->proc->arch->jump(e->new, w->at, w->pad);
}

void strangers_emit(struct target *t)
{
	bool raise = t->spec.has_rseq || t->rings;	/* otherwise everybody takes the locked counter already */

	for (uint32_t i = 0; i < t->watches.n; i++)
		if (t->watches.v[i].pad && (raise || t->watches.v[i].parks || t->watches.v[i].forgets || t->watches.v[i].hushes ||
					  t->watches.v[i].unmaps))
			emit(t, i);
}

/* True if the last stop found a stranger. */
bool strangers_present(const struct target *t)
{
	for (size_t i = 0; i < t->proc->threads.n; i++)
		if (t->proc->threads.v[i].pid != t->proc->pid)
			return true;
	return false;
}
