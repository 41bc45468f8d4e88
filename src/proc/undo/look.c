/* SPDX-License-Identifier: MIT */
/*
 * The arenas of several processes, read by a thread of its own. A process may keep its mappings locked, so that who reads them
 * sleeps and can't be woken: while it gets no CPU, while it frees gigabytes in an exec, while a file server does not answer. The
 * tracer must not wait for that. So a thread reads one process after the other; if it sleeps for too long at one of them, it is
 * left there with what it has, and another thread goes on with the next. When it wakes it ends. Processes at which a
 * thread still sleeps are not read again meanwhile.
 */
#include "proc/undo/look.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/internal.h"

#define WAIT_NS 5000000ull
#define ASLEEP_NS 100000000ull	/* a thread that sleeps at one process for so long is left there */
#define RESERVE (1u << 20)
#define MOST_ASLEEP 32		/* threads; then processes are not read before one of these wakes */

/* Who may use the rest of struct look. LEFT: what is in the look stays as it is, and the tracer takes it. */
enum { READING, TAKING, LEFT, OVER };

struct look {
	uint32_t state, refs;
	pid_list pids;
	size_t next;
	uint64_t since;		/* when the reading of pids.v[next] has begun */
	pid_t tid;
	bool descriptors;
	holder_list found;
};

void (*look_reads)(pid_t pid, bool descriptors, holder_list *list);	/* of a test */

static struct { pid_t pid; struct look *look; } asleep[MOST_ASLEEP];
static size_t nasleep;
static pid_t owner;		/* of the list: a fork of the tracer has no threads */

static void drop(struct look *l)
{
	if (__atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL))
		return;
	vec_free(&l->pids);
	vec_free(&l->found);
	free(l);
}

static void read_one(pid_t pid, bool descriptors, holder_list *list)
{
	if (look_reads) {
		look_reads(pid, descriptors, list);
		return;
	}
	if (descriptors)
		holders_in_fds(pid, pid, list);	/* first: they are mapped before they are closed */
	holders_in_maps(pid, list);
}

static bool change(struct look *l, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&l->state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void *read_all(void *arg)
{
	struct look *l = arg;
	bool left = false;

	__atomic_store_n(&l->tid, gettid(), __ATOMIC_RELAXED);
	while (!left && l->next < l->pids.n) {
		holder_list one = { 0 };

		__atomic_store_n(&l->since, now_ns(), __ATOMIC_RELAXED);
		__atomic_store_n(&l->state, READING, __ATOMIC_RELEASE);
		read_one(l->pids.v[l->next], l->descriptors, &one);
		left = !change(l, READING, TAKING);
		for (size_t i = 0; !left && i < one.n; i++)
			*vec_add(&l->found) = one.v[i];
		vec_free(&one);
		__atomic_add_fetch(&l->next, !left, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&l->state, OVER, __ATOMIC_RELEASE);
	syscall(SYS_futex, &l->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	drop(l);
	return NULL;
}

/* Without a reserve of memory for this thread it reads nothing: then the tracer does. */
static void *read_in_thread(void *arg)
{
	struct look *l = arg;
	struct mem_frame f;

	if (!mem_reserve(RESERVE)) {
		__atomic_store_n(&l->state, OVER, __ATOMIC_RELEASE);
		return NULL;
	}
	mem_enter(&f, true);
	read_all(l);
	mem_leave(&f);
	mem_drop_reserve();
	return NULL;
}

static int begin(struct look *l)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t t;
	int r;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);	/* signals are for the tracer's thread */
	r = pthread_create(&t, &attr, read_in_thread, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return r;
}

/* A thread that is only late, because it gets no CPU, is ready to run. */
static bool is_asleep(const struct look *l)
{
	pid_t tid = __atomic_load_n(&l->tid, __ATOMIC_RELAXED);
	struct task_stat s;

	return now_ns() - __atomic_load_n(&l->since, __ATOMIC_RELAXED) > ASLEEP_NS && tid && task_stat(getpid(), tid, &s) == 0 && s.state != 'R';
}

/* Until it is done (true), or sleeps and is left. */
static bool wait_for(struct look *l)
{
	const struct timespec t = { 0, WAIT_NS };
	uint32_t state;

	while ((state = __atomic_load_n(&l->state, __ATOMIC_ACQUIRE)) != OVER) {
		size_t next = __atomic_load_n(&l->next, __ATOMIC_RELAXED);

		if (state == READING && is_asleep(l) && next == __atomic_load_n(&l->next, __ATOMIC_RELAXED) && change(l, READING, LEFT))
			return false;
		syscall(SYS_futex, &l->state, FUTEX_WAIT_PRIVATE, state, &t, NULL, 0);
	}
	return true;
}

static struct look *look_new(const pid_t *pids, size_t n, bool descriptors)
{
	struct look *l = xcalloc(1, sizeof(*l));

	l->refs = 2;
	l->state = TAKING;
	l->since = now_ns();
	l->descriptors = descriptors;
	for (size_t i = 0; i < n; i++)
		*vec_add(&l->pids) = pids[i];
	return l;
}

static void forget_woken(void)
{
	if (owner != getpid())
		nasleep = 0;
	owner = getpid();
	for (size_t i = nasleep; i-- > 0;)
		if (__atomic_load_n(&asleep[i].look->state, __ATOMIC_ACQUIRE) == OVER) {
			drop(asleep[i].look);
			asleep[i] = asleep[--nasleep];
		}
}

static bool can_be_read(pid_t pid)
{
	for (size_t i = 0; i < nasleep; i++)
		if (asleep[i].pid == pid)
			return false;
	return nasleep < MOST_ASLEEP;
}

void look_for_holders(const pid_list *pids, bool descriptors, holder_list *list, pid_list *stuck)
{
	pid_list left = { 0 };
	size_t first = 0;
	bool is_over;

	forget_woken();
	for (size_t i = 0; i < pids->n; i++)
		*(can_be_read(pids->v[i]) ? vec_add(&left) : vec_add(stuck)) = pids->v[i];
	while (first < left.n && nasleep < MOST_ASLEEP) {
		struct look *l = look_new(left.v + first, left.n - first, descriptors);

		if (begin(l))		/* no thread can be had */
			read_all(l);
		is_over = wait_for(l);
		if (is_over && l->next < l->pids.n)
			read_all(l);
		for (size_t i = 0; i < l->found.n; i++)
			*vec_add(list) = l->found.v[i];
		first += l->next;
		if (is_over) {
			drop(l);
			continue;
		}
		asleep[nasleep].pid = left.v[first];
		asleep[nasleep++].look = l;
		*vec_add(stuck) = left.v[first++];
	}
	for (; first < left.n; first++)
		*vec_add(stuck) = left.v[first];
	vec_free(&left);
}
