/* SPDX-License-Identifier: MIT */
/*
 * Below a root such as /proc/77/root a symbolic link must be followed as the target would follow it, or
 * /lib/libc.so.6 of a container would lead to the tracer's own libc. O_PATH gives a handle that can be inspected
 * without opening the file; the handle is then opened through /proc/self/fd, so that the file that was inspected is
 * the one that is read.
 */
#include "base/file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/err.h"
#include "base/mem.h"

/*
 * Without openat2 (kernels before 5.6, strict seccomp filters): opens one component at a time and refuses symbolic
 * links. The paths in /proc/PID/maps have none.
 */
static int walk(int dir, const char *path)
{
	char *copy = xstrdup(path), *save = NULL;
	int at = dup(dir), err = at < 0 ? -errno : 0;

	for (char *part = strtok_r(copy, "/", &save); part && !err; part = strtok_r(NULL, "/", &save)) {
		int next = openat(at, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		struct stat st;

		err = next < 0 ? -errno : fstat(next, &st) < 0 ? -errno : 0;
		if (!err && (S_ISLNK(st.st_mode) || !strcmp(part, "..")))
			err = -ELOOP;
		close(at);
		at = next;
	}
	free(copy);
	if (err && at >= 0)
		close(at);
	return err ? err : at;
}

static int find_below(const char *root, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	int dir, fd;

	if (!root || !*root) {
		fd = open(path, O_PATH | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
	if (fd < 0)
		fd = -errno;
	if (fd == -ENOSYS || fd == -EPERM)
		fd = walk(dir, path);
	close(dir);
	return fd;
}

static int check_regular(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return fail(-errno, "%s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return fail(-EISDIR, "%s is a directory", path);
	if (!S_ISREG(st.st_mode))
		return fail(-ENOEXEC, "%s is not a regular file", path);
	return 0;
}

int open_below(const char *root, const char *path)
{
	int handle = find_below(root, path), fd, r;
	char name[32];

	if (handle < 0)
		return fail(handle, "%s can't be opened: %s", path, strerror(-handle));
	r = check_regular(handle, path);
	if (r < 0) {
		close(handle);
		return r;
	}
	snprintf(name, sizeof(name), "/proc/self/fd/%d", handle);
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		fd = fail(-errno, "%s can't be opened: %s", path, strerror(errno));
	close(handle);
	return fd;
}
