/* SPDX-License-Identifier: MIT */
/*
 * Writing jumps to the text of a running program. Everything that takes time is done while the threads run: the
 * record is written, the edits are grouped into runs of pages, the pages are made private, memory is
 * allocated. Then, with all threads stopped, in this order, so that the target works if the tracer dies at any
 * point (a pad executes the instructions of its window, whether the jump to it is written or not):
 *
 *	read the text and compare	nothing is changed if a single byte differs
 *	check program counters		a thread inside a window that can't be moved: try again later
 *	move them into the pads		from here on pads are executed, the text is still the old one
 *	write the text			span by span; some jumps may be written and others not
 */
#include "arch/page.h"
#include "proc/arena/arena.h"

#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/internal.h"
#include "proc/text/spans.h"
#include "proc/undo/semaphores.h"

#define TRIES 12
#define COPIED_AT_ONCE 128	/* pages in one stop */
#define FIRST_WAIT_NS 100000
#define SEARCH_NS 50000000ull	/* for frames on stacks that no thread uses */

/* A program counter that must be changed: a thread's own, or one saved in a signal frame. */
struct pc_fix {
	struct thread *t;	/* NULL: in a frame */
	taddr slot;
	uint64_t to;
};

struct apply {
	struct proc *p;
	struct arena *a;
	const struct text_patch *patch;
	struct spans spans;
	VEC(struct pc_fix) fixes;
	uint64_t stuck;		/* a program counter that could not be moved */
	size_t first_semaphore;	/* in the record */
	bool torn;		/* part of the text is new and could not be restored */
};

static const char *hex(const uint8_t *bytes, size_t n, char buf[3 * EDIT_MAX + 1])
{
	size_t i;

	buf[0] = 0;
	for (i = 0; i < n; i++)
		sprintf(buf + 3 * i, i + 1 < n ? "%02x " : "%02x", bytes[i]);
	return buf;
}

static int check_patch(const struct text_patch *patch)
{
	uint64_t end = 0;
	size_t i;

	for (i = 0; i < patch->edits.n; i++) {
		const struct edit *e = &patch->edits.v[i];

		if (!e->len || e->len > EDIT_MAX || e->at.v < end)
			return fail(-EINVAL, "edit at %#llx overlaps another or has no length",
				    (unsigned long long)e->at.v);
		end = e->at.v + e->len;
	}
	return 0;
}

/* Read a byte of each page with edits, and write it back if `write`: from edit number *at on, at most `most` pages. Returns how many. */
static size_t touch_pages(struct proc *p, const struct text_patch *patch, size_t *at, size_t most, bool write)
{
	uint64_t done = 0;
	size_t n = 0;

	for (; *at < patch->edits.n && n < most; (*at)++) {
		const struct edit *e = &patch->edits.v[*at];
		uint64_t where[2] = { e->at.v, e->at.v + e->len - 1 };
		uint8_t byte;

		for (int k = 0; k < 2; k++) {
			if (where[k] / PAGE == done)
				continue;
			done = where[k] / PAGE;
			n++;
			if (proc_read(p, TADDR(where[k]), &byte, 1) == 0 && write)
				proc_write(p, TADDR(where[k]), &byte, 1);
		}
	}
	return n;
}

/*
 * The first write to a page of text makes a private copy of it, which takes about a microsecond,
 * longer than anything else that is done to the page. So if there are many pages, they are copied beforehand, some in each of
 * several short stops, by writing a byte over itself. Not while threads run: if the program patches that very byte
 * between the read and the write, its change would be lost unnoticed. If there are few pages, the write of the text itself
 * copies them. All pages are read before, with threads running: they may have to come from a disk.
 */
static int make_private(struct proc *p, const struct text_patch *patch)
{
	size_t at = 0;
	int r = 0;

	if (touch_pages(p, patch, &at, SIZE_MAX, false) <= COPIED_AT_ONCE)
		return 0;
	for (at = 0; r == 0 && at < patch->edits.n;) {
		r = proc_stop(p);
		if (r < 0)
			return r;
		touch_pages(p, patch, &at, COPIED_AT_ONCE, true);
		r = proc_resume(p);
	}
	return r;
}

#define SPARE (256u << 10)	/* page tables of the arena, and what the target itself takes meanwhile */

/* The copies must fit in the target's memory cgroup, or the kernel kills it. */
static int check_memory(struct proc *p, const struct spans *spans)
{
	uint64_t need = 0, room = proc_memory_room(p);
	size_t i;

	for (i = 0; i < spans->v.n; i++)
		need += (spans->v.v[i].hi - 1) / PAGE - spans->v.v[i].lo / PAGE + 1;
	need = need * PAGE + SPARE;
	if (need <= room)
		return 0;
	return fail(-ENOSPC, "process %d may take only %llu kB more (the limit of its memory cgroup), and copies of "
		    "the text pages need %llu kB: choose fewer functions, or raise the limit", p->pid,
		    (unsigned long long)room >> 10, (unsigned long long)need >> 10);
}

/* A write to a shared mapping would change the file (or memory) for all processes. Callers check that earlier; here it is certain. */
static int refuse_shared(struct proc *p, const struct text_patch *patch)
{
	for (size_t i = 0; i < patch->edits.n; i++) {
		const struct map *m = proc_map_at(p, patch->edits.v[i].at.v);

		if (m && m->shared)
			return fail(-ENOTSUP, "text at %#llx is mapped shared: a jump would be written to %s itself; nothing "
				    "was changed", (unsigned long long)patch->edits.v[i].at.v, m->path);
	}
	return 0;
}

static int differs(const struct edit *e, const uint8_t *now)
{
	char want[3 * EDIT_MAX + 1], is[3 * EDIT_MAX + 1];

	return fail(-ESTALE, "text at %#llx is %s, expected %s: it differs from its file "
		    "(a breakpoint or another tracer?); nothing was changed",
		    (unsigned long long)e->at.v, hex(now, e->len, is), hex(e->old, e->len, want));
}

static int compare(struct apply *ap)
{
	size_t i, k;

	for (i = 0; i < ap->spans.v.n; i++) {
		const struct span_of_text *t = &ap->spans.v.v[i];

		if (t->gone)
			return fail(-ESTALE, "text at %#llx is not mapped any more; nothing was changed",
				    (unsigned long long)t->lo);
		for (k = t->first; k < t->first + t->n; k++) {
			const struct edit *e = &ap->patch->edits.v[k];

			if (memcmp(span_at(t, e->at.v), e->old, e->len) != 0)
				return differs(e, span_at(t, e->at.v));
		}
	}
	return 0;
}

static bool strictly_inside(const struct apply *ap, uint64_t pc)
{
	const struct edit *e = edit_around(ap->patch->edits.v, ap->patch->edits.n, pc);

	return e && (e->at.v != pc || e->resume.v != pc);
}

/* *ret_to: where a program counter has to go; 0: it may stay. -EAGAIN: it is inside a window, and no move is known for it. */
static int place_for(struct apply *ap, uint64_t pc, uint64_t *ret_to)
{
	const struct text_patch *patch = ap->patch;
	uint64_t to = 0;

	if (strictly_inside(ap, pc)) {
		to = move_find(patch->moves_in.v, patch->moves_in.n, pc);
		if (!to) {
			ap->stuck = pc;
			return -EAGAIN;
		}
	}
	*ret_to = to;
	return 0;
}

/*
 * The PC of a thread in a system call is after the instruction, but a restart sets it back to the instruction:
 * both addresses are checked. Which of them it is, thread_prepare_change() decides.
 */
static int look_at_thread(struct apply *ap, struct thread *t)
{
	uint64_t here, back = 0;
	int r = place_for(ap, t->regs.cpu.pc, &here);

	if (r == 0 && t->regs.call >= 0)
		r = place_for(ap, t->regs.cpu.pc - ap->p->arch->thread->call_insn.len, &back);
	if (r == 0 && (here || back) && t->held)
		return -EAGAIN;		/* asleep in vfork: its registers can't be changed */
	if (r == 0 && (here || back))
		*vec_add(&ap->fixes) = (struct pc_fix){ .t = t };
	return r;
}

static int look_at_frame(struct apply *ap, const struct saved_pc *s)
{
	uint64_t to;
	int r = place_for(ap, s->pc, &to);

	if (r == 0 && to)
		*vec_add(&ap->fixes) = (struct pc_fix){ .slot = s->slot, .to = to };
	return r;
}

/* A window of one instruction has no inside: if all are like that, signal frames need not be searched. */
static int look_at_counters(struct apply *ap)
{
	struct sigframes *f = &ap->a->frames;
	size_t i;
	int r;

	ap->fixes.n = 0;
	for (i = 0; i < ap->p->threads.n; i++) {
		struct thread *t = &ap->p->threads.v[i];

		if ((!t->stopped && !t->held) || t->gone)
			continue;
		r = look_at_thread(ap, t);
		if (r < 0)
			return r;
	}
	if (!ap->patch->moves_in.n)
		return 0;
	r = sigframes_find(f, ap->p);
	for (i = 0; r == 0 && i < f->saved.n; i++)
		r = look_at_frame(ap, &f->saved.v[i]);
	return r;
}

static int move_thread(struct apply *ap, struct thread *t)
{
	uint64_t to;
	int r = thread_prepare_change(ap->p, t);

	if (r == 0)
		r = place_for(ap, t->regs.cpu.pc, &to);
	if (r == 0 && to) {
		t->regs.cpu.pc = to;
		t->regs_changed = true;
	}
	return r;
}

/*
 * The kernel gets the registers now: if the tracer dies after the text is written, no thread may
 * go on inside a jump.
 */
static int move_counters(struct apply *ap)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < ap->fixes.n; i++) {
		struct pc_fix *f = &ap->fixes.v[i];

		if (f->t)
			r = move_thread(ap, f->t);
		else
			r = proc_write(ap->p, f->slot, &f->to, sizeof(f->to));
	}
	return r < 0 ? r : proc_put_regs(ap->p);
}

static void put_bytes(struct apply *ap, bool new)
{
	size_t i, k;

	for (i = 0; i < ap->spans.v.n; i++) {
		const struct span_of_text *t = &ap->spans.v.v[i];

		for (k = t->first; k < t->first + t->n; k++) {
			const struct edit *e = &ap->patch->edits.v[k];

			memcpy(span_at(t, e->at.v), new ? e->new : e->old, e->len);
		}
	}
}

/* A span that can't be restored may never have been written: compare its bytes. */
static bool is_unchanged(struct proc *p, const struct span_of_text *t)
{
	size_t len = t->hi - t->lo;
	uint8_t *bytes = xrealloc(NULL, len);
	bool same = proc_read(p, TADDR(t->lo), bytes, len) == 0 && memcmp(bytes, t->now, len) == 0;

	free(bytes);
	return same;
}

/* All spans, or none: after an error those written are restored before any thread runs. */
static int write_text(struct apply *ap)
{
	enum undo_text before = ap->a->book.text;
	size_t i;
	int r = 0;

	put_bytes(ap, true);
	undo_set_text(&ap->a->book, UNDO_TEXT_DIRTY);
	for (i = 0; r == 0 && i < ap->spans.v.n; i++) {
		r = span_write(ap->p, &ap->spans.v.v[i]);
		proc_step("apply: text partly written");
	}
	if (r == 0)
		r = semaphores_raise(ap->p, &ap->a->book, ap->first_semaphore);
	if (r == 0)
		return 0;
	put_bytes(ap, false);
	while (i-- > 0)
		if (span_write(ap->p, &ap->spans.v.v[i]) < 0 && !is_unchanged(ap->p, &ap->spans.v.v[i]))
			ap->torn = true;
	if (ap->torn)
		return fail_in(r, "text is partly written and could not be restored");
	undo_set_text(&ap->a->book, before);
	return r;
}

static int apply_held(struct apply *ap)
{
	int r = spans_read(&ap->spans, ap->p);

	if (r == 0)
		r = compare(ap);
	if (r == 0)
		r = look_at_counters(ap);
	if (r == 0)
		r = move_counters(ap);
	proc_step("apply: counters moved");
	if (r == 0 && ap->patch->held)
		ap->patch->held(ap->patch->arg);
	if (r == 0)
		r = write_text(ap);
	if (r == 0)
		arena_dont_dump(ap->a);
	return r;
}

static int apply_once(struct apply *ap)
{
	int r = proc_stop(ap->p), end;

	if (r < 0)
		return r;
	proc_step("apply: stopped");
	r = apply_held(ap);
	proc_step("apply: text written");
	end = proc_resume(ap->p);
	proc_step("apply: let go");
	return r < 0 ? r : end;
}

static int apply_patiently(struct apply *ap)
{
	uint64_t wait = FIRST_WAIT_NS;
	int i, r;

	for (i = 0; i < TRIES; i++) {
		r = apply_once(ap);
		if (r != -EAGAIN || priv(ap->p)->depth)
			break;
		sleep_ns(wait);
		wait *= 2;
	}
	if (r == -EAGAIN)
		return fail(r, "a thread stays at %#llx, inside bytes that are to be replaced",
			    (unsigned long long)ap->stuck);
	return r;
}

/*
 * In programs that preempt user-level threads, memory is searched for signal frames now, and the stop checks the frames found
 * there for a PC inside a window. If there is too much memory for that, only the threads' own stacks are checked.
 */
static int prepare_frames(struct apply *ap)
{
	int r = sigframes_prepare(&ap->a->frames, ap->p);

	if (r == 0 && hidden_risk(ap->p) == HIDDEN_LIKELY)
		hidden_search(&ap->a->frames, ap->p, NULL, 0, SEARCH_NS);
	return r;
}

static int apply_prepare(struct apply *ap)
{
	const struct text_patch *patch = ap->patch;
	int r;

	spans_make(&ap->spans, patch->edits.v, patch->edits.n, false);
	r = proc_read_others_maps(ap->p);
	if (r == 0)
		r = refuse_shared(ap->p, patch);
	if (r == 0)
		r = check_memory(ap->p, &ap->spans);
	if (r < 0)
		return r;
	r = make_private(ap->p, patch);
	if (r < 0)
		return r;
	return patch->moves_in.n ? prepare_frames(ap) : 0;
}

int text_apply(struct proc *p, struct arena *a, const struct text_patch *patch)
{
	struct apply ap = { .p = p, .a = a, .patch = patch, .first_semaphore = a->book.semaphores.n };
	uint32_t n_edits = a->book.edits.n, n_moves = a->book.moves.n;
	int r = check_patch(patch);

	if (r < 0 || !patch->edits.n)
		return r;
	r = undo_append(&a->book, patch);	/* before any text is changed */
	if (r < 0)
		return r;
	proc_step("apply: record written");
	r = apply_prepare(&ap);
	if (r == 0)
		r = apply_patiently(&ap);
	if (r < 0 && !ap.torn)
		undo_truncate(&a->book, n_edits, n_moves, ap.first_semaphore);
	spans_free(&ap.spans);
	vec_free(&ap.fixes);
	if (target_left(p, r))
		return fail(-ESRCH, "process %d is gone", p->pid);
	return r;
}
