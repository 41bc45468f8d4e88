/* SPDX-License-Identifier: MIT */
/*
 * The file to which dwz has moved common parts of several debug files. It is identified by its build id; the name
 * noted with it is that on the machine where dwz ran, absolute or relative to the debug file. The traced program's
 * owner may have written that name: as root, an absolute one is opened only below the directory of debug files.
 */
#include "sym/types/types_priv.h"

#include "base/err.h"
#include <elfutils/libdwelf.h>
#include <unistd.h>

struct alt { struct types *t; const void *id; size_t len; };

static bool has_id(const void *map, size_t size, const struct alt *a)
{
	Elf *elf = elf_memory((char *)map, size);
	const void *id;
	bool same;

	if (!elf)
		return false;
	same = dwelf_elf_gnu_build_id(elf, &id) == (ssize_t)a->len && memcmp(id, a->id, a->len) == 0;
	elf_end(elf);
	return same;
}

static bool try_file(struct alt *a, const char *root, const char *path)
{
	int fd = open_below(root, path), r;
	struct content c;

	if (fd < 0)
		return false;
	r = content_read(fd, root, path, &c);
	close(fd);
	if (r < 0)
		return false;
	if (!has_id(c.p, c.size, a)) {
		content_free(&c);
		return false;
	}
	a->t->common = c;
	return true;
}

static bool may_open(const char *name)
{
	return *name != '/' || geteuid() != 0 ||
	       (strncmp(name, DEBUG_DIR "/", sizeof(DEBUG_DIR)) == 0 && !strstr(name, "/../"));
}

static bool try_named(struct alt *a, const char *root, const char *name, const char *path)
{
	return may_open(name) && try_file(a, root, path);
}

static char *beside(struct types *t, const char *name)
{
	const struct extra *x = &priv(t->m)->extra;
	const char *from = t->extra.path ? t->extra.path : image_has_dwarf(&priv(t->m)->image) || !x->path ? t->m->path : x->path;
	const char *slash = strrchr(from, '/');

	if (*name == '/')
		return xstrdup(name);
	return slash ? xasprintf("%.*s/%s", (int)(slash - from), from, name) : xstrdup(name);
}

bool dw_map_alt(struct types *t)
{
	struct alt a = { .t = t };
	const char *root = priv(t->m)->root, *name;
	char *by_id, *by_name;
	ssize_t n = dwelf_dwarf_gnu_debugaltlink(t->main.dw, &name, &a.id);
	bool found;

	if (n < 2 || n > 64 || !root || strlen(name) > MOST_NAME)
		return false;
	a.len = n;
	by_id = build_id_path(a.id, n);
	by_name = beside(t, name);
	found = try_file(&a, root, by_id) || try_named(&a, root, name, by_name) ||
		(*root && (try_file(&a, "", by_id) || try_named(&a, "", name, by_name)));
	if (!found)
		log_info("%s: its debug info has parts in %s, which is not there", t->m->path, name);
	free(by_id);
	free(by_name);
	return found;
}
