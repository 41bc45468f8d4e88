/* SPDX-License-Identifier: MIT */
/*
 * Letting held threads go on (PTRACE_DETACH): all, or all but the borrowed one. The system calls of a
 * borrowed thread take longer than everything else in a stop, most of all when it has to wait for a
 * CPU, and only some of them need the other threads to be stopped.
 */
#include "proc/internal.h"

#include <sys/ptrace.h>
#include <unistd.h>
#include "base/clock.h"

#define SETTLE_NS 20000000ull	/* threads in limbo mostly stop within this time */

void thread_let_go(struct proc *p, struct thread *t)
{
	if (!t->seized || t->gone)
		return;
	if (!t->stopped) {
		ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);	/* only a stopped thread can be detached from */
		*vec_add(&priv(p)->limbo) = t->tid;
		return;
	}
	call_unwind(p, t);
	if (t->regs_changed)
		p->arch->thread->put(t->tid, &t->regs);
	t->regs_changed = false;
	t->stopped = t->seized = false;
	if (p->stopped_at)
		p->pause_ns = MAX(p->pause_ns, now_ns() - p->stopped_at);
	if (ptrace(PTRACE_DETACH, t->tid, 0, 0) < 0)
		*vec_add(&priv(p)->limbo) = t->tid;	/* killed: it is still to be reaped */
	proc_step("resume: let go");
}

static bool slept(const struct thread *t)
{
	return t->regs.call >= 0 || t->eintr_nr >= 0;
}

/* Threads that were running first: they lose most time. Returns how many go on. */
static size_t let_go_but(struct proc *p, const struct thread *stays)
{
	struct burst burst;
	size_t n = 0;

	burst_begin(&burst, p->threads.n);
	for (int sleepers = 0; sleepers < 2; sleepers++)
		for (size_t i = 0; i < p->threads.n; i++) {
			struct thread *t = &p->threads.v[i];

			if (t == stays || !t->seized || slept(t) != sleepers)
				continue;
			thread_let_go(p, t);
			n++;
		}
	burst_end(&burst);
	return n;
}

void threads_let_go(struct proc *p)
{
	size_t i;

	borrow_end(p);
	proc_stirs(p);
	let_go_but(p, NULL);
	for (i = 0; i < p->threads.n; i++)
		p->threads.v[i].held = p->threads.v[i].seized = false;
	p->stopped_at = 0;
	threads_settle_for(p, SETTLE_NS);
}

/*
 * Whether a thread may stay borrowed while others run depends on its stack: there must be nothing but its own stack below
 * the stack pointer, because that memory is overwritten for a while. And no other process may share the memory.
 */
static bool may_stay_alone(struct proc *p, const struct thread *t)
{
	return priv(p)->depth == 1 && !priv(p)->sharers.n && t && !t->asleep &&
	       t->pid == p->pid && borrow_has_own_stack(p, t);
}

static long cpus = 1;

void release_prepare(void)
{
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
}

/*
 * If the borrowed thread has to wait for a CPU while the others run, it takes many times as long as these
 * would have had to wait for it. So there must be a CPU left for it.
 */
static bool leaves_a_cpu(struct proc *p, const struct thread *stays)
{
	long busy = 0;

	for (size_t i = 0; i < p->threads.n; i++)
		busy += &p->threads.v[i] != stays && p->threads.v[i].seized && !slept(&p->threads.v[i]);
	return busy < cpus;
}

bool threads_can_let_others_go(struct proc *p)
{
	struct thread *stays = borrow_candidate(p);

	return p->threads.n > 1 && may_stay_alone(p, stays) && leaves_a_cpu(p, stays);
}

bool threads_let_others_go(struct proc *p)
{
	if (!threads_can_let_others_go(p))
		return false;
	proc_stirs(p);
	return let_go_but(p, borrow_candidate(p)) > 0;
}

static bool any_stopped(const struct proc *p)
{
	size_t i;

	for (i = 0; i < p->threads.n; i++)
		if (p->threads.v[i].stopped && p->threads.v[i].pid == p->pid)
			return true;
	return false;
}

int proc_resume(struct proc *p)
{
	struct proc_priv *v = priv(p);

	if (v->depth == 0)
		return fail(-EINVAL, "process %d is not stopped", p->pid);
	borrow_end(p);
	if (--v->depth > 0)
		return 0;
	threads_let_go(p);
	return any_stopped(p) ? fail(-EIO, "process %d could not be let go", p->pid) : 0;
}
