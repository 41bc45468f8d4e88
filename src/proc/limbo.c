/* SPDX-License-Identifier: MIT */
/*
 * A thread that can't be stopped now (in vfork, or in an uninterruptible sleep) is "in limbo" when
 * we let go of the others: it stops one day, and must then be released, which the kernel permits only
 * then. That is done whenever we come by (threads_settle()); if we end, the kernel does it.
 */
#include "proc/internal.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include "base/clock.h"

bool limbo_take(struct proc *p, pid_t tid)
{
	struct proc_priv *v = priv(p);
	size_t i;

	for (i = 0; i < v->limbo.n; i++)
		if (v->limbo.v[i] == tid) {
			v->limbo.v[i] = v->limbo.v[--v->limbo.n];
			return true;
		}
	return false;
}

void threads_settle(struct proc *p)
{
	struct proc_priv *v = priv(p);
	size_t i = 0;
	int status;

	while (i < v->limbo.n) {
		pid_t tid = v->limbo.v[i], r = waitpid(tid, &status, __WALL | WNOHANG);

		if (r == 0 || (r < 0 && errno == EINTR)) {
			i++;
			continue;
		}
		if (r == tid && WIFSTOPPED(status)) {
			int sig = status >> 16 ? 0 : WSTOPSIG(status) & 0x7f;

			ptrace(PTRACE_DETACH, tid, 0, sig);
		} else if (r == tid) {
			note_end(p, tid, status);
		}
		v->limbo.v[i] = v->limbo.v[--v->limbo.n];
	}
}

void threads_settle_for(struct proc *p, uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	for (threads_settle(p); priv(p)->limbo.n && now_ns() < end; threads_settle(p))
		sleep_ns(100000);
}
