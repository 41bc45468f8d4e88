/* SPDX-License-Identifier: MIT */
/* The target's mappings, and reading and writing its memory through /proc/PID/mem. */
#include "proc/internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

void maps_free(map_list *maps)
{
	size_t i;

	for (i = 0; i < maps->n; i++)
		free(maps->v[i].path);
	vec_free(maps);
}

static uint64_t take_number(char **at, int base)
{
	uint64_t v = strtoull(*at, at, base);

	if (**at)
		(*at)++;
	return v;
}

/* The kernel writes a newline in a name as \012; nothing else is escaped there. */
static void unescape(char *s)
{
	char *out;

	s = strchrnul(s, '\\');
	for (out = s; *s; s++, out++) {
		*out = *s;
		if (strncmp(s, "\\012", 4) == 0) {
			*out = '\n';
			s += 3;
		}
	}
	*out = 0;
}

/* Names are given as the target sees them: without the part above its own root. */
static char *map_path(struct proc *p, char *name, bool *ret_deleted)
{
	static const char deleted[] = " (deleted)";
	const char *top = priv(p)->chroot;
	size_t len = strlen(name), cut = strlen(top);

	*ret_deleted = false;
	if (len >= sizeof(deleted) && strcmp(name + len - sizeof(deleted) + 1, deleted) == 0) {
		name[len - sizeof(deleted) + 1] = 0;
		*ret_deleted = true;
	}
	unescape(name);
	if (cut && strncmp(name, top, cut) == 0 && name[cut] == '/')
		name += cut;
	return xstrdup(name);
}

static void parse_line(struct proc *p, char *line, struct map *m)
{
	m->start = take_number(&line, 16);
	m->end = take_number(&line, 16);
	m->prot = (line[0] == 'r' ? PROT_READ : 0) | (line[1] == 'w' ? PROT_WRITE : 0) |
		  (line[2] == 'x' ? PROT_EXEC : 0);
	m->shared = line[3] == 's';
	line += 5;
	m->offset = take_number(&line, 16);
	m->dev_major = take_number(&line, 16);
	m->dev_minor = take_number(&line, 16);
	m->inode = take_number(&line, 10);
	line += strspn(line, " ");
	m->path = map_path(p, line, &m->deleted);
}

bool proc_is_still(const struct proc *p)
{
	for (size_t i = 0; i < p->threads.n; i++)
		if (!p->threads.v[i].stopped && !p->threads.v[i].held && !p->threads.v[i].gone)
			return false;
	return priv(p)->depth > 0 && !priv(p)->borrow.tid;
}

void proc_maps_stir(struct proc *p)
{
	struct proc_priv *v = priv(p);

	free(v->maps_text);
	v->maps_text = NULL;
	v->maps_parsed = v->own_parsed = false;
	v->heap = 0;
	v->pristine.n = 0;
}

void proc_stirs(struct proc *p)
{
	proc_maps_stir(p);
	free(priv(p)->status_text);
	priv(p)->status_text = NULL;
	priv(p)->maps_known = false;
	priv(p)->unlimited = false;
}

int map_query(pid_t pid, uint64_t at, struct map_query *ret, char *name, size_t room)
{
	char path[64];
	int fd, r;

	*ret = (struct map_query){ .size = sizeof(*ret), .at = at, .name_size = room, .name = (uint64_t)name };
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = ioctl(fd, MAP_QUERY, ret) < 0 ? -errno : 0;
	close(fd);
	if (r == 0 && !ret->name_size)
		name[0] = 0;
	return r;
}

int proc_read_status(struct proc *p, char status[STATUS_MAX])
{
	struct proc_priv *v = priv(p);
	bool still = proc_is_still(p);
	char path[64];

	if (still && v->status_text) {
		snprintf(status, STATUS_MAX, "%s", v->status_text);
		return 0;
	}
	if (proc_path(p, "status", path, sizeof(path)) < 0 || file_read(path, status, STATUS_MAX) <= 0)
		return -ESRCH;
	if (still)
		v->status_text = xstrdup(status);
	return 0;
}

int proc_maps_text(struct proc *p, char **ret_text)
{
	struct proc_priv *v = priv(p);
	bool still = proc_is_still(p);
	char path[64], *text;
	size_t len;

	if (still && v->maps_text) {
		*ret_text = xstrdup(v->maps_text);
		return 0;
	}
	if (proc_path(p, "maps", path, sizeof(path)) < 0)
		return fail(-ESRCH, "process %d has ended", p->pid);
	text = file_load(path, &len);
	if (!text && (errno == ENOENT || errno == ESRCH))
		return fail(-ESRCH, "process %d has ended", p->pid);
	if (!text)
		return fail(-errno, "%s can't be read: %s", path, strerror(errno));
	if (still)
		v->maps_text = xstrdup(text);
	*ret_text = text;
	return 0;
}

int maps_load(struct proc *p, map_list *maps)
{
	bool *parsed = maps == &p->maps ? &priv(p)->maps_parsed : maps == &priv(p)->maps ? &priv(p)->own_parsed : NULL;
	char *text = NULL, *line, *next;
	int r;

	if (parsed && *parsed && proc_is_still(p))
		return 0;
	r = proc_maps_text(p, &text);
	if (r < 0)
		return r;
	if (!*text) {	/* the last list is kept: addresses in events of the process still get their names */
		free(text);
		return fail(-ESRCH, "process %d has ended", p->pid);
	}
	maps_free(maps);
	for (line = text; *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = 0;
		if (strlen(line) > 20)	/* low addresses make short lines */
			parse_line(p, line, vec_add(maps));
	}
	free(text);
	if (parsed)
		*parsed = proc_is_still(p);
	return 0;
}

const struct map *maps_at(const map_list *maps, uint64_t addr)
{
	size_t lo = 0, hi = maps->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (addr < maps->v[mid].start)
			hi = mid;
		else if (addr >= maps->v[mid].end)
			lo = mid + 1;
		else
			return &maps->v[mid];
	}
	return NULL;
}

int proc_read_maps(struct proc *p)
{
	int r = maps_load(p, &p->maps);

	priv(p)->maps_known = r == 0 && proc_is_still(p);
	return r;
}

int proc_read_others_maps(struct proc *p)
{
	return priv(p)->maps_known && proc_is_still(p) ? 0 : proc_read_maps(p);
}

const struct map *proc_map_at(const struct proc *p, uint64_t addr)
{
	return maps_at(&p->maps, addr);
}

static int bad_access(struct proc *p, const char *what, uint64_t at, int err)
{
	if (!proc_memory_lives(p))
		return fail(-ESRCH, "process %d has ended", p->pid);
	return fail(err ? err : -EFAULT, "process %d: memory at %#llx can't be %s", p->pid,
		    (unsigned long long)at, what);
}

int proc_read(struct proc *p, taddr at, void *to, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(p->mem, (char *)to + done, len - done, at.v + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return bad_access(p, "read", at.v + done, n < 0 ? -errno : 0);
		done += n;
	}
	return 0;
}

int proc_write(struct proc *p, taddr at, const void *from, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pwrite(p->mem, (const char *)from + done, len - done, at.v + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return bad_access(p, "written", at.v + done, n < 0 ? -errno : 0);
		done += n;
	}
	return 0;
}
