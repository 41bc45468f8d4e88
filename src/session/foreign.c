/* SPDX-License-Identifier: MIT */
/*
 * Text that is not as its file says: a debugger's breakpoint, a kernel uprobe, another tracer's jump.
 * Such places are left alone, and the rest is probed. Only pages that the process has a private copy
 * of can differ, and the kernel tells which these are, so that little has to be read. What is changed
 * after this look is noticed under the stop, before anything is written (proc/text.c).
 */
#include "session/session.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ull
#define AT_ONCE 512
#define IS_FILES (1ull << 61)		/* the page belongs to the file */
#define IS_THERE (3ull << 62)		/* present, or swapped out */

struct look { const struct target *t; const struct loaded *l; const struct module *m; };

/* Live addresses [lo, hi), within one page. */
static void compare(const struct look *x, uint64_t lo, uint64_t hi)
{
	uint64_t link = lo - x->l->bias, from = 0;
	const uint8_t *file = module_bytes(x->m, link, hi - lo);
	uint8_t live[PAGE];
	bool open = false;

	if (!file || proc_read(x->t->proc, TADDR(lo), live, hi - lo) < 0)
		return;
	for (uint64_t i = 0; i <= hi - lo; i++) {
		bool differs = i < hi - lo && live[i] != file[i];

		if (differs && !open)
			from = i;
		if (!differs && open)
			plan_foreign(x->l->plan, link + from, link + i);
		open = differs;
	}
}

static void look_at_segment(const struct look *x, int pagemap, uint64_t lo, uint64_t hi)
{
	uint64_t entries[AT_ONCE];

	for (uint64_t page = lo & -PAGE; page < hi; page += AT_ONCE * PAGE) {
		ssize_t n = pread(pagemap, entries, sizeof(entries), page / PAGE * sizeof(entries[0]));

		for (ssize_t i = 0; i < n / (ssize_t)sizeof(entries[0]) && page + i * PAGE < hi; i++)
			if ((entries[i] & IS_THERE) && !(entries[i] & IS_FILES))
				compare(x, MAX(lo, page + i * PAGE), MIN(hi, page + (i + 1) * PAGE));
	}
}

void foreign_find(const struct target *t, const struct loaded *l, const struct module *m)
{
	struct look x = { t, l, m };
	char path[64];
	int fd;

	if (proc_path(t->proc, "pagemap", path, sizeof(path)) < 0)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	for (size_t i = 0; i < m->segments.n; i++) {
		const struct segment *s = &m->segments.v[i];

		if (s->prot & PROT_EXEC)
			look_at_segment(&x, fd, s->addr + l->bias, s->addr + s->filesz + l->bias);
	}
	close(fd);
}
