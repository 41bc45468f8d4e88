/* SPDX-License-Identifier: MIT */
/*
 * What the storms of events have in common: threads with timers whose signal handlers make events inside of events, and a
 * handler that forks there. Include it behind the rings; hit() is the includer's.
 */
#ifndef JAB_TESTS_STORM_H
#define JAB_TESTS_STORM_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#define THREADS 8
#define HANDLER_ARG 1000	/* and more: first argument of what signal handlers make */
#define FORKS 300		/* at most */

static void hit(uint64_t who, uint64_t which);

struct storm {
	int hits;		/* of each thread */
	int in_handler;
	long period_ns;		/* of the faster timer of the first thread */
};

static struct storm storm;
static atomic_ulong handler_hits;
static atomic_int threads_left;
static _Thread_local int depth;

/* Signals within signals, three deep. */
static void on_storm(int sig)
{
	if (depth >= 3)
		return;
	depth++;
	for (int i = 0; i < storm.in_handler; i++)
		hit(HANDLER_ARG + depth, i);
	atomic_fetch_add(&handler_hits, storm.in_handler);
	depth--;
}

static timer_t start_storm(int signal, long period_ns)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signal };
	struct itimerspec every = {
		.it_value.tv_nsec = period_ns, .it_interval.tv_nsec = period_ns,
	};
	timer_t timer;

	ev._sigev_un._tid = gettid();
	if (timer_create(CLOCK_MONOTONIC, &ev, &timer) || timer_settime(timer, 0, &every, NULL))
		abort();
	return timer;
}

static void *hit_many(void *arg)
{
	timer_t a = start_storm(SIGRTMIN, storm.period_ns + 7000 * (long)arg);
	timer_t b = start_storm(SIGRTMIN + 1, storm.period_ns + 11000 + 9000 * (long)arg);

	for (int i = 0; i < storm.hits; i++)
		hit((long)arg, i);
	timer_delete(a);
	timer_delete(b);
	atomic_fetch_sub(&threads_left, 1);
	return NULL;
}

/*
 * beside: a thread that gets all others, or NULL; it ends when none of them is left. pause_us: how long the reader
 * sleeps between two rounds. Returns how many hits were made.
 */
static uint64_t run_threads(int pause_us, event_fn *look, void *(*beside)(void *))
{
	struct sigaction sa = { .sa_handler = on_storm, .sa_flags = SA_RESTART | SA_NODEFER };
	pthread_t threads[THREADS], other;

	sigaction(SIGRTMIN, &sa, NULL);
	sigaction(SIGRTMIN + 1, &sa, NULL);
	atomic_store(&handler_hits, 0);
	atomic_store(&threads_left, THREADS);
	for (long i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hit_many, (void *)i), 0);
	if (beside)
		assert_int_equal(pthread_create(&other, NULL, beside, threads), 0);
	while (atomic_load(&threads_left) > 0) {
		drain(look);
		usleep(pause_us);
	}
	if (beside)
		pthread_join(other, NULL);	/* first: it must not touch a thread that is gone */
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_true(atomic_load(&handler_hits) > 0);
	return (uint64_t)THREADS * storm.hits + atomic_load(&handler_hits);
}

/* ---- a handler that forks, most of the time in the middle of an event ---------------------- */

static pid_t forker;
static atomic_int forks;
static pid_t forked[FORKS];

/* By the kernel alone: the child has its parent's thread block, tid and all. */
static void on_fork(int sig)
{
	int n = atomic_load(&forks);
	pid_t pid;

	if (n >= FORKS || syscall(SYS_getpid) != forker)
		return;
	pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid > 0) {
		forked[n] = pid;
		atomic_store(&forks, n + 1);
	}
}

static timer_t start_forks(long period_ns)
{
	struct sigaction sa = { .sa_handler = on_fork, .sa_flags = SA_RESTART };

	forker = getpid();
	atomic_store(&forks, 0);
	sigaction(SIGRTMIN, &sa, NULL);
	return start_storm(SIGRTMIN, period_ns);
}

static void wait_for_forked(void)
{
	for (int i = 0; i < atomic_load(&forks); i++)
		waitpid(forked[i], NULL, 0);
}

/* A child makes an event of its own at most: the rest of that one hit, and no more. */
static bool is_first_of(uint32_t pid)
{
	for (int i = 0; i < atomic_load(&forks); i++) {
		if (forked[i] == (pid_t)pid) {
			forked[i] = 0;
			return true;
		}
	}
	return false;
}

/*
 * Between two events: what is in our name is not ours, but was taken by a child before it knew. The reader finds that out
 * in another way. Children come no further than here.
 */
static int free_locks_of_nobody(void)
{
	sigset_t these, before;
	int freed = 0;

	sigemptyset(&these);
	sigaddset(&these, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &these, &before);
	if (syscall(SYS_getpid) != forker)
		_exit(0);
	for (int i = ncpus; i < nrings(); i++)
		if (ring_owner(&rings[i]) == (uint32_t)forker)
			freed += ring_free(&rings[i], forker);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return freed;
}

#endif
