/* SPDX-License-Identifier: MIT */
/* Processes by name: the name the kernel keeps (comm, 15 bytes) or that of the program's file. */
#include "proc/internal.h"

#include <ctype.h>
#include <dirent.h>
#include <string.h>
#include <unistd.h>

static bool exe_is(pid_t pid, const char *name)
{
	static const char deleted[] = " (deleted)";
	char path[64], exe[4096];
	const char *base;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	if (n <= 0)
		return false;
	exe[n] = 0;
	if ((size_t)n > sizeof(deleted) && strcmp(exe + n - sizeof(deleted) + 1, deleted) == 0)
		exe[n - sizeof(deleted) + 1] = 0;
	base = strrchr(exe, '/');
	return strcmp(base ? base + 1 : exe, name) == 0;
}

static bool is_named(pid_t pid, const char *name)
{
	char comm[32];
	struct task_stat s;

	task_comm(pid, comm);
	if (strcmp(comm, name) != 0 && !exe_is(pid, name))
		return false;
	return task_stat(pid, pid, &s) == 0 && !(s.flags & 0x00200000);
}

int proc_find(const char *name, pid_list *ret_pids)
{
	pid_list found = { 0 };
	struct dirent *e;
	DIR *d = opendir("/proc");

	if (!d)
		return fail(-errno, "/proc can't be read: %s", strerror(errno));
	while ((e = readdir(d))) {
		pid_t pid = atoi(e->d_name);

		if (isdigit((unsigned char)e->d_name[0]) && pid != getpid() && is_named(pid, name))
			*vec_add(&found) = pid;
	}
	closedir(d);
	if (!found.n)
		return fail(-ESRCH, "no process is called %s", name);
	*ret_pids = found;
	return 0;
}
