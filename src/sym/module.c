/* SPDX-License-Identifier: MIT */
/*
 * Opens a module: maps it, checks the headers, then collects functions from every source. All later queries use
 * arrays sorted by address.
 */
#include "sym/priv.h"

#include "base/err.h"
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK 65536

char *module_string(struct module *m, const char *s, size_t len)
{
	struct sym_priv *p = priv(m);
	char *at;

	if (p->chunk_left < len + 1) {
		p->chunk_left = MAX(len + 1, (size_t)CHUNK);
		p->chunk_at = xcalloc(1, p->chunk_left);
		*vec_add(&p->chunks) = p->chunk_at;
	}
	at = p->chunk_at;
	p->chunk_at += len + 1;
	p->chunk_left -= len + 1;
	memcpy(at, s, len);
	at[len] = 0;
	return at;
}

static uint32_t prot_of(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
	       (flags & PF_X ? PROT_EXEC : 0);
}

static int add_segment(struct module *m, const Elf64_Phdr *ph)
{
	struct sym_priv *p = priv(m);

	if (!image_at(&p->image, ph->p_offset, ph->p_filesz))
		return fail(-ENOEXEC, "%s is truncated or a separate debug file: its segment at %#llx "
			    "lies behind its end", m->path, (unsigned long long)ph->p_vaddr);
	*vec_add(&m->segments) = (struct segment){
		ph->p_vaddr, ph->p_memsz, ph->p_filesz, ph->p_offset, prot_of(ph->p_flags)
	};
	m->lo = m->segments.n == 1 ? ph->p_vaddr : MIN(m->lo, ph->p_vaddr);
	m->hi = MAX(m->hi, ph->p_vaddr + ph->p_memsz);
	if ((ph->p_flags & PF_X) && ph->p_filesz)
		*vec_add(&p->text) = (struct range){ ph->p_vaddr, ph->p_vaddr + ph->p_filesz };
	return 0;
}

static int add_segments(struct module *m)
{
	const struct image *e = &priv(m)->image;
	size_t i;
	int r;

	for (i = 0; i < e->nph; i++) {
		if (e->ph[i].p_type != PT_LOAD)
			continue;
		r = add_segment(m, &e->ph[i]);
		if (r < 0)
			return r;
	}
	if (!m->segments.n)
		return fail(-ENOEXEC, "%s has nothing to load: no program headers", m->path);
	return 0;
}

static void find_plt(struct module *m)
{
	static const char *const names[] = { ".plt", ".plt.sec", ".plt.got", ".plt.bnd", ".iplt" };
	const struct image *e = &priv(m)->image;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		const Elf64_Shdr *sh = image_section(e, names[i]);
		uint64_t lo = sh ? sh->sh_addr : 0, hi = sh ? lo + sh->sh_size : 0;

		if (hi > lo)
			*vec_add(&priv(m)->plt) = (struct range){ lo, hi };
	}
}

static void read_identity(struct module *m)
{
	const struct image *e = &priv(m)->image;
	struct bytes id = image_note(e, "GNU", NT_GNU_BUILD_ID);

	m->arch = arch_of_machine(e->eh.e_machine);
	m->is_exec = e->eh.e_type == ET_EXEC;
	m->entry = e->eh.e_entry;
	m->build_id_len = MIN(id.n, sizeof(m->build_id));
	if (id.p)
		memcpy(m->build_id, id.p, m->build_id_len);
	m->runtime = image_section(e, ".go.buildinfo") || image_section(e, ".gopclntab") || image_note(e, "Go", 4).p ?
		     &runtime_go : &runtime_c;
}

static struct module *new_module(const char *path)
{
	struct module *m = xcalloc(1, sizeof(*m));

	m->priv = xcalloc(1, sizeof(struct sym_priv));
	m->path = xstrdup(path);
	return m;
}

/* root is NULL if debug files are not to be searched. */
static int load(struct module *m, const char *root, struct module **ret_module)
{
	struct sym_priv *p = priv(m);
	int r;

	p->root = root ? xstrdup(root) : NULL;
	r = image_parse(&p->image, m->image, m->image_size, m->path);
	if (r == 0)
		r = add_segments(m);
	if (r < 0) {
		module_close(m);
		return r;
	}
	read_identity(m);
	find_plt(m);
	if (!image_symtab(&p->image, SHT_SYMTAB).p)
		extra_find(m, root);
	fdes_read(m);
	funcs_build(m);
	*ret_module = m;
	return 0;
}

int module_open_fd(int fd, const char *root, const char *path, struct module **ret_module)
{
	struct module *m = new_module(path);
	struct sym_priv *p = priv(m);
	int r;

	r = content_read(fd, root, path, &p->content);
	if (r < 0) {
		module_close(m);
		return r;
	}
	m->image = p->content.p;
	m->image_size = p->content.size;
	r = load(m, root ? root : "", ret_module);
	if (r < 0)
		return r;
	r = content_check(&p->content, path);
	if (r < 0)
		module_close(m);
	return r;
}

int module_open(const char *root, const char *path, struct module **ret_module)
{
	int fd = open_below(root, path), r;

	if (fd < 0)
		return fd;
	r = module_open_fd(fd, root, path, ret_module);
	close(fd);
	return r;
}

int module_open_memory(const void *bytes, size_t size, const char *name, struct module **ret_module)
{
	struct module *m = new_module(name);
	struct sym_priv *p = priv(m);

	p->heap = xcalloc(1, size);
	if (size)
		memcpy(p->heap, bytes, size);
	m->image = p->heap;
	m->image_size = size;
	return load(m, NULL, ret_module);
}

void module_close(struct module *m)
{
	struct sym_priv *p;
	size_t i;

	if (!m)
		return;
	p = priv(m);
	types_close(p->types);
	usdts_close(p->usdts);
	image_release(&p->image);
	extra_close(&p->extra);
	content_free(&p->content);
	for (i = 0; i < p->chunks.n; i++)
		free(p->chunks.v[i]);
	vec_free(&p->chunks);
	vec_free(&p->text);
	vec_free(&p->plt);
	vec_free(&p->fdes);
	vec_free(&p->irels);
	vec_free(&p->slots);
	vec_free(&p->rseqs);
	free(p->unwind);
	vec_free(&p->strays);
	free(p->heap);
	free(p->root);
	free(p->outer);
	free(p->readable);
	free(p->shown);
	free(p);
	vec_free(&m->segments);
	vec_free(&m->funcs);
	vec_free(&m->names);
	free(m->path);
	free(m);
}

const uint8_t *module_bytes(const struct module *m, uint64_t addr, size_t len)
{
	size_t i;

	for (i = 0; i < m->segments.n; i++) {
		const struct segment *s = &m->segments.v[i];
		uint64_t skip = addr - s->addr;

		if (addr >= s->addr && skip < s->filesz && len <= s->filesz - skip)
			return m->image + s->offset + skip;
	}
	return NULL;
}

/* Deeper nesting than any compiler makes; limits the cost of a damaged table. */
#define MOST_NESTED 1000

const struct func *module_func_at(const struct module *m, uint64_t addr)
{
	size_t a = 0, b = m->funcs.n, n;

	while (a < b) {
		size_t mid = a + (b - a) / 2;

		if (m->funcs.v[mid].addr <= addr)
			a = mid + 1;
		else
			b = mid;
	}
	/* The last function that starts at or before addr; if it has ended, the nearest one before it that ends later... */
	for (n = 0; a > 0 && n < MOST_NESTED; n++) {
		const struct func *f = &m->funcs.v[a - 1];

		if (addr - f->addr < f->size)
			return f;
		a = (size_t)(priv(m)->outer[a - 1] + 1u);
	}
	return NULL;
}
