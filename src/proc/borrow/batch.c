/* SPDX-License-Identifier: MIT */
/*
 * Several system calls of the target without stops in between: all its threads wait meanwhile, and the stops around a
 * borrowed call take ten times as long as the call. A few instructions and a table of calls are in
 * memory that the tracer shares with the target, the desk. A borrowed thread makes the calls of the table and then sleeps
 * until the tracer stops it. If the tracer dies, the thread wakes and goes on to the restorer, as after a single
 * borrowed call: it sleeps on a robust futex that the tracer owns, and the kernel wakes it when the owner dies.
 *
 * If the tracer died, a seccomp filter that it had suspended would apply to the rest of the table. So the first call of the
 * table asks whether the thread has a filter; if it has, the calls are made one by one.
 */
#include "arch/written.h"
#include "proc/borrow/batch.h"

#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "arch/relax.h"
#include "base/clock.h"
#include "base/err.h"
#include "proc/internal.h"
#include "proc/threads/near.h"

#define FIRST_LOOK_NS 20000ull	/* it can't be ready before */
#define LOOK_NS 5000ull
#define LOOK_OUTSIDE_NS 2000ull
#define SPIN_NS 50000ull
#define YIELD_NS 1000000ull
#define SLEEP_NS 100000ull
#define DEADLINE_NS 10000000000ull

/*
 * The thread writes a struct batch_answer to the scratch memory. That is on the target's stack, so the answer is not
 * trusted: `left` is limited to the number of calls, `value` is only compared and reported. The desk is in sealed memory
 * that only the tracer writes.
 */
#define ANSWER_AT 256		/* in the scratch memory */

#define FUTEX_AT BATCH_CODE_MAX
#define TABLE_AT 128

_Static_assert(ANSWER_AT + sizeof(struct batch_answer) <= SCRATCH_LEN - 8, "room for it, and for an answer of a call");

void batch_add(struct batch *b, const char *step, uint64_t want, long nr, uint64_t x, uint64_t y, uint64_t z,
	       uint64_t u, uint64_t v, uint64_t w)
{
	*vec_add(&b->calls) = (struct batch_call){ nr, { x, y, z, u, v, w }, want };
	*vec_add(&b->steps) = step;
}

void batch_free(struct batch *b)
{
	vec_free(&b->calls);
	vec_free(&b->steps);
}

size_t batch_size(size_t calls)
{
	return TABLE_AT + (calls + 1) * sizeof(struct batch_call);
}

void batch_write(const struct batch *b, uint8_t *here)
{
	const struct batch_call filter = { SYS_prctl, { PR_GET_SECCOMP }, 0 };

	memcpy(here, arch_host()->batch->bytes, arch_host()->batch->len);
	code_written(here, arch_host()->batch->len);
	memcpy(here + TABLE_AT, &filter, sizeof(filter));
	if (b->calls.n)
		memcpy(here + TABLE_AT + sizeof(filter), b->calls.v, b->calls.n * sizeof(*b->calls.v));
}

static int one_by_one(struct proc *p, const struct batch *b, size_t *ret_done, int64_t *ret_value)
{
	size_t i;
	int r;

	for (i = 0; i < b->need; i++) {
		r = proc_syscall(p, b->calls.v[i].nr, b->calls.v[i].args, ret_value);
		if (r < 0)
			*ret_value = r;
		if (r < 0 || (uint64_t)*ret_value != b->calls.v[i].want)
			break;
		proc_step(b->steps.v[i]);
	}
	*ret_done = i;
	return 0;
}

/*
 * The calling thread's list of robust futexes, which the kernel walks when the thread ends. The C
 * library has registered one; if not, an empty one is registered.
 */
static struct robust_list_head *owned_futexes(void)
{
	static struct robust_list_head own;
	struct robust_list_head *head = NULL;
	size_t len;

	if (syscall(SYS_get_robust_list, 0, &head, &len) == 0 && head)
		return head;
	own.list.next = &own.list;
	return syscall(SYS_set_robust_list, &own, sizeof(own)) == 0 ? &own : NULL;
}

struct errand {
	struct proc *p;
	struct thread *t;
	const struct desk *desk;
	struct robust_list_head *owned;
	taddr answer_at;
	struct batch_answer answer;
	uint64_t since;			/* when the thread was set going */
	bool complete;			/* its registers say that each call had the result wanted */
	const struct batch *seen;	/* its calls are looked for from outside; NULL: no more, or never */
};

static uint32_t *futex_of(const struct errand *e)
{
	return (uint32_t *)(e->desk->here + FUTEX_AT);
}

static void futex_own(struct errand *e)
{
	__atomic_store_n(futex_of(e), syscall(SYS_gettid) | FUTEX_WAITERS, __ATOMIC_SEQ_CST);
	e->owned->list_op_pending = (void *)((char *)futex_of(e) - e->owned->futex_offset);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void futex_leave(struct errand *e)
{
	__atomic_store_n(futex_of(e), 0, __ATOMIC_SEQ_CST);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	e->owned->list_op_pending = NULL;
}

static int set_regs(struct errand *e, const struct thread_regs *regs)
{
	if (e->p->arch->thread->put(e->t->tid, regs) < 0)
		return fail(-errno, "registers of thread %d: %s", e->t->tid, strerror(errno));
	return 0;
}

/* Let the thread make `calls` calls of the table, from number `first` on. */
static int set_out(struct errand *e, size_t first, size_t calls)
{
	struct thread_regs regs = e->t->regs;
	int r;

	e->answer = (struct batch_answer){ 0 };
	r = proc_write(e->p, e->answer_at, &e->answer, sizeof(e->answer));
	if (r < 0)
		return r;
	e->p->arch->batch->start(&regs, &(struct batch_start){
		.code = e->desk->at.v,
		.table = e->desk->at.v + TABLE_AT + first * sizeof(struct batch_call),
		.calls = calls,
		.answer = e->answer_at.v,
		.futex = e->desk->at.v + FUTEX_AT,
		.home = priv(e->p)->gadget.start,
		.asleep = *futex_of(e),
	});
	regs.cpu.flags &= ~e->p->arch->thread->jumped;
	regs_set_sp(e->p->arch, &regs, priv(e->p)->borrow.sp);
	regs.call = -1;
	r = set_regs(e, &regs);
	if (r < 0)
		return r;
	proc_step("batch: ready");
	priv(e->p)->borrow.plain = false;
	e->since = now_ns();
	if (ptrace(PTRACE_CONT, e->t->tid, 0, 0) < 0)
		return fail(-ESRCH, "thread %d has ended", e->t->tid);
	proc_step("batch: running");
	return 0;
}

static bool take_answer(struct errand *e)
{
	return proc_read(e->p, e->answer_at, &e->answer, sizeof(e->answer)) == 0 && e->answer.done;
}

/* Others wait for the calls that are needed, and not for the thread's stop. */
static void look_outside(struct errand *e)
{
	if (!e->seen->look(e->seen->arg))
		return;
	proc_step("batch: seen from outside");
	e->seen->made(e->p);
	e->seen = NULL;
}

/*
 * Poll for the answer: the batch takes microseconds, and a wake-up of the tracer would take longer. But not too often, for each
 * read takes the mmap lock, which the calls need as well. If the batch takes longer, the thread may be waiting for our CPU, so
 * we yield it. The thread may also have run on our CPU and be ready by now: so the time counts from when it was continued.
 */
static void wait_a_little(struct errand *e, uint64_t most)
{
	uint64_t gone = now_ns() - e->since, look = FIRST_LOOK_NS, spin = SPIN_NS, outside = 0;

	if (near_is())	/* on the same CPU: while we spin, the thread does not run */
		look = spin = 0;
	for (most += gone; gone < most; gone = now_ns() - e->since) {
		if (e->seen && gone >= outside) {
			look_outside(e);
			outside = gone + LOOK_OUTSIDE_NS;
		}
		if (gone >= look) {
			if (take_answer(e))
				return;
			look = gone + LOOK_NS;
		}
		if (gone > YIELD_NS)
			sleep_ns(SLEEP_NS);
		else if (gone >= spin)
			sched_yield();
		else
			cpu_relax();
	}
}

/* Stop the thread. 0: it is at the end of the batch; 1: not yet. */
static int stop_and_look(struct errand *e)
{
	const struct batch_code *code = e->p->arch->batch;
	struct thread_regs regs;
	int r = borrow_interrupt(e->p, e->t);

	if (r < 0)
		return r;
	if (e->p->arch->thread->get(e->t->tid, &regs) < 0)
		return fail(-errno, "registers of thread %d: %s", e->t->tid, strerror(errno));
	if (regs.cpu.pc - e->desk->at.v >= code->len)
		return fail(-EFAULT, "thread %d could not make system calls for jab", e->t->tid);
	e->complete = code->left(&regs) == 0;
	return regs.cpu.pc - e->desk->at.v >= code->over && take_answer(e) ? 0 : 1;
}

/*
 * A thread that is interrupted before it got a CPU stops again without having done anything. So
 * each time it gets longer than the last time; else it would never finish on a busy machine.
 */
static int collect(struct errand *e)
{
	uint64_t deadline = now_ns() + DEADLINE_NS, most = YIELD_NS;
	int r;

	for (;;) {
		wait_a_little(e, most);
		most *= 2;
		r = stop_and_look(e);
		if (r <= 0)
			return r;
		if (now_ns() > deadline)
			return fail(-EIO, "thread %d has not finished its system calls for jab within 10 s", e->t->tid);
		priv(e->p)->borrow.plain = false;
		e->since = now_ns();
		if (ptrace(PTRACE_CONT, e->t->tid, 0, 0) < 0)
			return fail(-ESRCH, "thread %d has ended", e->t->tid);
	}
}

/* Set the registers that a borrowed thread has between two calls: without the tracer it would go to the restorer. */
static int leave_desk(struct errand *e)
{
	struct thread_regs regs = e->t->regs;

	regs.cpu.pc = priv(e->p)->gadget.start;
	regs.cpu.flags &= ~e->p->arch->thread->jumped;
	regs_set_sp(e->p->arch, &regs, priv(e->p)->borrow.sp);
	regs.call = -1;
	return set_regs(e, &regs);
}

static int run_from_desk(struct errand *e, size_t first, size_t calls)
{
	int r;

	futex_own(e);
	r = set_out(e, first, calls);
	if (r == 0)
		r = collect(e);
	proc_step("batch: collected");
	if (r == 0)
		r = leave_desk(e);
	futex_leave(e);
	proc_step("batch: left");
	return r;
}

/* The calls after the needed ones. If that fails they count as not made. Returns how many had the wanted result. */
static size_t run_rest(struct errand *e, const struct batch *b)
{
	size_t n = b->calls.n - b->need;

	if (!n || run_from_desk(e, b->need + 1, n) < 0)
		return 0;
	return n - MIN(e->answer.left, n);
}

int batch_run(struct proc *p, const struct batch *b, const struct desk *desk, size_t *ret_done,
	      int64_t *ret_value)
{
	struct errand e = { .p = p, .desk = desk, .owned = owned_futexes() };
	size_t room, n = b->made ? b->need : b->calls.n, all = n + 1;
	int r;

	if (!e.owned)
		return one_by_one(p, b, ret_done, ret_value);
	r = proc_scratch(p, &e.answer_at, &room);
	if (r < 0)
		return r;
	e.answer_at.v += ANSWER_AT;
	e.t = thread_find(p, proc_borrowed_tid(p));
	e.seen = b->made && b->look ? b : NULL;
	r = run_from_desk(&e, 0, all);
	/* Others go on. They may write to the stack that the answer is on, and numbers of descriptors may be theirs. */
	if (b->made && b->look && !e.seen) {
		*ret_done = n + (r < 0 ? 0 : run_rest(&e, b));
		return 0;
	}
	e.seen = NULL;
	if (r < 0)
		return r;
	if (e.answer.left == all)
		return one_by_one(p, b, ret_done, ret_value);
	*ret_done = n - MIN(e.answer.left, n);
	*ret_value = e.answer.value;
	if (b->made && *ret_done == n && e.complete) {
		b->made(p);
		*ret_done += run_rest(&e, b);
	}
	return 0;
}
