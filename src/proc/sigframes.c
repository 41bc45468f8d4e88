/* SPDX-License-Identifier: MIT */
/*
 * Finding signal frames from outside. The kernel lays a frame down with the restorer's address as its
 * lowest word, so that the handler returns there. From a thread's stack pointer upward the first such
 * word that heads a plausible frame is the innermost frame; its saved stack pointer says where to go
 * on, perhaps on another stack. A frame that is only left over in an unused part of the stack can
 * look the same: moving its counter does no harm, since nobody reads it.
 *
 *	slot	offset	what
 *	0	0	restorer
 *	1	8	uc_flags, uc_link, uc_stack { sp, flags, size }
 *	6	48	r8 .. r15, rdi, rsi, rbp, rbx, rdx, rax, rcx
 *	21	168	rsp
 *	22	176	rip
 *	23	184	eflags
 *	24	192	cs, gs, fs, ss
 *	29	232	pointer to the floating point state, which stands above
 */
#include "proc/sigframes.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/err.h"

enum { FRAME_STACK_SP = 3, FRAME_STACK_SIZE = 5, FRAME_SP = 21, FRAME_PC = 22, FRAME_CS = 24,
       FRAME_FPU = 29, FRAME_WORDS = 30 };

#define FRAME_MOST (64 * 1024ull)	/* floating point state included */
#define STRANGE_MOST (1024 * 1024ull)	/* how far to look up a stack whose end is not known */
#define CHAIN_MOST 64			/* nested handlers */
#define USER_TOP (1ull << 47)

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
		s->buf = xcalloc(1, s->cap);
		memset(s->buf, 1, s->cap);	/* the pages are there before anybody is stopped */
	}
	s->maps_fresh = false;
	return 0;
}

/* How far up this thread's stack goes: its mapping's end, or its own control block on top of it. */
static uint64_t stack_end(struct sigframes *s, struct proc *p, uint64_t sp, uint64_t fs)
{
	const struct map *m = proc_map_at(p, sp);

	if (!m && !s->maps_fresh) {
		s->maps_fresh = true;	/* a stack younger than our list: rare, so only then read again */
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

/* Make [sp, end) readable in s->buf; what can't be read is cut off. */
static void load_stack(struct sigframes *s, struct proc *p, pid_t tid, uint64_t sp, uint64_t end)
{
	size_t len = end - sp;
	struct iovec here, there = { (void *)(uintptr_t)sp, len };
	ssize_t n;

	if (len > s->cap) {
		s->cap = len;
		s->buf = xrealloc(s->buf, len);
	}
	here = (struct iovec){ s->buf, len };
	n = len ? process_vm_readv(tid, &here, 1, &there, 1, 0) : 0;
	if (n < 0)
		n = proc_read(p, TADDR(sp), s->buf, len) == 0 ? (ssize_t)len : 0;
	s->lo = sp;
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

/*
 * A frame by the kernel stands right below the stack pointer it saved (red zone and floating point
 * state between), or on the alternate stack that it names itself. So does one laid down for a
 * borrowed call (frame.c), except for threads without room there: at the far end of a stack.
 */
static bool frame_is_plausible(struct proc *p, uint64_t at, const uint64_t *f)
{
	uint64_t sp = f[FRAME_SP], fpu = f[FRAME_FPU];
	const struct map *m;

	if ((at & 15) != 8 || (f[FRAME_CS] & 0xffff) != 0x33)
		return false;
	if (!sp || sp >= USER_TOP || f[FRAME_PC] >= USER_TOP)
		return false;
	if (fpu && (fpu <= at || fpu - at > FRAME_MOST))
		return false;
	if (sp > at && sp - at <= FRAME_MOST)
		return true;
	if (at - f[FRAME_STACK_SP] < f[FRAME_STACK_SIZE])
		return true;
	m = proc_map_at(p, at);
	return m && sp > at && sp <= m->end && at - m->start < FRAME_MOST;
}

/* The first frame at or above sp within the loaded bytes. */
static bool next_frame(struct sigframes *s, struct proc *p, uint64_t sp, uint64_t *ret_at, uint64_t *ret_frame)
{
	uint64_t at, word;

	for (at = (sp + 7) & ~7ull; at + FRAME_WORDS * 8 <= s->hi; at += 8) {
		memcpy(&word, s->buf + (at - s->lo), 8);
		if (!is_restorer(s, word))
			continue;
		memcpy(ret_frame, s->buf + (at - s->lo), FRAME_WORDS * 8);
		if (frame_is_plausible(p, at, ret_frame)) {
			*ret_at = at;
			return true;
		}
	}
	return false;
}

/*
 * Standing in the restorer itself, the handler has returned and popped the frame's lowest word. A
 * thread whose borrower died comes this way too.
 */
static bool in_restorer(const struct sigframes *s, uint64_t pc)
{
	size_t i;

	for (i = 0; i < s->restorers.n; i++)
		if (pc - s->restorers.v[i] < 9)
			return true;
	return false;
}

static bool popped_frame(struct sigframes *s, struct proc *p, const struct thread *t, uint64_t *ret_at,
			 uint64_t *ret_frame)
{
	uint64_t at = t->regs.rsp - 8;

	if (!in_restorer(s, t->regs.rip) || proc_read(p, TADDR(at), ret_frame, FRAME_WORDS * 8) < 0)
		return false;
	*ret_at = at;
	return frame_is_plausible(p, at, ret_frame);
}

static void walk_thread(struct sigframes *s, struct proc *p, const struct thread *t)
{
	uint64_t sp = t->regs.rsp, at, frame[FRAME_WORDS];
	bool found = popped_frame(s, p, t, &at, frame);
	int i;

	s->lo = s->hi = 0;
	for (i = 0; i < CHAIN_MOST; i++) {
		if (!found && (sp < s->lo || sp >= s->hi))
			load_stack(s, p, t->tid, sp, stack_end(s, p, sp, t->regs.fs_base));
		if (!found && !next_frame(s, p, sp, &at, frame))
			return;
		*vec_add(&s->saved) = (struct saved_pc){ TADDR(at + FRAME_PC * 8), frame[FRAME_PC], t->tid };
		sp = frame[FRAME_SP];
		found = false;
	}
}

int sigframes_find(struct sigframes *s, struct proc *p)
{
	size_t i;

	s->saved.n = 0;
	if (!s->restorers.n)
		return 0;
	for (i = 0; i < p->threads.n; i++) {
		const struct thread *t = &p->threads.v[i];

		if ((t->stopped || t->held) && !t->gone)
			walk_thread(s, p, t);
	}
	return 0;
}

void sigframes_free(struct sigframes *s)
{
	vec_free(&s->restorers);
	vec_free(&s->saved);
	free(s->buf);
	*s = (struct sigframes){ 0 };
}
