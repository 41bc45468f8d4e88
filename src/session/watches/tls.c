/* SPDX-License-Identifier: MIT */
/*
 * Thread-local variables by their distance from the thread pointer, which is the same in every thread for the
 * program itself (its linker has laid it down) and for what has a place in the static block: libraries that
 * are there from the start, and some that come later. For these the distance is found
 *
 *  - in a slot that the loader has filled in for the library's own code (elf_abi.tls_offset), or
 *  - in glibc's description of the library, at the offset that its libc tells debuggers.
 *
 * All others get a block in each thread when the thread first touches it; they are refused. musl's errno is no such
 * variable, but has a fixed distance, too.
 */
#include "session/watches/tls.h"

#include <elf.h>
#include <string.h>
#include "base/err.h"

#define MOST_LIBRARIES 4096
#define FARTHEST (1ll << 30)

static struct module *module_of(const struct jab *j, const struct loaded *l)
{
	return j->files.v[l->file].m;
}

static bool read_word(const struct target *t, uint64_t at, uint64_t *ret)
{
	return proc_read(t->proc, TADDR(at), ret, sizeof(*ret)) == 0;
}

static bool is_distance(int64_t v)
{
	return v < 0 && v > -FARTHEST;
}

static bool from_slot(const struct target *t, struct module *m, const struct loaded *l, int64_t *ret_off)
{
	uint64_t slot, value;
	int64_t byte;

	if (!module_tls_slot(m, &slot, &byte) || !read_word(t, l->bias + slot, &value) || !is_distance((int64_t)value))
		return false;
	*ret_off = (int64_t)value - byte;
	return true;
}

/* The loader's list, as the program has it for debuggers. */
static bool first_library(const struct jab *j, const struct target *t, uint64_t *ret_at)
{
	uint64_t at = 0, pair[2];

	for (size_t i = 0; i < t->loaded.n; i++) {
		const struct loaded *l = &t->loaded.v[i];

		if (!l->is_exe || l->file == UINT32_MAX || !module_dynamic(module_of(j, l), &at))
			continue;
		at += l->bias;
		for (int k = 0; k < 512; k++, at += sizeof(pair)) {
			if (proc_read(t->proc, TADDR(at), pair, sizeof(pair)) < 0 || pair[0] == DT_NULL)
				break;
			if (pair[0] == DT_DEBUG)
				return pair[1] && read_word(t, pair[1] + 8, ret_at);
		}
	}
	return false;
}

struct link { uint64_t addr, name, dynamic, next; };

static bool find_link(const struct jab *j, const struct target *t, struct module *m, const struct loaded *l, uint64_t *ret_at)
{
	uint64_t at, dynamic;
	struct link link;

	if (!module_dynamic(m, &dynamic) || !first_library(j, t, &at))
		return false;
	for (int k = 0; at && k < MOST_LIBRARIES; k++, at = link.next) {
		if (proc_read(t->proc, TADDR(at), &link, sizeof(link)) < 0)
			return false;
		if (link.dynamic == l->bias + dynamic) {
			*ret_at = at;
			return true;
		}
	}
	return false;
}

static struct loaded *open_named(struct jab *j, struct target *t, bool (*is)(const struct loaded *l))
{
	for (size_t i = 0; i < t->loaded.n; i++)
		if (is(&t->loaded.v[i]) && target_open_file(j, t, &t->loaded.v[i]) == 0)
			return &t->loaded.v[i];
	return NULL;
}

static bool is_libc(const struct loaded *l)
{
	const char *base = strrchr(l->path, '/');

	base = base ? base + 1 : l->path;
	return !strncmp(base, "libc.so", 7) || !strncmp(base, "libc-2", 6) || !strncmp(base, "ld-musl-", 8);
}

static bool is_program(const struct loaded *l)
{
	return l->is_exe;
}

/* u32 bits, elements, offset: of a member of a library's description. */
static bool from_link(struct jab *j, struct target *t, struct module *m, const struct loaded *l, int64_t *ret_off)
{
	struct loaded *libc = open_named(j, t, is_libc);
	uint64_t addr, size, at, value;
	uint32_t member[3];

	open_named(j, t, is_program);
	if (!libc || !module_object(module_of(j, libc), "_thread_db_link_map_l_tls_offset", &addr, &size) || size != sizeof(member) ||
	    proc_read(t->proc, TADDR(libc->bias + addr), member, sizeof(member)) < 0 || member[0] != 64 || member[2] > 65536)
		return false;
	if (!find_link(j, t, m, l, &at) || !read_word(t, at + member[2], &value) || !is_distance(-(int64_t)value))
		return false;
	*ret_off = -(int64_t)value;
	return true;
}

static int find_block(struct jab *j, struct target *t, struct loaded *l, int64_t *ret_off)
{
	struct module *m = module_of(j, l);

	if (!module_tls(m, ret_off))
		return fail(-ENOTSUP, "%s says nothing of such storage", l->path);
	if (l->is_exe)
		return 0;
	if (!t->proc) {			/* a file without a process: the code will not run */
		*ret_off = 0;
		return 0;
	}
	if (from_slot(t, m, l, ret_off) || from_link(j, t, m, l, ret_off))
		return 0;
	return fail(-ENOTSUP, "%s has its block elsewhere in each thread: it was loaded at run time, or by a loader that does not tell",
		    l->path);
}

static const struct func *func_named(const struct module *m, const char *name)
{
	for (size_t i = 0; i < m->names.n; i++)
		if (!strcmp(m->names.v[i].name, name))
			return &m->funcs.v[m->names.v[i].func];
	return NULL;
}

/*
 * musl has errno in its description of the thread, at a place that only its code knows. The function that everybody
 * asks for its address adds that to the thread pointer and does nothing else; one that does is not understood.
 */
static bool errno_by_code(const struct module *m, int64_t *ret_off)
{
	const struct func *f = func_named(m, "__errno_location");
	const uint8_t *p = f && f->size <= ERRNO_MOST ? module_bytes(m, f->addr, f->size) : NULL;

	*ret_off = p ? m->arch->idioms->errno_offset(p, f->size) : 0;
	return *ret_off;
}

static int find_symbol(struct jab *j, struct target *t, struct loaded *own, const char *name, int64_t *ret_off)
{
	struct loaded *where[] = { own, open_named(j, t, is_program), open_named(j, t, is_libc) };
	uint64_t byte;

	for (size_t i = 0; i < ARRAY_SIZE(where); i++) {
		int r;

		if (!where[i] || !module_tls_symbol(module_of(j, where[i]), name, &byte))
			continue;
		r = find_block(j, t, where[i], ret_off);
		*ret_off += byte;
		return r;
	}
	for (size_t i = 0; !strcmp(name, "errno") && i < ARRAY_SIZE(where); i++)
		if (where[i] && errno_by_code(module_of(j, where[i]), ret_off))
			return 0;
	return fail(-ENOTSUP, "no libc here says where it is");
}

int tls_find(void *asker, const char *symbol, int64_t *ret_off)
{
	struct tls_asker *a = asker;
	struct target *t = &a->j->targets.v[a->target];
	struct loaded *l = &t->loaded.v[a->loaded];
	int64_t off = 0;
	int r;

	a->asked |= symbol || !l->is_exe;	/* the program's own is the same in all processes */
	r = symbol ? find_symbol(a->j, t, l, symbol, &off) : find_block(a->j, t, l, &off);
	if (!r)
		*ret_off = off;
	return r;
}
