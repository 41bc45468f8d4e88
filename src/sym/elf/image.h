/* SPDX-License-Identifier: MIT */
/*
 * The bytes of one ELF file, and the only functions that access them. Headers are copied (in a damaged file they
 * may be unaligned); everything else is requested by offset and length, and NULL is returned where the file does
 * not have it. No code outside of image.c adds an unchecked offset to a pointer.
 */
#ifndef JAB_SYM_IMAGE_H
#define JAB_SYM_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct image {
	const uint8_t *p;
	size_t size;
	Elf64_Ehdr eh;
	Elf64_Phdr *ph;
	size_t nph;
	Elf64_Shdr *sh;		/* NULL if stripped or damaged: nothing may depend on them */
	size_t nsh;
};

/* A piece of the file; addr is its link address if it has one. p is NULL if there is none. */
struct bytes { const uint8_t *p; size_t n; uint64_t addr; };

/* A symbol table and its names. strings is cut after its last NUL, so every name in it is terminated. */
struct symbols { const uint8_t *p; size_t n; const char *strings; size_t strings_len; };

/* Checks that the file is an ELF file for this CPU and copies its headers. path is for the message. */
int image_parse(struct image *e, const uint8_t *p, size_t size, const char *path);
void image_release(struct image *e);

const uint8_t *image_at(const struct image *e, uint64_t off, uint64_t len);
struct bytes image_vaddr(const struct image *e, uint64_t addr);	/* up to the segment's end */
const char *image_section_name(const struct image *e, const Elf64_Shdr *sh);	/* never NULL */
const Elf64_Shdr *image_section(const struct image *e, const char *name);
struct bytes image_section_bytes(const struct image *e, const Elf64_Shdr *sh);	/* sh may be NULL */

struct symbols image_symtab(const struct image *e, uint32_t sh_type);
struct symbols image_dynsym(const struct image *e);	/* by section, else by PT_DYNAMIC */
bool image_dynamic(const struct image *e, int64_t tag, uint64_t *ret_value);

/* The payload of the first note of that owner and type, in PT_NOTE or SHT_NOTE. */
struct bytes image_note(const struct image *e, const char *owner, uint32_t type);

static inline uint16_t get16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return v; }
static inline uint32_t get32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline uint64_t get64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }

static inline Elf64_Sym symbols_at(const struct symbols *s, size_t i)
{
	Elf64_Sym sym;

	memcpy(&sym, s->p + i * sizeof(sym), sizeof(sym));
	return sym;
}

#endif
