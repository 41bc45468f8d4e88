/* SPDX-License-Identifier: MIT */
/*
 * Preloaded: allocation number $FAIL_AT fails. Those are counted that libjab makes, by itself or through the C library; not those of
 * libdw and libelf, which end the program if there is no memory for their tables of abbreviations. At the end the file
 * $FAIL_COUNT gets how many there were.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static long at, count;
static struct { uintptr_t lo, hi; } ranges[2];

static int add_range(struct dl_phdr_info *info, size_t size, void *arg)
{
	int i = strstr(info->dlpi_name, "/libjab.so") ? 0 : strstr(info->dlpi_name, "/libc.so") ? 1 : -1;

	(void)size;
	(void)arg;
	for (int k = 0; i >= 0 && k < info->dlpi_phnum; k++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[k];

		if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
			ranges[i].lo = info->dlpi_addr + p->p_vaddr;
			ranges[i].hi = ranges[i].lo + p->p_memsz;
		}
	}
	return 0;
}

__attribute__((constructor)) static void begin(void)
{
	const char *s = getenv("FAIL_AT");

	dl_iterate_phdr(add_range, NULL);
	at = s ? atol(s) : 0;
}

__attribute__((destructor)) static void end(void)
{
	const char *path = getenv("FAIL_COUNT");
	char text[32];
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;

	if (fd >= 0 && write(fd, text, snprintf(text, sizeof(text), "%ld", count)) > 0)
		close(fd);
}

static int fails(const void *caller)
{
	uintptr_t pc = (uintptr_t)caller;
	int ours = 0;

	for (int i = 0; i < 2; i++)
		ours |= pc >= ranges[i].lo && pc < ranges[i].hi;
	if (!ours || ++count != at)
		return 0;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}
