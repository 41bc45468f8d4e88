/* SPDX-License-Identifier: MIT */
/*
 * A program written as bytes: "|" begins the next function, "/" ends one (what follows up to the next "|" is filler). It
 * stands at 0x400000.
 */
#ifndef PLAN_PROGRAM_H
#define PLAN_PROGRAM_H

#include <ctype.h>
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pad/plan.h"

#include <cmocka.h>

#define BASE 0x400000ull
#define TEXT_OFF 0x1000
#define FUNCS_MAX 16

struct program {
	uint8_t text[512];
	size_t size;
	struct { uint32_t at, size; } f[FUNCS_MAX];
	int nf;
};

static inline void parse(const char *s, struct program *ret)
{
	bool filler = false;

	memset(ret, 0, sizeof(*ret));
	ret->nf = 1;
	for (; *s; s++) {
		unsigned int byte;

		if (isspace((unsigned char)*s))
			continue;
		if (*s == '/') {
			filler = true;
		} else if (*s == '|') {
			ret->f[ret->nf++].at = ret->size;
			filler = false;
		} else {
			assert_int_equal(sscanf(s, "%2x", &byte), 1);
			ret->text[ret->size++] = byte;
			ret->f[ret->nf - 1].size += !filler;
			s++;
		}
	}
}

static uint8_t file[0x3000];

#define PUT(offset, ...) memcpy(file + (offset), &(__VA_ARGS__), sizeof(__VA_ARGS__))

/* The smallest file that has text and symbols. */
static inline struct module *make_module(const struct program *pr)
{
	static const char strings[] = "\0.text\0.symtab\0.strtab\0f0\0f1\0f2\0f3\0f4\0f5\0f6\0f7\0";
	struct module *m;

	memset(file, 0, sizeof(file));
	PUT(0, (Elf64_Ehdr){ .e_ident = { 0x7f, 'E', 'L', 'F', 2, 1, 1 }, .e_type = ET_EXEC,
			     .e_machine = EM_X86_64, .e_version = 1, .e_entry = BASE + TEXT_OFF, .e_phoff = 64,
			     .e_shoff = 0x2800, .e_ehsize = 64, .e_phentsize = 56, .e_phnum = 1,
			     .e_shentsize = 64, .e_shnum = 4, .e_shstrndx = 3 });
	PUT(64, (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = TEXT_OFF,
			      .p_vaddr = BASE + TEXT_OFF, .p_paddr = BASE + TEXT_OFF, .p_filesz = pr->size,
			      .p_memsz = pr->size, .p_align = 4096 });
	memcpy(file + TEXT_OFF, pr->text, pr->size);
	for (int i = 0; i < pr->nf; i++)
		PUT(0x2000 + (i + 1) * sizeof(Elf64_Sym),
		    (Elf64_Sym){ .st_name = 23 + 3 * i, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				 .st_shndx = 1, .st_value = BASE + TEXT_OFF + pr->f[i].at,
				 .st_size = pr->f[i].size });
	PUT(0x2840, (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				  .sh_addr = BASE + TEXT_OFF, .sh_offset = TEXT_OFF, .sh_size = pr->size });
	PUT(0x2880, (Elf64_Shdr){ .sh_name = 7, .sh_type = SHT_SYMTAB, .sh_offset = 0x2000, .sh_link = 3,
				  .sh_info = 1, .sh_size = (pr->nf + 1) * sizeof(Elf64_Sym),
				  .sh_entsize = sizeof(Elf64_Sym), .sh_addralign = 8 });
	PUT(0x28c0, (Elf64_Shdr){ .sh_name = 15, .sh_type = SHT_STRTAB, .sh_offset = 0x2a00,
				  .sh_size = sizeof(strings) });
	memcpy(file + 0x2a00, strings, sizeof(strings));
	assert_int_equal(module_open_memory(file, sizeof(file), "test", &m), 0);
	assert_int_equal(m->funcs.n, pr->nf);
	return m;
}

#endif
