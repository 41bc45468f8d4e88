/* SPDX-License-Identifier: MIT */
/*
 * Parses ELF headers as hostile input. Program headers decide whether a file can be used at all, since the kernel
 * and the loader need them, too. Section headers are an aid that may be missing or wrong: if their table does not
 * fit into the file, they are ignored.
 */
#include "sym/elf/image.h"

#include "arch/arch.h"
#include "base/err.h"
#include "base/mem.h"

/* Many more than any linker emits; keeps look-ups by address short. */
#define MOST_SEGMENTS 256

const uint8_t *image_at(const struct image *e, uint64_t off, uint64_t len)
{
	if (off > e->size || len > e->size - off)
		return NULL;
	return e->p + off;
}

static const char *machine_name(unsigned int machine)
{
	switch (machine) {
	case EM_386: return "i386";
	case EM_ARM: return "32-bit ARM";
	case EM_AARCH64: return "AArch64";
	case EM_RISCV: return "RISC-V";
	case EM_PPC64: return "PowerPC";
	case EM_S390: return "s390";
	case EM_MIPS: return "MIPS";
	default: return NULL;
	}
}

static int check_machine(const struct image *e, const char *path)
{
	const char *name = machine_name(e->eh.e_machine);

	if (e->eh.e_ident[EI_CLASS] == ELFCLASS32)
		return fail(-ENOTSUP, "%s is a 32-bit program; this jab traces only %s", path, arch_names());
	if (e->eh.e_ident[EI_CLASS] != ELFCLASS64)
		return fail(-ENOEXEC, "%s: damaged ELF header (class %d)", path,
			    e->eh.e_ident[EI_CLASS]);
	if (e->eh.e_ident[EI_DATA] != ELFDATA2LSB)
		return fail(-ENOTSUP, "%s is for a big-endian CPU; this jab traces only %s", path, arch_names());
	if (!arch_of_machine(e->eh.e_machine) && name)
		return fail(-ENOTSUP, "%s is for %s; this jab traces only %s", path, name, arch_names());
	if (!arch_of_machine(e->eh.e_machine))
		return fail(-ENOTSUP, "%s is for another CPU (ELF machine %u); this jab traces only %s", path,
			    e->eh.e_machine, arch_names());
	if (e->eh.e_type != ET_EXEC && e->eh.e_type != ET_DYN)
		return fail(-ENOTSUP, "%s is %s, neither a program nor a shared library", path,
			    e->eh.e_type == ET_CORE ? "a core dump" :
			    e->eh.e_type == ET_REL ? "an object file" : "of an unknown ELF type");
	return 0;
}

static int copy_program_headers(struct image *e, const char *path)
{
	const uint8_t *p;

	if (e->eh.e_phnum && e->eh.e_phentsize != sizeof(Elf64_Phdr))
		return fail(-ENOEXEC, "%s: damaged ELF header (program headers of %u bytes)", path,
			    e->eh.e_phentsize);
	p = image_at(e, e->eh.e_phoff, (uint64_t)e->eh.e_phnum * sizeof(Elf64_Phdr));
	if (!p)
		return fail(-ENOEXEC, "%s is truncated: its program headers lie behind its end", path);
	e->nph = e->eh.e_phnum;
	e->ph = xcalloc(e->nph, sizeof(*e->ph));
	memcpy(e->ph, p, e->nph * sizeof(*e->ph));
	return 0;
}

static void copy_section_headers(struct image *e)
{
	uint64_t n = e->eh.e_shnum;
	const uint8_t *p;
	Elf64_Shdr first;

	p = image_at(e, e->eh.e_shoff, sizeof(first));
	if (!e->eh.e_shoff || !p || e->eh.e_shentsize != sizeof(Elf64_Shdr))
		return;
	memcpy(&first, p, sizeof(first));
	if (!n)
		n = first.sh_size;
	if (!n || n > e->size / sizeof(first) || !image_at(e, e->eh.e_shoff, n * sizeof(first)))
		return;
	e->nsh = n;
	e->sh = xcalloc(n, sizeof(*e->sh));
	memcpy(e->sh, p, n * sizeof(*e->sh));
}

static int check_segments(const struct image *e, const char *path)
{
	size_t i, n = 0;

	for (i = 0; i < e->nph; i++) {
		const Elf64_Phdr *ph = &e->ph[i];

		if (ph->p_type != PT_LOAD)
			continue;
		if (ph->p_vaddr + ph->p_memsz < ph->p_vaddr || ph->p_filesz > ph->p_memsz)
			return fail(-ENOEXEC, "%s: damaged program header %zu", path, i);
		if (++n > MOST_SEGMENTS)
			return fail(-ENOEXEC, "%s: damaged: more than %d segments", path, MOST_SEGMENTS);
	}
	return 0;
}

int image_parse(struct image *e, const uint8_t *p, size_t size, const char *path)
{
	int r;

	*e = (struct image){ .p = p, .size = size };
	if (size < SELFMAG || memcmp(p, ELFMAG, SELFMAG) != 0)
		return fail(-ENOEXEC, "%s is not an ELF file", path);
	if (size < EI_NIDENT)
		return fail(-ENOEXEC, "%s is truncated: an ELF file of %zu bytes", path, size);
	memcpy(&e->eh, p, MIN(size, sizeof(e->eh)));
	r = size < sizeof(e->eh) && e->eh.e_ident[EI_CLASS] != ELFCLASS32 ?
		fail(-ENOEXEC, "%s is truncated: an ELF file of %zu bytes", path, size) : 0;
	if (r == 0)
		r = check_machine(e, path);
	if (r == 0)
		r = copy_program_headers(e, path);
	if (r == 0)
		r = check_segments(e, path);
	if (r == 0)
		copy_section_headers(e);
	else
		image_release(e);
	return r;
}

void image_release(struct image *e)
{
	free(e->ph);
	free(e->sh);
	*e = (struct image){ 0 };
}

struct bytes image_vaddr(const struct image *e, uint64_t addr)
{
	size_t i;

	for (i = 0; i < e->nph; i++) {
		const Elf64_Phdr *ph = &e->ph[i];
		uint64_t skip = addr - ph->p_vaddr;
		const uint8_t *p;

		if (ph->p_type != PT_LOAD || addr < ph->p_vaddr || skip >= ph->p_filesz)
			continue;
		p = image_at(e, ph->p_offset, ph->p_filesz);
		if (p)
			return (struct bytes){ p + skip, ph->p_filesz - skip, addr };
	}
	return (struct bytes){ 0 };
}

const char *image_section_name(const struct image *e, const Elf64_Shdr *sh)
{
	uint64_t index = e->eh.e_shstrndx == SHN_XINDEX ? e->sh[0].sh_link : e->eh.e_shstrndx;
	const uint8_t *p;

	if (index >= e->nsh || sh->sh_name >= e->sh[index].sh_size)
		return "";
	p = image_at(e, e->sh[index].sh_offset, e->sh[index].sh_size);
	/* No section name is longer; a damaged table may have one endless string. */
	if (!p || !memchr(p + sh->sh_name, 0, MIN(e->sh[index].sh_size - sh->sh_name, 256u)))
		return "";
	return (const char *)p + sh->sh_name;
}

const Elf64_Shdr *image_section(const struct image *e, const char *name)
{
	size_t i;

	for (i = 1; i < e->nsh; i++)
		if (strcmp(image_section_name(e, &e->sh[i]), name) == 0)
			return &e->sh[i];
	return NULL;
}

struct bytes image_section_bytes(const struct image *e, const Elf64_Shdr *sh)
{
	const uint8_t *p;

	if (!sh || sh->sh_type == SHT_NOBITS || sh->sh_size == 0)
		return (struct bytes){ 0 };
	p = image_at(e, sh->sh_offset, sh->sh_size);
	return (struct bytes){ p, p ? sh->sh_size : 0, sh->sh_addr };
}

static struct symbols make_symbols(struct bytes table, struct bytes strings)
{
	struct symbols s = { .p = table.p, .n = table.n / sizeof(Elf64_Sym) };
	const uint8_t *last;

	last = strings.p ? memrchr(strings.p, 0, strings.n) : NULL;
	if (!last || !table.p)
		return (struct symbols){ 0 };
	s.strings = (const char *)strings.p;
	s.strings_len = last - strings.p + 1;
	return s;
}

struct symbols image_symtab(const struct image *e, uint32_t sh_type)
{
	size_t i;

	for (i = 1; i < e->nsh; i++) {
		const Elf64_Shdr *sh = &e->sh[i];
		struct symbols s;

		if (sh->sh_type != sh_type || sh->sh_link >= e->nsh)
			continue;
		s = make_symbols(image_section_bytes(e, sh),
				 image_section_bytes(e, &e->sh[sh->sh_link]));
		if (s.p)
			return s;
	}
	return (struct symbols){ 0 };
}

bool image_dynamic(const struct image *e, int64_t tag, uint64_t *ret_value)
{
	size_t i, k;

	for (i = 0; i < e->nph; i++) {
		const uint8_t *p = NULL;

		if (e->ph[i].p_type == PT_DYNAMIC)
			p = image_at(e, e->ph[i].p_offset, e->ph[i].p_filesz);
		for (k = 0; p && k < e->ph[i].p_filesz / 16; k++) {
			if (get64(p + k * 16) == DT_NULL)
				break;
			if ((int64_t)get64(p + k * 16) != tag)
				continue;
			*ret_value = get64(p + k * 16 + 8);
			return true;
		}
	}
	return false;
}

/* Chains end at a hash with its lowest bit set: the end of the last one is the end of the table. */
static size_t gnu_hash_count(struct bytes h)
{
	uint64_t buckets, first, bloom, i, last = 0;

	if (h.n < 16)
		return 0;
	buckets = get32(h.p);
	first = get32(h.p + 4);
	bloom = 16 + 8ull * get32(h.p + 8);
	if (bloom > h.n || buckets > (h.n - bloom) / 4)
		return 0;
	for (i = 0; i < buckets; i++)
		last = MAX(last, get32(h.p + bloom + i * 4));
	if (last < first)
		return first;
	for (;; last++) {
		uint64_t at = bloom + buckets * 4 + (last - first) * 4;

		if (at + 4 > h.n)
			return 0;
		if (get32(h.p + at) & 1)
			return last + 1;
	}
}

static size_t dynsym_count(const struct image *e)
{
	uint64_t addr;

	if (image_dynamic(e, DT_HASH, &addr)) {
		struct bytes h = image_vaddr(e, addr);

		if (h.n >= 8)
			return get32(h.p + 4);
	}
	if (image_dynamic(e, DT_GNU_HASH, &addr))
		return gnu_hash_count(image_vaddr(e, addr));
	return 0;
}

struct symbols image_dynsym(const struct image *e)
{
	struct symbols s = image_symtab(e, SHT_DYNSYM);
	uint64_t table, strings, strings_len;
	struct bytes t, str;

	if (s.p || !image_dynamic(e, DT_SYMTAB, &table) || !image_dynamic(e, DT_STRTAB, &strings) ||
	    !image_dynamic(e, DT_STRSZ, &strings_len))
		return s;
	t = image_vaddr(e, table);
	t.n = MIN(t.n, dynsym_count(e) * sizeof(Elf64_Sym));
	str = image_vaddr(e, strings);
	str.n = MIN(str.n, strings_len);
	return make_symbols(t, str);
}

static struct bytes find_note(struct bytes b, const char *owner, uint32_t type)
{
	size_t owner_len = strlen(owner) + 1;

	while (b.p && b.n >= 12) {
		uint64_t name = ((uint64_t)get32(b.p) + 3) & ~3ull, len = get32(b.p + 4);
		uint64_t whole = 12 + name + ((len + 3) & ~3ull);

		if (12 + name + len > b.n)
			break;
		if (get32(b.p + 8) == type && get32(b.p) >= owner_len &&
		    memcmp(b.p + 12, owner, owner_len) == 0)
			return (struct bytes){ b.p + 12 + name, len, 0 };
		if (whole >= b.n)
			break;
		b.p += whole;
		b.n -= whole;
	}
	return (struct bytes){ 0 };
}

struct bytes image_note(const struct image *e, const char *owner, uint32_t type)
{
	struct bytes found = { 0 };
	size_t i;

	for (i = 0; i < e->nph && !found.p; i++) {
		struct bytes b = { .n = e->ph[i].p_filesz };

		if (e->ph[i].p_type != PT_NOTE)
			continue;
		b.p = image_at(e, e->ph[i].p_offset, b.n);
		found = find_note(b, owner, type);
	}
	for (i = 1; i < e->nsh && !found.p; i++)
		if (e->sh[i].sh_type == SHT_NOTE)
			found = find_note(image_section_bytes(e, &e->sh[i]), owner, type);
	return found;
}
