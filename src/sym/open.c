/* SPDX-License-Identifier: MIT */
/*
 * Finding and mapping files. Below a root such as /proc/77/root a symbolic link must be followed as
 * the target would follow it, or /lib/libc.so.6 of a container would lead to our own libc.
 */
#include "sym/priv.h"

#include "base/err.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

static int open_joined(const char *root, const char *path)
{
	char *both = xasprintf("%s%s%s", root, *path == '/' ? "" : "/", path);
	int fd = open(both, OPEN_FLAGS);

	if (fd < 0)
		fd = -errno;
	free(both);
	return fd;
}

int open_below(const char *root, const char *path)
{
	struct open_how how = { .flags = OPEN_FLAGS, .resolve = RESOLVE_IN_ROOT };
	int dir, fd;

	if (!root || !*root) {
		fd = open(path, OPEN_FLAGS);
		return fd < 0 ? -errno : fd;
	}
	dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
	if (fd < 0)
		fd = -errno;
	close(dir);
	/* Old kernels don't have it, and strict seccomp filters refuse it. */
	if (fd == -ENOSYS || fd == -EPERM)
		fd = open_joined(root, path);
	return fd;
}

int map_file(int fd, const char *path, void **ret_map, size_t *ret_size)
{
	struct stat st;
	void *map;

	if (fstat(fd, &st) < 0)
		return fail(-errno, "%s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return fail(-EISDIR, "%s is a directory", path);
	if (!S_ISREG(st.st_mode))
		return fail(-ENOEXEC, "%s is not a regular file", path);
	if (st.st_size == 0)
		return fail(-ENOEXEC, "%s is empty, not an ELF file", path);
	map = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return fail(-errno, "%s can't be mapped: %s", path, strerror(errno));
	*ret_map = map;
	*ret_size = st.st_size;
	return 0;
}
