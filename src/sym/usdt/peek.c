/* SPDX-License-Identifier: MIT */
/*
 * Whether a file has static tracepoints at all, by the names of its sections alone: a process has many libraries, and to read the symbols of all
 * of them takes a thousand times as long.
 */
#include "sym/usdt/usdt.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

#define MOST_SECTIONS 4096
#define MOST_NAMES (1u << 20)

static bool read_at(int fd, void *p, size_t n, uint64_t off)
{
	return off <= INT64_MAX && pread(fd, p, n, (off_t)off) == (ssize_t)n;
}

/* Are there other names only? */
static bool lacks_name(const char *names, size_t size)
{
	static const char wanted[] = ".note.stapsdt";

	return !memmem(names, size, wanted, sizeof(wanted));
}

bool usdt_may_be_in(int fd)
{
	Elf64_Ehdr eh;
	Elf64_Shdr sh;
	char *names;
	bool lacks;

	if (!read_at(fd, &eh, sizeof(eh), 0) || memcmp(eh.e_ident, ELFMAG, SELFMAG) || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_shentsize != sizeof(sh) || eh.e_shstrndx >= eh.e_shnum || eh.e_shnum > MOST_SECTIONS ||
	    eh.e_shoff > INT64_MAX / 2 || !read_at(fd, &sh, sizeof(sh), eh.e_shoff + sizeof(sh) * (uint64_t)eh.e_shstrndx) || sh.sh_size > MOST_NAMES)
		return true;
	names = xcalloc(1, sh.sh_size + 1);
	lacks = read_at(fd, names, sh.sh_size, sh.sh_offset) && lacks_name(names, sh.sh_size + 1);
	free(names);
	return !lacks;
}
