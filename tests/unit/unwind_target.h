/* SPDX-License-Identifier: MIT */
/*
 * A process as the walker sees it, from outside: its modules' tables, the registers of a stopped thread,
 * and its memory by process_vm_readv, as the code inside reads it.
 */
#ifndef JAB_TEST_UNWIND_TARGET_H
#define JAB_TEST_UNWIND_TARGET_H

#include "base/err.h"
#include "base/mem.h"
#include "blob/unwind.c"	/* as it runs inside */
#include "sym/unwind/unwind.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

struct known_module { char *path; struct module *module; };

struct tables {
	VEC(struct known_module) modules;	/* also NULL: could not be opened */
	VEC(struct unwind_place) places;
	struct unwind_dir *dir;
	uint64_t maps_sum;	/* of the text of the maps it was made from */
};

static uint32_t read_other(void *arg, uint64_t from, void *to, uint32_t len)
{
	struct iovec local = { to, len }, remote = { (void *)from, len };
	ssize_t n = process_vm_readv(*(pid_t *)arg, &local, 1, &remote, 1, 0);

	return n < 0 ? 0 : n;
}

static struct module *open_vdso(pid_t pid, uint64_t start, uint64_t len)
{
	struct module *m = NULL;
	char *bytes = malloc(len);

	if (read_other(&pid, start, bytes, len) == len)
		module_open_memory(bytes, len, "[vdso]", &m);
	free(bytes);
	return m;
}

static struct module *get_module(struct tables *t, pid_t pid, const char *path, uint64_t start, uint64_t len)
{
	struct known_module *k;

	for (size_t i = 0; i < t->modules.n; i++)
		if (strcmp(t->modules.v[i].path, path) == 0)
			return t->modules.v[i].module;
	k = vec_add(&t->modules);
	k->path = xstrdup(path);
	if (strcmp(path, "[vdso]") == 0)
		k->module = open_vdso(pid, start, len);
	else if (path[0] == '/')
		module_open("", path, &k->module);
	return k->module;
}

static void add_place(struct tables *t, struct module *m, uint64_t start, uint64_t offset)
{
	for (size_t i = 0; i < m->segments.n; i++) {
		const struct segment *s = &m->segments.v[i];

		if (!(s->prot & 4) || offset + 4096 <= s->offset || offset >= s->offset + s->filesz)
			continue;
		*vec_add(&t->places) = (struct unwind_place){ m, start - (s->addr + offset - s->offset) };
		return;
	}
}

static uint64_t maps_sum(const char *text)
{
	uint64_t h = 1;

	for (; *text; text++)
		h = h * 31 + (uint8_t)*text;
	return h;
}

static void read_maps(pid_t pid, char *text, size_t room)
{
	FILE *f;
	size_t n;

	snprintf(text, room, "/proc/%d/maps", pid);
	f = fopen(text, "r");
	n = f ? fread(text, 1, room - 1, f) : 0;
	text[n] = 0;
	if (f)
		fclose(f);
}

/* Make the tables, if the process has other maps than last time. True if it was so. */
static bool tables_update(struct tables *t, pid_t pid)
{
	static char text[1 << 20];
	uint64_t start, end, offset;
	char prot[5], path[4096];
	struct module *m;

	read_maps(pid, text, sizeof(text));
	if (t->dir && maps_sum(text) == t->maps_sum)
		return false;
	t->maps_sum = maps_sum(text);
	t->places.n = 0;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		path[0] = 0;
		sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %4095[^\n]", &start, &end, prot, &offset,
		       path);
		if (prot[2] != 'x' || !path[0])
			continue;
		m = get_module(t, pid, path, start, end - start);
		if (m)
			add_place(t, m, start, offset);
	}
	free(t->dir);
	t->dir = xcalloc(1, unwind_size(t->places.v, t->places.n));
	unwind_write(t->places.v, t->places.n, t->dir);
	return true;
}

static void tables_close(struct tables *t)
{
	for (size_t i = 0; i < t->modules.n; i++) {
		module_close(t->modules.v[i].module);
		free(t->modules.v[i].path);
	}
	vec_free(&t->modules);
	vec_free(&t->places);
	free(t->dir);
}

static inline void walk_registers(struct unwind_state *w, const struct user_regs_struct *r)
{
	uint64_t regs[16] = { r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi,
		r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15 };

	memcpy(w->regs, regs, sizeof(regs));
	w->ip = r->rip;
}

/* The stack of a stopped thread. */
static inline uint32_t walk_thread(const struct tables *t, pid_t tid, uint64_t *frames, uint32_t limit,
			    enum unwind_end *ret_end)
{
	static uint64_t copy[2048];
	struct unwind_state s = { 0 };
	struct unwind_walk w = { .s = &s, .dir = t->dir, .read = read_other, .arg = &tid, .copy = (uint8_t *)copy,
		.copy_room = sizeof(copy) };
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) < 0)
		return 0;
	walk_registers(&s, &regs);
	return unwind_walk(&w, frames, limit, ret_end);
}

/* "module:function+offset" */
static inline void describe(const struct tables *t, uint64_t addr, char *out, size_t room)
{
	snprintf(out, room, "%#" PRIx64, addr);
	for (size_t i = 0; i < t->places.n; i++) {
		struct module *m = t->places.v[i].module;
		uint64_t at = addr - t->places.v[i].bias;
		const struct func *f = at >= m->lo && at < m->hi ? module_func_at(m, at) : NULL;
		const char *name = strrchr(m->path, '/');

		if (f)
			snprintf(out, room, "%#" PRIx64 " %s:%s+%" PRIu64, addr, name ? name + 1 : m->path,
				 func_name(m, f), at - f->addr);
	}
}

#endif
