/* SPDX-License-Identifier: MIT */
/*
 * From the name of a library to its file, as the dynamic loader finds it: /etc/ld.so.cache is a head, a table of pairs of
 * strings ("libssl.so.3", "/lib/x86_64-linux-gnu/libssl.so.3"), and the strings. It may have entries for other CPUs, and
 * what an entry names may be gone.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "sym/sym.h"

#define CACHE "/etc/ld.so.cache"
#define MAGIC "glibc-ld.so.cache1.1"
#define MOST_CACHE (64u << 20)

struct cache_head { char magic[20]; uint32_t n, strings; uint32_t more[5]; };
struct cache_entry { int32_t flags; uint32_t key, value, osversion; uint64_t hwcap; };
_Static_assert(sizeof(struct cache_head) == 48 && sizeof(struct cache_entry) == 24, "as the loader has them");

/* A program or library for the CPU that jab itself runs on. */
static bool is_for_us(const char *path, const Elf64_Ehdr *ours)
{
	Elf64_Ehdr eh;
	int fd = open_below(NULL, path);
	bool good = fd >= 0 && read(fd, &eh, sizeof(eh)) == sizeof(eh) && !memcmp(eh.e_ident, ours->e_ident, EI_DATA + 1) &&
		    eh.e_machine == ours->e_machine;

	if (fd >= 0)
		close(fd);
	return good;
}

/* "libssl" means libssl.so.3; "libssl.so" and "libssl.so.3" do, too. */
static bool is_name_of(const char *name, const char *key)
{
	size_t n = strlen(name);

	if (strncmp(name, key, n) != 0)
		return false;
	return !key[n] || strncmp(key + n, ".so", 3) == 0 || (key[n] == '.' && strstr(name, ".so"));
}

/* A string of the cache; NULL: it is not inside. */
static const char *string_at(const char *cache, size_t size, uint32_t at)
{
	return at < size && memchr(cache + at, 0, size - at) ? cache + at : NULL;
}

static char *find_in(const char *cache, size_t size, const char *name, const Elf64_Ehdr *ours)
{
	const struct cache_head *head = memmem(cache, size, MAGIC, strlen(MAGIC));
	const struct cache_entry *e;
	size_t room;

	if (!head || ((const char *)head - cache) % 8)
		return NULL;
	room = size - ((const char *)head - cache);
	if (room < sizeof(*head) || head->n > (room - sizeof(*head)) / sizeof(*e))
		return NULL;
	e = (const struct cache_entry *)(head + 1);
	for (uint32_t i = 0; i < head->n; i++) {
		const char *key = string_at((const char *)head, room, e[i].key), *path = string_at((const char *)head, room, e[i].value);

		if (key && path && path[0] == '/' && is_name_of(name, key) && is_for_us(path, ours))
			return xstrdup(path);
	}
	return NULL;
}

static char *find_program(const char *name, const Elf64_Ehdr *ours)
{
	char *dirs = xstrdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin"), *save, *dir, *found = NULL;

	for (dir = strtok_r(dirs, ":", &save); dir && !found; dir = strtok_r(NULL, ":", &save)) {
		char *path = xasprintf("%s/%s", dir, name);

		if (path[0] == '/' && access(path, X_OK) == 0 && is_for_us(path, ours))
			found = path;
		else
			free(path);
	}
	free(dirs);
	return found;
}

char *find_object_path(const char *name)
{
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fd;
	char *cache = MAP_FAILED, *found = NULL;
	Elf64_Ehdr ours;
	struct stat st;
	bool good = self >= 0 && read(self, &ours, sizeof(ours)) == sizeof(ours);

	if (self >= 0)
		close(self);
	if (!good || !*name || strpbrk(name, "/*?[") || !strcmp(name, "exe"))
		return NULL;
	fd = open_below(NULL, CACHE);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= MOST_CACHE)
		cache = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (cache != MAP_FAILED) {
		found = find_in(cache, st.st_size, name, &ours);
		munmap(cache, st.st_size);
	}
	return found ? found : find_program(name, &ours);
}
