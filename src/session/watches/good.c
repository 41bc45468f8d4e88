/* SPDX-License-Identifier: MIT */
/*
 * Memory that a pad may read plainly, whatever has led there (docs/why/reads.md tells why this and no more):
 *
 *  - what can be written of the program, its loader and the libraries that it was linked with. These are
 *    there from the first instruction to the last: a loader unloads only what dlopen() has brought. Which ones
 *    they are is followed from the program by the names that each of them needs;
 *  - only if its segments are mapped as the loader has left them. Who protects a page, gives it a key, registers it
 *    somewhere or keeps it from children cuts a mapping in pieces: such a module is left alone as a whole;
 *  - only pages that are the process's own: without a file behind them, or copied when they were first written.
 *    A page that still is the file's goes when somebody truncates the file;
 *  - the stack of the first thread, as far as it reached when we looked.
 */
#include "arch/page.h"
#include "session/watches/good.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/err.h"

#define MOST_HEADERS 64
#define MOST_DYNAMIC 512
#define MOST_PAGES (1u << 18)	/* of one segment */
#define OF_OTHERS 2		/* ranges of a library */

struct image {
	const struct map *first;	/* has the ELF header */
	uint64_t bias;
	Elf64_Phdr ph[MOST_HEADERS];
	uint32_t n;
	Elf64_Dyn dyn[MOST_DYNAMIC];
	uint32_t ndyn;
	uint64_t strings;
	char soname[256];
	bool stays;
};

struct search {
	struct proc *p;
	VEC(struct image *) images;
	struct gen_good *good;
	uint32_t n;			/* ranges */
	int pagemap;			/* -1: can't be read */
};

static uint64_t down(uint64_t v) { return v & ~(PAGE - 1); }
static uint64_t up(uint64_t v) { return down(v + PAGE - 1); }

/* ---- what is loaded ---- */

static const Elf64_Phdr *header(const struct image *m, uint32_t type)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (m->ph[i].p_type == type)
			return &m->ph[i];
	return NULL;
}

static void read_string(const struct search *s, const struct image *m, uint64_t off, char *ret, size_t len)
{
	uint64_t at = m->strings + off;
	size_t n = MIN(len, PAGE - at % PAGE);

	memset(ret, 0, len);
	if (proc_read(s->p, TADDR(at), ret, n) < 0 || (!memchr(ret, 0, n) && n < len &&
	    proc_read(s->p, TADDR(at + n), ret + n, len - n) < 0) || !memchr(ret, 0, len))
		ret[0] = '\0';
}

/* Some loaders write live addresses into it. */
static void read_dynamic(const struct search *s, struct image *m)
{
	const Elf64_Phdr *ph = header(m, PT_DYNAMIC);

	if (!ph || proc_read(s->p, TADDR(m->bias + ph->p_vaddr), m->dyn, MIN(ph->p_memsz, sizeof(m->dyn))) < 0)
		return;
	while (m->ndyn < MIN(ph->p_memsz / sizeof(Elf64_Dyn), MOST_DYNAMIC) && m->dyn[m->ndyn].d_tag != DT_NULL)
		m->ndyn++;
	for (uint32_t i = 0; i < m->ndyn; i++)
		if (m->dyn[i].d_tag == DT_STRTAB)
			m->strings = m->dyn[i].d_un.d_ptr + (m->dyn[i].d_un.d_ptr < m->first->start ? m->bias : 0);
	for (uint32_t i = 0; i < m->ndyn; i++)
		if (m->dyn[i].d_tag == DT_SONAME)
			read_string(s, m, m->dyn[i].d_un.d_val, m->soname, sizeof(m->soname));
}

static struct image *read_image(const struct search *s, const struct map *map)
{
	struct image *m;
	Elf64_Ehdr eh;
	uint32_t i;

	if (proc_read(s->p, TADDR(map->start), &eh, sizeof(eh)) < 0 || memcmp(eh.e_ident, ELFMAG, SELFMAG) ||
	    eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_phentsize != sizeof(Elf64_Phdr) || eh.e_phnum > MOST_HEADERS)
		return NULL;
	m = xcalloc(1, sizeof(*m));
	m->first = map;
	m->n = eh.e_phnum;
	for (i = 0; proc_read(s->p, TADDR(map->start + eh.e_phoff), m->ph, m->n * sizeof(*m->ph)) == 0 && i < m->n; i++)
		if (m->ph[i].p_type == PT_LOAD && !down(m->ph[i].p_offset))
			break;
	if (i >= m->n)
		return free(m), NULL;
	m->bias = map->start - down(m->ph[i].p_vaddr);
	read_dynamic(s, m);
	return m;
}

static void read_images(struct search *s)
{
	for (size_t i = 0; i < s->p->maps.n; i++) {
		const struct map *map = &s->p->maps.v[i];
		struct image *m = NULL;

		if (map->inode && !map->offset && map->path[0] == '/' && map->prot & PROT_READ)
			m = read_image(s, map);
		if (m)
			*vec_add(&s->images) = m;
	}
}

/* ---- what stays ---- */

static bool has_name(const struct image *m, const char *name)
{
	const char *slash = strrchr(m->first->path, '/');

	return !strcmp(m->soname, name) || !strcmp(slash ? slash + 1 : m->first->path, name);
}

/* If there are two of that name, one of them may be in a name space of its own, and go. */
static struct image *only_one(const struct search *s, const char *name)
{
	struct image *found = NULL;

	for (size_t i = 0; name[0] && i < s->images.n; i++)
		if (has_name(s->images.v[i], name)) {
			if (found)
				return NULL;
			found = s->images.v[i];
		}
	return found;
}

static struct image *image_at(const struct search *s, uint64_t at)
{
	const struct map *map = at ? proc_map_at(s->p, at) : NULL;

	for (size_t i = 0; map && i < s->images.n; i++)
		if (s->images.v[i]->first == map)
			return s->images.v[i];
	return NULL;
}

/* Program and loader are found by the auxiliary vector. */
static void read_auxv(const struct search *s, uint64_t *ret_program, uint64_t *ret_loader)
{
	Elf64_auxv_t v[128];
	char path[64];
	ssize_t len = -1;
	int fd = proc_path(s->p, "auxv", path, sizeof(path)) < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);

	*ret_program = *ret_loader = 0;
	if (fd >= 0) {
		len = read(fd, v, sizeof(v));
		close(fd);
	}
	for (ssize_t i = 0; i < len / (ssize_t)sizeof(*v); i++) {
		if (v[i].a_type == AT_PHDR)
			*ret_program = v[i].a_un.a_val;
		if (v[i].a_type == AT_BASE)
			*ret_loader = v[i].a_un.a_val;
	}
}

typedef VEC(struct image *) image_list;

static void add_staying(image_list *list, struct image *m)
{
	if (!m || m->stays)
		return;
	m->stays = true;
	*vec_add(list) = m;
}

/* In the order in which a loader finds them: the program first. */
static void find_staying(struct search *s, image_list *list)
{
	uint64_t program, loader;
	char name[256];

	read_auxv(s, &program, &loader);
	add_staying(list, image_at(s, program));
	for (size_t i = 0; i < list->n; i++) {
		const struct image *m = list->v[i];

		for (uint32_t k = 0; k < m->ndyn; k++)
			if (m->dyn[k].d_tag == DT_NEEDED) {
				read_string(s, m, m->dyn[k].d_un.d_val, name, sizeof(name));
				add_staying(list, only_one(s, name));
			}
	}
	if (list->n)
		add_staying(list, image_at(s, loader));
}

/* ---- which of its pages ---- */

/* One mapping holds all of it, with just these rights. of: the file; NULL: there must be none. */
static bool is_as_left(const struct search *s, uint64_t lo, uint64_t hi, uint32_t prot, const struct map *of)
{
	const struct map *m = lo < hi ? proc_map_at(s->p, lo) : NULL;

	if (lo >= hi)
		return true;
	if (!m || m->end < hi || m->shared || m->prot != prot)
		return false;
	return of ? m->inode == of->inode && m->dev_major == of->dev_major && m->dev_minor == of->dev_minor : !m->inode;
}

/* A segment that can be written: what is read-only again after relocation, the file's part, zeros. */
struct segment_parts { uint64_t lo, protected, file, hi; };

static struct segment_parts parts_of(const struct image *m, const Elf64_Phdr *ph)
{
	const Elf64_Phdr *relro = header(m, PT_GNU_RELRO);
	struct segment_parts x = { .lo = down(m->bias + ph->p_vaddr), .hi = up(m->bias + ph->p_vaddr + ph->p_memsz) };

	x.protected = x.lo;
	x.file = ph->p_filesz ? MIN(up(m->bias + ph->p_vaddr + ph->p_filesz), x.hi) : x.lo;
	if (relro && down(m->bias + relro->p_vaddr) == x.lo)
		x.protected = MIN(MAX(down(m->bias + relro->p_vaddr + relro->p_memsz), x.lo), x.hi);
	return x;
}

static bool segment_is_as_left(const struct search *s, const struct image *m, const Elf64_Phdr *ph)
{
	const uint32_t rw = PROT_READ | PROT_WRITE;
	struct segment_parts x = parts_of(m, ph);
	uint64_t border = MIN(x.protected, x.file);

	return is_as_left(s, x.lo, border, PROT_READ, m->first) && is_as_left(s, border, x.file, rw, m->first) &&
	       is_as_left(s, x.file, MAX(x.file, x.protected), PROT_READ, NULL) && is_as_left(s, MAX(x.file, x.protected), x.hi, rw, NULL);
}

static bool is_writable(const Elf64_Phdr *ph)
{
	return ph->p_type == PT_LOAD && ph->p_flags & PF_W && ph->p_flags & PF_R && !(ph->p_flags & PF_X) && ph->p_memsz;
}

static bool image_is_as_left(const struct search *s, const struct image *m)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (is_writable(&m->ph[i]) && !segment_is_as_left(s, m, &m->ph[i]))
			return false;
	return true;
}

#define PAGE_PRESENT (1ull << 63)
#define PAGE_SWAPPED (1ull << 62)
#define PAGE_OF_FILE (1ull << 61)
#define PAGE_GUARD (1ull << 58)

static bool is_own(uint64_t entry, bool anonymous)
{
	if (entry & PAGE_GUARD)
		return false;
	return anonymous || (entry & (PAGE_PRESENT | PAGE_SWAPPED) && !(entry & PAGE_OF_FILE));
}

typedef VEC(struct gap) range_list;

static void add_page(range_list *list, uint64_t at)
{
	if (list->n && list->v[list->n - 1].hi == at)
		list->v[list->n - 1].hi += PAGE;
	else
		*vec_add(list) = (struct gap){ at, at + PAGE };
}

static void find_own_pages(const struct search *s, const struct image *m, const Elf64_Phdr *ph, range_list *list)
{
	struct segment_parts x = parts_of(m, ph);
	size_t n = MIN((x.hi - x.lo) / PAGE, MOST_PAGES);
	uint64_t *entries = xcalloc(n + 1, sizeof(*entries));
	bool known = s->pagemap >= 0 && pread(s->pagemap, entries, n * 8, x.lo / PAGE * 8) == (ssize_t)(n * 8);

	for (size_t i = 0; i < n; i++) {
		uint64_t at = x.lo + i * PAGE;

		if (is_own(known ? entries[i] : 0, at >= x.file))
			add_page(list, at);
	}
	free(entries);
}

static int longer(const void *a, const void *b)
{
	const struct gap *x = a, *y = b;

	return (x->hi - x->lo < y->hi - y->lo) - (x->hi - x->lo > y->hi - y->lo);
}

static void take_image(struct search *s, const struct image *m, uint32_t most)
{
	range_list list = { 0 };

	for (uint32_t i = 0; i < m->n; i++)
		if (is_writable(&m->ph[i]))
			find_own_pages(s, m, &m->ph[i], &list);
	if (list.n)
		qsort(list.v, list.n, sizeof(*list.v), longer);
	for (size_t i = 0; i < list.n && i < most && s->n < GEN_GOOD; i++, s->n++) {
		s->good->range[s->n].lo = list.v[i].lo;
		s->good->range[s->n].len = list.v[i].hi - list.v[i].lo - GEN_GOOD_SHORT;
	}
	vec_free(&list);
}

static void take_stack(const struct search *s)
{
	for (size_t i = 0; i < s->p->maps.n; i++) {
		const struct map *m = &s->p->maps.v[i];

		if (strcmp(m->path, "[stack]") || m->shared || !(m->prot & PROT_READ) || !(m->prot & PROT_WRITE))
			continue;
		s->good->range[GEN_GOOD_STACK].lo = m->start;
		s->good->range[GEN_GOOD_STACK].len = m->end - m->start - GEN_GOOD_SHORT;
	}
}

void good_find(struct proc *p, struct gen_good *ret_good)
{
	struct search s = { .p = p, .good = ret_good, .pagemap = -1 };
	image_list staying = { 0 };
	char path[64];

	memset(ret_good, 0, sizeof(*ret_good));
	if (proc_read_maps(p) < 0)
		return;
	if (proc_path(p, "pagemap", path, sizeof(path)) == 0)
		s.pagemap = open(path, O_RDONLY | O_CLOEXEC);
	read_images(&s);
	find_staying(&s, &staying);
	for (size_t i = 0; i < staying.n; i++)
		if (image_is_as_left(&s, staying.v[i]))
			take_image(&s, staying.v[i], i ? OF_OTHERS : GEN_GOOD / 2);
	take_stack(&s);
	if (s.pagemap >= 0)
		close(s.pagemap);
	for (size_t i = 0; i < s.images.n; i++)
		free(s.images.v[i]);
	vec_free(&s.images);
	vec_free(&staying);
	log_info("process %d: %u ranges of its data can be read plainly", p->pid, s.n);
}
