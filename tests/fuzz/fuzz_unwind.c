/* SPDX-License-Identifier: MIT */
/*
 * Damaged call frame information: the input is the .eh_frame of a real file, put back into it. Whatever
 * table comes out must be one that can be walked blindly, and walks over noise must end.
 */
#include "base/err.h"
#include "blob/unwind.c"
#include "sym/elf/image.h"
#include "sym/unwind/unwind.h"

#include <unistd.h>

#include "mutate.h"

#define FILE_NAME "/lib64/ld-linux-x86-64.so.2"

static struct seed whole;

static Elf64_Shdr *find_frames(uint8_t *p, size_t size)
{
	Elf64_Ehdr *eh = (Elf64_Ehdr *)p;
	Elf64_Shdr *sh = (Elf64_Shdr *)(p + eh->e_shoff);
	const char *names = (const char *)p + sh[eh->e_shstrndx].sh_offset;

	for (int i = 0; i < eh->e_shnum; i++)
		if (strcmp(names + sh[i].sh_name, ".eh_frame") == 0)
			return &sh[i];
	abort();
}

static void check_table(const struct unwind_data *d, uint64_t lo, uint64_t hi)
{
	const struct unwind_rule *rules = (const void *)((const char *)d + d->rules);
	const uint32_t *rows = (const void *)((const char *)d + d->rows);

	if (d->nblocks != (hi - lo + UNWIND_BLOCK - 1) / UNWIND_BLOCK || d->index[0] != 0 || d->index[d->nblocks] != d->nrows ||
	    d->rows + d->nrows * 4 > d->size || d->rules + d->nrules * 16 > d->size)
		abort();
	for (uint32_t b = 0; b < d->nblocks; b++) {
		if (d->index[b] >= d->index[b + 1] || rows[d->index[b]] % UNWIND_BLOCK)
			abort();
		for (uint32_t i = d->index[b]; i < d->index[b + 1]; i++)
			if (rows[i] / UNWIND_BLOCK >= d->nrules ||
			    (i > d->index[b] && rows[i] % UNWIND_BLOCK <= rows[i - 1] % UNWIND_BLOCK))
				abort();
	}
	for (uint32_t i = 0; i < d->nrules; i++)
		if (rules[i].kind > UNWIND_SIGNAL || rules[i].reg > 15 || (rules[i].flags & UNWIND_RA_REG && rules[i].ra > 15))
			abort();
}

/* Memory that is full of plausible addresses of code and stack, from the address alone. */
#define BASE 0x7f0000000000ull
#define STACK 0x7ffe00000000ull
static uint64_t span;

static uint32_t read_noise(void *arg, uint64_t from, void *to, uint32_t len)
{
	uint64_t *w = to;

	for (uint32_t i = 0; i < len / 8; i++) {
		uint64_t z = (from + 8 * i) * 0x9e3779b97f4a7c15ull;

		z = (z ^ z >> 29) * 0xbf58476d1ce4e5b9ull;
		w[i] = z & 1 << 20 ? from + (z >> 52) * 8 : BASE + (z >> 20) % span;
	}
	return from % 64 ? len / 8 * 8 : len / 2 / 8 * 8;
}

static void walk_noise(const struct unwind_dir *dir)
{
	uint64_t frames[UNWIND_FRAMES_MAX], copy[128];
	enum unwind_end end;

	for (uint64_t i = 0; i < 200; i++) {
		struct unwind_state s = { 0 };
		struct unwind_walk w = { .s = &s, .dir = dir, .read = read_noise, .copy = (uint8_t *)copy, .copy_room = sizeof(copy) };

		s.ip = BASE + i * 7919 % span;
		for (int k = 0; k < 16; k++)
			s.regs[k] = STACK + 64 * ((i * k) % 7);
		if (unwind_walk(&w, frames, UNWIND_FRAMES_MAX, &end) > UNWIND_FRAMES_MAX)
			abort();
	}
}

static int fuzz_one(const uint8_t *p, size_t size)
{
	const struct unwind_data *d;
	struct unwind_place place;
	struct unwind_dir *dir;
	uint8_t *copy;
	Elf64_Shdr *sh;
	uint64_t lo, hi;

	if (!whole.p)
		whole = read_seed(FILE_NAME);
	copy = malloc(whole.n);
	memcpy(copy, whole.p, whole.n);
	sh = find_frames(copy, whole.n);
	if (size > sh->sh_size)
		size = sh->sh_size;
	memcpy(copy + sh->sh_offset, p, size);
	sh->sh_size = size;
	if (module_open_memory(copy, whole.n, "fuzz", &place.module) < 0)
		abort();
	free(copy);
	d = module_unwind(place.module, &lo, &hi);
	if (d) {
		check_table(d, lo, hi);
		place.bias = BASE - lo;
		span = hi - lo;
		dir = malloc(unwind_size(&place, 1));
		unwind_write(&place, 1, dir);
		walk_noise(dir);
		free(dir);
	}
	module_close(place.module);
	return d ? 0 : -1;
}

#ifndef WITH_LIBFUZZER
static struct seed fuzz_seed(size_t i)
{
	struct seed s = { 0 };
	Elf64_Shdr *sh;

	if (i > 0 || access(FILE_NAME, R_OK) != 0)
		return s;
	whole = read_seed(FILE_NAME);
	sh = find_frames(whole.p, whole.n);
	s.n = sh->sh_size;
	s.p = malloc(s.n);
	s.path = FILE_NAME;
	memcpy(s.p, whole.p + sh->sh_offset, s.n);
	return s;
}
#endif
