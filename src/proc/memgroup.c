/* SPDX-License-Identifier: MIT */
/*
 * How much memory may a process still take? A page of text that we write to becomes a copy of its own,
 * charged to its memory cgroup; where that is full, the kernel kills somebody in it, most likely the
 * target. So we ask before, in every group from its own up to the root: the limit less what is used,
 * not counting pages of files, which the kernel takes back first. What can't be read limits nothing.
 */
#include "proc/internal.h"

#include <string.h>

struct names { const char *mount, *limit, *used, *inactive, *active; };

static const struct names v1 = {
	"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file ",
	"\ntotal_active_file "
};
static const struct names v2 = {
	"/sys/fs/cgroup", "memory.max", "memory.current", "\ninactive_file ", "\nactive_file "
};

static ssize_t read_in(const struct names *n, const char *group, const char *name, char *buf, size_t len)
{
	char path[4500];

	snprintf(path, sizeof(path), "%s%s/%s", n->mount, group, name);
	return file_read(path, buf, len);
}

static uint64_t number_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static uint64_t room_in(const struct names *n, const char *group)
{
	uint64_t limit, used, files;
	char buf[8192];

	if (read_in(n, group, n->limit, buf, sizeof(buf)) <= 0 || !strncmp(buf, "max", 3))
		return UINT64_MAX;
	limit = strtoull(buf, NULL, 10);
	if (read_in(n, group, n->used, buf, sizeof(buf)) <= 0)
		return UINT64_MAX;
	used = strtoull(buf, NULL, 10);
	if (read_in(n, group, "memory.stat", buf, sizeof(buf)) <= 0)
		return UINT64_MAX;
	files = number_after(buf, n->inactive) + number_after(buf, n->active);
	used -= MIN(used, files);
	return limit - MIN(limit, used);
}

/* A line of /proc/PID/cgroup: "4:memory:/path", or "0::/path" for the unified tree. */
static uint64_t room_above(const struct names *n, const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t least = UINT64_MAX;
	char group[4096], *cut;

	if (!at)
		return least;
	snprintf(group, sizeof(group), "%.*s", (int)strcspn(at + strlen(key), "\n"), at + strlen(key));
	while ((cut = strrchr(group, '/'))) {
		uint64_t room = room_in(n, group);

		least = MIN(least, room);
		*cut = 0;
	}
	return least;
}

uint64_t proc_memory_room(struct proc *p)
{
	char path[64], text[8192];
	uint64_t old, unified;

	if (proc_path(p, "cgroup", path, sizeof(path)) < 0 || file_read(path, text, sizeof(text)) <= 0)
		return UINT64_MAX;
	old = room_above(&v1, text, ":memory:");
	unified = room_above(&v2, text, "0::");
	return MIN(old, unified);
}
