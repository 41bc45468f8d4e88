/* SPDX-License-Identifier: MIT */
/*
 * The program's own restartable sequences: descriptors in the section __rseq_cs, and pointers to descriptors in
 * __rseq_cs_ptr_array. In a position independent file the addresses in both come from relocations, which are
 * therefore applied to a copy.
 */
#include "sym/priv.h"

#include "arch/arch.h"

struct descriptor { uint32_t version, flags; uint64_t start, length, abort; };

struct section_copy { uint32_t relative; uint64_t addr; size_t n; uint8_t *p; };

static void apply(void *arg, const struct reloc *r)
{
	struct section_copy *c = arg;

	if (r->type == c->relative && c->n >= 8 && r->offset >= c->addr &&
	    r->offset - c->addr <= c->n - 8)
		memcpy(c->p + (r->offset - c->addr), &r->addend, 8);
}

static struct section_copy copy_relocated(struct module *m, uint64_t addr, size_t len)
{
	const uint8_t *p = module_bytes(m, addr, len);
	struct section_copy c = { m->arch->elf->relative, addr, p ? len : 0, p ? xcalloc(1, len) : NULL };

	if (p) {
		memcpy(c.p, p, len);
		relocs_each(m, apply, &c);
	}
	return c;
}

static void add_descriptor(struct module *m, const uint8_t *p)
{
	struct sym_priv *s = priv(m);
	struct descriptor d;
	size_t i;

	memcpy(&d, p, sizeof(d));
	if (d.version != 0 || d.length == 0 || !in_text(m, d.start) || d.start + d.length < d.start)
		return;
	for (i = 0; i < s->rseqs.n; i++)
		if (s->rseqs.v[i].start == d.start && s->rseqs.v[i].len == d.length)
			return;
	*vec_add(&s->rseqs) = (struct rseq_range){ d.start, d.length, d.abort };
}

/* More than any program has; the work for a damaged file stays small. */
#define MOST_RSEQS 4096

static void from_descriptors(struct module *m)
{
	const struct image *e = &priv(m)->image;
	const Elf64_Shdr *sh = image_section(e, "__rseq_cs");
	struct section_copy c;
	size_t i;

	if (!sh)
		return;
	c = copy_relocated(m, sh->sh_addr, sh->sh_size);
	for (i = 0; i < MIN(c.n / sizeof(struct descriptor), (size_t)MOST_RSEQS); i++)
		add_descriptor(m, c.p + i * sizeof(struct descriptor));
	free(c.p);
}

/* Pointers nearly always lead into __rseq_cs; a descriptor elsewhere is copied on its own. */
static void from_pointers(struct module *m)
{
	const struct image *e = &priv(m)->image;
	const Elf64_Shdr *sh = image_section(e, "__rseq_cs_ptr_array");
	const Elf64_Shdr *cs = image_section(e, "__rseq_cs");
	struct section_copy c, d;
	size_t i, alone = 0;

	if (!sh)
		return;
	c = copy_relocated(m, sh->sh_addr, sh->sh_size);
	for (i = 0; i < MIN(c.n / 8, (size_t)MOST_RSEQS) && alone < 64; i++) {
		uint64_t at = get64(c.p + i * 8);

		if (cs && at >= cs->sh_addr && at - cs->sh_addr < cs->sh_size)
			continue;
		d = copy_relocated(m, at, sizeof(struct descriptor));
		if (d.p)
			add_descriptor(m, d.p);
		free(d.p);
		alone++;
	}
	free(c.p);
}

size_t module_rseqs(struct module *m, const struct rseq_range **ret_ranges)
{
	struct sym_priv *p = priv(m);

	if (!p->have_rseqs) {
		p->have_rseqs = true;
		from_descriptors(m);
		from_pointers(m);
	}
	*ret_ranges = p->rseqs.v;
	return p->rseqs.n;
}
