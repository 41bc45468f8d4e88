/* SPDX-License-Identifier: MIT */
/*
 * Processes by name: the kernel's name (comm, 15 bytes) or that of the program's file. And
 * processes that map a file as code.
 */
#include "proc/internal.h"

#include <ctype.h>
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
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

int proc_identity(pid_t pid, uid_t *ret_uid, char *exe, size_t room)
{
	char path[64], status[4096];
	uint64_t uid;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (file_read(path, status, sizeof(status)) < 0 || status_field(status, "Uid", 10, &uid) < 0)
		return -ESRCH;
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, exe, room - 1);
	exe[MAX(n, 0)] = '\0';
	*ret_uid = uid;
	return 0;
}

static bool is_named(pid_t pid, const void *arg)
{
	const char *name = arg;
	char comm[32];
	struct task_stat s;

	task_comm(pid, comm);
	if (strcmp(comm, name) != 0 && !exe_is(pid, name))
		return false;
	return task_stat(pid, pid, &s) == 0 && !(s.flags & 0x00200000);
}

static int find_all(bool (*is)(pid_t pid, const void *arg), const void *arg, pid_list *ret_pids)
{
	struct dirent *e;
	DIR *d = opendir("/proc");

	if (!d)
		return fail(-errno, "/proc can't be read: %s", strerror(errno));
	while ((e = readdir(d))) {
		pid_t pid = atoi(e->d_name);

		if (isdigit((unsigned char)e->d_name[0]) && pid != getpid() && is(pid, arg))
			*vec_add(ret_pids) = pid;
	}
	closedir(d);
	return 0;
}

int proc_find(const char *name, pid_list *ret_pids)
{
	pid_list found = { 0 };
	int r = find_all(is_named, name, &found);

	if (r == 0 && !found.n)
		r = fail(-ESRCH, "no process is called %s", name);
	if (r == 0)
		*ret_pids = found;
	return r;
}

/* Whether a process has mapped this file as code. By device and inode: its path for the file may be another. */
static bool maps_file(pid_t pid, const void *arg)
{
	const struct stat *st = arg;
	char path[64], line[4352], perms[5];
	unsigned long long inode;
	unsigned int major, minor;
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%*x-%*x %4s %*x %x:%x %llu", perms, &major, &minor, &inode) == 4 &&
			strchr(perms, 'x') && inode == st->st_ino && makedev(major, minor) == st->st_dev;
	if (f)
		fclose(f);
	return found;
}

int proc_find_users(const char *path, pid_list *ret_pids)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return fail(-errno, "%s: %s", path, strerror(errno));
	return find_all(maps_file, &st, ret_pids);
}
