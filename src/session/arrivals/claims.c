/* SPDX-License-Identifier: MIT */
#include "session/arrivals/claims.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/err.h"
#include "proc/threads/ids.h"

#define ENDS 0x4		/* PF_EXITING, of the flags in /proc/PID/stat: it has let its memory go, or does so next */

/* Whether there is no thread of that number any more, or one that runs no code of its own again. */
static bool has_ended(const char *stat)
{
	char text[512] = "", state = 0;
	const char *after_name;
	unsigned int flags = 0;
	ssize_t n;
	int fd;

	fd = open(stat, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n < 0)
		return errno == ESRCH;
	after_name = strrchr(text, ')');	/* the name may hold anything */
	return after_name && sscanf(after_name, ") %c %*d %*d %*d %*d %*d %u", &state, &flags) == 2 &&
	       (state == 'Z' || state == 'X' || (flags & ENDS));
}

/* /proc has directories of threads, too. */
static bool thread_has_ended(uint32_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/stat", tid);
	return has_ended(path);
}

/* All threads of it: the main thread may end before the others do. */
static bool process_has_ended(uint32_t pid)
{
	char path[300];
	struct dirent *e;
	bool all = true;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	d = opendir(path);
	if (!d)
		return errno == ENOENT;
	while (all && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%u/task/%s/stat", pid, e->d_name);
		all = e->d_name[0] == '.' || has_ended(path);
	}
	closedir(d);
	return all;
}

static bool is_thread_of(uint32_t pid, uint32_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/task/%u", pid, tid);
	return access(path, F_OK) == 0;
}

int claim_check(struct jab *j, uint32_t target, uint32_t pid, uint32_t tid)
{
	const struct target *t = &j->targets.v[target];
	bool ours;

	if (!pid || !tid || pid > INT32_MAX || tid > INT32_MAX)
		return fail(-EPERM, "there is no process %u with a thread %u", pid, tid);
	ours = t->proc && (pid_t)pid == t->proc->pid && proc_alive(t->proc);
	/* The mappings first: it may end between the two checks. */
	if (!ours && !(t->arena && arena_is_mapped(t->arena, pid)) && !process_has_ended(pid))
		return fail(-EPERM, "process %u does not have our probes", pid);
	if (!is_thread_of(pid, tid) && !thread_has_ended(tid))
		return fail(-EPERM, "process %u has no thread %u", pid, tid);
	return 0;
}
