/* SPDX-License-Identifier: MIT */
/*
 * Interpreting the rest of a pad's code, for a thread whose PC is in it or a signal frame that
 * will return to it. The thread does not run for that, so it does not matter how long a handler
 * sleeps, how many threads wait for a CPU, or whether the program is stopped by a signal. It ends at
 * the first instruction that is in the text, too. If an instruction can't be interpreted, nothing is changed.
 *
 * What the code would write is collected, and written when the end is reached:
 *
 *	counters		added to atomically, so that no hit of a forked child is lost
 *	below the red zone	dropped: that memory is not used after the pad
 *	rseq_cs			dropped: a sequence that begins now would be interrupted anyway, so it is
 *				aborted; sequence_is_clear() clears the pointer before the arena is unmapped
 *	elsewhere		only a copy of an instruction of the program does that: left to the thread
 *	the stack		for a thread: written. For a frame: refused, unless it repairs a return
 *				address that leads to a pad. What looks like a frame on a stack may be left over from
 *				a handler that has returned, and its memory may be in use for something else.
 */
#include "proc/undo/clean.h"

#include <string.h>
#include "arch/arch.h"
#include "arch/asm.h"
#include "base/err.h"
#include "proc/internal.h"
#include "proc/text/spans.h"

#define MOST_INSNS 4096
#define MOST_WRITES 64
#define STACK_REACH 4096
#define BLOCK_REACH 65536	/* of the thread's own block */

struct sequence { uint32_t version, flags; uint64_t start, length, abort; };

struct late_write {
	uint64_t at, value;
	uint8_t len;
	bool add;
};

struct rest {
	struct finish *f;
	struct cpu cpu;
	bool frame;
	bool remains;		/* see struct saved_pc: no hit is counted */
	uint64_t rseq_cs;	/* address of the thread's rseq_cs; 0: it has none */
	bool at_slot;		/* the instruction jumps through a word of the module */
	struct sequence armed;
	struct late_write writes[MOST_WRITES];
	size_t n;
};

static uint64_t stack_of(const struct rest *r)
{
	return r->cpu.reg[r->f->p->arch->regs->sp];
}

static bool is_ours(const struct finish *f, uint64_t v)
{
	for (size_t i = 0; i < f->n; i++)
		if (v - f->arena[i].lo < f->arena[i].hi - f->arena[i].lo)
			return true;
	return false;
}

/* Pads are read a page at a time: they don't change in a stop, but for the writes of write_all(). */
static int read_pad(struct finish *f, uint64_t at, void *to, size_t len)
{
	uint64_t page = at & ~(FINISH_PAGE - 1);

	if (at + len > page + FINISH_PAGE)
		return proc_read(f->p, TADDR(at), to, len);
	if (f->page_at != page) {
		f->page_at = 0;
		if (proc_read(f->p, TADDR(page), f->page, FINISH_PAGE) < 0)
			return -EFAULT;
		f->page_at = page;
	}
	memcpy(to, f->page + (at - page), len);
	return 0;
}

/*
 * The program's own data is not read: only a copy of one of its instructions does that, and it may be
 * meant to fault.
 */
static bool may_read(const struct rest *r, uint64_t at)
{
	return at + STACK_REACH - stack_of(r) < 2 * STACK_REACH ||
	       at + BLOCK_REACH - r->cpu.tls < 2 * BLOCK_REACH || r->at_slot;
}

static int read_target(void *arg, uint64_t at, void *to, size_t len)
{
	struct rest *r = arg;
	uint8_t *bytes = to;
	int err = -EFAULT;

	if (is_ours(r->f, at))
		err = read_pad(r->f, at, to, len);
	else if (may_read(r, at))
		err = proc_read(r->f->p, TADDR(at), to, len);
	if (err < 0)
		return -EFAULT;
	for (size_t i = 0; i < r->n; i++) {
		const struct late_write *w = &r->writes[i];

		for (size_t k = 0; !w->add && k < w->len; k++)
			if (w->at + k - at < len)
				bytes[w->at + k - at] = w->value >> 8 * k;
	}
	return 0;
}

static int note(struct rest *r, uint64_t at, uint64_t value, size_t len, bool add)
{
	if (r->n == MOST_WRITES)
		return -ENOSPC;
	r->writes[r->n++] = (struct late_write){ at, value, len, add };
	return 0;
}

static int note_write(void *arg, uint64_t at, const void *from, size_t len)
{
	struct rest *r = arg;
	uint64_t value = 0, sp = stack_of(r);

	memcpy(&value, from, len);
	if (is_ours(r->f, at))
		return note(r, at, value, len, false);
	if (r->rseq_cs && at == r->rseq_cs && len == 8 && (!value || is_ours(r->f, value))) {
		r->armed = (struct sequence){ 0 };
		return value ? read_pad(r->f, value, &r->armed, sizeof(r->armed)) : 0;
	}
	if (at + STACK_REACH - sp < 2 * STACK_REACH)
		return note(r, at, value, len, false);
	return -ENOTSUP;
}

static int note_add(void *arg, uint64_t at, uint64_t n)
{
	struct rest *r = arg;

	return is_ours(r->f, at) ? note(r, at, n, 8, true) : -ENOTSUP;
}

/* A jump through a word at a PC-relative address: the end of a pad for a call through such a word. */
static bool jumps_by_slot(struct rest *r)
{
	uint8_t code[JUMP_BY_WORD_LEN];

	return read_pad(r->f, r->cpu.pc, code, sizeof(code)) == 0 && r->f->p->arch->jumps_by_word(code);
}

/* Up to an instruction that is in the text, too. */
static int perform_all(struct rest *r)
{
	const struct undo *u = r->f->u;
	const struct cpu_memory memory = { r, read_target, note_write, note_add };

	for (int i = 0; i < MOST_INSNS; i++) {
		uint64_t to;

		if (!is_ours(r->f, r->cpu.pc))
			return 0;
		to = move_find(u->moves.v, u->moves.n, r->cpu.pc);
		if (to) {
			r->cpu.pc = to;
			return 0;
		}
		if (r->cpu.pc - r->armed.start < r->armed.length) {
			r->cpu.pc = r->armed.abort;
			r->armed = (struct sequence){ 0 };
			continue;
		}
		r->at_slot = jumps_by_slot(r);
		if (r->f->p->arch->perform(&r->cpu, &memory) < 0)
			return -EAGAIN;
	}
	return -EAGAIN;
}

static bool is_dropped(const struct rest *r, const struct late_write *w)
{
	return !is_ours(r->f, w->at) && w->at + w->len <= stack_of(r) - r->f->p->arch->assembler->red_zone;
}

/* The high half of an address in the arena. */
static bool is_our_half(const struct finish *f, uint32_t half)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->arena[i].lo >> 32 == half || f->arena[i].hi >> 32 == half)
			return true;
	return false;
}

/*
 * A call in a pad has pushed a return address in the arena, which the pad replaces in two halves. A word with such
 * an address is certainly not in use for something else.
 */
static bool repairs_return(struct rest *r, const struct late_write *w)
{
	uint64_t now = 0;

	if (w->len != 4)
		return false;
	if (w->at == stack_of(r))
		return proc_read(r->f->p, TADDR(w->at), &now, 8) == 0 && is_ours(r->f, now);
	if (w->at != stack_of(r) + 4 || proc_read(r->f->p, TADDR(w->at), &now, 4) < 0)
		return false;
	return now == w->value || is_our_half(r->f, now);
}

static bool may_write(struct rest *r)
{
	for (size_t i = 0; r->frame && i < r->n; i++) {
		const struct late_write *w = &r->writes[i];

		if (!w->add && !is_dropped(r, w) && !repairs_return(r, w))
			return false;
	}
	return true;
}

static int add_to(struct finish *f, const struct late_write *w)
{
	uint64_t *here = f->u->arena ? (uint64_t *)arena_view(f->u->arena, TADDR(w->at)) : NULL, v;
	int r;

	if (here) {
		__atomic_add_fetch(here, w->value, __ATOMIC_SEQ_CST);
		return 0;
	}
	r = proc_read(f->p, TADDR(w->at), &v, sizeof(v));	/* the tracer is dead and does not read counters: not atomic */
	v += w->value;
	return r < 0 ? r : proc_write(f->p, TADDR(w->at), &v, sizeof(v));
}

static int write_all(struct rest *r)
{
	int err = 0;

	for (size_t i = 0; err == 0 && i < r->n; i++) {
		const struct late_write *w = &r->writes[i];

		if (w->add && r->remains)
			continue;
		if (w->add)
			err = add_to(r->f, w);
		else if (!is_dropped(r, w))
			err = proc_write(r->f->p, TADDR(w->at), &w->value, w->len);
		if (is_ours(r->f, w->at))
			r->f->page_at = 0;
	}
	return err;
}

static int finish_rest(struct rest *r)
{
	int err = perform_all(r);

	if (err == 0 && !may_write(r))
		err = -EAGAIN;
	if (err == 0 && write_all(r) < 0)
		err = -EAGAIN;
	return err;
}

int finish_thread(struct finish *f, struct thread *t)
{
	struct rest r = { .f = f };
	int err = thread_prepare_change(f->p, t);

	if (err < 0)
		return err;
	r.rseq_cs = rseq_slot(t);
	r.cpu = t->regs.cpu;
	err = finish_rest(&r);
	if (err < 0)
		return err;
	t->regs.cpu = r.cpu;
	t->regs_changed = true;
	return 0;
}

/*
 * The thread whose thread block is used for a frame. If the frame is on no thread's stack, any thread may resume that
 * user-level thread later, so any will do.
 */
static const struct thread *thread_for(const struct finish *f, const struct saved_pc *s)
{
	if (s->tid)
		return thread_find(f->p, s->tid);
	for (size_t i = 0; i < f->p->threads.n; i++) {
		const struct thread *t = &f->p->threads.v[i];

		if (t->stopped && !t->gone && t->pid == f->p->pid)
			return t;
	}
	return NULL;
}

int finish_frame(struct finish *f, struct saved_pc *s)
{
	struct rest r = { .f = f, .frame = true, .remains = s->remains };
	const struct thread *t = thread_for(f, s);
	struct cpu before;
	int err = s->exact && t ? sigframe_load(f->p, s, &before) : -EAGAIN;

	if (err < 0)
		return err;
	r.rseq_cs = rseq_slot(t);
	r.cpu = before;
	r.cpu.tls = before.tls = t->regs.cpu.tls;
	err = finish_rest(&r);
	if (err == 0)
		err = sigframe_store(f->p, s, &before, &r.cpu);
	if (err == 0)
		s->pc = r.cpu.pc;
	return err;
}
