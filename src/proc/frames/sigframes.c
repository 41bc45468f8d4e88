/* SPDX-License-Identifier: MIT */
/*
 * Finding signal frames on a target's stacks. The kernel writes a frame with the restorer's address as its
 * lowest word, so that the handler returns there. From a thread's stack pointer upward the first such
 * word that begins a plausible frame is the innermost frame; its saved stack pointer says where the search
 * continues, perhaps on another stack. An old frame in an unused part of the stack can
 * look the same: changing its program counter does no harm, since it is never used. But it must not lead the search past
 * a frame that is in use. So everything above a stack pointer is searched, except that within an exact
 * frame (every word is as the kernel writes it) only another exact one counts: the kernel leaves old bytes in
 * the part for vector registers that are not in use.
 *
 * An exact frame needs no known restorer: programs may have one of any bytes, in any memory. Its
 * lowest word may even be popped already (the thread is in the restorer), so the search for exact frames
 * begins one word below the stack pointer. Frames on stacks that no thread uses: see hidden.c.
 * Which word is what: struct signal_abi.
 */
#include "arch/page.h"
#include "proc/frames/sigframes.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "arch/cpu.h"
#include "base/err.h"
#include "proc/internal.h"

#define STRANGE_MOST (1024 * 1024ull)	/* how much of a stack is searched if its end is not known */
#define CHAIN_MOST 64			/* frames of one stack that lead to other stacks */
#define STACKS_MOST 64
#define AUTODISARM (1u << 31)		/* SS_AUTODISARM */

int sigframes_prepare(struct sigframes *s, struct proc *p)
{
	const struct text_call *calls;
	size_t n;
	int r = proc_text_calls(p, &calls, &n);

	if (r < 0)
		return r;
	s->restorers.n = 0;
	for (size_t i = 0; i < n; i++)
		if (calls[i].nr == SYS_rt_sigreturn)
			*vec_add(&s->restorers) = calls[i].at.v;
	if (!s->buf) {
		s->cap = 256 * 1024;
		s->buf = xrealloc(NULL, s->cap);
		if (!proc_is_still(p)) {
			memset(s->buf, 1, s->cap);	/* take the page faults before threads are stopped */
			s->used = s->cap;
		}
	}
	s->maps_fresh = false;
	proc_fills_pages(p);
	return 0;
}

/* How far up this thread's stack goes: its mapping's end, or its own control block on top of it. */
static uint64_t stack_end(struct sigframes *s, struct proc *p, uint64_t sp, uint64_t fs)
{
	const struct map *m = proc_map_at(p, sp);

	if (!m && !s->maps_fresh) {
		s->maps_fresh = true;	/* a stack mapped after p->maps was read: rare, so they are read again only then */
		if (proc_read_maps(p) == 0)
			m = proc_map_at(p, sp);
	}
	if (!m)
		return sp;
	if (strcmp(m->path, "[stack]") == 0)
		return m->end;
	if (fs > sp && fs < m->end)
		return fs;
	return MIN(m->end, sp + STRANGE_MOST);
}

/* Page by page: zeros for pages that are not there (filled.c); there may be a frame above them. */
static void load_what_is_there(struct proc *p, uint8_t *to, uint64_t at, uint64_t end)
{
	for (uint64_t next, start = at; at < end; at = next) {
		next = MIN((at | (PAGE - 1)) + 1, end);
		if (stack_read(p, at, to + (at - start), next - at) < 0)
			memset(to + (at - start), 0, next - at);
	}
}

/* Copy [sp, end) to s->buf, up to the first byte that can't be read. */
static void load_stack(struct sigframes *s, struct proc *p, pid_t tid, uint64_t sp, uint64_t end)
{
	size_t len = end - sp;
	struct iovec here, there = { (void *)(uintptr_t)sp, len };
	ssize_t n;

	if (len > s->cap) {
		s->cap = len;
		s->buf = xrealloc(s->buf, len);
	}
	s->used = MAX(s->used, len);
	s->lo = sp;
	s->hi = end;
	if (priv(p)->fills_pages) {
		load_what_is_there(p, s->buf, sp, end);
		return;
	}
	here = (struct iovec){ s->buf, len };
	n = len ? process_vm_readv(tid, &here, 1, &there, 1, 0) : 0;
	if (n < 0)
		n = proc_read(p, TADDR(sp), s->buf, len) == 0 ? (ssize_t)len : 0;
	s->hi = sp + n;
}

static bool is_restorer(const struct sigframes *s, uint64_t v)
{
	size_t i;

	for (i = 0; i < s->restorers.n; i++)
		if (s->restorers.v[i] == v)
			return true;
	return false;
}

/* Whether the frame is on the alternate stack that it names itself. */
static bool is_alternate(const struct signal_abi *abi, uint64_t at, const uint64_t *f)
{
	return at - f[abi->stack_sp] < f[abi->stack_size];
}

/* What holds for every frame, also for one whose registers a handler has changed. */
static bool frame_is_sane(const struct arch *arch, uint64_t at, const uint64_t *f)
{
	const struct signal_abi *abi = arch->signal;
	uint64_t sp = f[abi->sp], vectors = f[abi->vectors_at];

	if (!abi->may_be(at, f))
		return false;
	if (!sp || sp >= arch->user_top || f[abi->pc] >= arch->user_top)
		return false;
	return abi->mark || !vectors || (vectors > at && vectors - at <= FRAME_MOST);
}

/*
 * A frame of the kernel is right below the stack pointer that it has saved (red zone and vector
 * registers in between), or on the alternate stack that it names itself. So is an emergency frame of a
 * borrowed call (frame.c), except for threads without room there: then it is at the low end of the main stack.
 */
static bool frame_is_plausible(struct proc *p, uint64_t at, const uint64_t *f)
{
	uint64_t sp = f[p->arch->signal->sp];
	const struct map *m;

	if (!frame_is_sane(p->arch, at, f))
		return false;
	if (sp > at && sp - at <= FRAME_MOST)
		return true;
	if (is_alternate(p->arch->signal, at, f))
		return true;
	m = proc_map_at(p, at);
	return m && sp > at && sp <= m->end && at - m->start < FRAME_MOST;
}

static int read_frame(void *arg, uint64_t at, void *to, size_t len)
{
	return stack_read(arg, at, to, len);
}

/* The vector registers are at their place, with the kernel's magic words. */
static bool frame_is_exact(struct proc *p, uint64_t at, const uint64_t *f)
{
	const struct signal_abi *abi = p->arch->signal;
	const struct cpu_memory memory = { .arg = p, .read = read_frame };
	uint64_t to = f[abi->vectors_at] - at;

	return (abi->mark || to == abi->to_vectors || to == abi->to_own_vectors) && abi->is_marked(f, &memory);
}

static bool is_frame(struct sigframes *s, struct proc *p, uint64_t at, uint64_t sp, const uint64_t *f)
{
	const struct signal_abi *abi = p->arch->signal;

	if (at >= sp && is_restorer(s, f[0]) && frame_is_plausible(p, at, f))
		return true;
	return sigframe_mark(abi, at) == f[abi->vectors_at] && frame_is_sane(p->arch, at, f) && frame_is_exact(p, at, f);
}

/* The first frame from `at` on within the loaded bytes; below sp only an exact one. */
static bool next_frame(struct sigframes *s, struct proc *p, uint64_t at, uint64_t sp, uint64_t *ret_at,
		       uint64_t *ret_frame)
{
	const size_t vectors_at = p->arch->signal->vectors_at * 8;

	for (at = (at + 7) & ~7ull; at + FRAME_WORDS * 8 <= s->hi; at += 8) {
		const uint8_t *here = s->buf + (at - s->lo);
		uint64_t word, vectors;

		memcpy(&word, here, 8);
		memcpy(&vectors, here + vectors_at, 8);
		if (vectors != sigframe_mark(p->arch->signal, at) && !is_restorer(s, word))
			continue;
		memcpy(ret_frame, here, FRAME_WORDS * 8);
		if (is_frame(s, p, at, sp, ret_frame)) {
			*ret_at = at;
			return true;
		}
	}
	return false;
}

int sigframe_at(struct proc *p, uint64_t at, struct hidden_frame *ret_frame)
{
	const struct signal_abi *abi = p->arch->signal;
	uint64_t f[FRAME_WORDS];

	if (stack_read(p, at, f, sizeof(f)) < 0 || f[abi->vectors_at] != sigframe_mark(abi, at) ||
	    !frame_is_sane(p->arch, at, f) || !frame_is_exact(p, at, f))
		return -ENOENT;
	*ret_frame = (struct hidden_frame){ f[abi->pc], f[abi->stack_sp], f[abi->stack_size], true,
					    (uint32_t)f[abi->stack_flags] & AUTODISARM };
	return 0;
}

/*
 * If the PC is in the restorer, the handler has returned and popped the frame's lowest word. A borrowed
 * thread whose tracer died gets there, too.
 */
static bool in_restorer(const struct sigframes *s, const struct proc *p, uint64_t pc)
{
	size_t i;

	for (i = 0; i < s->restorers.n; i++)
		if (pc - s->restorers.v[i] < p->arch->thread->restorers[0].len)
			return true;
	return false;
}

static bool popped_frame(struct sigframes *s, struct proc *p, const struct thread *t, uint64_t *ret_at,
			 uint64_t *ret_frame)
{
	uint64_t at = thread_sp(p, t) - 8;

	if (!in_restorer(s, p, t->regs.cpu.pc) || stack_read(p, at, ret_frame, FRAME_WORDS * 8) < 0)
		return false;
	*ret_at = at;
	return frame_is_plausible(p, at, ret_frame);
}

/*
 * A frame on an alternate stack is in use while its handler runs there: below it, on the same stack. A search that comes from
 * outside of that stack has found a frame of another thread, or an old one: in Go all stacks are next to each other in one heap.
 */
static bool frame_is_elsewhere(const struct signal_abi *abi, uint64_t sp, uint64_t at, const uint64_t *f)
{
	return is_alternate(abi, at, f) && sp < f[abi->stack_sp];
}

/* Search one stack from sp up. Returns how many of its frames lead to other stacks, and the stack pointers there. */
static int walk_stack(struct sigframes *s, struct proc *p, const struct thread *t, uint64_t sp,
		      uint64_t *ret_away)
{
	const struct signal_abi *abi = p->arch->signal;
	uint64_t at, frame[FRAME_WORDS], covered = 0, from = sp, next = sp % PAGE ? sp - 8 : sp;
	int away = 0;

	load_stack(s, p, t->tid, next, stack_end(s, p, sp, t->regs.cpu.tls));
	for (; next_frame(s, p, next, sp, &at, frame); next = at + 8) {
		uint64_t up = frame[abi->sp];
		bool exact = frame_is_exact(p, at, frame);

		if (frame_is_elsewhere(abi, from, at, frame))
			continue;
		if (is_alternate(abi, at, frame))
			s->hi = MIN(s->hi, frame[abi->stack_sp] + frame[abi->stack_size]);

		if (at < covered && !exact)
			continue;
		*vec_add(&s->saved) = (struct saved_pc){ TADDR(at + abi->pc * 8), frame[abi->pc], t->tid, exact, false };
		if (up - s->lo >= s->hi - s->lo) {
			if (away < CHAIN_MOST)
				ret_away[away++] = up;
		} else if (exact) {
			covered = MAX(covered, up);
		}
	}
	return away;
}

static void walk_thread(struct sigframes *s, struct proc *p, const struct thread *t)
{
	const struct signal_abi *abi = p->arch->signal;
	uint64_t at, frame[FRAME_WORDS], todo[CHAIN_MOST * 2];
	int n = 0, stacks;

	if (popped_frame(s, p, t, &at, frame)) {
		*vec_add(&s->saved) = (struct saved_pc){ TADDR(at + abi->pc * 8), frame[abi->pc], t->tid,
							 frame_is_exact(p, at, frame), false };
		todo[n++] = frame[abi->sp];
	} else {
		todo[n++] = thread_sp(p, t);
	}
	for (stacks = 0; n && stacks < STACKS_MOST; stacks++) {
		n--;
		n += walk_stack(s, p, t, todo[n], todo + n);
		n = MIN(n, CHAIN_MOST);
	}
}

int sigframes_find(struct sigframes *s, struct proc *p)
{
	size_t i;

	s->saved.n = 0;
	for (i = 0; i < p->threads.n; i++) {
		const struct thread *t = &p->threads.v[i];

		if ((t->stopped || t->held) && !t->gone)
			walk_thread(s, p, t);
	}
	hidden_find(s, p);
	return 0;
}

int sigframe_load(struct proc *p, const struct saved_pc *s, struct cpu *ret_cpu)
{
	const struct signal_abi *abi = p->arch->signal;
	uint64_t at = s->slot.v - abi->pc * 8, f[FRAME_WORDS];
	struct cpu c = { 0 };

	if (stack_read(p, at, f, sizeof(f)) < 0 || !frame_is_exact(p, at, f))
		return -EAGAIN;
	for (int i = 0; i < abi->nregs; i++)
		c.reg[i] = f[abi->reg[i]];
	c.pc = f[abi->pc];
	c.flags = f[abi->flags];
	*ret_cpu = c;
	return 0;
}

static void put_cpu(const struct signal_abi *abi, uint64_t *f, const struct cpu *c)
{
	for (int i = 0; i < abi->nregs; i++)
		f[abi->reg[i]] = c->reg[i];
	f[abi->pc] = c->pc;
	f[abi->flags] = c->flags;
}

/* In one write, from the first word that differs to the last: so a killed tracer does not leave half of the changes. */
int sigframe_store(struct proc *p, const struct saved_pc *s, const struct cpu *before,
		   const struct cpu *after)
{
	const struct signal_abi *abi = p->arch->signal;
	uint64_t old[FRAME_WORDS] = { 0 }, new[FRAME_WORDS] = { 0 };
	int first = 0, last = FRAME_WORDS - 1;

	put_cpu(abi, old, before);
	put_cpu(abi, new, after);
	while (first < last && old[first] == new[first])
		first++;
	while (last > first && old[last] == new[last])
		last--;
	return proc_write(p, TADDR(s->slot.v - abi->pc * 8 + first * 8), new + first, (last - first + 1) * 8);
}

void sigframes_free(struct sigframes *s)
{
	vec_free(&s->restorers);
	vec_free(&s->saved);
	vec_free(&s->suspects);
	if (s->buf)
		explicit_bzero(s->buf, s->used);	/* see hidden_search() */
	free(s->buf);
	*s = (struct sigframes){ 0 };
}
