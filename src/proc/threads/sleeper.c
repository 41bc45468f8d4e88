/* SPDX-License-Identifier: MIT */
#include "proc/threads/sleeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "arch/relax.h"
#include "base/clock.h"
#include "base/err.h"
#include "proc/undo/clean.h"
#include "proc/threads/ids.h"
#include "proc/internal.h"

#define MOMENT_NS 20000ull
#define SOON_NS 2000000ull	/* time for the thread to fall asleep before other threads are checked */

enum sleeps { SLEEPS_ELSEWHERE, MAY_SLEEP, SLEEPS_THERE };

static bool is_thread_of(pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, tid);
	return access(path, F_OK) == 0;
}

/* A thread that runs may be about to sleep, or was woken for a moment. */
static enum sleeps sleeps_at(pid_t pid, pid_t tid, uint64_t at)
{
	char path[64], text[256];
	unsigned long long nr, arg;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	n = file_read(path, text, sizeof(text));
	if (n == -ENOENT)	/* the process has no such thread */
		return SLEEPS_ELSEWHERE;
	if (n <= 0 || sscanf(text, "%llu %llx", &nr, &arg) != 2)
		return MAY_SLEEP;
	return nr == SYS_futex && arg == at ? SLEEPS_THERE : SLEEPS_ELSEWHERE;
}

static bool is_called(const char *path, const char *name, uint32_t number)
{
	char status[4096];
	uint32_t its;

	return file_read(path, status, sizeof(status)) > 0 && status_last(status, name, &its) && its == number;
}

static bool try_thread(struct sleeper *s, const struct arena *a, uint64_t at, pid_t pid, pid_t tid)
{
	enum sleeps now = sleeps_at(pid, tid, at);

	if (now == SLEEPS_ELSEWHERE || !arena_is_mapped(a, pid))
		return false;
	s->may_come |= now == MAY_SLEEP;
	if (now != SLEEPS_THERE)
		return false;
	s->pid = pid;
	s->tid = tid;
	return true;
}

/* The threads of one process that were not checked yet. true: found, or the time is over */
static bool look_at_threads(struct sleeper *s, const struct arena *a, uint64_t at, uint64_t until, int *ret_found)
{
	struct dirent *e;
	char path[64];

	while (s->threads && (e = readdir(s->threads))) {
		pid_t tid = atoi(e->d_name);

		snprintf(path, sizeof(path), "/proc/%d/task/%d/status", s->looked_at, tid);
		if (tid > 0 && is_called(path, "\nNSpid:", s->their_tid) && try_thread(s, a, at, s->looked_at, tid)) {
			*ret_found = 1;
			return true;
		}
		if (now_ns() > until)
			return true;
	}
	if (s->threads)
		closedir(s->threads);
	s->threads = NULL;
	return false;
}

/* Search all processes. 1: found; 0: the time is over, or a thread may fall asleep soon; -ESRCH: there is none */
static int look_everywhere(struct sleeper *s, const struct arena *a, uint64_t at, uint64_t until)
{
	struct dirent *e;
	char path[64];
	int found = 0;

	if (!s->processes) {
		s->processes = opendir("/proc");
		s->may_come = false;
	}
	for (;;) {
		if (look_at_threads(s, a, at, until, &found))
			return found;
		if (now_ns() > until)
			return 0;
		e = s->processes ? readdir(s->processes) : NULL;
		if (!e)
			break;
		s->looked_at = atoi(e->d_name);
		snprintf(path, sizeof(path), "/proc/%d/status", s->looked_at);
		if (s->looked_at <= 0 || !is_called(path, "\nNStgid:", s->their_pid))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task", s->looked_at);
		s->threads = opendir(path);
	}
	sleeper_close(s);
	return s->may_come ? 0 : -ESRCH;
}

int sleeper_find(struct sleeper *s, const struct arena *a, taddr at, uint64_t until)
{
	uint64_t now = now_ns();
	enum sleeps its;
	int r;

	if (!s->since)
		s->since = now;
	/* A thread reports itself before it sleeps: to spin for a moment is much faster than to wait for the next call. */
	while ((its = sleeps_at(s->pid, s->tid, at.v)) == MAY_SLEEP && now_ns() - s->since < MOMENT_NS)
		cpu_relax();
	if (its == SLEEPS_THERE && arena_is_mapped(a, s->pid))
		return 1;
	if (its == MAY_SLEEP && now - s->since < SOON_NS)
		return 0;
	r = look_everywhere(s, a, at.v, until);
	/* It is in a signal handler then. The tid must be one of the process: else it is the tid of another namespace. */
	if (r == -ESRCH && is_thread_of(s->pid, s->tid) && arena_is_mapped(a, s->pid))
		return 1;
	return r < 0 ? fail(r, "no thread with the tid %u (in its own pid namespace) is parked", s->their_tid) : r;
}

void sleeper_close(struct sleeper *s)
{
	if (s->threads)
		closedir(s->threads);
	if (s->processes)
		closedir(s->processes);
	s->threads = s->processes = NULL;
}
