/* SPDX-License-Identifier: MIT */
/*
 * From a thread that waits for the doorman's answer to a held process. The thread is seized while it waits, and
 * interrupted, so that its exec or open ends in a stop. From there it is followed from one system call to the next
 * (loading.h), up to the one in which glibc's loader unmaps its cache: all libraries are ready then, and no constructor has
 * run. A loader without that cache is held where it is about to set up the thread block, and the caller has to
 * follow it further. All stops are of a kind after which the kernel lets the thread go on if the tracer dies.
 *
 * Many threads may be followed at a time, so nothing here blocks for one of them.
 */
#include "proc/doorman/arrivals.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/doorman/door.h"
#include "proc/doorman/door_queue.h"
#include "proc/internal.h"
#include "proc/exec/loading.h"
#include "proc/threads/near.h"

#define OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC)
#define MOST_AT_ONCE 64
#define ROUND_NS 2000000ull
#define SPIN_NS 300000ull
#define NAP_NS 30000ull
#define PATIENCE_NS 500000000ull	/* a thread is given up after so long without a stop, */
#define LONGEST_NS 1000000000ull	/* after so long in all (newcomers_poll() waits for it), */
#define CROWD_NS 40000000ull	/* or after so long, in a crowd (doorman_crowd()) */

#define STOPS_NS 20000000ull	/* a thread that was given up mostly stops within this time */

enum state {
	WANTED,			/* not seized yet */
	ENTERING,		/* in its exec, or in the open */
	STEPPING,		/* its loader is followed from call to call */
	LEAVING,		/* given up: we detach at its next stop */
	GONE,			/* not traced here any more */
};

struct visit {
	struct caller caller;
	pid_t tid, pid;
	enum door_kind kind;
	enum state state;
	uint64_t came;		/* when it began to wait for the doorman */
	uint64_t moved;		/* when its last stop was */
	uint64_t since;		/* when it was seized, plus the time in which arrivals_poll() was not called */
	struct loading loading;
	uint64_t given_up;	/* when it was given up; 0: it was not */
};

struct arrivals {
	struct doorman *door;
	bool (*known)(void *arg, pid_t pid);
	void *arg;
	VEC(struct visit) visits;
	struct arrival_counts counts;
	uint32_t heard;		/* value of the bell when the doorman's messages were last read */
	uint64_t left_at;	/* when arrivals_poll() last returned: what threads waited since then was for us */
	bool deaf;		/* the doorman is gone */
};

/* ---- seizing ---- */

static void welcome(struct arrivals *a, const struct caller *c)
{
	pid_t pid = status_of(c->tid, "Tgid");
	struct visit v = { .tid = c->tid, .pid = pid, .kind = c->kind, .state = ENTERING, .since = now_ns(), .caller = *c };
	int r = 0;

	v.moved = v.since;
	v.came = c->since ? c->since : v.since;
	if (door_is_late(c->since, doorman_crowd(a->door), v.since)) {
		doorman_answer(a->door, c, DOOR_MISSED);
		doorman_answer(a->door, c, DOOR_DONE);
		return;
	}
	if (!pid || (c->kind == DOOR_OPEN && a->known(a->arg, pid))) {
		doorman_answer(a->door, c, DOOR_GO);
		doorman_answer(a->door, c, DOOR_DONE);
		return;
	}
	doorman_beat(a->door, true);	/* first: the tracer may be stopped (SIGSTOP) after any of the next lines */
	r = seize_soon(c->tid, OPTIONS);
	if (!r)
		ptrace(PTRACE_INTERRUPT, c->tid, 0, 0);
	doorman_answer(a->door, c, r == -EAGAIN ? DOOR_LATER : DOOR_GO);
	if (r == -EAGAIN && c->kind == DOOR_LATE)
		v.state = WANTED;
	if (!r || v.state == WANTED) {
		*vec_add(&a->visits) = v;
		return;
	}
	doorman_answer(a->door, c, DOOR_DONE);
	if (r == -EPERM && status_of(c->tid, "TracerPid"))	/* else it is ending */
		a->counts.foreign++;
}

/* ---- stops ---- */

static void detach(struct visit *v, int sig)
{
	ptrace(PTRACE_DETACH, v->tid, 0, sig);
	v->state = GONE;
}

static int ready(struct visit *v, bool loaded, struct arrival *ret_arrival)
{
	struct proc *p;

	v->state = GONE;
	if (proc_adopt(v->pid, v->tid, &p) < 0) {
		log_info("process %d: %s; it is not probed", v->pid, err_text());
		return 0;
	}
	*ret_arrival = (struct arrival){ p, loaded };
	return 1;
}

static void go_on(struct visit *v, int sig)
{
	ptrace(v->state == STEPPING ? PTRACE_SYSCALL : PTRACE_CONT, v->tid, 0, sig);
}

static bool has_failed(const struct thread_regs *regs)
{
	return (regs->call == SYS_execve || regs->call == SYS_execveat) && regs_result(arch_host(), regs) < 0;
}

static bool is_restarted(const struct thread_regs *regs)
{
	int64_t result = regs_result(arch_host(), regs);

	return result <= -512 && result >= -516;
}

/* The stop by PTRACE_INTERRUPT: after the open, or after an exec that failed; or anywhere, if the thread went on meanwhile. */
static int at_stop(struct visit *v, struct arrival *ret_arrival)
{
	struct thread_regs regs;

	if (arch_host()->thread->get(v->tid, &regs) < 0) {
		v->state = GONE;
		return 0;
	}
	if (v->state == ENTERING && has_failed(&regs) && !is_restarted(&regs)) {
		detach(v, 0);
		return 0;
	}
	if (v->state == ENTERING && !has_failed(&regs)) {
		uint64_t loader = loading_base(v->pid);

		if (v->kind == DOOR_OPEN && loader && regs.cpu.pc - loader >= LOADER_MOST) {
			detach(v, 0);	/* not the loader: the program itself opens the file to read it */
			return 0;
		}
		if (regs.cpu.tls || !loader)
			return ready(v, true, ret_arrival);
		v->state = STEPPING;
	}
	go_on(v, 0);
	return 0;
}

static int at_exec(struct visit *v, struct arrival *ret_arrival)
{
	v->tid = v->pid;
	v->loading.cache = 0;
	if (!loading_base(v->pid))
		return ready(v, true, ret_arrival);
	v->state = STEPPING;
	go_on(v, 0);
	return 0;
}

static int at_call(struct visit *v, struct arrival *ret_arrival)
{
	struct thread_regs regs;
	enum loading_at at;

	if (arch_host()->thread->get(v->tid, &regs) < 0) {
		v->state = GONE;
		return 0;
	}
	at = v->state == STEPPING ? loading_look(&v->loading, v->pid, &regs) : LOADING_ON;
	if (at != LOADING_ON)
		return ready(v, at == LOADING_READY, ret_arrival);
	go_on(v, 0);
	return 0;
}

static int at_status(struct visit *v, int status, struct arrival *ret_arrival)
{
	int event = status >> 16, sig = WSTOPSIG(status);

	if (!WIFSTOPPED(status)) {
		v->state = GONE;
		return 0;
	}
	if (v->state == LEAVING) {
		detach(v, event || sig & 0x80 ? 0 : sig);
		return 0;
	}
	if (event == PTRACE_EVENT_EXEC)
		return at_exec(v, ret_arrival);
	if (event == PTRACE_EVENT_STOP && sig != SIGTRAP) {
		ptrace(PTRACE_LISTEN, v->tid, 0, 0);	/* until SIGCONT */
		return 0;
	}
	if (event == PTRACE_EVENT_STOP)
		return at_stop(v, ret_arrival);
	if (sig == (SIGTRAP | 0x80))
		return at_call(v, ret_arrival);
	go_on(v, sig);
	return 0;
}

/* A thread that executes becomes the main thread: its stop is reported for that tid. */
static pid_t next_status(struct visit *v, int *ret_status)
{
	pid_t got = waitpid(v->tid, ret_status, __WALL | WNOHANG);

	if (got < 0 && errno == ECHILD && v->tid != v->pid) {
		v->tid = v->pid;
		got = waitpid(v->tid, ret_status, __WALL | WNOHANG);
	}
	if (got < 0 && errno == ECHILD)
		v->state = GONE;
	return got;
}

static void try_again(struct visit *v)
{
	int r = seize_soon(v->tid, OPTIONS);

	if (r == -EAGAIN)
		return;
	v->state = r ? GONE : ENTERING;
	if (!r)
		ptrace(PTRACE_INTERRUPT, v->tid, 0, 0);
}

static void give_up(struct arrivals *a, struct visit *v)
{
	if (v->state == WANTED) {
		v->state = GONE;
	} else if (v->state != LEAVING) {
		v->state = LEAVING;
		ptrace(PTRACE_INTERRUPT, v->tid, 0, 0);
	} else {
		return;
	}
	v->given_up = now_ns();
	a->counts.missed++;
}

static bool takes_long(const struct arrivals *a, const struct visit *v, uint64_t now)
{
	return now - v->moved > PATIENCE_NS || now - v->since > LONGEST_NS ||
	       (a->door && doorman_crowd(a->door) && now - v->came > CROWD_NS);
}

/* near_to() is for a single thread: many are on all CPUs, and on each of these we would have to wait for our turn. */
static bool is_alone(const struct arrivals *a)
{
	return a->visits.n == 1 && a->door && !doorman_crowd(a->door);
}

/* Handle one wait status of each thread. 1: *ret_arrival is a held process. */
static int look(struct arrivals *a, bool *moved, struct arrival *ret_arrival)
{
	uint64_t now = now_ns();
	int r = 0;

	for (size_t i = 0; !r && i < a->visits.n; i++) {
		struct visit *v = &a->visits.v[i];
		int status;

		if (v->state == WANTED)
			try_again(v);
		else if (next_status(v, &status) > 0) {
			if (v->state == ENTERING && is_alone(a))
				near_to(v->pid, v->tid);
			r = at_status(v, status, ret_arrival);
			v->moved = now;
			*moved = true;
		}
		if (v->state != GONE && takes_long(a, v, now))
			give_up(a, v);
		if (v->state == GONE) {
			if (a->door)
				doorman_answer(a->door, &v->caller,
					       v->given_up && !doorman_crowd(a->door) ? DOOR_BAD : DOOR_DONE);
			a->visits.v[i--] = a->visits.v[--a->visits.n];
		}
	}
	return r;
}

static void ask(struct arrivals *a)
{
	struct caller c;
	int r = 0;

	a->heard = __atomic_load_n(doorman_bell(a->door), __ATOMIC_ACQUIRE);
	while (a->visits.n < MOST_AT_ONCE && (r = doorman_next(a->door, &c)) > 0)
		welcome(a, &c);
	a->deaf = r < 0;
	doorman_beat(a->door, a->visits.n);
}

static bool has_rung(struct arrivals *a)
{
	return a->visits.n < MOST_AT_ONCE && a->heard != __atomic_load_n(doorman_bell(a->door), __ATOMIC_ACQUIRE);
}

int arrivals_poll(struct arrivals *a, bool accept, struct arrival *ret_arrival)
{
	uint64_t now = now_ns(), until = now + ROUND_NS, moved_at = now;
	int r;

	for (size_t i = 0; i < a->visits.n; i++)
		a->visits.v[i].since += now - a->left_at;
	if (accept)
		ask(a);
	do {
		bool moved = false;

		r = look(a, &moved, ret_arrival);
		now = now_ns();
		if (moved)
			moved_at = now;
		if (accept && has_rung(a))
			ask(a);
		else if (!moved && now - moved_at < SPIN_NS && !doorman_crowd(a->door))
			sched_yield();	/* in a crowd not: others would run in our turn, while a thread that wakes from a sleep runs at once */
		else if (!moved)
			sleep_ns(NAP_NS);
	} while (!r && a->visits.n && now < until);
	doorman_beat(a->door, a->visits.n || r);
	a->left_at = now_ns();
	return !r && !a->visits.n && a->deaf ? -ESRCH : r;
}

/* ---- the whole ---- */

int arrivals_open(const struct arrivals_options *o, struct arrivals **ret_arrivals)
{
	struct arrivals *a = xcalloc(1, sizeof(*a));
	int r;

	a->known = o->known;
	a->arg = o->arg;
	r = doorman_hire(o->files, o->nfiles, o->exact, &a->door);
	if (r < 0) {
		arrivals_close(a);
		return r;
	}
	*ret_arrivals = a;
	return 0;
}

void arrivals_start(struct arrivals *a)
{
	doorman_open(a->door);
}

/* From threads that don't stop in time the kernel detaches when the tracer ends. */
static void let_go(struct arrivals *a)
{
	uint64_t until = now_ns() + 200000000;
	struct arrival one;
	bool moved;

	for (size_t i = 0; i < a->visits.n; i++)
		give_up(a, &a->visits.v[i]);
	while (a->visits.n && now_ns() < until) {
		look(a, &moved, &one);
		sleep_ns(50000);
	}
}

void arrivals_close(struct arrivals *a)
{
	if (!a)
		return;
	doorman_dismiss(a->door);
	a->door = NULL;
	let_go(a);
	vec_free(&a->visits);
	free(a);
}

/* A thread that was given up and does not stop soon (an uninterruptible sleep) need not be polled all the time. */
bool arrivals_busy(const struct arrivals *a)
{
	for (size_t i = 0; i < a->visits.n; i++)
		if (!a->visits.v[i].given_up || now_ns() - a->visits.v[i].given_up < STOPS_NS)
			return true;
	return false;
}

bool arrivals_leave(const struct arrivals *a)
{
	return a->visits.n;
}

uint32_t *arrivals_bell(struct arrivals *a)
{
	return doorman_bell(a->door);
}

void arrivals_get_counts(const struct arrivals *a, struct arrival_counts *ret_counts)
{
	struct door_counts c;

	doorman_get_counts(a->door, &c);
	*ret_counts = a->counts;
	ret_counts->missed += c.unheard;
	ret_counts->asleep += c.asleep;
	ret_counts->foreign += c.foreign;
	ret_counts->flooded += c.flooded;
}
