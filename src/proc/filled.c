/* SPDX-License-Identifier: MIT */
/*
 * Programs that fill pages of their own (userfaultfd). An access of ours to a page that is not there yet waits, in a sleep
 * that only SIGKILL ends, until the program's handler has filled it. The handler may be a thread that we hold, so that
 * neither side would ever go on. In such programs nothing on a stack is touched whose pages are not there.
 *
 * Pages of other programs are not asked for: a large array on a stack that was never written to has pages that are not there,
 * and neither has a page of a file that was not used for a while.
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

/* A handler in another process is never held by us: its descriptor need not be found. */
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
