/* SPDX-License-Identifier: MIT */
/*
 * What the kernel tells of memory beyond /proc/PID/maps: flags and keys of mappings in smaps, and guard pages (MADV_GUARD_INSTALL), which
 * are seen in no mapping, by PAGEMAP_SCAN.
 */
#include "session/watches/vet.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "arch/page.h"
#include "base/err.h"

#define GUARD_INSTALL 102	/* MADV_GUARD_INSTALL, since Linux 6.13 */
#define IS_GUARD (1ull << 8)	/* PAGE_IS_GUARD of PAGEMAP_SCAN, since 6.15 */

/* struct pm_scan_arg of linux/fs.h, which not every machine has */
struct scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct scanned { uint64_t start, end, categories; };
#define SCAN _IOWR('f', 16, struct scan)

/* Does this kernel have guard pages? */
static bool has_guards(void)
{
	static int has = -1;
	void *page;

	if (has >= 0)
		return has;
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	has = page == MAP_FAILED || madvise(page, PAGE, GUARD_INSTALL) == 0;
	if (page != MAP_FAILED)
		munmap(page, PAGE);
	return has;
}

static bool has_no_guard(int pagemap, const struct known_range *r)
{
	struct scanned found;
	struct scan s = { .size = sizeof(s), .start = r->lo, .end = r->lo + r->len, .vec = (uint64_t)&found, .vec_len = 1, .max_pages = 1,
			  .category_mask = IS_GUARD, .return_mask = IS_GUARD };

	return pagemap >= 0 && ioctl(pagemap, SCAN, &s) == 0;
}

/* Flags of a mapping that each exclude it: see proc_pid_smaps(5). */
static bool has_flag(const char *flags)
{
	static const char bad[][3] = { "dc", "wf", "um", "uw", "ui", "io", "pf", "sf", "ht", "gu", "ss", "sh", "ms", "mp" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *at = strstr(flags, bad[i]);

		if (at && at > flags && at[-1] == ' ' && (at[2] == ' ' || at[2] == '\n' || !at[2]))
			return true;
	}
	return false;
}

struct mapping { uint64_t lo, hi; bool plain, flags_seen; };

/* Adds to the bytes of each range that are good. */
static void note(const struct mapping *m, const struct known_range *ranges, uint32_t n, uint64_t *bytes)
{
	for (uint32_t i = 0; m->plain && m->flags_seen && i < n; i++) {
		uint64_t lo = MAX(m->lo, ranges[i].lo), hi = MIN(m->hi, ranges[i].lo + ranges[i].len);

		if (lo < hi)
			bytes[i] += hi - lo;
	}
}

static void read_line(struct mapping *m, const char *line, const struct known_range *ranges, uint32_t n, uint64_t *bytes)
{
	unsigned long lo, hi, offset, inode;
	unsigned int major, minor, key;
	char prot[5];

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &lo, &hi, prot, &offset, &major, &minor, &inode) == 7)
		*m = (struct mapping){ lo, hi, !inode && !strcmp(prot, "rw-p"), false };
	else if (sscanf(line, "ProtectionKey: %u", &key) == 1)
		m->plain &= !key;
	else if (!strncmp(line, "VmFlags:", strlen("VmFlags:"))) {	/* the last line of a mapping */
		m->plain &= !has_flag(line);
		m->flags_seen = true;
		note(m, ranges, n, bytes);
	}
}

void vet_ranges(struct proc *p, const struct known_range *ranges, uint32_t n, bool *ret_good)
{
	uint64_t *bytes = xcalloc(n, sizeof(*bytes));
	struct mapping m = { 0 };
	char path[64], line[512];
	bool begins = true;
	int pagemap = -1;
	FILE *f = proc_path(p, "smaps", path, sizeof(path)) < 0 ? NULL : fopen(path, "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (begins)	/* the rest of a long one is a path, in which anything may stand */
			read_line(&m, line, ranges, n, bytes);
		begins = strchr(line, '\n');
	}
	if (f)
		fclose(f);
	if (has_guards() && proc_path(p, "pagemap", path, sizeof(path)) == 0)
		pagemap = open(path, O_RDONLY | O_CLOEXEC);
	for (uint32_t i = 0; i < n; i++)
		ret_good[i] = ranges[i].len && bytes[i] == ranges[i].len && (!has_guards() || has_no_guard(pagemap, &ranges[i]));
	if (pagemap >= 0)
		close(pagemap);
	free(bytes);
}

bool vet_has_ring(struct proc *p)
{
	char path[64], link[64];
	bool has = false;
	struct dirent *e;
	DIR *d = NULL;

	if (proc_path(p, "fd", path, sizeof(path)) == 0)
		d = opendir(path);
	while (d && !has && (e = readdir(d))) {
		ssize_t n = e->d_name[0] == '.' ? 0 : readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

		link[MAX(n, 0)] = '\0';
		has = strstr(link, "[io_uring]");
	}
	if (d)
		closedir(d);
	return !d || has;
}
