/* SPDX-License-Identifier: MIT */
/*
 * A guest: a thread that the borrowed one makes for an errand and that ends with it. What is made for an
 * arena needs a descriptor for a moment, and as long as that is in the table which the program's threads
 * share, nobody may run: a fork would keep it, and who expects the lowest number free would get another.
 * The guest has a table of its own, an empty one. So everybody else goes on while it works.
 *
 * It shares all other things with the program, which does not know it. It is made as by vfork: the
 * borrowed thread, its host, sleeps in the kernel until the guest has ended, whatever becomes of us. So
 * the guest may live on the host's stack. If we die, it runs into rt_sigreturn like any borrowed thread;
 * its frame says that the next call is exit, and then the host goes home.
 *
 * A filter of system calls would judge that exit, and a program that is stopped by a signal would not make
 * a thread: then there is no guest. Nor is there one if the program may have no more threads.
 */
#include "proc/internal.h"

#include <sched.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif

#define FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_VFORK)

bool is_host(const struct user_regs_struct *regs)
{
	return regs->orig_rax == SYS_clone && regs->rdi == FLAGS;
}

static bool has_filter(const struct thread *t)
{
	char path[64], status[4096];
	uint64_t mode = 1;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", t->pid, t->tid);
	if (file_read(path, status, sizeof(status)) > 0)
		status_field(status, "Seccomp", 10, &mode);
	return mode != 0;
}

/* To where the host has made the guest and would go to sleep. 1: it has; 0: the call has failed. */
static int run_to_birth(struct proc *p, struct thread *t)
{
	int status, r;

	priv(p)->borrow.plain = false;
	do {
		if (ptrace(PTRACE_SYSCALL, t->tid, 0, 0) < 0)
			return fail(-ESRCH, "thread %d has ended", t->tid);
		r = thread_wait(p, t, &status);
		if (r < 0)
			return r;
		if (status >> 16 == PTRACE_EVENT_VFORK)
			return 1;
	} while (WSTOPSIG(status) != (SIGTRAP | 0x80));
	return 0;
}

/* From here on it is the guest that is borrowed. */
static int take_guest(struct proc *p, struct thread *t)
{
	struct proc_priv *v = priv(p);
	struct thread *g;
	unsigned long tid;
	int status, r;

	if (ptrace(PTRACE_GETEVENTMSG, t->tid, 0, &tid) < 0)
		return fail(-errno, "thread %d has ended", t->tid);
	v->host = v->borrow;
	v->borrow = (struct borrow){ .tid = tid, .sp = v->host.guest_sp, .scratch = v->host.scratch };
	g = thread_add(p, p->pid, tid);
	g->seized = g->stopped = true;
	r = thread_wait(p, g, &status);
	if (r < 0)
		return r;
	v->borrow.plain = status >> 16 == PTRACE_EVENT_STOP;
	if (ptrace(PTRACE_GETREGS, tid, 0, &g->regs) < 0)
		return fail(-errno, "registers of thread %d: %s", (int)tid, strerror(errno));
	proc_step("guest: there");
	return 0;
}

/*
 * A clone that finds a stop pending is made once more by the kernel, two bytes back. So, unlike other
 * borrowed calls, it is followed by code that has a `syscall` in front of it: a `ret` that leads home.
 */
static int make_guest(struct proc *p, struct thread *t)
{
	const uint64_t args[6] = { FLAGS, priv(p)->borrow.guest_sp - 8 };
	int r;

	if (ptrace(PTRACE_SETOPTIONS, t->tid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEVFORK) < 0)
		return fail(-errno, "thread %d has ended", t->tid);
	priv(p)->borrow.options = true;
	r = borrow_exchange(p, t, SYS_clone, args, priv(p)->call_ret + 2, priv(p)->borrow.sp - 8);
	if (r == 0)
		r = run_to_birth(p, t);
	if (r < 0)
		return r;
	if (r == 0)
		return -ENOTSUP;
	proc_step("guest: born");
	return take_guest(p, t);
}

/*
 * The kernel copies the first few descriptors before it closes them again; that is as if somebody had
 * looked at them in /proc for a moment.
 */
static int empty_table(struct proc *p)
{
	const uint64_t args[6] = { 0, ~0u, CLOSE_RANGE_UNSHARE };
	int64_t value;
	int r = proc_syscall(p, SYS_close_range, args, &value);

	if (r < 0)
		return r;
	proc_step("guest: without descriptors");
	return value == 0 ? 0 : -ENOTSUP;
}

int guest_begin(struct proc *p)
{
	struct thread *t;
	int r = borrow_begin(p);

	if (r < 0)
		return r;
	t = thread_find(p, priv(p)->borrow.tid);
	if (has_filter(t) || !is_call_and_ret(p, priv(p)->call_ret))
		return -ENOTSUP;
	r = make_guest(p, t);
	if (r == 0)
		r = empty_table(p);
	return r;
}

bool guest_is_there(struct proc *p)
{
	return priv(p)->host.tid != 0;
}

/* Whatever it does last leads home. */
void guest_end(struct proc *p)
{
	struct proc_priv *v = priv(p);
	struct thread *g;
	int status;
	pid_t r;

	if (!guest_is_there(p))
		return;
	g = thread_find(p, v->borrow.tid);
	do {
		ptrace(PTRACE_CONT, g->tid, 0, 0);
		do
			r = waitpid(g->tid, &status, __WALL);
		while (r < 0 && errno == EINTR);
	} while (r > 0 && WIFSTOPPED(status));
	g->gone = true;
	g->stopped = g->seized = false;
	v->borrow = v->host;
	v->host.tid = 0;
	proc_step("guest: gone");
}
