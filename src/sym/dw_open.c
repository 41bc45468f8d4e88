/* SPDX-License-Identifier: MIT */
/*
 * Opening the debug info of a module: its own, or that of the debug file which belongs to it, and
 * the file which dwz made of what several of those have in common. Only the headers of the units
 * are read here.
 */
#include "sym/types_priv.h"

#include "base/err.h"
#include <sys/mman.h>

static struct bytes section_of(Elf *elf, const char *wanted)
{
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) < 0)
		return (struct bytes){ 0 };
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr sh;
		const char *name = gelf_getshdr(scn, &sh) ? elf_strptr(elf, names, sh.sh_name) : NULL;
		Elf_Data *d;

		/* libdw has unpacked it in place, .zdebug_ under its old name. */
		if (!name || (strcmp(name, wanted) != 0 &&
			      !(strncmp(name, ".z", 2) == 0 && strcmp(name + 2, wanted + 1) == 0)))
			continue;
		d = elf_rawdata(scn, NULL);
		if (d && d->d_buf)
			return (struct bytes){ d->d_buf, d->d_size, 0 };
	}
	return (struct bytes){ 0 };
}

static enum types_lang language(Dwarf_Die *cu)
{
	switch (dwarf_srclang(cu)) {
	case DW_LANG_C: case DW_LANG_C89: case DW_LANG_C99: case DW_LANG_C11: case DW_LANG_ObjC:
	case 0x2c:	/* C17 */
		return LANG_C;
	case DW_LANG_C_plus_plus: case DW_LANG_C_plus_plus_03: case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14: case DW_LANG_ObjC_plus_plus: case 0x2b: case 0x2e: case 0x3a: case 0x3b:
		return LANG_CXX;
	case DW_LANG_Rust: return LANG_RUST;
	case DW_LANG_Go: return LANG_GO;
	case DW_LANG_Mips_Assembler: return LANG_C;
	default: return LANG_OTHER;
	}
}

static bool inside(struct bytes b, const void *p)
{
	return b.p && (const uint8_t *)p >= b.p && (const uint8_t *)p < b.p + b.n;
}

static bool is_split(Dwarf_Die *cu, uint8_t kind)
{
	return kind == DW_UT_skeleton || kind == DW_UT_split_compile ||
	       dwarf_hasattr(cu, DW_AT_GNU_dwo_name) || dwarf_hasattr(cu, DW_AT_dwo_name);
}

/* Returns how many of the units lie elsewhere. */
static size_t list_units(struct types *t, struct dw_file *f)
{
	Dwarf_CU *cu = NULL, *next;
	size_t split = 0;
	uint8_t kind;
	Dwarf_Die die;

	f->first = t->units.n;
	while (dwarf_get_units(f->dw, cu, &next, NULL, &kind, &die, NULL) == 0) {
		struct bytes in = inside(f->info, die.addr) ? f->info : f->types;
		struct unit *u;

		cu = next;
		if (!die.addr || !inside(in, die.addr))
			continue;
		if (is_split(&die, kind)) {
			split++;
			continue;
		}
		if (t->units.n > f->first && inside(in, t->units.v[t->units.n - 1].die.addr))
			t->units.v[t->units.n - 1].end = die.addr;
		u = vec_add(&t->units);
		u->die = die;
		u->lang = language(&die);
		u->end = in.p + in.n;
		table_put(&t->by_cu, die.cu, t->units.n);
	}
	f->n = t->units.n - f->first;
	for (f->ninfo = 0; f->ninfo < f->n && inside(f->info, t->units.v[f->first + f->ninfo].die.addr); )
		f->ninfo++;
	return split;
}

static bool has_compressed(const struct image *e)
{
	size_t i;

	for (i = 0; i < e->nsh; i++)
		if ((e->sh[i].sh_flags & SHF_COMPRESSED) || strncmp(image_section_name(e, &e->sh[i]), ".zdebug", 7) == 0)
			return true;
	return false;
}

/*
 * When libelf unpacks a section, it notes that in the section's header: a mapping, which is private,
 * must be writable then.
 */
static int open_file(struct dw_file *f, const uint8_t *p, size_t size, bool read_only, const char *path)
{
	if (read_only && mprotect((void *)p, size, PROT_READ | PROT_WRITE) < 0)
		return fail(-errno, "%s: its debug info can't be unpacked: %s", path, strerror(errno));
	f->elf = elf_memory((char *)p, size);
	if (!f->elf)
		return fail(-ENODATA, "%s: debug info can't be read: %s", path, elf_errmsg(-1));
	f->dw = dwarf_begin_elf(f->elf, DWARF_C_READ, NULL);
	if (!f->dw)
		return fail(-ENODATA, "%s: debug info can't be read: %s", path, dwarf_errmsg(-1));
	f->info = section_of(f->elf, ".debug_info");
	f->types = section_of(f->elf, ".debug_types");
	f->str = section_of(f->elf, ".debug_str");
	f->line = section_of(f->elf, ".debug_line");
	f->line_str = section_of(f->elf, ".debug_line_str");
	f->str_offsets = section_of(f->elf, ".debug_str_offsets");
	return 0;
}

static int open_image(struct dw_file *f, const struct image *e, void *map, const char *path)
{
	return open_file(f, e->p, e->size, map && has_compressed(e), path);
}

int dw_open(struct types *t)
{
	struct module *m = t->m;
	struct extra *x = &priv(m)->extra;
	bool own = image_has_dwarf(&priv(m)->image);
	size_t split;
	int r;

	elf_version(EV_CURRENT);
	if (own)
		r = open_image(&t->main, &priv(m)->image, priv(m)->map, m->path);
	else if (x->map && image_has_dwarf(&x->image))
		r = open_image(&t->main, &x->image, x->map, m->path);
	else if (extra_find_dwarf(m, &t->extra))
		r = open_image(&t->main, &t->extra.image, t->extra.map, m->path);
	else
		r = fail(-ENODATA, "%s has no debug info; compile it with -g or install its debug package",
			 m->path);
	if (r < 0)
		return r;
	if (dw_map_alt(t) && open_file(&t->alt, t->alt_map, t->alt_size, true, m->path) == 0)
		dwarf_setalt(t->main.dw, t->alt.dw);
	split = list_units(t, &t->main);
	if (split && !t->main.n)
		return fail(-ENOTSUP, "%s has its debug info in .dwo files, which jab does not read; "
			    "compile it without -gsplit-dwarf", m->path);
	if (t->alt.dw)
		list_units(t, &t->alt);
	return 0;
}

static void close_file(struct dw_file *f)
{
	if (f->dw)
		dwarf_end(f->dw);
	if (f->elf)
		elf_end(f->elf);
}

void dw_close(struct types *t)
{
	dw_calls_free(t);
	if (t->eh)
		dwarf_cfi_end(t->eh);
	if (t->eh_elf)
		elf_end(t->eh_elf);
	close_file(&t->main);
	close_file(&t->alt);
	extra_close(&t->extra);
	if (t->alt_map)
		munmap(t->alt_map, t->alt_size);
}
