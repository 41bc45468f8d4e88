/* SPDX-License-Identifier: MIT */
/*
 * How much memory a process may still take. A page of text that the tracer writes becomes a private copy of the target,
 * charged to its memory cgroup, as are the private pieces of the arena; if the cgroup is full, the kernel kills
 * a process in it, most likely the target. So the room is checked before, in every group from the target's own up to the
 * root: the limit less what is used, not counting pages of files, which the kernel reclaims first. A file that can't be
 * read counts as no limit.
 *
 * Shared memory is charged to the tracer. But the tracer may be in the target's group, as in a container, and the machine
 * has a limit, too, and then the kernel may kill either.
 */
#include "proc/internal.h"

#include <string.h>
#include "base/clock.h"
#include "base/err.h"

#define SPARE (256u << 10)	/* for what others take meanwhile */
#define KEPT_NS 100000000ull	/* how long it is assumed that groups without a limit get none */
#define NO_LIMIT (INT64_MAX / 2)	/* cgroup version 1 shows a huge number if there is no limit */

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
	if (limit > NO_LIMIT)
		return UINT64_MAX;
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

static uint64_t room_above_all(const char *text)
{
	uint64_t old = room_above(&v1, text, ":memory:"), unified = room_above(&v2, text, "0::");

	return MIN(old, unified);
}

static uint64_t room_of(const char *groups)
{
	char text[8192];

	return file_read(groups, text, sizeof(text)) <= 0 ? UINT64_MAX : room_above_all(text);
}

/* Programs that are executed one after the other are mostly in the same groups: that these have no limit is kept for KEPT_NS. */
static uint64_t room_of_one(const char *groups)
{
	static char kept[8192];
	static uint64_t since;
	uint64_t room;
	char text[sizeof(kept)];

	if (file_read(groups, text, sizeof(text)) <= 0)
		return UINT64_MAX;
	if (now_ns() - since < KEPT_NS && !strcmp(text, kept))
		return UINT64_MAX;
	room = room_above_all(text);
	if (room == UINT64_MAX) {
		since = now_ns();
		memcpy(kept, text, sizeof(kept));
	}
	return room;
}

uint64_t proc_memory_room(struct proc *p)
{
	struct proc_priv *v = priv(p);
	char path[64];
	uint64_t room;

	if (proc_is_still(p) && v->unlimited)
		return UINT64_MAX;
	room = proc_path(p, "cgroup", path, sizeof(path)) < 0 ? UINT64_MAX : room_of_one(path);
	v->unlimited = proc_is_still(p) && room == UINT64_MAX;
	return room;
}

static uint64_t room_on_machine(void)
{
	char text[8192];
	uint64_t left;

	if (file_read("/proc/meminfo", text, sizeof(text)) <= 0)
		return UINT64_MAX;
	left = number_after(text, "\nMemAvailable:");
	return left ? (left + number_after(text, "\nSwapFree:")) << 10 : UINT64_MAX;
}

int own_memory_check(uint64_t need)
{
	uint64_t group = room_of("/proc/self/cgroup"), machine = room_on_machine();

	need += need / 512 + SPARE;	/* page tables */
	if (need <= MIN(group, machine))
		return 0;
	return fail(-ENOSPC, "%llu kB of shared memory are needed, and %s only %llu kB more: choose smaller maps and buffers",
		    (unsigned long long)need >> 10, group < machine ? "our memory cgroup may take" : "the machine has",
		    (unsigned long long)MIN(group, machine) >> 10);
}

bool proc_memory_is_limited(struct proc *p)
{
	return proc_memory_room(p) < NO_LIMIT;
}

int proc_memory_check(struct proc *p, uint64_t need)
{
	uint64_t room = proc_memory_room(p);

	if (need + SPARE <= room)
		return 0;
	return fail(-ENOSPC, "process %d may take only %llu kB more (the limit of its memory cgroup), and what the probes "
		    "keep there needs %llu kB: choose smaller maps, shorter strings and no durations, or raise the limit", p->pid,
		    (unsigned long long)room >> 10, (unsigned long long)(need + SPARE) >> 10);
}

int proc_take_memory(struct proc *p, taddr at, size_t len)
{
	static const uint8_t zeros[64 << 10];
	int r = proc_memory_check(p, len);

	for (size_t n; !r && len; len -= n, at.v += n) {
		n = MIN(len, sizeof(zeros));
		r = proc_write(p, at, zeros, n);
	}
	return r;
}
