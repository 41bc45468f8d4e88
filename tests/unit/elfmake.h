/* SPDX-License-Identifier: MIT */
/*
 * Small ELF files made by hand, for the tests of src/sym: one page of text at 0x1000, .eh_frame at
 * 0x2000 (with an exception table at 0x2800), then whatever sections a test wants. Link addresses
 * are file offsets.
 */
#ifndef JAB_TEST_ELFMAKE_H
#define JAB_TEST_ELFMAKE_H

#include <elf.h>
#include <stdint.h>
#include <string.h>

#define TEXT 0x1000
#define FRAMES 0x2000
#define LSDA 0x2800
#define REST 0x3000
#define LOW_TEXT_ROW 16		/* CFA offset of a piece that was split off */

struct made {
	uint8_t p[0x10000];
	size_t end, frames;
	Elf64_Shdr sh[16];
	size_t nsh;
	char names[256];
	size_t names_len;
};

struct made_symbol { const char *name; uint64_t addr, size; uint8_t type, bind; };
struct made_fde { uint64_t addr; uint32_t size; uint8_t cfa_offset; uint64_t lsda; };

static inline Elf64_Shdr *made_section(struct made *e, const char *name, uint32_t type, uint64_t flags,
				       uint64_t at, size_t size)
{
	Elf64_Shdr *sh = &e->sh[e->nsh++];

	*sh = (Elf64_Shdr){ .sh_name = e->names_len, .sh_type = type, .sh_flags = flags,
			    .sh_addr = flags & SHF_ALLOC ? at : 0, .sh_offset = at, .sh_size = size };
	strcpy(e->names + e->names_len, name);
	e->names_len += strlen(name) + 1;
	return sh;
}

/* A section behind all others, not loaded. */
static inline Elf64_Shdr *made_data(struct made *e, const char *name, uint32_t type, const void *data, size_t size)
{
	Elf64_Shdr *sh;

	e->end = (e->end + 7) & ~7ul;
	sh = made_section(e, name, type, 0, e->end, size);
	memcpy(e->p + e->end, data, size);
	e->end += size;
	return sh;
}

static inline void made_start(struct made *e)
{
	*e = (struct made){ .end = REST, .nsh = 1, .names_len = 1 };
	made_section(e, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT, 0x1000);
	memset(e->p + TEXT, 0x90, 0x1000);
}

static inline void made_symbols(struct made *e, uint32_t type, const struct made_symbol *v, size_t n)
{
	static char strings[4096];
	Elf64_Sym syms[64] = { 0 };
	size_t i, len = 1;
	Elf64_Shdr *sh;

	for (i = 0; i < n; i++) {
		syms[i + 1] = (Elf64_Sym){
			.st_name = len, .st_info = ELF64_ST_INFO(v[i].bind, v[i].type), .st_shndx = 1,
			.st_value = v[i].addr, .st_size = v[i].size,
		};
		strcpy(strings + len, v[i].name);
		len += strlen(v[i].name) + 1;
	}
	sh = made_data(e, type == SHT_DYNSYM ? ".dynsym" : ".symtab", type, syms, (n + 1) * sizeof(*syms));
	sh->sh_link = e->nsh;
	sh->sh_entsize = sizeof(*syms);
	made_data(e, ".strtab", SHT_STRTAB, strings, len);
}

static inline void made_put32(struct made *e, size_t at, uint32_t v)
{
	memcpy(e->p + at, &v, 4);
}

/* One CIE "zLR" whose first row is CFA = rsp+8, then the FDEs. */
static inline void made_frames(struct made *e, const struct made_fde *v, size_t n)
{
	static const uint8_t cie[] = {
		24, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'L', 'R', 0, 1, 0x78, 16, 2, 0x1b, 0x1b,
		0x0c, 7, 8, 0x90, 1, 0, 0, 0, 0,
	};
	size_t at = FRAMES + sizeof(cie), i;

	memcpy(e->p + FRAMES, cie, sizeof(cie));
	for (i = 0; i < n; i++, at += 24) {
		made_put32(e, at, 20);
		made_put32(e, at + 4, at + 4 - FRAMES);
		made_put32(e, at + 8, v[i].addr - (at + 8));
		made_put32(e, at + 12, v[i].size);
		e->p[at + 16] = 4;
		made_put32(e, at + 17, v[i].lsda ? v[i].lsda - (at + 17) : 0);
		if (v[i].cfa_offset) {
			e->p[at + 21] = 0x0e;
			e->p[at + 22] = v[i].cfa_offset;
		}
	}
	made_section(e, ".eh_frame", SHT_PROGBITS, SHF_ALLOC, FRAMES, at - FRAMES);
	e->frames = at;
}

static inline void made_build_id(struct made *e, const char *id)
{
	uint8_t note[16 + 20] = { 4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0 };

	memcpy(note + 16, id, strlen(id));
	made_data(e, ".note.gnu.build-id", SHT_NOTE, note, sizeof(note));
}

static inline size_t made_finish(struct made *e, uint16_t type)
{
	Elf64_Ehdr eh = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT }, .e_type = type,
		.e_machine = EM_X86_64, .e_version = 1, .e_entry = TEXT, .e_phoff = 64, .e_ehsize = 64,
		.e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2, .e_shentsize = sizeof(Elf64_Shdr),
	};
	Elf64_Phdr ph[2] = {
		{ PT_LOAD, PF_R | PF_X, TEXT, TEXT, TEXT, 0x1000, 0x1000, 0x1000 },
		{ PT_LOAD, PF_R, FRAMES, FRAMES, FRAMES, 0x1000, 0x1000, 0x1000 },
	};

	made_section(e, ".shstrtab", SHT_STRTAB, 0, e->end, 0);
	e->sh[e->nsh - 1].sh_size = e->names_len;
	memcpy(e->p + e->end, e->names, e->names_len);
	eh.e_shstrndx = e->nsh - 1;
	eh.e_shnum = e->nsh;
	eh.e_shoff = e->end = (e->end + e->names_len + 7) & ~7ul;
	memcpy(e->p + e->end, e->sh, e->nsh * sizeof(*e->sh));
	e->end += e->nsh * sizeof(*e->sh);
	memcpy(e->p, &eh, sizeof(eh));
	memcpy(e->p + 64, ph, sizeof(ph));
	return e->end;
}

#endif
