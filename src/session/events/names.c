/* SPDX-License-Identifier: MIT */
/*
 * Names for numbers: which files are mapped where (told to the trace, so that it can be read elsewhere),
 * what threads are called, and which function an address belongs to.
 */
#include "session/events/names.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "session/events/shapes.h"

struct comm { uint32_t tid; char name[16]; uint64_t read_at; };

struct names {
	VEC(struct comm) comms;		/* sorted by tid */
	char *text;
};

static struct names *names_of(struct jab *j)
{
	if (!j->events->names)
		j->events->names = xcalloc(1, sizeof(*j->events->names));
	return j->events->names;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	vec_free(&n->comms);
	free(n->text);
	free(n);
}

static const struct map *map_of(const struct target *t, const char *path)
{
	for (size_t i = 0; i < t->proc->maps.n; i++)
		if (t->proc->maps.v[i].inode && !strcmp(t->proc->maps.v[i].path, path))
			return &t->proc->maps.v[i];
	return NULL;
}

/* Of the file as it was loaded. A part of it may be mapped once more elsewhere, as node does with its own code. */
static uint64_t end_of(const struct target *t, const char *path)
{
	uint64_t end = 0, offset = 0;

	for (size_t i = 0; i < t->proc->maps.n; i++) {
		const struct map *m = &t->proc->maps.v[i];
		bool same = m->inode && !strcmp(m->path, path);

		if (end && m->inode && (!same || m->offset < offset))
			break;
		if (!same)
			continue;
		end = m->end;
		offset = m->offset;
	}
	return end;
}

/* Such a part: the link address of what is mapped there; 0: it is none. */
static uint64_t in_copy(const struct target *t, const struct loaded *l, const struct module *m, uint64_t addr)
{
	const struct map *map = proc_map_at(t->proc, addr);
	uint64_t off = map ? addr - map->start + map->offset : 0;

	if (!map || !map->inode || strcmp(map->path, l->path))
		return 0;
	for (size_t i = 0; i < m->segments.n; i++) {
		const struct segment *s = &m->segments.v[i];

		if (off >= s->offset && off - s->offset < s->filesz)
			return s->addr + (off - s->offset);
	}
	return 0;
}

static void to_hex(const uint8_t *p, size_t n, char *out)
{
	for (size_t i = 0; i < n; i++)
		sprintf(out + 2 * i, "%02x", p[i]);
}

/* The build id among some notes. */
static bool find_id(const uint8_t *notes, size_t len, char *out, size_t room)
{
	size_t at = 0;

	while (at + sizeof(Elf64_Nhdr) <= len) {
		Elf64_Nhdr n;
		size_t name = at + sizeof(n), desc;

		memcpy(&n, notes + at, sizeof(n));
		if (n.n_namesz > len || n.n_descsz > len)
			return false;
		desc = name + ((n.n_namesz + 3) & ~3u);
		at = desc + ((n.n_descsz + 3) & ~3u);
		if (at > len)
			return false;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(notes + name, "GNU", 4) &&
		    2 * n.n_descsz < room) {
			to_hex(notes + desc, n.n_descsz, out);
			return true;
		}
	}
	return false;
}

/* From memory: the file may be gone or another one by now. If the process is, from the same file. */
static int read_head(struct target *t, const struct map *m, uint64_t off, void *out, size_t n)
{
	struct stat st;
	int fd, r = proc_read(t->proc, TADDR(m->start + off), out, n);

	if (r >= 0)
		return r;
	fd = open_below("", m->path);
	if (fd < 0)
		return r;
	if (fstat(fd, &st) == 0 && st.st_ino == m->inode && pread(fd, out, n, off) == (ssize_t)n)
		r = 0;
	close(fd);
	return r;
}

static void build_id(struct target *t, const struct map *m, char *out, size_t room)
{
	uint8_t page[4096], notes[1024];
	Elf64_Ehdr eh;

	out[0] = '\0';
	if (m->offset || read_head(t, m, 0, page, sizeof(page)) < 0)
		return;
	memcpy(&eh, page, sizeof(eh));
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		uint64_t at = eh.e_phoff + (uint64_t)i * sizeof(Elf64_Phdr);
		Elf64_Phdr ph;

		if (at > sizeof(page) - sizeof(ph))
			return;
		memcpy(&ph, page + at, sizeof(ph));
		if (ph.p_type != PT_NOTE || ph.p_filesz > sizeof(notes) ||
		    read_head(t, m, ph.p_offset, notes, ph.p_filesz) < 0)
			continue;
		if (find_id(notes, ph.p_filesz, out, room))
			return;
	}
}

int names_modules(struct jab *j, struct target *t)
{
	struct ctf_module *v = xcalloc(t->loaded.n + 1, sizeof(*v));
	char (*ids)[72] = xcalloc(t->loaded.n + 1, sizeof(*ids));
	size_t n = 0;
	int r;

	for (size_t i = 0; i < t->loaded.n; i++) {
		const struct map *m = map_of(t, t->loaded.v[i].path);

		if (!m)
			continue;
		build_id(t, m, ids[n], sizeof(ids[n]));
		v[n] = (struct ctf_module){ m->path, ids[n], m->start, end_of(t, m->path) - m->start, t->proc->pid };
		n++;
	}
	r = n ? ctf_modules(j->events->trace, v, n, clock_now()) : 0;
	free(ids);
	free(v);
	return r;
}

int names_threads(struct jab *j, struct target *t)
{
	struct ctf_thread *v = xcalloc(t->proc->threads.n + 1, sizeof(*v));
	char (*names)[16] = xcalloc(t->proc->threads.n + 1, sizeof(*names));
	size_t n = 0;
	int r;

	for (size_t i = 0; i < t->proc->threads.n; i++) {
		const struct thread *th = &t->proc->threads.v[i];

		snprintf(names[n], sizeof(names[n]), "%s", events_comm(j, th->pid, th->tid));
		if (names[n][0]) {
			v[n] = (struct ctf_thread){ names[n], th->pid, th->tid };
			n++;
		}
	}
	r = n ? ctf_threads(j->events->trace, v, n, clock_now()) : 0;
	free(names);
	free(v);
	return r;
}

static size_t comm_slot(const struct names *n, uint32_t tid)
{
	size_t lo = 0, hi = n->comms.n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (n->comms.v[mid].tid < tid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct target *target_of(struct jab *j, uint32_t pid)
{
	for (size_t i = 0; i < j->targets.n; i++)
		if (j->targets.v[i].proc && (uint32_t)j->targets.v[i].proc->pid == pid)
			return &j->targets.v[i];
	return j->targets.n ? &j->targets.v[0] : NULL;	/* a forked child has its parent's mappings */
}

/* Who ended before we asked was called as its program, most likely. */
static void guess_comm(struct jab *j, uint32_t pid, char name[16])
{
	const struct target *t = target_of(j, pid);

	for (size_t i = 0; t && !name[0] && i < t->loaded.n; i++)
		if (t->loaded.v[i].is_exe) {
			const char *slash = strrchr(t->loaded.v[i].path, '/');

			snprintf(name, 16, "%s", slash ? slash + 1 : t->loaded.v[i].path);
		}
}

static void read_comm(struct jab *j, uint32_t pid, uint32_t tid, char name[16])
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", pid, tid);
	f = fopen(path, "re");
	if (f && fgets(name, 16, f))
		name[strcspn(name, "\n")] = '\0';
	else
		guess_comm(j, pid, name);
	if (f)
		fclose(f);
}

#define COMM_LASTS 1000000000ull	/* threads rename themselves, numbers are used again */

const char *events_comm(struct jab *j, uint32_t pid, uint32_t tid)
{
	struct names *n = names_of(j);
	size_t i = comm_slot(n, tid);
	uint64_t now = now_ns();

	if (i == n->comms.n || n->comms.v[i].tid != tid) {
		vec_add(&n->comms);
		memmove(&n->comms.v[i + 1], &n->comms.v[i], (n->comms.n - 1 - i) * sizeof(*n->comms.v));
		n->comms.v[i] = (struct comm){ .tid = tid };
	}
	if (now - n->comms.v[i].read_at > COMM_LASTS) {
		read_comm(j, pid, tid, n->comms.v[i].name);
		n->comms.v[i].read_at = now;
	}
	return n->comms.v[i].name;
}

const char *events_address(struct jab *j, uint32_t pid, uint64_t addr)
{
	struct names *n = names_of(j);
	struct target *t = target_of(j, pid);
	const struct map *map = t && t->proc ? proc_map_at(t->proc, addr) : NULL;

	free(n->text);
	n->text = NULL;
	for (size_t i = 0; t && i < t->loaded.n; i++) {
		struct loaded *l = &t->loaded.v[i];
		const struct func *f;
		struct module *m;
		uint64_t link;
		const char *slash = strrchr(l->path, '/');
		bool whole = addr >= l->start && addr < end_of(t, l->path);

		if ((!whole && !(map && !strcmp(map->path, l->path))) || target_open_file(j, t, l) < 0)
			continue;
		m = j->files.v[l->file].m;
		link = whole ? addr - l->bias : in_copy(t, l, m, addr);
		f = module_func_at(m, link);
		if (f)
			n->text = xasprintf("%s:%s+%#llx", slash ? slash + 1 : l->path, func_name(m, f),
					    (unsigned long long)(link - f->addr));
		else
			n->text = xasprintf("%s+%#llx", slash ? slash + 1 : l->path, (unsigned long long)link);
		break;
	}
	return n->text ? n->text : "";
}

const char *events_module(struct jab *j, uint32_t pid, uint64_t addr)
{
	struct target *t = target_of(j, pid);

	for (size_t i = 0; t && i < t->loaded.n; i++)
		if (addr >= t->loaded.v[i].start && addr < end_of(t, t->loaded.v[i].path))
			return t->loaded.v[i].path;
	return NULL;
}
