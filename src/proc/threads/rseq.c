/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences of a stopped thread. If the registers of a thread inside one are changed,
 * the kernel finds the program counter outside of the sequence and does not abort it, and the rest of it runs
 * unprotected later. So the tracer first aborts the sequence, as the kernel would.
 */
#include "proc/internal.h"

#include <string.h>
#include <sys/ptrace.h>

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

struct rseq_answer { uint64_t pointer; uint32_t size, signature, flags, pad; };
struct rseq_cs_desc { uint32_t version, flags; uint64_t start, length, abort; };

#define RSEQ_CPU_OFFSET 4	/* of cpu_id in struct rseq */
#define RSEQ_CS_OFFSET 8	/* of rseq_cs */

static bool ask(const struct thread *t, struct rseq_answer *ret)
{
	return ptrace(PTRACE_GET_RSEQ_CONFIGURATION, t->tid, sizeof(*ret), ret) == sizeof(*ret) &&
	       ret->pointer;
}

uint64_t rseq_slot(const struct thread *t)
{
	struct rseq_answer a;

	return t->stopped && ask(t, &a) ? a.pointer + RSEQ_CS_OFFSET : 0;
}

/* The registers first, then rseq_cs: if the tracer dies in between, the kernel clears rseq_cs. */
int rseq_abort(struct proc *p, struct thread *t)
{
	const uint64_t none = 0;
	struct rseq_cs_desc d;
	struct rseq_answer a;
	uint64_t at;

	if (!ask(t, &a) || proc_read(p, TADDR(a.pointer + RSEQ_CS_OFFSET), &at, sizeof(at)) < 0 || !at)
		return 0;
	if (proc_read(p, TADDR(at), &d, sizeof(d)) < 0 || t->regs.cpu.pc - d.start >= d.length)
		return 0;
	t->regs.cpu.pc = d.abort;
	t->regs.call = -1;
	if (p->arch->thread->put(t->tid, &t->regs) < 0)
		return fail(-errno, "registers of thread %d: %s", t->tid, strerror(errno));
	proc_step("change: sequence aborted");
	return proc_write(p, TADDR(a.pointer + RSEQ_CS_OFFSET), &none, sizeof(none));
}

int thread_prepare_change(struct proc *p, struct thread *t)
{
	if (!t->stopped)
		return fail(-EBUSY, "thread %d is in vfork: its registers can't be changed now", t->tid);
	if (priv(p)->borrow.tid == t->tid)
		borrow_end(p);
	if (t->regs.call >= 0 && regs_result(p->arch, &t->regs) < 0) {
		call_restart_regs(p, &t->regs);
		t->regs_changed = true;
	}
	return rseq_abort(p, t);
}

int proc_rseq(struct proc *p, struct rseq_conf *ret_conf)
{
	struct rseq_conf conf = { 0 };
	struct rseq_answer a;
	bool first = true, usable = true, all = true;
	size_t i;

	for (i = 0; i < p->threads.n && usable; i++) {
		const struct thread *t = &p->threads.v[i];
		int64_t offset;

		if (!t->stopped || t->pid != p->pid)
			continue;
		if (!ask(t, &a)) {
			all = false;
			continue;
		}
		offset = a.pointer - t->regs.cpu.tls;
		if (first)
			conf = (struct rseq_conf){ .offset = offset, .signature = a.signature };
		usable = offset == (int32_t)offset && conf.offset == offset && conf.signature == a.signature;
		first = false;
	}
	conf.usable = usable && !first;
	conf.all = all;
	*ret_conf = conf;
	return 0;
}

int proc_rseq_unregister(struct proc *p, const struct rseq_conf *conf)
{
	const int32_t none = -1;
	struct rseq_answer a;
	int r = 0;

	for (size_t i = 0; i < p->threads.n && r == 0; i++) {
		const struct thread *t = &p->threads.v[i];

		if (t->stopped && t->pid == p->pid && !ask(t, &a))
			r = proc_write(p, TADDR(t->regs.cpu.tls + conf->offset + RSEQ_CPU_OFFSET), &none, sizeof(none));
	}
	return r;
}
