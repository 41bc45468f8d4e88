/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a file. A mapping is cheap even for a debug file of a gigabyte, but it changes when the file does,
 * and neither jab's parsers nor libdw can handle bytes that change between a check and the use. So a file is mapped
 * only if no user but root and our own can change it; any other file is copied. A mapping is shared: a kernel
 * uprobe puts its breakpoint into every private mapping of its file, and then text with a foreign breakpoint would
 * look the same as its file. If a mapped file is truncated, guard.c puts zeros in the place of the missing pages.
 */
#include "sym/priv.h"

#include "base/err.h"
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

/*
 * A file with holes may claim any size. File systems that compress may use a quarter of it, and some count no
 * blocks for small files, or none at all.
 */
#define SPARSE_FREE (64ull << 20)
#define SPARSE_RATIO 16

uint64_t content_most(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;
}

static bool is_our_root(const char *root)
{
	struct stat a, b;

	return !root || !*root ||
	       (stat(root, &a) == 0 && stat("/", &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

/* Any user's FUSE server can claim that its files belong to root, and a container's root user is not the host's. */
static bool can_be_mapped(int fd, const struct stat *st, const char *root)
{
	struct statfs fs;

	return (st->st_uid == 0 || st->st_uid == geteuid()) && !(st->st_mode & (S_IWGRP | S_IWOTH)) &&
	       is_our_root(root) && fstatfs(fd, &fs) == 0 && fs.f_type != FUSE_SUPER_MAGIC;
}

static int check_size(const struct stat *st, const char *path)
{
	uint64_t size = st->st_size, disk = (uint64_t)st->st_blocks * 512;

	if (!S_ISREG(st->st_mode))
		return fail(-ENOEXEC, "%s is not a regular file", path);
	if (size == 0)
		return fail(-ENOEXEC, "%s is empty, not an ELF file", path);
	if (size > SPARSE_FREE && disk && size / SPARSE_RATIO > disk)
		return fail(-EFBIG, "%s is not read: of its %llu MB only %llu kB are on the disk", path,
			    (unsigned long long)size >> 20, (unsigned long long)disk >> 10);
	return 0;
}

static int allocate(size_t size, const char *path, struct content *ret_content)
{
	void *p;

	if (size > content_most())
		return fail(-EFBIG, "%s is too large (%llu MB): users other than root and the one that runs jab can change "
			    "it, so jab needs a copy, and copies only up to half of the memory", path,
			    (unsigned long long)size >> 20);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return fail(-errno, "%s: no memory for its %llu MB", path, (unsigned long long)size >> 20);
	madvise(p, size, MADV_HUGEPAGE);
	*ret_content = (struct content){ p, size, false };
	return 0;
}

static int copy(int fd, size_t size, const char *path, struct content *ret_content)
{
	int r = allocate(size, path, ret_content);

	for (size_t at = 0; r == 0 && at < size;) {
		ssize_t n = pread(fd, ret_content->p + at, size - at, at);

		if (n > 0)
			at += n;
		else if (n == 0)
			r = fail(-ESTALE, "%s was truncated while jab read it", path);
		else if (errno != EINTR)
			r = fail(-errno, "%s can't be read: %s", path, strerror(errno));
	}
	if (r < 0)
		content_free(ret_content);
	return r;
}

int content_read(int fd, const char *root, const char *path, struct content *ret_content)
{
	struct stat st;
	void *map;
	int r;

	*ret_content = (struct content){ 0 };
	if (fstat(fd, &st) < 0)
		return fail(-errno, "%s: %s", path, strerror(errno));
	r = check_size(&st, path);
	if (r < 0)
		return r;
	if (!can_be_mapped(fd, &st, root))
		return copy(fd, st.st_size, path, ret_content);
	map = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return fail(-errno, "%s can't be mapped: %s", path, strerror(errno));
	*ret_content = (struct content){ map, st.st_size, true };
	if (guard_add(map, st.st_size))
		return 0;
	munmap(map, st.st_size);
	return copy(fd, st.st_size, path, ret_content);
}

int content_check(const struct content *c, const char *path)
{
	if (c->mapped && guard_hit(c->p))
		return fail(-ESTALE, "%s was truncated while jab read it", path);
	return 0;
}

int content_duplicate(const uint8_t *p, size_t size, const char *path, struct content *ret_content)
{
	int r = allocate(size, path, ret_content);

	if (r == 0)
		memcpy(ret_content->p, p, size);
	return r;
}

void content_free(struct content *c)
{
	if (c->mapped)
		guard_remove(c->p);
	if (c->p)
		munmap(c->p, c->size);
	*c = (struct content){ 0 };
}
