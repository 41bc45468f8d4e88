/* SPDX-License-Identifier: MIT */
/*
 * Relocations: in position independent files they are the exact list of all stored code addresses
 * (jump tables of 8-byte words, vtables, callbacks). A file linked to a fixed address has none, so
 * there every aligned word that looks like an address in text is taken for one.
 */
#include "sym/priv.h"

#include "arch/arch.h"

typedef void (*reloc_fn)(void *arg, const struct reloc *r);

static void each_rela(struct bytes b, reloc_fn each, void *arg)
{
	size_t i;

	for (i = 0; i < b.n / sizeof(Elf64_Rela); i++) {
		Elf64_Rela a;
		struct reloc r;

		memcpy(&a, b.p + i * sizeof(a), sizeof(a));
		r = (struct reloc){
			a.r_offset, a.r_addend, ELF64_R_TYPE(a.r_info), ELF64_R_SYM(a.r_info)
		};
		each(arg, &r);
	}
}

/* An even word is an address; an odd one a bit map of the 63 words after it. */
static void each_relr(const struct module *m, struct bytes b, reloc_fn each, void *arg)
{
	struct reloc r = { .type = m->arch->elf->relative };
	uint64_t base = 0, map;
	size_t i;
	int bit;

	for (i = 0; i < b.n / 8; i++) {
		uint64_t word = get64(b.p + i * 8);

		map = word & 1 ? word >> 1 : 1;
		if (!(word & 1))
			base = word;
		for (bit = 0; map >> bit; bit++) {
			const uint8_t *p;

			r.offset = base + bit * 8ull;
			p = map >> bit & 1 ? module_bytes(m, r.offset, 8) : NULL;
			if (p) {
				r.addend = get64(p);
				each(arg, &r);
			}
		}
		base += word & 1 ? 63 * 8 : 8;
	}
}

static struct bytes dynamic_table(const struct image *e, int64_t tag, int64_t size_tag)
{
	struct bytes b = { 0 };
	uint64_t addr, size;

	if (image_dynamic(e, tag, &addr) && image_dynamic(e, size_tag, &size)) {
		b = image_vaddr(e, addr);
		b.n = MIN(b.n, size);
	}
	return b;
}

static bool inside(const uint8_t *p, struct bytes b)
{
	return b.p && p >= b.p && p < b.p + b.n;
}

/*
 * The tables that the loader uses come first. Sections are only used for tables that it does not have: a static
 * program's IRELATIVE relocations are applied by its own start code.
 */
void relocs_each(const struct module *m, reloc_fn each, void *arg)
{
	const struct image *e = &priv(m)->image;
	struct bytes rela = dynamic_table(e, DT_RELA, DT_RELASZ);
	struct bytes plt = dynamic_table(e, DT_JMPREL, DT_PLTRELSZ);
	struct bytes relr = dynamic_table(e, DT_RELR, DT_RELRSZ);
	size_t i;

	each_rela(rela, each, arg);
	if (!inside(plt.p, rela))
		each_rela(plt, each, arg);
	each_relr(m, relr, each, arg);
	for (i = 1; i < e->nsh; i++) {
		const Elf64_Shdr *sh = &e->sh[i];
		struct bytes b;

		if (sh->sh_type != SHT_RELA || !(sh->sh_flags & SHF_ALLOC))
			continue;
		b = image_section_bytes(e, sh);
		if (b.p && !inside(b.p, rela) && !inside(b.p, plt))
			each_rela(b, each, arg);
	}
}

struct pointer_search {
	struct module *m;
	struct symbols dynsym;
	void (*add)(void *arg, uint64_t addr);
	void *arg;
};

static void offer(struct pointer_search *s, uint64_t addr)
{
	if (in_text(s->m, addr))
		s->add(s->arg, addr);
}

/* Whether it makes a word the address of a symbol. */
static bool is_symbols(const struct elf_abi *elf, const struct reloc *r)
{
	return r->type == elf->absolute || r->type == elf->glob_dat || r->type == elf->jump_slot;
}

static void pointer_of_reloc(void *arg, const struct reloc *r)
{
	struct pointer_search *s = arg;
	const struct elf_abi *elf = s->m->arch->elf;
	Elf64_Sym sym;

	if (r->type == elf->relative || r->type == elf->irelative)
		offer(s, r->addend);
	if (!is_symbols(elf, r) || r->symbol >= s->dynsym.n)
		return;
	sym = symbols_at(&s->dynsym, r->symbol);
	if (sym.st_shndx != SHN_UNDEF)
		offer(s, sym.st_value + (r->type == elf->absolute ? r->addend : 0));
}

static void scan_words(struct pointer_search *s, uint64_t lo, uint64_t hi)
{
	const struct sym_priv *p = priv(s->m);
	uint64_t text_lo = UINT64_MAX, text_hi = 0, at = (lo + 7) & ~7ull;
	const uint8_t *b;
	size_t i, n;

	for (i = 0; i < p->text.n; i++) {
		text_lo = MIN(text_lo, p->text.v[i].lo);
		text_hi = MAX(text_hi, p->text.v[i].hi);
	}
	b = at >= lo && at < hi ? module_bytes(s->m, at, hi - at) : NULL;
	for (i = 0, n = b ? (hi - at) / 8 : 0; i < n; i++) {
		uint64_t w = get64(b + i * 8);

		if (w - text_lo < text_hi - text_lo)
			offer(s, w);
	}
}

/* Scans a segment except its code sections; without section headers the code, too: too many pointers are harmless. */
static void scan_segment(struct pointer_search *s, const struct segment *seg)
{
	const struct image *e = &priv(s->m)->image;
	uint64_t lo = seg->addr, end = seg->addr + seg->filesz;
	size_t i, rounds;

	for (rounds = 0; lo < end && rounds <= 1000; rounds++) {
		uint64_t code = end, code_end = end;

		for (i = 1; i < e->nsh; i++) {
			const Elf64_Shdr *sh = &e->sh[i];

			if (!(sh->sh_flags & SHF_EXECINSTR) || sh->sh_type == SHT_NOBITS ||
			    sh->sh_addr + sh->sh_size <= lo || sh->sh_addr >= code)
				continue;
			code = sh->sh_addr;
			code_end = sh->sh_addr + sh->sh_size;
		}
		if (code > lo)
			scan_words(s, lo, code);
		lo = MAX(code_end, lo + 1);
	}
}

void module_text_pointers(struct module *m, void (*add)(void *arg, uint64_t addr), void *arg)
{
	const struct image *e = &priv(m)->image;
	struct pointer_search s = { m, image_dynsym(e), add, arg };
	uint64_t addr;
	size_t i;

	offer(&s, m->entry);
	if (image_dynamic(e, DT_INIT, &addr))
		offer(&s, addr);
	if (image_dynamic(e, DT_FINI, &addr))
		offer(&s, addr);
	relocs_each(m, pointer_of_reloc, &s);
	for (i = 0; m->is_exec && i < m->segments.n; i++)
		scan_segment(&s, &m->segments.v[i]);
}

struct irel_search { const struct elf_abi *elf; struct sym_priv *p; struct symbols dynsym; };

static void note_irel(void *arg, const struct reloc *r)
{
	struct irel_search *s = arg;
	Elf64_Sym sym;

	if (r->type == s->elf->irelative)
		*vec_add(&s->p->irels) = (struct irel){ r->addend, r->offset };
	if (!is_symbols(s->elf, r) || r->symbol >= s->dynsym.n)
		return;
	sym = symbols_at(&s->dynsym, r->symbol);
	if (ELF64_ST_TYPE(sym.st_info) == STT_GNU_IFUNC && sym.st_shndx != SHN_UNDEF)
		*vec_add(&s->p->irels) = (struct irel){ sym.st_value, r->offset };
}

size_t module_irelative(struct module *m, const struct irel **ret)
{
	struct sym_priv *p = priv(m);
	struct irel_search s = { m->arch->elf, p, image_dynsym(&p->image) };

	if (!p->have_irels)
		relocs_each(m, note_irel, &s);
	p->have_irels = true;
	*ret = p->irels.v;
	return p->irels.n;
}

static void note_slot(void *arg, const struct reloc *r)
{
	const struct module *m = arg;
	const struct elf_abi *elf = m->arch->elf;

	if (r->type == elf->jump_slot || r->type == elf->glob_dat || r->type == elf->irelative)
		*vec_add(&priv(m)->slots) = r->offset;
}

static int compare_slot(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

bool module_is_loaders_slot(struct module *m, uint64_t addr)
{
	struct sym_priv *p = priv(m);

	if (!p->have_slots) {
		p->have_slots = true;
		relocs_each(m, note_slot, m);
		if (p->slots.n)
			qsort(p->slots.v, p->slots.n, sizeof(*p->slots.v), compare_slot);
	}
	return p->slots.n && bsearch(&addr, p->slots.v, p->slots.n, sizeof(addr), compare_slot);
}
