/* SPDX-License-Identifier: MIT */
/*
 * A seized thread that does not stop (in vfork, in an uninterruptible sleep, or waiting for a CPU) is
 * "in limbo" when the other threads go on. The kernel permits PTRACE_DETACH only in a stop, so the tracer detaches when the
 * thread has stopped one day: in threads_settle(), or in proc_settle() when its target may have been
 * closed long ago. If the tracer ends, the kernel detaches.
 */
#include "proc/internal.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include "base/clock.h"

/* Threads of closed targets. Per thread of the tracer, since only the one that seized a thread can detach from it. */
static __thread pid_list left;

static bool take(pid_list *list, pid_t tid)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i] == tid) {
			list->v[i] = list->v[--list->n];
			return true;
		}
	return false;
}

bool limbo_take(struct proc *p, pid_t tid)
{
	return take(&priv(p)->limbo, tid) || take(&left, tid);
}

/* Detach from the thread if it has stopped. false: not yet. */
static bool settle(struct proc *p, pid_t tid)
{
	int status;
	pid_t r = waitpid(tid, &status, __WALL | WNOHANG);

	if (r == 0 || (r < 0 && errno == EINTR))
		return false;
	if (r == tid && WIFSTOPPED(status)) {
		int sig = status >> 16 || WSTOPSIG(status) & 0x80 ? 0 : WSTOPSIG(status);	/* 0x80: a system call */

		ptrace(PTRACE_DETACH, tid, 0, sig);
	} else if (r == tid && p) {
		note_end(p, tid, status);
	}
	return true;
}

static void settle_all(struct proc *p, pid_list *list)
{
	size_t i = 0;

	while (i < list->n)
		if (settle(p, list->v[i]))
			list->v[i] = list->v[--list->n];
		else
			i++;
}

void threads_settle(struct proc *p)
{
	settle_all(p, &priv(p)->limbo);
	settle_all(NULL, &left);
}

void proc_settle(void)
{
	settle_all(NULL, &left);
}

void threads_settle_for(struct proc *p, uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	for (threads_settle(p); priv(p)->limbo.n && now_ns() < end; threads_settle(p))
		sleep_ns(100000);
}

void limbo_leave(struct proc *p)
{
	for (size_t i = 0; i < priv(p)->limbo.n; i++)
		*vec_add(&left) = priv(p)->limbo.v[i];
	vec_free(&priv(p)->limbo);
	if (!left.n)
		vec_free(&left);
}

bool limbo_has(pid_t tid)
{
	settle_all(NULL, &left);
	for (size_t i = 0; i < left.n; i++)
		if (left.v[i] == tid)
			return true;
	return false;
}
