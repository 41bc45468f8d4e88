/* SPDX-License-Identifier: MIT */
/*
 * A sleeping thread is stopped and borrowed before the others are stopped: what comes before its first call is done while
 * these run. Its frame is written, and it is brought to the system-call stop in which the call can be replaced.
 * Below its stack pointer there must be nothing but its own stack, as when the others go on early (release.c).
 */
#include "proc/internal.h"

#include <dirent.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"

#define LOOKS 8			/* how many threads are checked */
#define STOPS_NS 1000000ull	/* a sleeping thread stops at once, or waits for a CPU */

/* The first thread that sleeps, if the process has more than one. 0: none. */
static pid_t find_sleeper(struct proc *p)
{
	char buf[2048];
	pid_t found = 0;
	long n, at;
	int seen = 0;

	lseek(priv(p)->task, 0, SEEK_SET);
	n = syscall(SYS_getdents64, priv(p)->task, buf, sizeof(buf));
	for (at = 0; at < n && seen < LOOKS && (!found || seen < 2);) {
		struct dirent64 *e = (void *)(buf + at);
		pid_t tid = atoi(e->d_name);
		struct task_stat s;

		at += e->d_reclen;
		if (tid <= 0)
			continue;
		seen++;
		if (!found && task_stat(p->pid, tid, &s) == 0 && s.state == 'S')
			found = tid;
	}
	return seen > 1 ? found : 0;
}

static bool has_stopped(struct proc *p, struct thread *t)
{
	uint64_t start = now_ns();

	while (!t->stopped && !t->gone && now_ns() - start < STOPS_NS)
		if (!thread_poll(p, t))
			sched_yield();
	return t->stopped;
}

/* If no thread can be borrowed now, one is borrowed when all are stopped. <0: the process can't be stopped */
int early_hold(struct proc *p)
{
	pid_t tid = priv(p)->sharers.n ? 0 : find_sleeper(p);
	struct thread *t;
	int r;

	if (!tid)
		return 0;
	t = thread_add(p, p->pid, tid);
	reaper_arm(p);
	r = thread_seize(p, t);
	reaper_disarm(p);
	if (r < 0 || !t->seized)
		return r;
	p->stopped_at = now_ns();
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	if (has_stopped(p, t) && !t->asleep && borrow_has_own_stack(p, t))
		r = borrow_early(p);
	proc_step("stop: one borrowed");
	return r == -ETIMEDOUT ? r : 0;	/* a frozen process */
}
