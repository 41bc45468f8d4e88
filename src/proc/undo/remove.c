/* SPDX-License-Identifier: MIT */
/*
 * Removing everything from one process. In the first stop the text is restored, so that from then on
 * no thread enters a pad; threads inside are moved to the same instruction of the text, or the rest
 * of the pad's code is interpreted for them (finish.c); only threads for which neither is possible are waited for. When no
 * program counter, signal frame or restartable sequence is in the arena any more, it is unmapped in
 * the same stop, the record last.
 *
 * Each edit is compared with the text: the new bytes are replaced by the old ones, also around a breakpoint that
 * was set over them (giveway.c); old bytes are right; any other bytes were written by the program or another tool, and
 * stay. Then the arena stays as well: that tool may write the jump back one day.
 */
#include "arch/page.h"
#include "proc/undo/clean.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/internal.h"
#include "proc/text/spans.h"
#include "proc/undo/semaphores.h"

#define FIRST_WAIT_NS 100000ull
#define LONGEST_WAIT_NS 10000000ull
#define SEARCH_NS 300000000ull		/* CPU time of the search for frames on stacks that no thread uses (hidden.c), */
#define SEARCH_SHORT_NS 10000000ull	/* if none is expected, */
#define SEARCH_LATE_NS 15000000000ull	/* and how long it may take to get that CPU time on a busy machine */
#define HIDDEN_PATIENCE_NS 500000000ull
#define STEPS 4			/* how often, within one stop, handlers that interrupted a pad may run for a moment */
#define FIRST_MOMENT_NS 20000ull

struct clean {
	struct proc *p;
	const struct undo *u;
	struct text_report *report;
	VEC(struct gap) arena;		/* its mappings, the record last */
	struct spans spans;
	struct pages pages;
	struct sigframes frames;
	struct finish finish;
	uint8_t *states;		/* enum edit_state by number of the edit */
	bool named;			/* a mapping of its name was found */
	bool gone;			/* somebody else has removed it meanwhile */
	bool text_back;			/* the text is restored */
	enum hidden_risk risk;
	bool left;			/* no thread was in the arena at the end of the last stop */
	bool passed;			/* memory was searched since then */
	bool searched;			/* and no saved PC in the arena was found that may still be used */
	bool too_large;			/* not all memory was searched */
	uint64_t search_end;		/* when to give up on hidden frames; 0: none was found yet */
	size_t restored, foreign;
};

static bool in_arena(const struct clean *c, uint64_t v)
{
	size_t i;

	for (i = 0; i < c->arena.n; i++)
		if (v - c->arena.v[i].lo < c->arena.v[i].hi - c->arena.v[i].lo)
			return true;
	return false;
}

/* A record may be forged: memory that it names as the arena's is unmapped only if it looks exactly like it. */
static bool is_private_memory(const struct proc *p, struct gap g)
{
	const struct map *m = g.lo ? proc_map_at(p, g.lo) : NULL;

	return m && m->start == g.lo && m->end == g.hi && m->prot == (PROT_READ | PROT_WRITE) &&
	       !m->shared && !m->inode && !m->path[0];
}

static void add_mapping(struct clean *c, uint64_t lo, uint64_t hi)
{
	struct gap *last = c->arena.n ? &c->arena.v[c->arena.n - 1] : NULL;

	if (last && last->hi == lo)
		last->hi = hi;		/* one call for neighbours */
	else
		*vec_add(&c->arena) = (struct gap){ lo, hi };
}

/*
 * The arena is found by the names of its mappings, whatever a record says. Only the addresses of the private and
 * scratch pieces, which have no name, are taken from the record.
 */
static void find_arena(struct clean *c)
{
	struct gap record = { 0 };
	struct arena_label label;
	size_t i;

	c->named = false;
	for (i = 0; i < c->p->maps.n; i++) {
		const struct map *m = &c->p->maps.v[i];

		if (!arena_name_parse(m->path, &label) || !same_arena(&label, &c->u->label))
			continue;
		c->named = true;
		if (m->offset == 0 && !label.data && !record.hi)
			record = (struct gap){ m->start, m->end };
		else
			add_mapping(c, m->start, m->end);
	}
	if (is_private_memory(c->p, c->u->private))
		add_mapping(c, c->u->private.lo, c->u->private.hi);
	if (is_private_memory(c->p, c->u->scratch))
		add_mapping(c, c->u->scratch.lo, c->u->scratch.hi);
	if (record.hi)
		*vec_add(&c->arena) = record;
}

static int prepare(struct clean *c)
{
	int r = proc_read_maps(c->p);

	if (r < 0)
		return r;
	find_arena(c);
	spans_make(&c->spans, c->u->edits.v, c->u->edits.n, true);
	c->states = xcalloc(c->u->edits.n, sizeof(*c->states));
	pages_load(&c->pages, c->p, &c->spans);
	return sigframes_prepare(&c->frames, c->p);
}

/*
 * The new bytes, all or up to a page border: a tracer that is killed while it writes an edit across
 * two pages may leave one page new and the other old.
 */
static bool is_ours(const struct edit *e, const uint8_t *now)
{
	size_t first = MIN((size_t)e->len, (size_t)(PAGE - e->at.v % PAGE)), rest = e->len - first;
	bool head_old = memcmp(now, e->old, first) == 0, head_new = memcmp(now, e->new, first) == 0;
	bool tail_old = memcmp(now + first, e->old + first, rest) == 0;
	bool tail_new = memcmp(now + first, e->new + first, rest) == 0;

	return (head_old || head_new) && (tail_old || tail_new);
}

static bool is_old(const struct edit *e, const uint8_t *now)
{
	return memcmp(now, e->old, e->len) == 0 || text_is_under_breakpoint(now, e->old, e->len);
}

static void judge_edits(struct clean *c)
{
	size_t i, k;

	c->restored = c->foreign = 0;
	for (i = 0; i < c->spans.v.n; i++) {
		struct span_of_text *t = &c->spans.v.v[i];

		t->changed = false;
		for (k = t->first; !t->gone && k < t->first + t->n; k++) {
			const struct edit *e = &c->u->edits.v[k];
			uint8_t *now = span_at(t, e->at.v);

			c->states[k] = EDIT_OLD;
			if (is_old(e, now))
				continue;
			if (is_ours(e, now)) {
				memcpy(now, e->old, e->len);
			} else if (text_is_under_breakpoint(now, e->new, e->len)) {
				text_put_around_breakpoint(now, e->new, e->old, e->len);
			} else {
				c->states[k] = EDIT_FOREIGN;
				c->foreign++;
				continue;
			}
			c->states[k] = EDIT_OURS;
			t->changed = true;
			c->restored++;
		}
	}
}

/* Where a program counter at the start of an edit goes; 0: it stays. Only edits that were in the text need that. */
static uint64_t place_at_jump(const struct clean *c, uint64_t pc)
{
	const struct edit *e = edit_around(c->u->edits.v, c->u->edits.n, pc);

	if (!e || e->at.v != pc || e->resume.v == pc || c->states[e - c->u->edits.v] != EDIT_OURS)
		return 0;
	return e->resume.v;
}

static uint64_t place_in_text(const struct clean *c, uint64_t pc)
{
	return in_arena(c, pc) ? move_find(c->u->moves.v, c->u->moves.n, pc) : 0;
}

typedef uint64_t (*place_fn)(const struct clean *c, uint64_t pc);

static int move_thread(struct clean *c, struct thread *t, place_fn place)
{
	uint64_t to;
	int r;

	if (!place(c, t->regs.cpu.pc))
		return 0;
	r = thread_prepare_change(c->p, t);
	to = r == 0 ? place(c, t->regs.cpu.pc) : 0;
	if (to) {
		t->regs.cpu.pc = to;
		t->regs_changed = true;
	}
	return r;
}

/* Every program counter, of threads and in frames, is moved to what `place` returns. The kernel gets the registers at once. */
static int move_counters(struct clean *c, place_fn place)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < c->p->threads.n; i++) {
		struct thread *t = &c->p->threads.v[i];

		if (t->stopped && !t->gone)
			r = move_thread(c, t, place);
	}
	for (i = 0; r == 0 && i < c->frames.saved.n; i++) {
		struct saved_pc *s = &c->frames.saved.v[i];
		uint64_t to = place(c, s->pc);

		if (!to)
			continue;
		r = proc_write(c->p, s->slot, &to, sizeof(to));
		s->pc = to;
	}
	return r < 0 ? r : proc_put_regs(c->p);
}

static int put_text_back(struct clean *c)
{
	size_t i;
	int r = spans_read(&c->spans, c->p);

	if (r < 0)
		return r;
	judge_edits(c);
	r = move_counters(c, place_at_jump);
	proc_step("remove: counters moved");
	semaphores_begin(c->p, c->u);
	for (i = 0; r == 0 && i < c->spans.v.n; i++) {
		if (!c->spans.v.v[i].changed)
			continue;
		r = span_write(c->p, &c->spans.v.v[i]);
		proc_step("remove: text partly restored");
	}
	if (r < 0)
		return r;
	proc_step("remove: text whole again");
	semaphores_lower(c->p, c->u, c->states);
	c->text_back = true;
	c->report->restored += c->restored;
	c->report->foreign += c->foreign;
	pages_compare(&c->pages, &c->spans);
	proc_step("remove: text restored");
	return 0;
}

/*
 * The rseq_cs of a thread that has left a sequence in a pad points to the sequence's descriptor until the thread is next
 * preempted. The kernel reads the descriptor then, so the pointer must be cleared before the arena is unmapped.
 */
static bool sequence_is_clear(struct clean *c, const struct thread *t)
{
	uint64_t cs, none = 0, slot = rseq_slot(t);

	if (!slot || proc_read(c->p, TADDR(slot), &cs, sizeof(cs)) < 0 || !in_arena(c, cs))
		return true;
	return proc_write(c->p, TADDR(slot), &none, sizeof(none)) == 0;
}

/* A frame left over from a handler that has returned does not need the arena: see is_remains() in hidden.c. */
static bool needs_arena(const struct clean *c, const struct saved_pc *s)
{
	return in_arena(c, s->pc) && !s->remains;
}

/* How many threads and signal frames still need the arena. */
static size_t count_inside(struct clean *c)
{
	size_t i, n = 0;

	for (i = 0; i < c->p->threads.n; i++) {
		const struct thread *t = &c->p->threads.v[i];

		if ((t->stopped || t->held) && !t->gone)
			n += in_arena(c, t->regs.cpu.pc) || !sequence_is_clear(c, t);
	}
	for (i = 0; i < c->frames.saved.n; i++)
		n += needs_arena(c, &c->frames.saved.v[i]);
	return n;
}

/* The thread is in a pad, or in a signal handler that will return to one. */
static bool is_inside(void *arg, const struct thread *t)
{
	const struct clean *c = arg;

	for (size_t i = 0; i < c->frames.saved.n; i++)
		if (c->frames.saved.v[i].tid == t->tid && in_arena(c, c->frames.saved.v[i].pc))
			return true;
	return in_arena(c, t->regs.cpu.pc);
}

/* Interpret the rest of the pad's code for each thread in one. Threads for which that is not possible are waited for. */
static int finish_threads(struct clean *c)
{
	int r = 0;

	for (size_t i = 0; i < c->p->threads.n; i++) {
		struct thread *t = &c->p->threads.v[i];

		if (!t->stopped || t->gone || !in_arena(c, t->regs.cpu.pc))
			continue;
		r = finish_thread(&c->finish, t);
		if (r < 0 && r != -EAGAIN)
			return r;
	}
	return proc_put_regs(c->p);
}

static int finish_frames(struct clean *c)
{
	int r;

	for (size_t i = 0; i < c->frames.saved.n; i++) {
		struct saved_pc *s = &c->frames.saved.v[i];

		if (!in_arena(c, s->pc))
			continue;
		r = finish_frame(&c->finish, s);
		if (r < 0 && r != -EAGAIN)
			return r;
	}
	return 0;
}

/*
 * No thread enters a pad any more. Those inside are moved out, or the rest of the pad is interpreted. A handler that
 * interrupted a pad first gets a moment to return by itself, since only that proves that its frame is in use: where
 * many threads are busy it would not get a CPU between two stops, so only such threads run, each
 * time a little longer. Then their frames are treated like threads. -EAGAIN: a thread or frame is still inside.
 */
static int let_out(struct clean *c)
{
	uint64_t moment = FIRST_MOMENT_NS;
	int r;

	c->finish = (struct finish){ .p = c->p, .u = c->u, .arena = c->arena.v, .n = c->arena.n };
	for (int i = 0;; i++, moment *= 2) {
		r = move_counters(c, place_in_text);
		if (r == 0)
			r = finish_threads(c);
		if (r < 0)
			return r;
		if (!count_inside(c))
			return finish_frames(c);	/* only frames of handlers that have returned may be inside */
		r = i < STEPS ? threads_step(c->p, is_inside, c, moment) : 0;
		if (r <= 0)
			break;
		r = sigframes_find(&c->frames, c->p);
		if (r < 0)
			break;
	}
	if (r == 0)
		r = finish_frames(c);
	return r == 0 && count_inside(c) ? -EAGAIN : r;
}

/*
 * A thread that a dead tracer had borrowed may have made mappings since the first read: these are unmapped, too. And another tracer
 * may have removed the arena between two stops of ours, and have put in probes of its own since, with the same bytes at the same places.
 */
static int look_again(struct clean *c)
{
	int r = c->u->growing ? proc_read_maps(c->p) : 0;

	if (r == 0 && c->u->growing) {
		c->arena.n = 0;
		find_arena(c);
	}
	return r;
}

static int unmap_arena(struct clean *c)
{
	size_t i;

	for (i = 0; i < c->arena.n; i++) {
		struct gap g = c->arena.v[i];
		int64_t r = borrow(c->p, SYS_munmap, g.lo, g.hi - g.lo, 0, 0, 0, 0);

		if (r < 0)
			return fail(r, "the target can't unmap %#llx: %s", (unsigned long long)g.lo, strerror(-r));
		proc_step("remove: piece unmapped");
	}
	c->arena.n = 0;
	return 0;
}

/* The arena's desk, for a batch of calls: only in this tracer's own target, and if the target has not unmapped it. */
static bool find_desk(const struct clean *c, struct desk *ret_desk)
{
	const struct arena *a = c->u->arena;
	const struct map *m;

	if (!a || a->p != c->p || !a->mapped)
		return false;
	m = proc_map_at(c->p, a->record_at.v + a->record_len);
	if (!m || m->inode != a->inode || m->offset != a->record_len || !(m->prot & PROT_EXEC))
		return false;
	*ret_desk = (struct desk){ TADDR(m->start), a->view + a->record_len };
	return true;
}

/*
 * After the text is restored: search for a saved PC in the arena that no walk from a thread's stack finds, with the
 * target running; what is found is handled in the next stop. If the search takes too long, the
 * arena stays mapped in a program with handlers of the kind that may switch stacks.
 */
static void search_hidden(struct clean *c)
{
	uint64_t budget = c->risk == HIDDEN_LIKELY ? SEARCH_NS : SEARCH_SHORT_NS;
	int r = hidden_search(&c->frames, c->p, c->arena.v, c->arena.n, budget);

	proc_step("remove: memory searched");
	c->too_large = r < 0 && c->risk == HIDDEN_LIKELY;
	if (c->too_large)
		log_info("process %d has too much memory to search all of it for interrupted code", c->p->pid);
	c->passed = true;
	if (c->frames.hits && !c->search_end)
		c->search_end = now_ns() + HIDDEN_PATIENCE_NS;
}

static bool any_hidden(const struct clean *c)
{
	for (size_t i = 0; i < c->frames.saved.n; i++)
		if (!c->frames.saved.v[i].tid && needs_arena(c, &c->frames.saved.v[i]))
			return true;
	return false;
}

/* One stop. Returns 0 when all is done that can be done, -EAGAIN if another stop is needed later. */
static int clean_held(struct clean *c)
{
	struct desk desk;
	int r = look_again(c);
	bool alone;

	c->gone = r == 0 && c->u->growing && !c->named;
	if (c->gone)
		return 0;
	if (r == 0)
		r = sigframes_find(&c->frames, c->p);
	alone = !any_hidden(c);
	if (r == 0 && !c->text_back)
		r = put_text_back(c);
	if (r < 0)
		return r;
	if (c->foreign) {
		c->report->arena_left = true;
		return 0;
	}
	r = let_out(c);
	c->left = r == 0;
	c->searched = c->risk == HIDDEN_NEVER || (c->left && c->passed && alone);
	c->passed = false;
	if (r < 0)
		return r;
	proc_step("remove: nobody inside");
	if (!c->searched)
		return -EAGAIN;
	c->report->arena_left |= c->too_large;
	if (c->too_large)
		return 0;
	r = look_again(c);
	if (r < 0)
		return r;
	pages_drop(&c->pages, c->p, false, find_desk(c, &desk) ? &desk : NULL);
	if (!c->u->growing)
		threads_let_others_go(c->p);
	return unmap_arena(c);
}

/* For -v: the threads and frames that did not leave the arena in time. */
static void name_inside(const struct clean *c)
{
	bool asleep = false;

	for (size_t i = 0; i < c->p->threads.n; i++) {
		const struct thread *t = &c->p->threads.v[i];

		asleep |= t->asleep;
		if (in_arena(c, t->regs.cpu.pc))
			log_info("thread %d stays in a pad at %#llx", t->tid, (unsigned long long)t->regs.cpu.pc);
	}
	if (asleep)
		log_warn("process %d is stopped by a signal: let it go on (SIGCONT)", c->p->pid);
	for (size_t i = 0; i < c->frames.saved.n; i++) {
		const struct saved_pc *f = &c->frames.saved.v[i];

		if (in_arena(c, f->pc))
			log_info("%s frame of %s%.0d at %#llx leads to a pad at %#llx",
				 f->exact ? "a signal" : "something like a signal",
				 f->tid ? "thread " : "no thread", f->tid,
				 (unsigned long long)f->slot.v, (unsigned long long)f->pc);
	}
}

static bool is_too_late(const struct clean *c, uint64_t deadline)
{
	if (c->left)
		deadline += SEARCH_LATE_NS;	/* only the end of the search is waited for */
	else if (c->search_end)
		deadline = MIN(c->search_end, deadline);
	return now_ns() > deadline;
}

/*
 * Between two stops. The code in a pad may be a user-level thread that is switched away at any time: as long as a thread
 * is in a pad, a search proves nothing, and the target gets a little time instead.
 */
static void wait_or_search(struct clean *c, uint64_t *wait)
{
	if (!c->left || c->search_end) {
		sleep_ns(*wait);
		*wait = MIN(*wait * 2, LONGEST_WAIT_NS);
	}
	if (c->left && !c->searched)
		search_hidden(c);
}

/*
 * If a short jump leads to a long one in filler, only the long jump is at that address: a thread that a signal has interrupted
 * between the two must be moved to the site before the text is restored. Its frame may be on a stack that no thread uses, so
 * memory is searched first.
 */
static void search_landings(struct clean *c)
{
	for (size_t i = 0; c->risk != HIDDEN_NEVER && i < c->u->edits.n; i++)
		if (c->u->edits.v[i].resume.v != c->u->edits.v[i].at.v) {
			hidden_search(&c->frames, c->p, NULL, 0, c->risk == HIDDEN_LIKELY ? SEARCH_NS : SEARCH_SHORT_NS);
			proc_step("remove: memory searched for landings");
			return;
		}
}

static int clean_patiently(struct clean *c, uint64_t deadline)
{
	uint64_t wait = FIRST_WAIT_NS;
	int r, end;

	c->risk = hidden_risk(c->p);
	search_landings(c);
	for (;;) {
		r = proc_stop(c->p);
		if (r < 0)
			return r;
		proc_step("remove: stopped");
		r = clean_held(c);
		end = proc_resume(c->p);
		proc_step("remove: let go");
		if (r == 0)
			return end;
		if (r != -EAGAIN)
			return r;
		if (is_too_late(c, deadline) || (priv(c->p)->depth && (c->searched || !c->left)))
			break;
		wait_or_search(c, &wait);
	}
	name_inside(c);
	c->report->arena_left = true;
	return 0;
}

/* Check, from /proc and the text, that nothing of the arena and no edit is left. */
static bool verify(struct clean *c)
{
	holder_list left = { 0 };
	bool good = true;
	size_t i, k;

	holders_in_maps(c->p->pid, &left);
	holders_in_fds(c->p->pid, priv(c->p)->via, &left);
	for (i = 0; i < left.n; i++)
		good &= !same_arena(&left.v[i].label, &c->u->label);
	vec_free(&left);
	if (spans_read(&c->spans, c->p) < 0)
		return false;
	for (i = 0; i < c->spans.v.n; i++) {
		const struct span_of_text *t = &c->spans.v.v[i];

		for (k = t->first; !t->gone && k < t->first + t->n; k++) {
			const struct edit *e = &c->u->edits.v[k];

			good &= is_old(e, span_at(t, e->at.v));
		}
	}
	return good;
}

static int clean_all_steps(struct clean *c, uint64_t deadline)
{
	int r = prepare(c);

	proc_step("remove: prepared");
	if (r == 0)
		r = clean_patiently(c, deadline);
	if (r == 0 && c->gone)
		return 0;
	if (r == 0)
		r = pages_drop_rest(&c->pages, c->p);
	if (r < 0)
		return r;
	c->report->pages_kept += pages_kept(&c->pages);
	c->report->verified &= verify(c);
	return 0;
}

int clean_process(struct proc *p, const struct undo *u, uint64_t deadline, struct text_report *report)
{
	struct clean c = { .p = p, .u = u, .report = report };
	int r = clean_all_steps(&c, deadline);

	if (target_left(p, r)) {
		report->gone = true;
		r = 0;
	} else if (r == 0) {
		report->running++;
		report->one_running = p->pid;
	}
	report->processes += r == 0;
	vec_free(&c.arena);
	spans_free(&c.spans);
	pages_free(&c.pages);
	sigframes_free(&c.frames);
	free(c.states);
	return r;
}
