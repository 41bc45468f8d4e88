/* SPDX-License-Identifier: MIT */
/*
 * Text that is not as its file says: a debugger's breakpoint, a kernel uprobe, another tracer's jump.
 * Such places are left alone, and the rest is probed. Only pages that the process has a private copy
 * of can differ, and the kernel tells which these are, so that little has to be read. What is changed
 * after this look is noticed under the stop, before anything is written (proc/text/text.c). A breakpoint that is set over a
 * jump of ours later is looked for from time to time (proc/text/giveway.c).
 */
#include "arch/page.h"
#include "session/session.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "session/watches/known.h"

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
	int fd = -1;

	for (size_t i = 0; i < m->segments.n; i++) {
		const struct segment *s = &m->segments.v[i];
		uint64_t lo = s->addr + l->bias, hi = lo + s->filesz;

		if (!(s->prot & PROT_EXEC) || proc_text_is_files(t->proc, lo, hi))
			continue;
		if (fd < 0 && proc_path(t->proc, "pagemap", path, sizeof(path)) == 0)
			fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		look_at_segment(&x, fd, lo, hi);
	}
	if (fd >= 0)
		close(fd);
}

/* The kernel maps a page of this name where it runs the instructions of uprobes. */
void foreign_warn(const struct target *t)
{
	for (size_t i = 0; i < t->proc->maps.n; i++)
		if (!strcmp(t->proc->maps.v[i].path, "[uprobes]"))
			log_warn("process %d has kernel uprobes: as long as jab is attached, don't set one on a function that it "
				 "probes", t->proc->pid);
}

#define GIVE_WAY_NS 1000000000ull
#define GIVE_WAY_SHARE 200	/* one part in 200 of jab's time is spent on looking */

struct giving { struct jab *j; struct target *t; };

static void say_given(void *arg, taddr at)
{
	const struct giving *g = arg;

	known_drop(g->t, "a breakpoint was set where jab had a jump");	/* it may have been a watch */

	for (size_t i = 0; i < g->t->loaded.n; i++) {
		const struct loaded *l = &g->t->loaded.v[i];
		struct module *m = l->file == UINT32_MAX ? NULL : g->j->files.v[l->file].m;
		const struct func *f = m && at.v >= l->start && at.v < l->end ? module_func_at(m, at.v - l->bias) : NULL;

		if (!f)
			continue;
		log_warn("process %d: a breakpoint (a kernel uprobe?) was set on %s+%#llx, where jab had a jump: jab has "
			 "taken it out, and what comes there from now on is not seen", g->t->proc->pid, func_name(m, f),
			 (unsigned long long)(at.v - l->bias - f->addr));
		return;
	}
	log_warn("process %d: a breakpoint (a kernel uprobe?) was set on %#llx, where jab had a jump: jab has taken it out",
		 g->t->proc->pid, (unsigned long long)at.v);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

void session_give_way(struct jab *j)
{
	uint64_t start;

	if (now_ns() < j->give_way_at)
		return;
	start = cpu_ns();
	for (size_t i = 0; i < j->targets.n; i++) {
		struct target *t = &j->targets.v[i];
		struct giving g = { j, t };

		if (t->inserted && t->proc && !t->seen_dead && text_give_way(t->proc, &t->patch, say_given, &g) < 0)
			log_info("process %d: %s", t->proc->pid, err_text());
	}
	j->give_way_at = now_ns() + MAX(GIVE_WAY_NS, (cpu_ns() - start) * GIVE_WAY_SHARE);
}
