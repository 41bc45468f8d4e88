/* SPDX-License-Identifier: MIT */
#include "session/arrivals/claims.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/err.h"
#include "proc/threads/ids.h"

/* Whether no process has that number, or only a zombie. /proc has directories of threads, too. */
static bool has_ended(uint32_t number)
{
	char path[64], text[512] = "";
	const char *behind;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", number);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	behind = strrchr(text, ')');	/* of the name, which may hold anything */
	return (n < 0 && errno == ESRCH) || (behind && (behind[2] == 'Z' || behind[2] == 'X'));
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
	if (!ours && !has_ended(pid) && !(t->arena && arena_is_mapped(t->arena, pid)))
		return fail(-EPERM, "process %u does not have our probes", pid);
	if (!is_thread_of(pid, tid) && !has_ended(tid))
		return fail(-EPERM, "process %u has no thread %u", pid, tid);
	return 0;
}
