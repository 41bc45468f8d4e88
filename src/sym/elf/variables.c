/* SPDX-License-Identifier: MIT */
/* Variables by name in the symbol tables: address and size, no type. */
#include <string.h>

#include "sym/priv.h"

static bool find_in(const struct symbols *s, const char *name, uint64_t *ret_addr, uint64_t *ret_size)
{
	for (size_t i = 1; i < s->n; i++) {
		Elf64_Sym sym = symbols_at(s, i);
		const char *at, *version;
		size_t len;

		if (ELF64_ST_TYPE(sym.st_info) != STT_OBJECT || sym.st_shndx == SHN_UNDEF ||
		    sym.st_shndx == SHN_ABS || !sym.st_name || sym.st_name >= s->strings_len)
			continue;
		at = s->strings + sym.st_name;
		version = strchr(at, '@');
		len = version ? (size_t)(version - at) : strlen(at);
		if (len == strlen(name) && !memcmp(at, name, len)) {
			*ret_addr = sym.st_value;
			*ret_size = sym.st_size;
			return true;
		}
	}
	return false;
}

bool module_object(const struct module *m, const char *name, uint64_t *ret_addr, uint64_t *ret_size)
{
	struct sym_priv *p = priv(m);
	struct symbols full = image_symtab(&p->image, SHT_SYMTAB), dyn = image_dynsym(&p->image);
	struct symbols extra = { 0 };

	if (p->extra.image.p)
		extra = image_symtab(&p->extra.image, SHT_SYMTAB);
	return find_in(&full, name, ret_addr, ret_size) || find_in(&extra, name, ret_addr, ret_size) ||
	       find_in(&dyn, name, ret_addr, ret_size);
}
