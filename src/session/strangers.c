/* SPDX-License-Identifier: MIT */
/*
 * Watching for strangers (see arch/x86/raise.c): where the C library makes a child that keeps its
 * parent's thread block, a probe of our own stands in front. The functions are found by their system
 * call, because the ones that matter most (posix_spawn goes through clone3) have no name in a
 * stripped library. Only what a C library does is seen; a program that makes the raw call itself
 * is not.
 */
#include "session/session.h"

#include <string.h>
#include <sys/mman.h>
#include "base/err.h"

#define SMALL 256	/* the wrappers are hand-written and short; fork(), which inlines clone, is not */

static bool is_c_library(const char *path)
{
	const char *slash = strrchr(path, '/');

	return !strncmp(slash ? slash + 1 : path, "libc.so", 7) ||
	       !strncmp(slash ? slash + 1 : path, "libc-2", 6);
}

static bool has_library(const struct target *t)
{
	for (size_t i = 0; i < t->loaded.n; i++)
		if (is_c_library(t->loaded.v[i].path))
			return true;
	return false;
}

/* mov $NR,%eax (b8 imm32) shortly before the syscall at `at`: which clone is it? -1: none. */
static int clone_kind(const uint8_t *at, size_t before)
{
	for (size_t back = 5; back <= MIN(before, 40); back++) {
		uint32_t nr;

		if (at[-(long)back] != 0xb8)
			continue;
		memcpy(&nr, at - back + 1, sizeof(nr));
		if (nr == 56)
			return CLONE_ABI_CLONE;
		if (nr == 58)
			return CLONE_ABI_VFORK;
		if (nr == 435)
			return CLONE_ABI_CLONE3;
	}
	return -1;
}

static void add_watch(struct target *t, struct loaded *l, uint64_t addr, int kind)
{
	struct want *w;

	for (size_t i = 0; i < t->watches.n; i++)
		if (t->watches.v[i].addr == addr)
			return;
	*vec_add(&t->watches) = (struct watch){ addr, kind };
	w = vec_add(&l->wants);
	w->addr = addr;
	w->kind = WANT_ENTRY;
	w->id = WATCH_ID | (t->watches.n - 1);
}

static void watch_segment(struct target *t, struct loaded *l, const struct module *m,
			  const struct segment *s)
{
	const uint8_t *text = module_bytes(m, s->addr, s->filesz), *p = text, *end = text + s->filesz;

	while (text && (p = memmem(p, end - p, "\x0f\x05", 2))) {
		int kind = clone_kind(p, p - text);
		const struct func *f = kind < 0 ? NULL : module_func_at(m, s->addr + (p - text));

		if (f && f->size <= SMALL)
			add_watch(t, l, f->addr, kind);
		p += 2;
	}
}

void strangers_watch(struct jab *j, struct target *t)
{
	bool dynamic = has_library(t);

	t->watches.n = 0;
	for (size_t i = 0; t->proc && i < t->loaded.n; i++) {
		struct loaded *l = &t->loaded.v[i];
		const struct module *m;

		if (dynamic ? !is_c_library(l->path) : !l->is_exe)
			continue;
		if (target_open_file(j, t, l) < 0) {
			log_info("%s; counts of vfork children may be off", err_text());
			continue;
		}
		m = j->files.v[l->file].m;
		for (size_t k = 0; k < m->segments.n; k++)
			if (m->segments.v[k].prot & PROT_EXEC)
				watch_segment(t, l, m, &m->segments.v[k]);
	}
}

/* Is there a stranger already? While the target is stopped. */
bool strangers_present(const struct target *t)
{
	for (size_t i = 0; i < t->proc->threads.n; i++)
		if (t->proc->threads.v[i].pid != t->proc->pid)
			return true;
	return false;
}
