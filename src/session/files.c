/* SPDX-License-Identifier: MIT */
/*
 * The files that targets have mapped. They are named as the process names them and
 * opened through its own root, so that a container's library is read and not ours of the same name;
 * and the notes in memory are held against the file, so that a library which was replaced on disk
 * since it was mapped is refused instead of patched at the wrong places.
 *
 * What was read of a file serves all targets that have it mapped, also those that come later, as long as it is in the same
 * state (proc/fileid.h). A file that had been changed just before it was read may have been changed again since, without
 * another time: then its text in the process is compared with what was read.
 */
#include "arch/page.h"
#include "session/session.h"

#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"

#define MOST_FILES 512		/* when so many are cached, those that nothing refers to are dropped */
#define CHUNK (64u << 10)

/* live - link, from the executable mapping that starts at l->start. */
static int find_bias(const struct target *t, const struct module *m, struct loaded *l)
{
	const struct map *map = proc_map_at(t->proc, l->start);

	for (size_t i = 0; map && i < m->segments.n; i++) {
		const struct segment *s = &m->segments.v[i];
		uint64_t lo = PAGE_DOWN(s->offset), hi = s->offset + s->filesz;

		if ((s->prot & PROT_EXEC) && map->offset >= lo && map->offset < hi) {
			l->bias = map->start - map->offset - (s->addr - s->offset);
			l->end = l->bias + m->hi;
			return 0;
		}
	}
	return fail(-EINVAL, "%s: its code is not mapped as its program headers say", l->path);
}

/* Whether the notes (build id among them) and the ELF header in memory are those of the file. */
static int check_same_build(struct target *t, const struct module *m, const struct loaded *l)
{
	const Elf64_Ehdr *eh = (const void *)m->image;
	uint8_t memory[1024];

	for (unsigned i = 0; i < eh->e_phnum; i++) {
		uint64_t at = eh->e_phoff + (uint64_t)i * sizeof(Elf64_Phdr);
		Elf64_Phdr ph;
		const uint8_t *bytes;

		if (at > m->image_size || m->image_size - at < sizeof(ph))
			break;
		memcpy(&ph, m->image + at, sizeof(ph));
		if (ph.p_type != PT_NOTE || !ph.p_filesz || ph.p_filesz > sizeof(memory))
			continue;
		bytes = module_bytes(m, ph.p_vaddr, ph.p_filesz);
		if (!bytes || proc_read(t->proc, TADDR(l->bias + ph.p_vaddr), memory, ph.p_filesz) < 0)
			continue;
		if (memcmp(bytes, memory, ph.p_filesz))
			return fail(-ESTALE, "%s has changed on disk since process %d mapped it (the "
				    "build id differs): restart the program, or put the old file back",
				    l->path, t->proc->pid);
	}
	return 0;
}

/* The file of a mapping by the kernel's own link, which needs no name: a descriptor, or a negative errno. */
static int open_mapping(const struct target *t, const struct loaded *l, const struct map *map)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", t->proc->pid, (unsigned long)map->start,
		 (unsigned long)map->end);
	fd = open_below("", path);
	if (fd < 0 && l->is_exe && proc_path(t->proc, "exe", path, sizeof(path)) == 0)	/* this link can be opened without root */
		fd = open_below("", path);
	return fd;
}

/* A process that called chroot() has mapped files of the root that it had before, which is ours most often. */
static int open_in_our_root(const struct loaded *l, const struct map *map)
{
	int fd = map->deleted ? -ENOENT : open_below("", l->path);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_ino != map->inode)) {
		close(fd);
		return -ENOENT;
	}
	return fd;
}

/* A mapping that has no name any more below the process's root, or whose name is another file's there. */
static int open_by_map(const struct target *t, const struct loaded *l, struct module **ret_m)
{
	const struct map *map = proc_map_at(t->proc, l->start);
	int fd = map ? open_mapping(t, l, map) : -ENOENT, err = fd, r;

	if (map && fd < 0)
		fd = open_in_our_root(l, map);
	if (fd < 0)
		return fail(-ESTALE, "%s was removed or replaced since process %d mapped it, or the process has another root "
			    "directory since, and the mapped file can't be opened (%s): run as root, or restart the program",
			    l->path, t->proc->pid, strerror(-err));
	r = module_open_fd(fd, t->proc->root, l->path, ret_m);
	close(fd);
	return r;
}

static int open_module(struct target *t, const struct loaded *l, struct module **ret_m)
{
	const struct map *map = proc_map_at(t->proc, l->start);
	struct loaded try = *l;

	if (map && !map->deleted && module_open(t->proc->root, l->path, ret_m) == 0) {
		if (!find_bias(t, *ret_m, &try) && !check_same_build(t, *ret_m, &try))
			return 0;
		module_close(*ret_m);
	}
	return open_by_map(t, l, ret_m);
}

bool target_may_have_usdts(const struct target *t, const struct loaded *l)
{
	const struct map *map = t->proc && l->file == UINT32_MAX ? proc_map_at(t->proc, l->start) : NULL;
	int fd = map && map->inode && !map->deleted ? open_below(t->proc->root, l->path) : -1;
	struct stat st;
	bool may;

	if (fd < 0)
		return true;
	may = fstat(fd, &st) < 0 || st.st_ino != map->inode || usdt_may_be_in(fd);
	close(fd);
	return may;
}

static bool is_file(const struct stat *a, uint64_t dev, uint64_t inode)
{
	return a->st_dev == dev && a->st_ino == inode;
}

/*
 * A path that is not the process's own name for the file may still be that file: /proc/PID/root/bin/x of a process in a
 * container, a hard link, another mount.
 */
static bool is_same_file(const struct target *t, const struct loaded *l, const char *object)
{
	const struct map *m = proc_map_at(t->proc, l->start);
	char path[PATH_MAX];
	struct stat wanted, its;

	if (!m || stat(object, &wanted) < 0)
		return false;
	if (is_file(&wanted, makedev(m->dev_major, m->dev_minor), m->inode))
		return true;
	/* Some file systems give other numbers for a mapping than for the file. */
	return snprintf(path, sizeof(path), "%s%s", t->proc->root, l->path) < (int)sizeof(path) && !m->deleted && l->path[0] == '/' &&
	       stat(path, &its) == 0 && is_file(&wanted, its.st_dev, its.st_ino);
}

bool target_has_object(const struct target *t, const struct loaded *l, const struct probe_spec *spec)
{
	if (spec_matches_object(spec, l->path, l->is_exe))
		return true;
	return t->proc && spec->object && strchr(spec->object, '/') && !strpbrk(spec->object, "*?[") &&
	       is_same_file(t, l, spec->object);
}

/*
 * A jump in text that is mapped shared would be in the file, for every process that maps it and for all that
 * start later; where the kernel does not permit to write there, it could not be placed.
 */
int target_may_patch(const struct target *t, const struct loaded *l)
{
	for (size_t i = 0; t->proc && i < t->proc->maps.n; i++) {
		const struct map *m = &t->proc->maps.v[i];

		if (m->shared && is_module_code(m) && m->start < l->end && m->end > l->start)
			return fail(-ENOTSUP, "%s is mapped shared into process %d: a jump in its code would be written to "
				    "the file itself", l->path, t->proc->pid);
	}
	return 0;
}

void file_close(struct file *f)
{
	for (size_t i = 0; i < f->matches.n; i++)
		vec_free(&f->matches.v[i].funcs);
	vec_free(&f->matches);
	code_close(f->code);
	module_close(f->m);
	free(f->path);
}

/* Whether no target uses the file and no report will name it. */
static bool is_unused(const struct jab *j, uint32_t file)
{
	if (j->files.v[file].kept)
		return false;
	for (size_t i = 0; i < j->targets.n; i++)
		for (size_t k = 0; k < j->targets.v[i].loaded.n; k++)
			if (j->targets.v[i].loaded.v[k].file == file)
				return false;
	for (size_t i = 0; i < j->rows.n; i++)
		if (j->rows.v[i].file == file)
			return false;
	return true;
}

struct file *file_add(struct jab *j, const char *path, struct module *m)
{
	struct file *f = NULL;

	for (uint32_t i = 0; j->files.n >= MOST_FILES && !f && i < j->files.n; i++)
		if (is_unused(j, i))
			f = &j->files.v[i];
	if (f)
		file_close(f);
	else
		f = vec_add(&j->files);
	*f = (struct file){ .path = xstrdup(path), .m = m };
	return f;
}

void file_note_id(struct file *f, const struct file_id *before, const struct file_id *after)
{
	if (!before || !after || !file_id_same(before, after))
		return;
	f->id = *after;
	f->is_exact = true;
	f->is_settled = file_id_is_settled(after, wall_ns());
}

/* Compares all text of the file with the text in the process. */
static bool has_same_text(struct target *t, const struct loaded *l, const struct module *m)
{
	struct loaded try = *l;
	uint8_t *buf = xrealloc(NULL, CHUNK);
	bool same = find_bias(t, m, &try) == 0;

	for (size_t i = 0; same && i < m->segments.n; i++) {
		const struct segment *s = &m->segments.v[i];

		for (uint64_t at = 0; same && (s->prot & PROT_EXEC) && at < s->filesz; at += CHUNK) {
			size_t n = MIN(s->filesz - at, (uint64_t)CHUNK);
			const uint8_t *file = module_bytes(m, s->addr + at, n);

			same = file && proc_read(t->proc, TADDR(try.bias + s->addr + at), buf, n) == 0 && memcmp(buf, file, n) == 0;
		}
	}
	free(buf);
	return same;
}

/* id is NULL where it could not be read: then only inode number and name are compared. */
static struct file *known_file(struct jab *j, struct target *t, const struct loaded *l, const struct map *map, const struct file_id *id)
{
	uint64_t dev = (uint64_t)map->dev_major << 32 | map->dev_minor;

	for (size_t i = 0; i < j->files.n; i++) {
		struct file *f = &j->files.v[i];

		if (f->id.dev != dev || f->id.inode != map->inode || strcmp(f->path, map->path))
			continue;
		if (!id || !f->is_exact)
			return f;
		if (!file_id_same(&f->id, id) || (!f->is_settled && !has_same_text(t, l, f->m)))
			continue;
		f->is_settled = f->is_settled || file_id_is_settled(id, wall_ns());
		return f;
	}
	return NULL;
}

static int open_file(struct jab *j, struct target *t, const struct loaded *l, const struct map *map, const struct file_id *before,
		     struct file **ret_file)
{
	struct file_id after;
	struct module *m;
	int r = open_module(t, l, &m);

	if (r < 0)
		return r;
	*ret_file = file_add(j, l->path, m);
	(*ret_file)->id = (struct file_id){ .dev = (uint64_t)map->dev_major << 32 | map->dev_minor, .inode = map->inode };
	file_note_id(*ret_file, before, proc_file_id(t->proc, map, &after) ? &after : NULL);
	return 0;
}

int target_open_file(struct jab *j, struct target *t, struct loaded *l)
{
	const struct map *map;
	struct file_id id;
	struct file *f;
	bool has_id;
	int r = 0;

	if (l->file != UINT32_MAX)
		return 0;
	map = proc_map_at(t->proc, l->start);
	if (!map)
		return fail(-ENOENT, "%s is no longer mapped", l->path);
	has_id = proc_file_id(t->proc, map, &id);
	f = known_file(j, t, l, map, has_id ? &id : NULL);
	if (!f)
		r = open_file(j, t, l, map, has_id ? &id : NULL, &f);
	if (!r)
		r = find_bias(t, f->m, l);
	if (!r)
		r = check_same_build(t, f->m, l);
	if (!r)
		l->file = f - j->files.v;
	return r;
}
