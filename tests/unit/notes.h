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

/* A field in a note of <jab/tracepoint.h>: its code, name and the name of its type. */
struct made_field { uint64_t code; const char *name, *of; };

#define FIELD(kind, size, flags, count) ((size) | (kind) << 8 | (size) << 16 | (flags) * 0x1000000ull | (uint64_t)(count) << 32)
#define FIELD_ARRAY(kind, size, flags, count) (8 | (kind) << 8 | (size) << 16 | (flags) * 0x1000000ull | (uint64_t)(count) << 32)

static inline void notes_fields(struct made_notes *x, uint64_t pc, const char *provider, const char *name, const struct made_field *f, uint32_t n)
{
	size_t head = x->n, begin;
	uint32_t words[3] = { 4, 0, 1 };

	notes_put(x, words, sizeof(words));
	notes_put(x, "jab", 4);
	begin = x->n;
	notes_put(x, &pc, 8);
	notes_put(x, &n, 4);
	notes_put(x, provider, strlen(provider) + 1);
	notes_put(x, name, strlen(name) + 1);
	for (uint32_t i = 0; i < n; i++) {
		notes_put(x, &f[i].code, 8);
		notes_put(x, f[i].name, strlen(f[i].name) + 1);
		notes_put(x, f[i].of, strlen(f[i].of) + 1);
	}
	words[1] = x->n - begin;
	memcpy(x->p + head, words, sizeof(words));
	x->n = (x->n + 3) & ~3ul;
}

static inline void table_end(struct made_notes *x, size_t head, uint32_t kind, uint32_t id, uint32_t count, uint32_t bytes)
{
	uint32_t words[5] = { x->n - head, kind, id, count, bytes };

	memcpy(x->p + head, "jabt", 4);
	memcpy(x->p + head + 4, words, sizeof(words));
	x->n = (x->n + 7) & ~7ul;
}

static inline void table_enum(struct made_notes *x, uint32_t id, const char *name, const char *names, const int64_t *values, uint32_t n)
{
	size_t head = x->n;

	x->n += 24;
	notes_put(x, values, 8 * n);
	notes_put(x, name, strlen(name) + 1);
	notes_put(x, names, strlen(names) + 1);
	table_end(x, head, 7, id, n, 0);
}

/* Member i is at offset 8 * i. */
static inline void table_struct(struct made_notes *x, uint32_t id, const char *name, uint32_t bytes, const struct made_field *f, uint32_t n)
{
	size_t head = x->n;

	x->n += 24;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t off = 8 * i;

		notes_put(x, &f[i].code, 8);
		notes_put(x, &off, 8);
	}
	notes_put(x, name, strlen(name) + 1);
	for (uint32_t i = 0; i < n; i++) {
		notes_put(x, f[i].name, strlen(f[i].name) + 1);
		notes_put(x, f[i].of, strlen(f[i].of) + 1);
	}
	table_end(x, head, 8, id, n, bytes);
}

static inline size_t notes_file3(struct made *e, const struct made_notes *x, const struct made_notes *fields, const struct made_notes *tables)
{
	static const struct made_symbol symbols[] = { { "f", TEXT, 0x100, STT_FUNC, STB_GLOBAL } };

	made_start(e);
	made_data(e, ".note.stapsdt", SHT_NOTE, x->p, x->n);
	made_data(e, ".note.jab", SHT_NOTE, fields->p, fields->n);
	made_data(e, "jab_types", SHT_PROGBITS, tables->p, tables->n);
	made_symbols(e, SHT_SYMTAB, symbols, 1);
	return made_finish(e, ET_DYN);
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
