/* SPDX-License-Identifier: MIT */
/*
 * Stopping every thread of a target; release.c lets them go on. Seize all, then interrupt all, then wait: so the
 * first thread is not stopped before the last one is found. A thread that was about to take a signal
 * takes it (the kernel writes the handler's frame) and stops right after that, so that every
 * stopped thread is in the same kind of stop: PTRACE_EVENT_STOP, after which the kernel itself
 * restarts an interrupted call as if nothing had happened. The list of threads is read again until there is
 * no new one.
 */
#include "proc/internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"

#define RIVAL_NS 300000000ull
#define RIVAL_LEAST_NS 1000000ull
#define STOP_DEADLINE_NS 2000000000ull
#define STALL_NS 200000ull	/* if no thread has stopped for so long, find out why */
#define DEEP_NS 5000000ull	/* how long the others are held while a thread is in an uninterruptible sleep */
#define DEEP_LOOK_NS 1000000ull	/* between two checks whether it still is */

struct thread *thread_find(struct proc *p, pid_t tid)
{
	size_t i;

	for (i = 0; i < p->threads.n; i++)
		if (p->threads.v[i].tid == tid)
			return &p->threads.v[i];
	return NULL;
}

void note_end(struct proc *p, pid_t tid, int status)
{
	if (tid != p->pid || !p->started_by_us)
		return;
	priv(p)->exited = true;
	priv(p)->exit_status = status;
}

struct thread *thread_add(struct proc *p, pid_t pid, pid_t tid)
{
	struct thread *t = vec_add(&p->threads);

	t->tid = tid;
	t->pid = pid;
	t->seen = now_ns();
	t->eintr_nr = t->before.nr = -1;
	return t;
}

/*
 * Why a thread could not be seized: it has ended meanwhile; or it is seized already, since a thread that executes a program
 * gets the main thread's tid; or it is in the middle of either (then it is tried again until the deadline); or it has another
 * tracer.
 */
static int why_not_seized(struct proc *p, struct thread *t, int err)
{
	char path[64], status[4096], name[32];
	struct task_stat s;
	uint64_t tracer = 0;

	if (err == -ESRCH || task_stat(t->pid, t->tid, &s) < 0 || s.state == 'Z' || s.state == 'X') {
		t->gone = true;
		return 0;
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", t->pid, t->tid);
	if (file_read(path, status, sizeof(status)) > 0)
		status_field(status, "TracerPid", 10, &tracer);
	if ((pid_t)tracer == getpid()) {
		t->seized = true;
		return 0;
	}
	if (tracer) {
		task_comm(tracer, name);
		priv(p)->rival = true;
		return fail(-EBUSY, "thread %d of process %d is being traced by process %d (%s)", t->tid,
			    t->pid, (pid_t)tracer, name);
	}
	return 0;
}

/*
 * A thread in limbo is seized already. But only the kernel knows whether it still is: a thread that executes gets
 * the main thread's tid, which may be in the list of limbo, and is not seized then.
 */
int thread_seize(struct proc *p, struct thread *t)
{
	int err = ptrace(PTRACE_SEIZE, t->tid, 0, PTRACE_O_TRACESYSGOOD) < 0 ? -errno : 0;
	bool was = limbo_take(p, t->tid);

	if (err < 0 && !(err == -EPERM && was))
		return why_not_seized(p, t, err);
	t->seized = true;
	if (err < 0)
		return 0;
	proc_step("stop: seized");
	return 0;
}

/*
 * Whether a thread is better not seized now. One that sleeps in vfork is not seized as long as its child shares the memory: the
 * child is held instead. So the thread has no stop left to be waited for when the child goes on.
 */
static bool better_wait(struct proc *p, const struct thread *t)
{
	struct thread_regs regs;

	if (t->pid != p->pid && is_about_to_exec(t))
		return true;
	return priv(p)->sharers.n && in_vfork(t, &regs);
}

/* Add the threads of one process that are not in the list yet. The list mostly has the order of the directory. */
static int list_threads(struct proc *p, pid_t pid, int dir)
{
	char buf[32768];
	size_t hint = 0;
	int found = 0;
	long n, at;

	lseek(dir, 0, SEEK_SET);
	while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0)
		for (at = 0; at < n;) {
			struct dirent64 *e = (void *)(buf + at);
			pid_t tid = atoi(e->d_name);

			at += e->d_reclen;
			if (tid <= 0)
				continue;
			if (hint < p->threads.n && p->threads.v[hint].tid == tid) {
				hint++;
				continue;
			}
			if (thread_find(p, tid))
				continue;
			thread_add(p, pid, tid);
			hint = p->threads.n;
			found++;
		}
	return found;
}

static int list_all(struct proc *p)
{
	struct proc_priv *v = priv(p);
	int found = list_threads(p, p->pid, v->task), dir;
	char path[64];
	size_t i;

	for (i = 0; i < v->sharers.n; i++) {
		snprintf(path, sizeof(path), "/proc/%d/task", v->sharers.v[i]);
		dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0)
			continue;
		found += list_threads(p, v->sharers.v[i], dir);
		close(dir);
	}
	return found;
}

static bool is_pending(const struct thread *t)
{
	return !t->stopped && !t->gone && !t->held;
}

static int seize_from(struct proc *p, size_t first)
{
	size_t i;
	int r = 0;

	if (p->threads.n > 1 && first < p->threads.n)
		reaper_arm(p);
	for (i = first; i < p->threads.n && r == 0; i++)
		if (!better_wait(p, &p->threads.v[i]))
			r = thread_seize(p, &p->threads.v[i]);
	reaper_disarm(p);
	return r;
}

/* Some CPUs lose the first argument of a call that ends with EINTR: it is looked at before. */
static void interrupt(struct proc *p, struct thread *t)
{
	t->before.nr = -1;
	if (p->arch->thread->call_before)
		call_look_before(t);
	ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
}

/* Seize those that are new, then interrupt them. Returns how many there were. */
static int catch_new(struct proc *p)
{
	size_t first = p->threads.n, i;
	int found = list_all(p), r = seize_from(p, first);
	struct burst burst;

	if (r < 0)
		return r;
	burst_begin(&burst, p->threads.n - first);
	if (!p->stopped_at)
		p->stopped_at = now_ns();
	for (i = first; i < p->threads.n; i++)
		if (p->threads.v[i].seized)
			interrupt(p, &p->threads.v[i]);
	burst_end(&burst);
	proc_step("stop: interrupted");
	return found;
}

bool thread_poll(struct proc *p, struct thread *t)
{
	int status;
	pid_t r = waitpid(t->tid, &status, __WALL | WNOHANG);

	if (r == 0 || (r < 0 && errno == EINTR))
		return false;
	if (r < 0 || !WIFSTOPPED(status)) {
		t->gone = true;
		if (r > 0)
			note_end(p, t->tid, status);
		return true;
	}
	if (status >> 16 != PTRACE_EVENT_STOP) {
		/* A signal, or a stop of an earlier attempt: the one by PTRACE_INTERRUPT comes next. */
		int sig = status >> 16 || WSTOPSIG(status) & 0x80 ? 0 : WSTOPSIG(status);

		ptrace(PTRACE_CONT, t->tid, 0, sig);
		return true;
	}
	if (p->arch->thread->get(t->tid, &t->regs) < 0)
		return true;	/* killed this moment; its end is reported next */
	t->stopped = true;
	t->asleep = WSTOPSIG(status) != SIGTRAP;
	proc_step("stop: thread stopped");
	if (t->before.nr >= 0 && t->regs.cpu.pc == t->before.pc && thread_sp(p, t) == t->before.sp)
		p->arch->thread->call_before(&t->regs, t->before.nr, t->before.arg0);
	call_rewind(p, t);
	return true;
}

/*
 * A vfork parent can't run while its child, which shares the memory, is stopped. It must be seen so in two checks in a
 * row: a thread whose child has just gone on looks the same until it wakes.
 */
static void look_at_vfork(struct proc *p, struct thread *t)
{
	if (in_vfork(t, &t->regs) && child_is_held(p, t))
		t->held = ++t->vfork_looks > 1;
	else
		t->vfork_looks = 0;
}

/*
 * A thread in an uninterruptible sleep (a file server that does not answer, a frozen cgroup) may stay there for
 * hours. The others are not held for so long: -EAGAIN ends this attempt. For a sleep in vfork see look_at_vfork().
 */
static int look_at_deep_sleep(struct thread *t, char state)
{
	struct thread_regs regs;

	if (state != 'D' || in_vfork(t, &regs)) {
		t->deep_since = 0;
		return 0;
	}
	if (!t->deep_since)
		t->deep_since = now_ns();
	if (now_ns() - t->deep_since < DEEP_NS)
		return 0;
	return fail(-EAGAIN, "thread %d of process %d is in an uninterruptible sleep and can't be stopped: try again",
		    t->tid, t->pid);
}

static int look_at_one(struct proc *p, struct thread *t)
{
	struct task_stat s;
	int r;

	/* waitpid() does not report the end of a main thread as long as other threads live; it reports that of others. */
	if (task_stat(t->pid, t->tid, &s) < 0 || s.state == 'Z' || s.state == 'X') {
		if (t->seized && t->tid != t->pid)
			return 0;
		t->gone = true;
		if (t->seized)
			*vec_add(&priv(p)->limbo) = t->tid;
		return 0;
	}
	look_at_vfork(p, t);
	if (t->held)
		return 0;
	if (t->seized)
		return look_at_deep_sleep(t, s.state);
	if (!still_shares(p, t)) {
		t->gone = true;
		return 0;
	}
	if (better_wait(p, t))
		return 0;
	reaper_arm(p);
	r = thread_seize(p, t);
	reaper_disarm(p);
	if (r == 0 && t->seized)
		interrupt(p, t);
	return r;
}

/*
 * Stopped threads can still be killed, by a thread that executes another program and does not go
 * on until the tracer has reaped them.
 */
static void look_for_ends(struct proc *p)
{
	size_t i;

	for (i = 0; i < p->threads.n; i++) {
		struct thread *t = &p->threads.v[i];

		if (t->stopped && t->tid != t->pid && reap_if_ended(t->tid)) {
			t->gone = true;
			t->stopped = t->seized = false;
		}
	}
}

/* No thread has stopped for STALL_NS: check those that still run, and look for new processes that share the memory. */
static int look_at_stalled(struct proc *p)
{
	size_t i;
	int r = sharers_find(p);

	if (r > 0)
		return catch_new(p);
	look_for_ends(p);
	threads_settle(p);
	for (i = 0; i < p->threads.n; i++)
		if (is_pending(&p->threads.v[i])) {
			r = look_at_one(p, &p->threads.v[i]);
			if (r < 0)
				return r;
		}
	return 0;
}

static int stop_failed(struct proc *p)
{
	struct task_stat s = { .state = '?' };
	size_t i;

	for (i = 0; i < p->threads.n && !is_pending(&p->threads.v[i]); i++)
		;
	if (i == p->threads.n)
		return fail(-EBUSY, "process %d creates threads faster than they can be stopped: try again", p->pid);
	task_stat(p->threads.v[i].pid, p->threads.v[i].tid, &s);
	return fail(-EBUSY, "thread %d of process %d could not be stopped within %d s (its state is %c%s): try "
		    "again", p->threads.v[i].tid, p->threads.v[i].pid, (int)(STOP_DEADLINE_NS / 1000000000),
		    s.state, s.state == 'D' ? ", an uninterruptible sleep" : "");
}

static void pause_a_little(unsigned round)
{
	if (round < 100)
		sched_yield();
	else
		sleep_ns(round < 200 ? 20000 : 500000);
}

/* Wait until all threads are stopped, also new ones. */
static int wait_all(struct proc *p)
{
	uint64_t last = now_ns(), deadline = last + STOP_DEADLINE_NS;
	unsigned round = 0;
	size_t i;
	int r;

	for (;;) {
		size_t pending = 0;
		bool moved = false;

		for (i = 0; i < p->threads.n; i++)
			if (is_pending(&p->threads.v[i])) {
				moved |= p->threads.v[i].seized && thread_poll(p, &p->threads.v[i]);
				pending += is_pending(&p->threads.v[i]);
			}
		if (!pending) {
			r = sharers_may_be_new(p) ? sharers_find(p) : 0;
			if (r >= 0)
				r = catch_new(p);
			if (r <= 0)
				return r;
			continue;
		}
		if (moved) {
			last = now_ns();
			round = 0;
			continue;
		}
		if (now_ns() - last > STALL_NS) {
			r = look_at_stalled(p);
			if (r < 0)
				return r;
			last = now_ns();
		}
		if (now_ns() > deadline)
			return stop_failed(p);
		pause_a_little(round++);
	}
}

/* Processes that executed another program before they stopped don't share the memory any more: they go on. */
static void release_executed(struct proc *p)
{
	size_t i;

	for (i = 0; i < p->threads.n; i++) {
		struct thread *t = &p->threads.v[i];

		if (t->gone || still_shares(p, t))
			continue;
		thread_let_go(p, t);
		t->gone = true;
	}
}

static int stop_attempt(struct proc *p)
{
	struct proc_priv *v = priv(p);
	int r;

	threads_settle(p);
	proc_stirs(p);
	gadget_find(p);		/* now, not in the stop; an error counts only when a thread is borrowed */
	frame_prepare();
	release_prepare();
	p->threads.n = 0;
	v->sharers.n = 0;
	v->caught_known = v->rival = false;
	r = sharers_find(p);
	if (r >= 0 && v->early)
		r = early_hold(p);
	if (r >= 0)
		r = catch_new(p);
	if (r >= 0)
		r = wait_all(p);
	if (r >= 0)
		release_executed(p);
	if (r >= 0 && (!p->threads.n || !proc_memory_lives(p))) {
		p->gone = true;
		r = fail(-ESRCH, "process %d has ended or runs another program", p->pid);
	}
	if (r < 0) {
		threads_let_go(p);
		return r;
	}
	v->depth = 1;
	v->stops++;
	proc_step("stop: all stopped");
	return 0;
}

/*
 * With all threads running: wait until the one that prevented the stop has woken up. false: it has not. Threads in limbo, which
 * waited for a CPU when the others went on, stop only when they get one: they are detached from meanwhile.
 */
static bool wait_for_waking(struct proc *p, uint64_t deadline)
{
	struct task_stat s;
	const struct thread *t = NULL;

	for (size_t i = 0; i < p->threads.n; i++)
		if (p->threads.v[i].deep_since && !p->threads.v[i].stopped && !p->threads.v[i].gone)
			t = &p->threads.v[i];
	while (t && task_stat(t->pid, t->tid, &s) == 0 && s.state == 'D') {
		if (now_ns() > deadline)
			return false;
		sleep_ns(DEEP_LOOK_NS);
		threads_settle(p);
	}
	return now_ns() <= deadline;
}

/*
 * Another jab that attaches holds the threads for less than a millisecond, and then finds ours in the process and leaves. Two that stop
 * the same process have each some of the threads: both let go, and try again after different times. False: it stays.
 */
static bool wait_for_rival(uint64_t start, uint64_t deadline)
{
	uint64_t now = now_ns();

	if (now > deadline || now - start > RIVAL_NS)
		return false;
	sleep_ns(RIVAL_LEAST_NS + now % RIVAL_LEAST_NS * 8);
	return true;
}

static int stop_until(struct proc *p, uint64_t deadline)
{
	uint64_t start = now_ns();
	int r;

	if (priv(p)->depth > 0) {
		priv(p)->depth++;
		return 0;
	}
	if (p->gone)
		return fail(-ESRCH, "process %d has ended", p->pid);
	do
		r = stop_attempt(p);
	while ((r == -EAGAIN && wait_for_waking(p, deadline)) || (r < 0 && priv(p)->rival && wait_for_rival(start, deadline)));
	return r == -EAGAIN ? -EBUSY : r;
}

int proc_stop(struct proc *p)
{
	return stop_until(p, now_ns() + STOP_DEADLINE_NS);
}

int proc_stop_to_borrow(struct proc *p)
{
	int r;

	priv(p)->early = true;
	r = proc_stop(p);
	priv(p)->early = false;
	return r;
}

int proc_stop_now(struct proc *p)
{
	return stop_until(p, 0);
}

int proc_put_regs(struct proc *p)
{
	size_t i;

	for (i = 0; i < p->threads.n; i++) {
		struct thread *t = &p->threads.v[i];

		if (!t->stopped || !t->regs_changed || t->tid == priv(p)->borrow.tid)
			continue;
		if (p->arch->thread->put(t->tid, &t->regs) < 0 && errno != ESRCH)
			return fail(-errno, "registers of thread %d: %s", t->tid, strerror(errno));
		t->regs_changed = false;
	}
	return 0;
}

int threads_adopt(struct proc *p, pid_t tid)
{
	struct thread *t = thread_add(p, p->pid, tid);
	int r;

	t->seized = t->stopped = true;
	if (p->arch->thread->get(tid, &t->regs) < 0)
		return fail(-errno, "registers of thread %d: %s", tid, strerror(errno));
	p->stopped_at = now_ns();
	r = catch_new(p);
	if (r > 0)
		r = wait_all(p);
	if (r < 0) {
		threads_let_go(p);
		return r;
	}
	priv(p)->depth = 1;
	priv(p)->stops++;
	return 0;
}

/*
 * Let some threads run for a moment while all others stay stopped, and stop them again. They get a
 * CPU at once; if all threads ran, they might have to wait for a long time. Threads of a program that
 * is stopped by a signal don't run. Returns how many ran.
 */
int threads_step(struct proc *p, bool (*who)(void *arg, const struct thread *t), void *arg, uint64_t ns)
{
	size_t i, n = 0;
	int r;

	proc_stirs(p);
	for (i = 0; i < p->threads.n; i++) {
		struct thread *t = &p->threads.v[i];

		if (!t->stopped || t->gone || t->asleep || t->tid == priv(p)->borrow.tid || !who(arg, t))
			continue;
		call_unwind(p, t);
		if (t->regs_changed)
			p->arch->thread->put(t->tid, &t->regs);
		t->regs_changed = false;
		t->stopped = false;
		ptrace(PTRACE_CONT, t->tid, 0, 0);
		n++;
	}
	if (!n)
		return 0;
	sleep_ns(ns);
	for (i = 0; i < p->threads.n; i++)
		if (is_pending(&p->threads.v[i]) && p->threads.v[i].seized)
			ptrace(PTRACE_INTERRUPT, p->threads.v[i].tid, 0, 0);
	r = wait_all(p);
	return r < 0 ? r : (int)n;
}
