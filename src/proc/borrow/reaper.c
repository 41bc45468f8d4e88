/* SPDX-License-Identifier: MIT */
/*
 * A way out of a deadlock in the kernel. A thread that executes another program kills the other threads of its process and
 * waits until they are gone; a traced one is gone only when its tracer has waited for it. Meanwhile the execing thread
 * holds the lock that PTRACE_SEIZE needs. So if the tracer is about to seize one thread when another, seized
 * already, is killed in this way, both sides wait for ever. Then only another thread of the tracer can reap the killed
 * thread: the reaper. While threads are being seized it looks every few milliseconds for
 * threads that have ended. It reaps only ended threads, and never a main thread.
 */
#include "proc/internal.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"

#define LOOK_NS 10000000ull

struct reaper {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	pid_t creator;		/* the process that has the thread: a fork of the tracer has not */
	bool armed, quit;
	const struct thread *threads;
	size_t n;
};

/*
 * For a traced thread waitid() with WEXITED alone reports and consumes stops, too. So first look without
 * consuming (WNOWAIT): a thread that has ended stays so.
 */
bool reap_if_ended(pid_t tid)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, tid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 || info.si_pid != tid)
		return false;
	if (info.si_code != CLD_EXITED && info.si_code != CLD_KILLED && info.si_code != CLD_DUMPED)
		return false;
	return waitid(P_PID, tid, &info, WEXITED | WNOHANG | __WALL) == 0;
}

static void reap(const struct reaper *r)
{
	size_t i;

	for (i = 0; i < r->n; i++)
		if (r->threads[i].tid != r->threads[i].pid)
			reap_if_ended(r->threads[i].tid);
}

static void *run(void *arg)
{
	struct reaper *r = arg;
	struct timespec t;

	pthread_mutex_lock(&r->lock);
	while (!r->quit) {
		if (!r->armed) {
			pthread_cond_wait(&r->cond, &r->lock);
			continue;
		}
		clock_gettime(CLOCK_MONOTONIC, &t);
		t.tv_nsec += LOOK_NS;
		t.tv_sec += t.tv_nsec / 1000000000;
		t.tv_nsec %= 1000000000;
		if (pthread_cond_timedwait(&r->cond, &r->lock, &t) == ETIMEDOUT && r->armed)
			reap(r);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static struct reaper *create(void)
{
	struct reaper *r = xcalloc(1, sizeof(*r));
	pthread_condattr_t attr;
	sigset_t all, old;
	int err;

	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->cond, &attr);
	r->creator = getpid();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);	/* signals are handled by the tracer's other threads */
	err = pthread_create(&r->thread, NULL, run, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		free(r);
		return NULL;	/* the deadlock is rare: go on without the thread */
	}
	return r;
}

/* p->threads must not be reallocated until reaper_disarm(). */
void reaper_arm(struct proc *p)
{
	struct proc_priv *v = priv(p);

	if (!v->reaper)
		v->reaper = create();
	if (!v->reaper)
		return;
	pthread_mutex_lock(&v->reaper->lock);
	v->reaper->threads = p->threads.v;
	v->reaper->n = p->threads.n;
	v->reaper->armed = true;
	pthread_cond_signal(&v->reaper->cond);
	pthread_mutex_unlock(&v->reaper->lock);
}

void reaper_disarm(struct proc *p)
{
	struct reaper *r = priv(p)->reaper;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->armed = false;
	pthread_mutex_unlock(&r->lock);
}

void reaper_free(struct reaper *r)
{
	if (!r || r->creator != getpid())
		return;
	pthread_mutex_lock(&r->lock);
	r->quit = true;
	pthread_cond_signal(&r->cond);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	free(r);
}
