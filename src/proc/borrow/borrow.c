/* SPDX-License-Identifier: MIT */
/*
 * Making the target do a system call, by one of its own stopped threads, so that the thread goes on unharmed
 * if the tracer dies at any moment.
 *
 * First the emergency frame is written below the thread's stack (frame.c). Then its program counter is
 * set to code of the target that calls rt_sigreturn with that frame: the restorer.
 * If the tracer dies now, the thread restores its own registers. The tracer lets it run to the system-call stop before
 * rt_sigreturn; there it replaces the call by another one, and sets the program counter back to the
 * restorer. So at every moment the next thing the thread does without the tracer is to restore itself; the
 * worst case is that one borrowed call is made whose result is not used any more. After the call comes another
 * system-call stop, and the next call is made in the same way. Nothing is single-stepped: the trap flag would
 * survive the tracer.
 *
 * All signals are blocked meanwhile; the frame holds the thread's own mask. At the end the thread is brought
 * back to the kind of stop it was found in, gets its own registers, and if it was sleeping in a system
 * call, the kernel restarts that call as after any other stop.
 *
 * A seccomp filter is suspended for a borrowed call if the tracer is privileged. If the tracer dies between
 * the exchange of the call and its start (some microseconds), the filter applies to that call.
 */
#include "arch/asm.h"
#include "proc/internal.h"
#include "proc/undo/undo.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sched.h>
#include <signal.h>
#include "base/clock.h"

#ifndef PTRACE_O_SUSPEND_SECCOMP
#define PTRACE_O_SUSPEND_SECCOMP (1 << 21)
#endif

#define CHUNK 65536
#define SPIN_NS 100000ull
#define WAIT_DEADLINE_NS 3000000000ull	/* a borrowed thread that does not stop and is not runnable for so long is frozen */

/*
 * Without a restorer: a system-call instruction, and code that pops the number of the call and the address of that instruction
 * off the stack, both anywhere in the text. They are found in the first mappings that are searched, so this is quick.
 */
struct hunt { uint64_t pop, call; };

static uint64_t find_in(const uint8_t *buf, size_t n, uint64_t at, const struct code_bytes *what)
{
	const uint8_t *hit = memmem(buf, n, what->bytes, what->len);

	return hit ? at + (hit - buf) : 0;
}

static void hunt_map(struct proc *p, struct hunt *h, const struct map *m, uint8_t *buf)
{
	for (uint64_t at = m->start; at < m->end && !(h->pop && h->call); at += CHUNK - 1) {
		size_t n = MIN(m->end - at, (uint64_t)CHUNK);

		if (proc_read(p, TADDR(at), buf, n) < 0)
			return;
		if (!h->pop)
			h->pop = find_in(buf, n, at, &p->arch->thread->take_number);
		if (!h->call)
			h->call = find_in(buf, n, at, &p->arch->thread->call_insn);
	}
}

/* Not in the vDSO, which belongs to the kernel, and not in the arena, which will be unmapped. */
static bool may_hold_gadget(const struct map *m)
{
	return (m->prot & PROT_EXEC) && (m->prot & PROT_READ) && m->path[0] != '[' &&
	       !is_arena_path(m->path);
}

static bool bytes_are(struct proc *p, uint64_t at, const struct code_bytes *what)
{
	uint8_t buf[sizeof(what->bytes)];

	return at && proc_read(p, TADDR(at), buf, what->len) == 0 && memcmp(buf, what->bytes, what->len) == 0;
}

/* Whether the code is still there: libraries may be unloaded, and the tracer itself writes jumps. */
static bool gadget_holds(struct proc *p)
{
	const struct thread_abi *abi = p->arch->thread;
	const struct gadget *g = &priv(p)->gadget;

	if (g->pop)
		return bytes_are(p, g->pop, &abi->take_number) && bytes_are(p, g->call, &abi->call_insn);
	return bytes_are(p, g->start, &abi->restorers[0]) || bytes_are(p, g->start, &abi->restorers[1]);
}

/* The kernel's own code for the end of a signal handler, in the vDSO: it is executed and never changed. */
static bool find_in_vdso(struct proc *p)
{
	const struct code_bytes *r = p->arch->thread->restorers;
	struct proc_priv *v = priv(p);
	uint8_t *buf;

	for (size_t i = 0; i < v->maps.n; i++) {
		const struct map *m = &v->maps.v[i];
		size_t n = MIN(m->end - m->start, (uint64_t)CHUNK);

		if (strcmp(m->path, "[vdso]") || !(m->prot & PROT_EXEC))
			continue;
		buf = xrealloc(NULL, n);
		if (proc_read(p, TADDR(m->start), buf, n) == 0)
			v->gadget.start = find_in(buf, n, m->start, r);
		free(buf);
	}
	return v->gadget.start;
}

static int hunt_all(struct proc *p)
{
	struct proc_priv *v = priv(p);
	struct hunt h = { 0 };
	uint8_t *buf = xrealloc(NULL, CHUNK);

	for (size_t i = 0; p->arch->thread->take_number.len && i < v->maps.n && !(h.pop && h.call); i++)
		if (may_hold_gadget(&v->maps.v[i]))
			hunt_map(p, &h, &v->maps.v[i], buf);
	free(buf);
	if (!h.pop || !h.call)
		return fail(-ENOTSUP, "process %d has no code that could make a system call for jab", p->pid);
	v->gadget = (struct gadget){ .start = h.pop, .pop = h.pop, .call = h.call };
	return 0;
}

int gadget_find(struct proc *p)
{
	struct proc_priv *v = priv(p);
	const struct text_call *calls;
	size_t n;
	int r;

	if (gadget_holds(p))
		return 0;
	memset(&v->gadget, 0, sizeof(v->gadget));
	r = proc_text_calls(p, &calls, &n);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (calls[i].nr == SYS_rt_sigreturn) {
			v->gadget.start = calls[i].at.v;
			if (gadget_holds(p))
				return 0;
		}
	if (p->arch->thread->restorer_in_vdso && find_in_vdso(p))
		return 0;
	return hunt_all(p);
}

/*
 * Go's stacks are small and next to each other in its heap: the memory below a stack pointer may belong to another
 * stack. Its heap starts at this address.
 */
#define GO_HEAP 0xc000000000ull

static bool on_go_heap(struct proc *p, uint64_t sp)
{
	return sp >= GO_HEAP && sp < GO_HEAP + (1ull << 40) && maps_at(&priv(p)->maps, GO_HEAP);
}

static bool is_guarded(const map_list *maps, const struct map *m)
{
	return m > maps->v && m[-1].end == m->start && !m[-1].prot;
}

#define MOST_GUARD (1ull << 20)

/*
 * The stack is the one that the C library has given the thread: a guard page, the stack, and at its end the thread
 * block. A coroutine's stack is not like that: there may be anything below it. Uses p->maps, which were read for
 * this very stop.
 */
bool borrow_has_own_stack(struct proc *p, const struct thread *t)
{
	const struct map *m = proc_map_at(p, thread_sp(p, t));

	if (!m || m->shared || !(m->prot & PROT_WRITE) || thread_sp(p, t) - m->start < frame_room())
		return false;
	if (strcmp(m->path, "[stack]") == 0)
		return t->tid == p->pid;
	return is_guarded(&p->maps, m) && m[-1].end - m[-1].start <= MOST_GUARD &&
	       t->regs.cpu.tls > thread_sp(p, t) && t->regs.cpu.tls < m->end;
}

/* How suitable a thread is for borrowing; 0: it can't be used. A thread that sleeps in a system call surely has a proper stack. */
static int suitability(struct proc *p, const struct thread *t)
{
	const struct map *m;
	int score = 1;

	if (!t->stopped || t->gone)
		return 0;
	m = maps_at(&priv(p)->maps, thread_sp(p, t));
	if (!m || m->shared || !(m->prot & PROT_WRITE) || on_go_heap(p, thread_sp(p, t)) ||
	    thread_sp(p, t) - m->start < frame_room())
		return 0;
	if (t->pid == p->pid)
		score += 8;	/* its descriptors are the target's */
	if (strcmp(m->path, "[stack]") == 0 || is_guarded(&priv(p)->maps, m))
		score += 4;
	if (t->eintr_nr >= 0 || t->regs.call >= 0)
		score += 2;
	if (t->regs.call != SYS_restart_syscall)
		score += 1;
	return score;
}

static struct thread *best_thread(struct proc *p)
{
	struct thread *best = NULL;
	int score = 0, s;
	size_t i;

	for (i = 0; i < p->threads.n; i++) {
		s = suitability(p, &p->threads.v[i]);
		if (s > score) {
			score = s;
			best = &p->threads.v[i];
		}
	}
	return best;
}

/*
 * No thread has room below its stack pointer: use the low end of the main stack, which is only
 * used when the main thread is very deep in calls, and which no stack pointer is near now.
 */
static struct thread *last_resort(struct proc *p, uint64_t *ret_top)
{
	struct thread *found = NULL;
	const struct map *stack = NULL;
	size_t i;

	for (i = 0; i < priv(p)->maps.n; i++)
		if (strcmp(priv(p)->maps.v[i].path, "[stack]") == 0)
			stack = &priv(p)->maps.v[i];
	if (!stack || stack->end - stack->start < 4 * frame_room())
		return NULL;
	for (i = 0; i < p->threads.n; i++) {
		struct thread *t = &p->threads.v[i];
		uint64_t sp = thread_sp(p, t);

		if (sp >= stack->start && sp < stack->start + 2 * frame_room())
			return NULL;
		if (t->stopped && (!found || t->pid == p->pid))
			found = t;
	}
	*ret_top = stack->start + frame_room() - p->arch->assembler->red_zone;
	return found;
}

struct thread *borrow_candidate(struct proc *p)
{
	struct thread *t = priv(p)->borrow.tid ? thread_find(p, priv(p)->borrow.tid) : best_thread(p);

	if (!t && maps_load(p, &priv(p)->maps) == 0)
		t = best_thread(p);
	return t;
}

static struct thread *choose(struct proc *p, uint64_t *ret_top)
{
	struct thread *t = borrow_candidate(p);

	if (!t)
		return last_resort(p, ret_top);
	*ret_top = thread_sp(p, t) - p->arch->assembler->red_zone;
	return t;
}

/* Neither running nor waiting for a CPU. */
static bool is_asleep(const struct thread *t)
{
	struct task_stat s;

	return task_stat(t->pid, t->tid, &s) == 0 && s.state != 'R';
}

static int wait_failed(struct proc *p, struct thread *t)
{
	t->stopped = false;	/* in limbo (limbo.c): we detach when it stops one day */
	return fail(-ETIMEDOUT, "thread %d of process %d does not go on with a system call that it was to make for jab: is the "
		    "process frozen?", t->tid, p->pid);
}

/*
 * Wait for the thread's next stop. It takes microseconds; to sleep and be woken can take ten times as long,
 * and all threads of the target wait meanwhile. A frozen thread (by its cgroup) does not stop before it
 * is thawed: after three seconds it is given up, and the frame on its stack restores it later.
 * A signal to jab does not shorten this wait: a thread given up too early would still have to be waited for at
 * the removal.
 */
static int thread_wait(struct proc *p, struct thread *t, int *ret_status)
{
	uint64_t start = now_ns(), slept = start, now;
	int status;
	pid_t r;

	for (;;) {
		r = waitpid(t->tid, &status, __WALL | WNOHANG);
		if (r > 0 || (r < 0 && errno != EINTR))
			break;
		now = now_ns();
		if (now - start < SPIN_NS) {
			sched_yield();
			continue;
		}
		if (now - slept > WAIT_DEADLINE_NS)
			return wait_failed(p, t);
		if (!is_asleep(t))
			slept = now;
		sleep_ns(MIN((now - start) / 8, 1000000ull));
	}
	if (r < 0 || !WIFSTOPPED(status)) {
		if (r > 0)
			note_end(p, t->tid, status);
		t->gone = true;
		t->stopped = false;
		return fail(-ESRCH, "thread %d has ended", t->tid);
	}
	*ret_status = status;
	return 0;
}

/* Run until the next system-call stop. SIGSTOP can't be blocked: it takes effect when the thread goes on. */
static int run_to_call_stop(struct proc *p, struct thread *t)
{
	int status, sig = 0, tries, r;

	priv(p)->borrow.plain = false;
	for (tries = 0; tries < 100; tries++) {
		if (ptrace(PTRACE_SYSCALL, t->tid, 0, sig) < 0)
			return fail(-ESRCH, "thread %d has ended", t->tid);
		sig = 0;
		r = thread_wait(p, t, &status);
		if (r < 0)
			return r;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			return 0;
		if (status >> 16)
			continue;
		sig = WSTOPSIG(status);
		if (sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGSYS || sig == SIGTRAP)
			return fail(-EFAULT, "thread %d could not make a system call for jab (%s)", t->tid,
				    strsignal(sig));
	}
	return fail(-EIO, "thread %d was stopped too often by signals before a system call for jab", t->tid);
}

static int refuse_seccomp(struct proc *p, struct thread *t)
{
	char path[64], status[4096];
	uint64_t mode = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", t->pid, t->tid);
	if (file_read(path, status, sizeof(status)) <= 0)
		return fail(-ESRCH, "thread %d has ended", t->tid);
	status_field(status, "Seccomp", 10, &mode);
	if (mode)
		return fail(-EPERM, "process %d runs under seccomp, which can only be suspended by root "
			    "(CAP_SYS_ADMIN): nothing was changed", p->pid);
	return 0;
}

/* Suspend a filter without a check whether there is one: that would take longer. Only if it is not permitted, check. */
static int suspend_seccomp(struct proc *p, struct thread *t)
{
	if (ptrace(PTRACE_SETOPTIONS, t->tid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_SUSPEND_SECCOMP) < 0)
		return refuse_seccomp(p, t);
	priv(p)->borrow.seccomp = true;
	return 0;
}

static int refuse_shadow_stack(struct proc *p, struct thread *t)
{
	uint64_t pointer;
	struct iovec io = { &pointer, sizeof(pointer) };

	if (!p->arch->thread->shadow_set || ptrace(PTRACE_GETREGSET, t->tid, p->arch->thread->shadow_set, &io) < 0)
		return 0;
	return fail(-ENOTSUP, "process %d uses a shadow stack: not supported yet", p->pid);
}

/* First the registers, then the mask: a thread with all signals blocked always has the frame, too (see has_borrowed()). */
static int enter(struct proc *p, struct thread *t)
{
	struct borrow *b = &priv(p)->borrow;
	struct thread_regs regs = t->regs;
	const uint64_t all = ~0ull;

	regs.cpu.pc = priv(p)->gadget.start;
	regs.cpu.flags &= ~p->arch->thread->jumped;
	regs_set_sp(p->arch, &regs, b->sp);
	regs.call = -1;
	if (p->arch->thread->put(t->tid, &regs) < 0)
		return fail(-errno, "registers of thread %d: %s", t->tid, strerror(errno));
	b->moved = true;
	proc_step("borrow: registers set");
	if (ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(all), &all) < 0)
		return fail(-errno, "signal mask of thread %d: %s", t->tid, strerror(errno));
	proc_step("borrow: signals blocked");
	return 0;
}

static int take_one(struct proc *p)
{
	struct borrow *b = &priv(p)->borrow;
	struct thread *t;
	uint64_t top;
	int r = gadget_find(p);

	proc_maps_stir(p);
	if (r < 0)
		return r;
	t = choose(p, &top);
	if (!t)
		return fail(-EBUSY, "process %d has no thread with room on its stack for a system call now: try "
			    "again", p->pid);
	r = rseq_abort(p, t);
	if (r < 0)
		return r;
	r = refuse_shadow_stack(p, t);
	if (r == 0)
		r = suspend_seccomp(p, t);
	if (r == 0)
		r = frame_write(p, t, top, b);
	if (r < 0)
		return r;
	proc_step("borrow: frame written");
	b->tid = t->tid;
	b->plain = true;
	r = enter(p, t);
	if (r < 0)
		borrow_end(p);
	return r;
}

static int borrow_begin(struct proc *p)
{
	if (priv(p)->borrow.tid)
		return 0;
	if (priv(p)->depth == 0)
		return fail(-EINVAL, "process %d is not stopped", p->pid);
	return take_one(p);
}

int borrow_early(struct proc *p)
{
	int r = take_one(p);

	if (r < 0)
		return r;
	r = run_to_call_stop(p, thread_find(p, priv(p)->borrow.tid));
	if (r < 0)
		borrow_end(p);
	priv(p)->borrow.at_call = r == 0;
	return r;
}

/* The next stop of the kind that proc_stop() makes, whatever comes before it. */
static int wait_for_plain_stop(struct proc *p, struct thread *t)
{
	int status, sig, tries, r;

	for (tries = 0; tries < 100; tries++) {
		r = thread_wait(p, t, &status);
		if (r < 0)
			return r;
		if (status >> 16 == PTRACE_EVENT_STOP) {
			priv(p)->borrow.plain = true;
			return 0;
		}
		sig = status >> 16 || WSTOPSIG(status) & 0x80 ? 0 : WSTOPSIG(status);
		if (ptrace(PTRACE_CONT, t->tid, 0, sig) < 0)
			return fail(-ESRCH, "thread %d has ended", t->tid);
	}
	return fail(-EIO, "thread %d was stopped too often by signals after a system call for jab", t->tid);
}

int borrow_interrupt(struct proc *p, struct thread *t)
{
	siginfo_t there = { 0 };

	/* If a SIGSTOP or SIGCONT has stopped it already, PTRACE_INTERRUPT would stop it once more as soon as it is continued. */
	waitid(P_PID, t->tid, &there, WSTOPPED | WNOHANG | WNOWAIT | __WALL);
	if (!there.si_pid)
		ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
	return wait_for_plain_stop(p, t);
}

/* Cancel the rt_sigreturn: after one, the kernel would not restart the system call that the thread was sleeping in. */
static int leave_call(struct proc *p, struct thread *t)
{
	struct thread_regs regs;

	if (!priv(p)->borrow.at_call)
		return 0;
	priv(p)->borrow.at_call = false;
	if (p->arch->thread->get(t->tid, &regs) < 0)
		return -ESRCH;
	regs.cpu.pc = priv(p)->gadget.start;
	regs.call = -1;
	return p->arch->thread->put(t->tid, &regs);
}

static int run_to_plain_stop(struct proc *p, struct thread *t)
{
	if (priv(p)->borrow.plain)
		return 0;
	if (leave_call(p, t) < 0)
		return fail(-ESRCH, "thread %d has ended", t->tid);
	ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
	if (ptrace(PTRACE_CONT, t->tid, 0, 0) < 0)
		return fail(-ESRCH, "thread %d has ended", t->tid);
	return wait_for_plain_stop(p, t);
}

void borrow_lost(struct proc *p)
{
	struct borrow *b = &priv(p)->borrow;

	if (b->tid && b->seccomp)
		ptrace(PTRACE_SETOPTIONS, b->tid, 0, PTRACE_O_TRACESYSGOOD);
	b->tid = 0;
	b->seccomp = b->moved = b->plain = b->at_call = false;
	proc_maps_stir(p);
}

/* First the mask, then the registers, for the same reason as in enter(). */
void borrow_end(struct proc *p)
{
	struct borrow *b = &priv(p)->borrow;
	struct thread *t = b->tid ? thread_find(p, b->tid) : NULL;

	if (t && t->stopped && run_to_plain_stop(p, t) == 0) {
		proc_step("borrow: back in a plain stop");
		ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(b->mask), &b->mask);
		proc_step("borrow: mask restored");
		if (p->arch->thread->put(t->tid, &t->regs) == 0)
			t->regs_changed = false;
		if (b->wide_len)
			ptrace(PTRACE_SETREGSET, t->tid, p->arch->signal->wide_set, &(struct iovec){ b->wide, b->wide_len });
		proc_step("borrow: registers restored");
		proc_write(p, TADDR(b->at), b->old, b->len);
		proc_step("borrow: stack restored");
	}
	borrow_lost(p);
}

int proc_scratch(struct proc *p, taddr *ret_at, size_t *ret_room)
{
	int r = borrow_begin(p);

	if (r < 0)
		return r;
	ret_at->v = priv(p)->borrow.scratch;
	*ret_room = SCRATCH_LEN;
	return 0;
}

pid_t proc_borrowed_tid(struct proc *p)
{
	return priv(p)->borrow.tid;
}

int proc_syscall(struct proc *p, long nr, const uint64_t args[6], int64_t *ret_value)
{
	struct borrow *b = &priv(p)->borrow;
	struct thread_regs regs;
	struct thread *t;
	int r = borrow_begin(p);

	if (r < 0)
		return r;
	t = thread_find(p, b->tid);
	r = b->at_call ? 0 : run_to_call_stop(p, t);
	b->at_call = false;
	if (r < 0)
		goto out;
	proc_step("borrow: at the call");
	regs = t->regs;
	regs.cpu.flags &= ~p->arch->thread->jumped;
	p->arch->thread->call_set(&regs, nr, args);
	regs.cpu.pc = priv(p)->gadget.start;
	regs_set_sp(p->arch, &regs, b->sp);
	if (p->arch->thread->put(t->tid, &regs) < 0) {
		r = fail(-errno, "registers of thread %d: %s", t->tid, strerror(errno));
		goto out;
	}
	proc_step("borrow: call exchanged");
	r = run_to_call_stop(p, t);
	if (r < 0)
		goto out;
	proc_step("borrow: call made");
	if (p->arch->thread->get(t->tid, &regs) < 0) {
		r = fail(-errno, "registers of thread %d: %s", t->tid, strerror(errno));
		goto out;
	}
	*ret_value = regs_result(p->arch, &regs);
	return 0;
out:
	borrow_end(p);
	return r;
}
