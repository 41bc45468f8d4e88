/* SPDX-License-Identifier: MIT */
/*
 * Merges the sources: one struct func per address at which code begins. Symbols and FDEs are walked in parallel,
 * both sorted by address:
 *
 *	symbols	  f,f_alias         g(size 0)        label
 *	FDEs	  [f    )  [piece)  [g     )         [label  )   [h   )
 *	result	  f        -        g (FDE's size)   label       func_0x...
 *
 * A label counts only where an FDE or the program itself begins (musl's _start). An FDE that begins inside a
 * symbol's range is not an entry (clone() has two). An FDE without a symbol is a function if its first row is that
 * of an entry, else the cold part of another function.
 */
#include "arch/arch.h"
#include "sym/priv.h"
#include "sym/names/sort.h"

#include <stdio.h>

struct build {
	struct module *m;
	raw_list raw;
	struct sort_key *keys;
	uint64_t covered;	/* highest end of a symbol so far */
};

static const struct raw_symbol *raw_at(const struct build *b, size_t i)
{
	return &b->raw.v[b->keys[i].index];
}

/*
 * Adds the function of the symbols [from, to), which have the same address. alias and nalias hold this range until
 * the names are made.
 */
static void add_named(struct build *b, size_t from, size_t to, bool fde_here)
{
	struct func f = { .addr = b->keys[from].addr, .alias = from, .nalias = MIN(to - from, 65535u) };
	bool cold = true, real = fde_here || f.addr == b->m->entry;
	size_t i;

	f.source = UINT8_MAX;
	for (i = from; i < to; i++) {
		const struct raw_symbol *s = raw_at(b, i);

		real |= s->type != STT_NOTYPE;
		cold &= s->cold;
		f.source = MIN(f.source, s->source);
		if (s->type != STT_NOTYPE)
			f.size = MAX(f.size, s->size);
		if (s->type == STT_GNU_IFUNC)
			f.flags |= FUNC_IFUNC;
	}
	if (!real)
		return;
	if (cold)
		f.flags |= FUNC_COLD;
	if (f.size && f.addr + f.size > f.addr)
		b->covered = MAX(b->covered, f.addr + f.size);
	*vec_add(&b->m->funcs) = f;
}

static bool looks_like_plt(const struct module *m, const struct fde_range *fde)
{
	const uint8_t *p = module_bytes(m, fde->lo, STUB_LEN);
	uint64_t slot;

	return p && m->arch->idioms->stub(p, fde->lo, &slot);
}

/*
 * The unwinder looks up pc - 1, so the FDE of glibc's __restore_rt begins a byte earlier; and ld.so's _dl_tlsdesc_*
 * have FDEs that begin in the filler before them. next: the first symbol after lo.
 */
static bool belongs_to_next(const struct build *b, const struct fde_range *fde, size_t next)
{
	uint64_t addr = next < b->raw.n ? b->keys[next].addr : UINT64_MAX;
	bool function = false;

	if (addr >= fde->hi || addr - fde->lo > 16)
		return false;
	for (; next < b->raw.n && b->keys[next].addr == addr && !function; next++)
		function = raw_at(b, next)->type != STT_NOTYPE;
	return function;
}

static void add_nameless(struct build *b, const struct fde_range *fde, size_t next)
{
	const struct sym_priv *p = priv(b->m);
	size_t i;

	if (fde->lo < b->covered || belongs_to_next(b, fde, next))
		return;
	for (i = 0; i < p->plt.n; i++)
		if (fde->lo >= p->plt.v[i].lo && fde->lo < p->plt.v[i].hi)
			return;
	if (!p->image.nsh && looks_like_plt(b->m, fde))
		return;
	*vec_add(&b->m->funcs) = (struct func){
		.addr = fde->lo, .size = fde->hi - fde->lo, .source = FROM_EH_FRAME,
		.flags = fde->first_cfa_is_entry ? 0 : FUNC_COLD,
	};
}

static void merge(struct build *b)
{
	const struct fde_range *fdes = priv(b->m)->fdes.v;
	size_t i = 0, j = 0, n = b->raw.n, nfde = priv(b->m)->fdes.n, to;

	while (i < n || j < nfde) {
		uint64_t symbol = i < n ? b->keys[i].addr : UINT64_MAX;

		if (j < nfde && fdes[j].lo < symbol) {
			if (j == 0 || fdes[j - 1].lo != fdes[j].lo)
				add_nameless(b, &fdes[j], i);
			j++;
			continue;
		}
		for (to = i + 1; to < n && b->keys[to].addr == symbol; to++)
			;
		add_named(b, i, to, j < nfde && fdes[j].lo == symbol);
		i = to;
		while (j < nfde && fdes[j].lo == symbol)
			j++;
	}
}

/*
 * End of the code around addr: of its section if sections are known, else of its segment. Code between sections
 * ends where the next one begins, and a label at the end of a section has no code at all (Go's runtime.etext, which
 * would extend into the PLT).
 */
static uint64_t area_end(const struct module *m, uint64_t addr)
{
	const struct sym_priv *p = priv(m);
	uint64_t end = addr, own = 0, next = UINT64_MAX;
	bool is_end = false;
	size_t i;

	for (i = 0; i < p->text.n; i++)
		if (addr >= p->text.v[i].lo && addr < p->text.v[i].hi)
			end = MAX(end, p->text.v[i].hi);
	for (i = 1; i < p->image.nsh; i++) {
		const Elf64_Shdr *sh = &p->image.sh[i];

		if (!(sh->sh_flags & SHF_ALLOC) || sh->sh_type == SHT_NOBITS || !sh->sh_size)
			continue;
		if (addr < sh->sh_addr)
			next = MIN(next, sh->sh_addr);
		else if (addr - sh->sh_addr < sh->sh_size)
			own = MIN(own ? own : UINT64_MAX, sh->sh_addr + sh->sh_size);
		else if (addr - sh->sh_addr == sh->sh_size)
			is_end = true;
	}
	if (own)
		return MIN(end, own);
	return is_end ? addr : MIN(end, next);
}

/* *j advances with rising addresses: the first FDE that may still cover one. */
static uint64_t guess_end(const struct module *m, uint64_t addr, uint64_t next, uint64_t area,
			  size_t *j)
{
	const struct sym_priv *p = priv(m);

	while (*j < p->fdes.n && p->fdes.v[*j].hi <= addr)
		++*j;
	if (*j < p->fdes.n && p->fdes.v[*j].lo <= addr)
		return MIN(next, p->fdes.v[*j].hi);
	return MIN(next, area);
}

/* Sets sizes that the tables don't have, limits wrong ones, and removes functions without bytes. */
static void set_sizes(struct module *m)
{
	uint64_t area = 0;
	size_t i, n = 0, j = 0;

	for (i = 0; i < m->funcs.n; i++) {
		struct func f = m->funcs.v[i];

		if (f.addr >= area)
			area = area_end(m, f.addr);
		if (!f.size) {
			uint64_t next = i + 1 < m->funcs.n ? m->funcs.v[i + 1].addr : UINT64_MAX;

			f.size = guess_end(m, f.addr, next, area, &j) - f.addr;
			f.flags |= FUNC_SIZE_GUESSED;
		}
		if (f.addr < area)
			f.size = MIN(f.size, area - f.addr);
		if (f.size && f.addr < area)
			m->funcs.v[n++] = f;
	}
	m->funcs.n = n;
}

/* Orders the names of one function: the one that users are most likely to use comes first. */
static int by_likeness(const void *pa, const void *pb)
{
	const struct raw_symbol *a = pa, *b = pb;

	if (a->local != b->local)
		return a->local - b->local;
	if ((a->type == STT_NOTYPE) != (b->type == STT_NOTYPE))
		return (a->type == STT_NOTYPE) - (b->type == STT_NOTYPE);
	if (a->underscores != b->underscores)
		return a->underscores - b->underscores;
	if (a->len != b->len)
		return a->len - b->len;
	return a->name == b->name ? 0 : strcmp(a->name, b->name);
}

static void name_func(struct build *b, uint32_t index)
{
	struct func *f = &b->m->funcs.v[index];
	size_t from = f->alias, n = f->nalias, i, kept = 0;
	struct raw_symbol few[8], *v = n > ARRAY_SIZE(few) ? xcalloc(n, sizeof(*v)) : few;

	for (i = 0; i < n; i++)
		v[i] = *raw_at(b, from + i);
	if (n > 1)
		qsort(v, n, sizeof(*v), by_likeness);
	f->alias = b->m->names.n;
	f->name = n ? v[0].name : NULL;
	for (i = 0; i < n; i++) {
		if (i && v[i].len == v[i - 1].len && strcmp(v[i].name, v[i - 1].name) == 0)
			continue;
		*vec_add(&b->m->names) = (struct name_ref){ v[i].name, index };
		kept++;
	}
	f->nalias = kept;
	if (v != few)
		free(v);
}

/* Lets module_func_at() skip all functions that end before this one. */
static void link_outer(struct module *m)
{
	uint32_t *outer = xcalloc(m->funcs.n, sizeof(*outer));
	size_t i;

	for (i = 0; i < m->funcs.n; i++) {
		uint64_t end = m->funcs.v[i].addr + m->funcs.v[i].size;
		uint32_t j = i ? i - 1 : UINT32_MAX;

		while (j != UINT32_MAX && m->funcs.v[j].addr + m->funcs.v[j].size <= end)
			j = outer[j];
		outer[i] = j;
	}
	priv(m)->outer = outer;
}

void funcs_build(struct module *m)
{
	struct build b = { .m = m };
	size_t i;

	symbols_collect(m, &b.raw);
	main_collect(m, &b.raw);
	b.keys = xcalloc(b.raw.n, sizeof(*b.keys));
	for (i = 0; i < b.raw.n; i++)
		b.keys[i] = (struct sort_key){ b.raw.v[i].addr, i };
	sort_keys(b.keys, b.raw.n);
	merge(&b);
	set_sizes(m);
	for (i = 0; i < m->funcs.n; i++)
		name_func(&b, i);
	link_outer(m);
	free(b.keys);
	vec_free(&b.raw);
}
