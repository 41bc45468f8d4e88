/* SPDX-License-Identifier: MIT */
/*
 * `sharedtext LIB HOW`: maps a library's file by hand, as a loader would, but with its code shared: HOW is
 * `w` for writable, `r` for not. `run N` calls work() of the program N times and late_work() of the library once each.
 */
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "prog.h"

static long (*in_library)(long);

noinline unsigned long work(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3;
}

static char *map_segments(const char *file, int fd, int writable)
{
	const Elf64_Ehdr *eh = (const void *)file;
	const Elf64_Phdr *ph = (const void *)(file + eh->e_phoff);
	char *base = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < eh->e_phnum; i++) {
		uint64_t skip = ph[i].p_vaddr & 4095;
		int code = ph[i].p_flags & PF_X;

		if (ph[i].p_type != PT_LOAD)
			continue;
		if (mmap(base + ph[i].p_vaddr - skip, ph[i].p_filesz + skip,
			 PROT_READ | (code ? PROT_EXEC | (writable ? PROT_WRITE : 0) : 0),
			 MAP_FIXED | (code ? MAP_SHARED : MAP_PRIVATE), fd, (off_t)(ph[i].p_offset - skip)) == MAP_FAILED)
			bad("mmap: %s", strerror(errno));
	}
	return base;
}

static void find(const char *file, char *base, const char *name)
{
	const Elf64_Ehdr *eh = (const void *)file;
	const Elf64_Shdr *sh = (const void *)(file + eh->e_shoff);

	for (int i = 0; i < eh->e_shnum; i++) {
		const Elf64_Sym *s = (const void *)(file + sh[i].sh_offset);

		for (size_t k = 0; sh[i].sh_type == SHT_DYNSYM && k < sh[i].sh_size / sizeof(*s); k++)
			if (!strcmp(file + sh[sh[i].sh_link].sh_offset + s[k].st_name, name))
				in_library = (long (*)(long))(base + s[k].st_value);
	}
}

static void run(long n)
{
	for (long i = 0; i < n; i++)
		if (in_library(i) != (long)work((unsigned long)i) + 7)
			bad("call %ld gave %ld", i, in_library(i));
}

int main(int argc, char **argv)
{
	int writable = argc > 2 && argv[2][0] == 'w', fd = open(argv[1], writable ? O_RDWR : O_RDONLY);
	struct stat st;
	char *file;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 1;
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	find(file, map_segments(file, fd, writable), "in_library");
	serve(run, NULL);
	return verdict();
}
