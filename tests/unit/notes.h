/* SPDX-License-Identifier: MIT */
/* Small files with notes of static tracepoints. */
#ifndef JAB_TEST_NOTES_H
#define JAB_TEST_NOTES_H

#include "elfmake.h"

struct made_notes { uint8_t p[4096]; size_t n; };

static inline void notes_put(struct made_notes *x, const void *p, size_t n)
{
	memcpy(x->p + x->n, p, n);
	x->n += n;
}

/* len: of the description as the note says it; -1: as long as it is. */
static inline void notes_add(struct made_notes *x, uint64_t pc, uint64_t base, uint64_t semaphore, const char *provider,
			     const char *name, const char *args, long len)
{
	size_t real = 24 + strlen(provider) + 1 + strlen(name) + 1 + strlen(args) + 1;
	uint32_t head[3] = { 8, len < 0 ? (uint32_t)real : (uint32_t)len, 3 };
	uint64_t addrs[3] = { pc, base, semaphore };

	notes_put(x, head, sizeof(head));
	notes_put(x, "stapsdt", 8);
	notes_put(x, addrs, sizeof(addrs));
	notes_put(x, provider, strlen(provider) + 1);
	notes_put(x, name, strlen(name) + 1);
	notes_put(x, args, strlen(args) + 1);
	x->n = (x->n + 3) & ~3ul;
}

/* base: of the section .stapsdt.base; 0: there is none. */
static inline size_t notes_file(struct made *e, const struct made_notes *x, uint64_t base)
{
	static const struct made_symbol symbols[] = {
		{ "counter", FRAMES + 0x100, 8, STT_OBJECT, STB_GLOBAL }, { "f", TEXT, 0x100, STT_FUNC, STB_GLOBAL },
	};

	made_start(e);
	made_data(e, ".note.stapsdt", SHT_NOTE, x->p, x->n);
	if (base)
		made_section(e, ".stapsdt.base", SHT_PROGBITS, SHF_ALLOC, base, 1);
	made_symbols(e, SHT_SYMTAB, symbols, 2);
	return made_finish(e, ET_DYN);
}

#endif
