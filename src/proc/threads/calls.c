/* SPDX-License-Identifier: MIT */
/*
 * Interrupted system calls. A stop interrupts the system call in which a thread sleeps. Most calls then return
 * -ERESTART..., and the kernel restarts them when the thread goes on with unchanged
 * registers: better than the tracer could, since the kernel knows which signal comes next. But some calls return
 * -EINTR at once, though no signal came: these threads are set back to the `syscall` instruction.
 *
 * That is done as soon as the thread has stopped, so that the death of the tracer changes nothing. (If it dies in the
 * microseconds before, such a call returns EINTR, nothing worse.) If a signal with a handler is pending when
 * the thread is to go on, it is a true interruption: then the call
 * does return EINTR, as it would have without the tracer.
 */
#include "arch/syscalls.h"
#include "proc/internal.h"

#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>

#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516

/*
 * Calls that can be repeated after EINTR, because they have had no effect then. Not close
 * (the descriptor is closed) and not calls that are not listed here.
 */
static bool may_repeat(long nr)
{
	switch (nr) {
	case SYS_epoll_wait: case SYS_epoll_pwait: case SYS_epoll_pwait2: case SYS_epoll_wait_old:
	case SYS_rt_sigtimedwait: case SYS_semop: case SYS_semtimedop:
	case SYS_io_getevents: case SYS_io_pgetevents: case SYS_io_uring_enter:
	case SYS_msgrcv: case SYS_msgsnd: case SYS_mq_timedreceive: case SYS_mq_timedsend:
	case SYS_read: case SYS_readv: case SYS_write: case SYS_writev:
	case SYS_pread64: case SYS_preadv: case SYS_preadv2:
	case SYS_recvfrom: case SYS_recvmsg: case SYS_recvmmsg:
	case SYS_sendto: case SYS_sendmsg: case SYS_sendmmsg:
	case SYS_accept: case SYS_accept4: case SYS_connect:
	case SYS_sendfile: case SYS_splice: case SYS_tee: case SYS_vmsplice:
	case SYS_poll: case SYS_ppoll: case SYS_select: case SYS_pselect6:
	case SYS_pause: case SYS_rt_sigsuspend: case SYS_futex:
	case SYS_wait4: case SYS_waitid: case SYS_flock: case SYS_fcntl: case SYS_getrandom:
		return true;
	}
	return false;
}

static uint64_t pending_in(pid_t tid, unsigned flags)
{
	struct __ptrace_peeksiginfo_args args = { .flags = flags, .nr = 16 };
	siginfo_t info[16];
	uint64_t set = 0;
	long n, i;

	while ((n = ptrace(PTRACE_PEEKSIGINFO, tid, &args, info)) > 0) {
		for (i = 0; i < n; i++)
			set |= 1ull << (info[i].si_signo - 1);
		args.off += n;
		if (n < args.nr || args.off > 1024)
			break;
	}
	return set;
}

/* Signals with a handler. Ignored signals become pending for a traced thread, too, but interrupt no call. */
static uint64_t caught(struct proc *p)
{
	struct proc_priv *v = priv(p);
	char status[STATUS_MAX];

	if (v->caught_known)
		return v->caught;
	v->caught = ~0ull;
	if (proc_read_status(p, status) == 0)
		status_field(status, "SigCgt", 16, &v->caught);
	v->caught_known = true;
	return v->caught;
}

static bool is_interrupted(struct proc *p, struct thread *t)
{
	uint64_t set = pending_in(t->tid, 0) | pending_in(t->tid, PTRACE_PEEKSIGINFO_SHARED);

	return (set & ~t->mask) && (set & ~t->mask & caught(p));
}

/*
 * The mask is the one that the thread has outside of the call. A call with a mask argument (ppoll...) has set its own for
 * its duration; the thread gets the outer one back at once, so that a signal that only the call unblocks stays
 * pending until the repeated call.
 */
void call_rewind(struct proc *p, struct thread *t)
{
	long nr = t->regs.call;

	t->eintr_nr = -1;
	if (nr < 0 || regs_result(p->arch, &t->regs) != -EINTR || !may_repeat(nr))
		return;
	if (ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(t->mask), &t->mask) < 0 || is_interrupted(p, t))
		return;
	p->arch->thread->call_again(&t->regs, nr);
	if (p->arch->thread->put(t->tid, &t->regs) < 0)
		return;
	ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(t->mask), &t->mask);
	t->eintr_nr = nr;
	t->eintr_at = t->regs.cpu.pc;
}

void call_unwind(struct proc *p, struct thread *t)
{
	if (t->eintr_nr < 0 || t->regs.cpu.pc != t->eintr_at || !is_interrupted(p, t))
		return;
	p->arch->thread->call_ended(&t->regs, t->eintr_nr, -EINTR);
	t->regs_changed = true;
}

/* A call that the kernel has restarted before shows as restart_syscall: its real number is loaded by the code before it. */
static long number_in_code(struct proc *p, uint64_t pc)
{
	uint8_t code[CALL_CODE_LEN];
	int64_t nr;

	if (proc_read(p, TADDR(pc - sizeof(code)), code, sizeof(code)) < 0)
		return SYS_restart_syscall;
	nr = p->arch->thread->call_number(code);
	if (nr == SYS_nanosleep || nr == SYS_clock_nanosleep || nr == SYS_poll || nr == SYS_futex)
		return nr;
	return SYS_restart_syscall;
}

/* Changes the registers as the kernel would to restart a call if no signal comes, where it can't be left to the kernel. */
void call_restart_regs(struct proc *p, struct thread_regs *regs)
{
	long nr = regs->call;

	if (nr < 0)
		return;
	switch (-regs_result(p->arch, regs)) {
	case ERESTART_RESTARTBLOCK:
		if (nr == SYS_restart_syscall)
			nr = number_in_code(p, regs->cpu.pc);
		/* fall through */
	case ERESTARTSYS:
	case ERESTARTNOINTR:
	case ERESTARTNOHAND:
		p->arch->thread->call_again(regs, nr);
		break;
	}
	regs->call = -1;
}
