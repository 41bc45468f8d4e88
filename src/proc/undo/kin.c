/* SPDX-License-Identifier: MIT */
/*
 * Which processes may be forks of a target. To read the mappings of a process takes its lock for them. We wait for it as long as a
 * thread that holds it gets no CPU or waits for a file server; and while we hold it, the process can't map anything, for as long as
 * we get no CPU. So the mappings of processes that can't be forks are not read. What is read of all processes is
 * /proc/PID/stat, which takes no such lock.
 *
 * A fork is younger than the arena. Its parent is the target, or another fork, or, when that has ended, an ancestor of the target
 * (the kernel gives orphans to one of these), or the first process of a pid namespace, if the fork was made in another one.
 * Processes that shared the target's memory when the arena was made have it whatever their age.
 */
#include "proc/undo/kin.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/internal.h"
#include "proc/threads/ids.h"
#include "proc/undo/clean.h"

#define MOST_STEPS 4096		/* from a process to its ancestors: while the list is read, numbers may be used again */

struct kin { pid_t pid, parent; uint64_t start; };
typedef VEC(struct kin) kin_list;

static uint64_t ticks(void)
{
	struct timespec t;
	uint64_t hz = sysconf(_SC_CLK_TCK);

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec * hz + t.tv_nsec * hz / 1000000000;
}

void kin_begin(struct arena *a)
{
	uint64_t now = ticks();

	a->kin.since = now ? now - 1 : 0;	/* two clocks may be rounded differently */
	a->kin.parent = priv(a->p)->parent;
}

void kin_note_sharers(struct arena *a)
{
	for (size_t i = 0; i < priv(a->p)->sharers.n; i++)
		*vec_add(&a->kin.sharers) = priv(a->p)->sharers.v[i];
}

static int by_pid(const void *a, const void *b)
{
	const struct kin *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static const struct kin *find(const kin_list *all, pid_t pid)
{
	struct kin key = { .pid = pid };

	return all->n ? bsearch(&key, all->v, all->n, sizeof(key), by_pid) : NULL;
}

static bool read_all(kin_list *ret_all)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	struct task_stat s;

	while (d && (e = readdir(d))) {
		pid_t pid = atoi(e->d_name);

		if (pid > 0 && task_stat(pid, pid, &s) == 0)
			*vec_add(ret_all) = (struct kin){ pid, s.ppid, s.start_time };
	}
	if (d)
		closedir(d);
	if (ret_all->n)
		qsort(ret_all->v, ret_all->n, sizeof(struct kin), by_pid);
	return d;
}

/* The process and its ancestors, as far as they are older than the arena. False: there is none. */
static bool add_elders(const kin_list *all, const struct arena *a, pid_t pid, pid_list *elders)
{
	const struct kin *k;
	bool any = false;

	while ((k = find(all, pid)) && k->start < a->kin.since && !has_pid(elders, pid)) {
		*vec_add(elders) = pid;
		pid = k->parent;
		any = true;
	}
	return any;
}

static bool is_first_of_namespace(pid_t pid)
{
	uint32_t number;
	char path[64], status[STATUS_MAX];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return file_read(path, status, sizeof(status)) < 0 || !status_last(status, "\nNSpid:", &number) || number == 1;
}

static bool may_be_fork(const kin_list *all, const struct arena *a, const pid_list *elders, const struct kin *k)
{
	if (k->pid == a->p->pid || has_pid(&a->kin.sharers, k->pid))
		return true;
	if (k->start < a->kin.since)
		return false;
	for (int i = 0; i < MOST_STEPS; i++) {
		k = find(all, k->parent);
		if (!k)				/* it has ended meanwhile, or is outside of our pid namespace */
			return true;
		if (k->pid == a->p->pid || has_pid(&a->kin.sharers, k->pid))
			return true;
		if (k->start < a->kin.since)
			return has_pid(elders, k->pid) || is_first_of_namespace(k->pid);
	}
	return true;
}

int kin_find(const struct arena *a, pid_list *ret_pids)
{
	const struct kin *target;
	kin_list all = { 0 };
	pid_list elders = { 0 };
	bool known;

	if (!read_all(&all))
		return fail(-errno, "/proc can't be read: %s", strerror(errno));
	target = find(&all, a->p->pid);
	known = target && target->start == a->p->start_time && add_elders(&all, a, target->parent, &elders);
	known |= add_elders(&all, a, a->kin.parent, &elders);
	for (size_t i = 0; i < all.n; i++)
		if (all.v[i].pid != getpid() && (known ? may_be_fork(&all, a, &elders, &all.v[i]) : all.v[i].start >= a->kin.since))
			*vec_add(ret_pids) = all.v[i].pid;
	vec_free(&elders);
	vec_free(&all);
	return 0;
}
