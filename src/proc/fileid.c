/* SPDX-License-Identifier: MIT */
#include "proc/fileid.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "proc/internal.h"

#define COARSE_NS 3000000000ull		/* the coarsest times are those of FAT: two seconds */

static uint64_t ns_of(const struct timespec *t)
{
	return t->tv_sec * 1000000000ull + t->tv_nsec;
}

/* By /proc/PID/map_files, which needs root; else by path, if that still leads to the mapped inode. */
static bool stat_mapped(const struct proc *p, const struct map *m, struct stat *ret_stat)
{
	char path[4096 + sizeof(p->root)];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", p->pid, (unsigned long)m->start, (unsigned long)m->end);
	if (stat(path, ret_stat) == 0)
		return true;
	if (m->deleted || snprintf(path, sizeof(path), "%s%s", p->root, m->path) >= (int)sizeof(path))
		return false;
	return fstatat(AT_FDCWD, path, ret_stat, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 && ret_stat->st_ino == m->inode;
}

struct file_id file_id_of(const struct stat *st)
{
	return (struct file_id){
		.dev = (uint64_t)major(st->st_dev) << 32 | minor(st->st_dev), .inode = st->st_ino, .size = st->st_size,
		.modified = ns_of(&st->st_mtim), .changed = ns_of(&st->st_ctim),
	};
}

bool proc_file_id(const struct proc *p, const struct map *m, struct file_id *ret_id)
{
	struct stat st;

	if (!m->inode || !stat_mapped(p, m, &st) || !S_ISREG(st.st_mode))
		return false;
	*ret_id = file_id_of(&st);
	/* On some file systems (btrfs, overlayfs) stat() returns other numbers than /proc/PID/maps. */
	ret_id->dev = (uint64_t)m->dev_major << 32 | m->dev_minor;
	ret_id->inode = m->inode;
	return true;
}

bool file_id_same(const struct file_id *a, const struct file_id *b)
{
	return a->dev == b->dev && a->inode == b->inode && a->size == b->size && a->modified == b->modified &&
	       a->changed == b->changed;
}

bool file_id_is_settled(const struct file_id *id, uint64_t now)
{
	return id->changed < now && now - id->changed > COARSE_NS;
}
