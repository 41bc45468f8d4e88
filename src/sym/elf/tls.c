/* SPDX-License-Identifier: MIT */
/*
 * Thread-local storage of a file. The offset of a program's block from the thread pointer is fixed by the linker:
 * it ends right below the thread pointer, or begins behind what is there. For a library the loader decides, and writes offsets into the slots of
 * relocations.
 */
#include <string.h>

#include "arch/arch.h"
#include "sym/priv.h"

static const Elf64_Phdr *header(const struct image *e)
{
	for (size_t i = 0; i < e->nph; i++)
		if (e->ph[i].p_type == PT_TLS && e->ph[i].p_memsz)
			return &e->ph[i];
	return NULL;
}

bool module_tls(const struct module *m, int64_t *ret_program_off)
{
	const Elf64_Phdr *ph = header(&priv(m)->image);
	uint64_t align;

	if (!ph)
		return false;
	align = ph->p_align ? ph->p_align : 1;
	if (m->arch->elf->tls_head)
		*ret_program_off = m->arch->elf->tls_head + ((ph->p_vaddr - m->arch->elf->tls_head) & (align - 1));
	else
		*ret_program_off = -(int64_t)(ph->p_memsz + ((-ph->p_vaddr - ph->p_memsz) & (align - 1)));
	return true;
}

struct slot_search {
	struct symbols dynsym;
	uint64_t slot;
	int64_t byte;
	uint32_t type;
	bool found;
};

/* Whether the symbol is this file's own; one that another file could define instead is not usable. */
static bool is_own(const struct slot_search *s, const struct reloc *r, int64_t *ret_byte)
{
	Elf64_Sym sym;

	*ret_byte = r->addend;
	if (!r->symbol)
		return true;
	if (r->symbol >= s->dynsym.n)
		return false;
	sym = symbols_at(&s->dynsym, r->symbol);
	*ret_byte += sym.st_value;
	return sym.st_shndx != SHN_UNDEF && (ELF64_ST_BIND(sym.st_info) == STB_LOCAL || ELF64_ST_VISIBILITY(sym.st_other) != STV_DEFAULT);
}

static void look(void *arg, const struct reloc *r)
{
	struct slot_search *s = arg;
	int64_t byte;

	if (s->found || r->type != s->type || !is_own(s, r, &byte))
		return;
	s->found = true;
	s->slot = r->offset;
	s->byte = byte;
}

bool module_tls_slot(struct module *m, uint64_t *ret_slot, int64_t *ret_byte)
{
	struct slot_search s = { .dynsym = image_dynsym(&priv(m)->image), .type = m->arch->elf->tls_offset };

	relocs_each(m, look, &s);
	*ret_slot = s.slot;
	*ret_byte = s.byte;
	return s.found;
}

static bool find_in(const struct symbols *s, const char *name, uint64_t *ret_byte)
{
	for (size_t i = 1; i < s->n; i++) {
		Elf64_Sym sym = symbols_at(s, i);
		const char *at;
		size_t len;

		if (ELF64_ST_TYPE(sym.st_info) != STT_TLS || sym.st_shndx == SHN_UNDEF || !sym.st_name || sym.st_name >= s->strings_len)
			continue;
		at = s->strings + sym.st_name;
		len = strcspn(at, "@");
		if (len == strlen(name) && !memcmp(at, name, len)) {
			*ret_byte = sym.st_value;
			return true;
		}
	}
	return false;
}

bool module_tls_symbol(const struct module *m, const char *name, uint64_t *ret_byte)
{
	struct symbols full = image_symtab(&priv(m)->image, SHT_SYMTAB), dyn = image_dynsym(&priv(m)->image);

	return find_in(&dyn, name, ret_byte) || find_in(&full, name, ret_byte);
}

bool module_dynamic(const struct module *m, uint64_t *ret_addr)
{
	const struct image *e = &priv(m)->image;

	for (size_t i = 0; i < e->nph; i++)
		if (e->ph[i].p_type == PT_DYNAMIC) {
			*ret_addr = e->ph[i].p_vaddr;
			return true;
		}
	return false;
}
