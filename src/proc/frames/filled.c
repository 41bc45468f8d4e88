/* SPDX-License-Identifier: MIT */
/*
 * Programs that fill pages of their own (userfaultfd). If the tracer accesses a page that is not present, it sleeps, and
 * only SIGKILL interrupts that, until the program's handler has filled the page. The handler may be a thread that the tracer
 * holds: a deadlock. In such programs only pages of stacks that are present or swapped out are accessed.
 *
 * For other programs this is not checked: pages of a large array on a stack that was never written, and pages of a file that
 * was not used for a while, are not present either, and can be read.
 */
#include "arch/page.h"
#include "proc/internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/err.h"

#define THERE (3ull << 62)		/* present, or swapped out */
#define AT_ONCE 64			/* pages; a frame has fewer */

/* Only descriptors of the process itself are searched: a handler in another process is not held by the tracer. */
bool proc_fills_pages(struct proc *p)
{
	char path[64], link[64];
	bool does = false;
	struct dirent *e;
	DIR *d;

	if (proc_is_still(p) && priv(p)->fills_looked == priv(p)->stops)
		return priv(p)->fills_pages;
	snprintf(path, sizeof(path), "/proc/%d/fd", priv(p)->via);
	d = opendir(path);
	while (d && !does && (e = readdir(d))) {
		ssize_t n = e->d_name[0] == '.' ? 0 : readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

		link[MAX(n, 0)] = '\0';
		does = strstr(link, "[userfaultfd]");
	}
	if (d)
		closedir(d);
	priv(p)->fills_pages = does;
	priv(p)->fills_looked = proc_is_still(p) ? priv(p)->stops : 0;
	return does;
}

bool pages_are_there(struct proc *p, uint64_t at, size_t len)
{
	uint64_t first = at / PAGE, n = (at + len + PAGE - 1) / PAGE - first, entries[AT_ONCE];
	bool there = n <= AT_ONCE;
	char path[64];
	int fd;

	if (!priv(p)->fills_pages)
		return true;
	if (!there || proc_path(p, "pagemap", path, sizeof(path)) < 0)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	there = fd >= 0 && pread(fd, entries, n * 8, first * 8) == (ssize_t)n * 8;
	for (uint64_t i = 0; there && i < n; i++)
		there = entries[i] & THERE;
	if (fd >= 0)
		close(fd);
	return there;
}

int stack_read(struct proc *p, uint64_t at, void *to, size_t len)
{
	return pages_are_there(p, at, len) ? proc_read(p, TADDR(at), to, len) : -EFAULT;
}
