/* SPDX-License-Identifier: MIT */
/*
 * Opens the debug info of a module: its own, or that of its debug file, and the file to which dwz has moved what
 * several of those have in common. Only the headers of the units are read here.
 */
#include "sym/types/types_priv.h"

#include "base/err.h"

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

		/* libdw has unpacked the section in place, .zdebug_ under its old name. */
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

/* Lists the units of a file. Returns how many of them are in other files (.dwo). */
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

/* Compressed DWARF has about a third of its size; a section that claims much more is meant to exhaust the memory. */
#define UNPACKED_FREE (64ull << 20)
#define UNPACKED_RATIO 16

/* The unpacked size that a compressed section claims; 0 if it is not compressed. */
static uint64_t unpacked_size(Elf *elf, Elf_Scn *scn, size_t names)
{
	GElf_Shdr sh;
	GElf_Chdr ch;
	const char *name;
	Elf_Data *d;
	uint64_t n = 0;

	if (!gelf_getshdr(scn, &sh))
		return 0;
	if (sh.sh_flags & SHF_COMPRESSED)
		return gelf_getchdr(scn, &ch) ? ch.ch_size : 0;
	name = elf_strptr(elf, names, sh.sh_name);
	if (!name || strncmp(name, ".zdebug", 7) != 0 || !(d = elf_rawdata(scn, NULL)) || !d->d_buf || d->d_size < 12)
		return 0;
	for (int i = 4; i < 12; i++)
		n = n << 8 | ((const uint8_t *)d->d_buf)[i];
	return n;
}

/* The sum for all sections, UINT64_MAX if it overflows. */
static uint64_t all_unpacked(const uint8_t *p, size_t size)
{
	Elf *elf = elf_memory((char *)p, size);
	uint64_t sum = 0, n;
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf && elf_getshdrstrndx(elf, &names) == 0)
		while ((scn = elf_nextscn(elf, scn))) {
			n = unpacked_size(elf, scn, names);
			sum = n > UINT64_MAX - sum ? UINT64_MAX : sum + n;
		}
	elf_end(elf);
	return sum;
}

/* When libelf unpacks a section, it changes the section's header: a read-only mapping must be copied before. */
static int prepare_unpacking(struct dw_file *f, const uint8_t **p, size_t size, bool mapped, const char *path)
{
	uint64_t n = all_unpacked(*p, size);
	int r = 0;

	if (n > MIN(UNPACKED_FREE + UNPACKED_RATIO * size, content_most()))
		return fail(-EFBIG, "%s: its debug info is not unpacked: %llu MB in a file of %llu kB", path,
			    (unsigned long long)n >> 20, (unsigned long long)size >> 10);
	if (n && mapped)
		r = content_duplicate(*p, size, path, &f->unpacked);
	if (f->unpacked.p)
		*p = f->unpacked.p;
	return r;
}

static int open_file(struct dw_file *f, const uint8_t *p, size_t size, bool mapped, const char *path)
{
	int r = prepare_unpacking(f, &p, size, mapped, path);

	if (r < 0)
		return r;
	f->elf = elf_memory((char *)p, size);
	if (!f->elf)
		return fail(-ENODATA, "%s: debug info can't be read: %s", path, elf_errmsg(-1));
	f->dw = dwarf_begin_elf(f->elf, DWARF_C_READ, NULL);
	if (!f->dw)
		return fail(-ENODATA, "%s: debug info can't be read: %s", path, dwarf_errmsg(-1));
	dwarf_new_oom_handler(f->dw, mem_exhausted);	/* that of libdw ends the process */
	f->info = section_of(f->elf, ".debug_info");
	f->types = section_of(f->elf, ".debug_types");
	f->str = section_of(f->elf, ".debug_str");
	f->line = section_of(f->elf, ".debug_line");
	f->line_str = section_of(f->elf, ".debug_line_str");
	f->str_offsets = section_of(f->elf, ".debug_str_offsets");
	return 0;
}

static int open_image(struct dw_file *f, const struct image *e, const struct content *c, const char *path)
{
	int r = open_file(f, e->p, e->size, c->mapped, path);

	return r < 0 ? r : content_check(c, path);
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
		r = open_image(&t->main, &priv(m)->image, &priv(m)->content, m->path);
	else if (x->content.p && image_has_dwarf(&x->image))
		r = open_image(&t->main, &x->image, &x->content, m->path);
	else if (extra_find_dwarf(m, &t->extra))
		r = open_image(&t->main, &t->extra.image, &t->extra.content, m->path);
	else
		r = fail(-ENODATA, "%s has no debug info; compile it with -g or install its debug package",
			 m->path);
	if (r < 0)
		return r;
	if (dw_map_alt(t) && open_file(&t->alt, t->common.p, t->common.size, t->common.mapped, m->path) == 0)
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
	content_free(&f->unpacked);
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
	content_free(&t->common);
}
