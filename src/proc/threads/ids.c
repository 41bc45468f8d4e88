/* SPDX-License-Identifier: MIT */
#include "arch/page.h"
#include "proc/undo/clean.h"
#include "proc/threads/ids.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "arch/event.h"
#include "base/clock.h"
#include "base/err.h"
#include "proc/internal.h"

int proc_status_number(struct proc *p, const char *name, uint64_t *ret_value)
{
	char status[STATUS_MAX];

	if (proc_read_status(p, status) < 0)
		return -ESRCH;
	return status_field(status, name, 10, ret_value);
}

/* Without such a line the mode is not known: 2, as if there were a filter. */
static uint64_t seccomp_of(const char *status)
{
	uint64_t mode;

	return status_field(status, "Seccomp", 10, &mode) < 0 ? 2 : mode;
}

/* Each thread has its own mode. A thread whose status can't be read has ended. */
int proc_seccomp(struct proc *p)
{
	char path[300], status[STATUS_MAX];
	uint64_t mode, found = 0;
	struct dirent *e;
	DIR *d;

	if (proc_is_still(p) && p->threads.n == 1 && p->threads.v[0].stopped && proc_read_status(p, status) == 0)
		return seccomp_of(status);
	snprintf(path, sizeof(path), "/proc/%d/task", p->pid);
	d = opendir(path);
	while (d && found != 1 && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", p->pid, e->d_name);
		if (e->d_name[0] == '.' || file_read(path, status, sizeof(status)) < 0)
			continue;
		mode = seccomp_of(status);
		found = mode ? mode : found;
	}
	if (!d)
		return -ESRCH;
	closedir(d);
	return found;
}

uint64_t proc_auxv(struct proc *p, uint64_t type)
{
	char path[64];
	Elf64_auxv_t v[64];
	ssize_t n = -1;

	if (proc_is_still(p) && priv(p)->born_in == priv(p)->stops) {
		n = MIN(priv(p)->auxv_len, sizeof(v));
		memcpy(v, priv(p)->auxv, n);
	} else if (proc_path(p, "auxv", path, sizeof(path)) == 0) {
		n = file_read(path, (char *)v, sizeof(v));
	}
	for (ssize_t i = 0; (i + 1) * (ssize_t)sizeof(v[0]) <= n; i++)
		if (v[i].a_type == type)
			return v[i].a_un.a_val;
	return 0;
}

/* The last number of a line such as "NSpid:\t4711\t12\t1": that of the innermost namespace. */
bool status_last(const char *status, const char *name, uint32_t *ret_value)
{
	const char *line = strstr(status, name);
	char *end;
	bool found = false;

	if (!line)
		return false;
	for (line += strlen(name); *line == '\t' || *line == ' '; line = end) {
		unsigned long v = strtoul(line, &end, 10);

		if (end == line)
			break;
		*ret_value = v;
		found = true;
	}
	return found;
}

bool innermost_pid(pid_t pid, uint32_t *ret_pid)
{
	char path[64], status[4096];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return file_read(path, status, sizeof(status)) > 0 && status_last(status, "\nNStgid:", ret_pid);
}

int proc_ns_pid(struct proc *p, uint32_t *ret_pid, bool *ret_foreign)
{
	char status[STATUS_MAX];
	uint32_t pid;

	if (proc_read_status(p, status) < 0)
		return fail(-ESRCH, "process %d has ended", p->pid);
	if (!status_last(status, "\nNStgid:", &pid))	/* a kernel without namespaces */
		pid = p->pid;
	*ret_pid = pid;
	*ret_foreign = pid != (uint32_t)p->pid;
	return 0;
}

void thread_read_text(pid_t tid, taddr at, char *to, size_t room)
{
	char path[64];
	size_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && n + 1 < room) {
		size_t part = MIN(PAGE - (at.v + n) % PAGE, room - 1 - n), len;
		ssize_t got = pread(fd, to + n, part, at.v + n);

		if (got <= 0)
			break;
		len = strnlen(to + n, got);
		n += len;
		if (len < (size_t)got)
			break;
	}
	if (fd >= 0)
		close(fd);
	to[n] = '\0';
}

struct id { uint32_t theirs, tid, pid; };

struct id_map {
	char ns[64];		/* link text of the target's pid namespace */
	VEC(struct id) ids;	/* sorted by theirs */
	uint64_t read_at, took;	/* when /proc was last read, and how long that took */
	uint64_t unknown;	/* how often a tid was not found */
};

/* The target may invent unknown tids: not more than a tenth of the tracer's time is spent on reading /proc for them. */
#define READ_AGAIN 20000000ull
#define READ_SHARE 10

struct id_map *id_map_new(struct proc *p)
{
	struct id_map *m = xcalloc(1, sizeof(*m));
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", p->pid);
	if (readlink(path, m->ns, sizeof(m->ns) - 1) < 0)
		m->ns[0] = '\0';
	return m;
}

static void add_threads(struct id_map *m, const char *pid)
{
	char path[512], status[4096];
	struct dirent *e;
	uint32_t theirs;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%.20s/task", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/task/%.20s/status", pid, e->d_name);
		if (file_read(path, status, sizeof(status)) > 0 && status_last(status, "\nNSpid:", &theirs))
			*vec_add(&m->ids) = (struct id){ theirs, atoi(e->d_name), atoi(pid) };
	}
	if (d)
		closedir(d);
}

static int by_number(const void *a, const void *b)
{
	const struct id *x = a, *y = b;

	return x->theirs < y->theirs ? -1 : x->theirs > y->theirs;
}

#define MOST_IDS 65536

/* Old entries are dropped if there is a new one of the same tid, or if they are too many. Both lists are sorted. */
static void keep_ended(struct id_map *m, size_t had)
{
	struct id *old = m->ids.v, *new = m->ids.v + had;
	size_t n = m->ids.n - had, k = 0, kept = 0;

	for (size_t i = 0; i < had && had < MOST_IDS; i++) {
		while (k < n && new[k].theirs < old[i].theirs)
			k++;
		if (k == n || new[k].theirs != old[i].theirs)
			old[kept++] = old[i];
	}
	memmove(old + kept, new, n * sizeof(*new));
	m->ids.n = kept + n;
}

/* Events of threads that have ended meanwhile may still be in the rings, so their entries are kept. */
void id_map_read(struct id_map *m)
{
	char path[64], ns[64];
	struct dirent *e;
	DIR *d = opendir("/proc");
	size_t had = m->ids.n;

	m->read_at = now_ns();
	while (d && (e = readdir(d))) {
		ssize_t n;

		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/ns/pid", e->d_name);
		n = readlink(path, ns, sizeof(ns) - 1);
		if (n < 0 || (ns[n] = '\0', strcmp(ns, m->ns)))
			continue;
		add_threads(m, e->d_name);
	}
	if (d)
		closedir(d);
	if (m->ids.n > had)
		qsort(m->ids.v + had, m->ids.n - had, sizeof(*m->ids.v), by_number);
	if (had)
		keep_ended(m, had);
	if (m->ids.n)
		qsort(m->ids.v, m->ids.n, sizeof(*m->ids.v), by_number);
	m->took = now_ns() - m->read_at;
}

static const struct id *find_id(const struct id_map *m, uint32_t theirs)
{
	struct id key = { .theirs = theirs };

	return m->ids.n ? bsearch(&key, m->ids.v, m->ids.n, sizeof(key), by_number) : NULL;
}

void id_map_translate(struct id_map *m, uint32_t *pid, uint32_t *tid)
{
	const struct id *i = find_id(m, *tid);

	if (!i && now_ns() - m->read_at > MAX(READ_AGAIN, READ_SHARE * m->took)) {
		id_map_read(m);
		i = find_id(m, *tid);
	}
	if (i) {
		*tid = i->tid;
		*pid = i->pid;
		return;
	}
	m->unknown++;
	i = find_id(m, *pid);
	if (i)
		*pid = i->pid;
}

uint64_t id_map_unknown(const struct id_map *m)
{
	return m ? m->unknown : 0;
}

void id_map_free(struct id_map *m)
{
	if (!m)
		return;
	vec_free(&m->ids);
	free(m);
}

void proc_note_ids(struct proc *p, uint64_t *table)
{
	struct id_map m = { 0 };
	char pid[24];

	snprintf(pid, sizeof(pid), "%d", p->pid);
	add_threads(&m, pid);
	for (size_t i = 0; i < m.ids.n; i++)
		table[m.ids.v[i].theirs % ID_TABLE] = id_entry(m.ids.v[i].theirs, m.ids.v[i].tid);
	vec_free(&m.ids);
}

/* In the tracer's own namespace /proc has a directory for each tid; for another one, the table is read. */
bool proc_has_tid(struct proc *p, uint32_t tid, bool foreign)
{
	struct id_map *m;
	char path[64];
	bool found;

	if (!foreign) {
		snprintf(path, sizeof(path), "/proc/%u", tid);
		return access(path, F_OK) == 0;
	}
	m = id_map_new(p);
	id_map_read(m);
	found = !m->ids.n || find_id(m, tid);	/* nothing could be read: true */
	id_map_free(m);
	return found;
}
