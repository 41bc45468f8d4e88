/* SPDX-License-Identifier: MIT */
/*
 * Names for a stripped file, from the first of: the debug file of its build id, the one that
 * .gnu_debuglink names, the mini debug info inside it. A debug file is trusted only if its build id
 * is the same, or, where the program has none, its checksum is the one the link names.
 */
#include "sym/priv.h"

#include "base/err.h"
#include <lzma.h>
#include <stdio.h>
#include <unistd.h>

#define MINI_LIMIT (256u << 20)		/* limit of the unpacked size: a few kB can unpack to terabytes */

void extra_close(struct extra *x)
{
	image_release(&x->image);
	content_free(&x->content);
	free(x->heap);
	free(x->path);
	*x = (struct extra){ 0 };
}

/* A search for a debug file, and its result. */
struct search {
	struct module *m;
	const char *root;
	bool (*good)(const struct image *e);
	struct extra x;
};

static bool has_symbols(const struct image *e)
{
	return image_symtab(e, SHT_SYMTAB).p;
}

bool image_has_dwarf(const struct image *e)
{
	return image_section_bytes(e, image_section(e, ".debug_info")).p ||
	       image_section_bytes(e, image_section(e, ".zdebug_info")).p;
}

static bool belongs(const struct module *m, const struct extra *x, const uint32_t *crc)
{
	struct bytes id = image_note(&x->image, "GNU", NT_GNU_BUILD_ID);

	if (m->build_id_len && id.n)
		return MIN(id.n, sizeof(m->build_id)) == m->build_id_len &&
		       memcmp(id.p, m->build_id, m->build_id_len) == 0;
	return crc && lzma_crc32(x->content.p, x->content.size, 0) == *crc;
}

static bool map_elf(const char *root, const char *path, struct extra *x)
{
	int fd = open_below(root, path), r;

	if (fd < 0)
		return false;
	r = content_read(fd, root, path, &x->content);
	close(fd);
	if (r < 0)
		log_info("%s", err_text());
	return r == 0 && image_parse(&x->image, x->content.p, x->content.size, path) == 0;
}

static bool try_file(struct search *s, const char *path, const uint32_t *crc)
{
	struct extra x = { .source = FROM_DEBUG_FILE };

	if (!map_elf(s->root, path, &x) || !belongs(s->m, &x, crc) || !s->good(&x.image)) {
		if (x.content.p)
			log_info("%s: %s is no debug file for it", s->m->path, path);
		extra_close(&x);
		return false;
	}
	log_info("%s: names from %s%s", s->m->path, s->root, path);
	x.path = xstrdup(path);
	s->x = x;
	return true;
}

char *build_id_path(const uint8_t *id, size_t len)
{
	char *path = xcalloc(1, sizeof(DEBUG_DIR) + 64 + 2 * len);
	size_t i;
	int n;

	n = sprintf(path, DEBUG_DIR "/.build-id/%02x/", id[0]);
	for (i = 1; i < len; i++)
		n += sprintf(path + n, "%02x", id[i]);
	strcpy(path + n, ".debug");
	return path;
}

static bool by_build_id(struct search *s)
{
	char *path;
	bool found;

	if (s->m->build_id_len < 2)
		return false;
	path = build_id_path(s->m->build_id, s->m->build_id_len);
	found = try_file(s, path, NULL);
	free(path);
	return found;
}

static bool try_link(struct search *s, const char *front, const char *dir, const char *name, uint32_t crc)
{
	const char *of = s->m->path;
	char *path = xasprintf("%s%.*s/%s%s", front, (int)(strrchr(of, '/') - of), of, dir, name);
	bool found = try_file(s, path, &crc);

	free(path);
	return found;
}

static bool by_link(struct search *s)
{
	struct module *m = s->m;
	struct bytes b = image_section_bytes(&priv(m)->image,
					     image_section(&priv(m)->image, ".gnu_debuglink"));
	const char *name = (const char *)b.p;
	uint32_t crc;
	size_t len;

	if (!b.p || !memchr(b.p, 0, b.n) || !*name || strchr(name, '/') || !strchr(m->path, '/'))
		return false;
	len = (strlen(name) + 1 + 3) & ~(size_t)3;
	if (len + 4 > b.n)
		return false;
	crc = get32(b.p + len);
	return try_link(s, "", "", name, crc) || try_link(s, "", ".debug/", name, crc) ||
	       (m->path[0] == '/' && try_link(s, DEBUG_DIR, "", name, crc));
}

static void *unpack(struct bytes b, size_t *ret_size)
{
	lzma_stream s = LZMA_STREAM_INIT;
	size_t room = MIN(b.n * 8 + 4096, (size_t)MINI_LIMIT);
	uint8_t *out = NULL;
	lzma_ret r;

	if (lzma_stream_decoder(&s, MINI_LIMIT, 0) != LZMA_OK)
		return NULL;
	s.next_in = b.p;
	s.avail_in = b.n;
	do {
		out = xrealloc(out, room);
		s.next_out = out + s.total_out;
		s.avail_out = room - s.total_out;
		r = lzma_code(&s, LZMA_FINISH);
		room *= 2;
	} while (r == LZMA_OK && s.avail_out == 0 && room <= MINI_LIMIT);
	*ret_size = s.total_out;
	lzma_end(&s);
	if (r == LZMA_STREAM_END)
		return out;
	free(out);
	return NULL;
}

static bool by_mini_debug(struct module *m)
{
	struct image *e = &priv(m)->image;
	struct bytes b = image_section_bytes(e, image_section(e, ".gnu_debugdata"));
	struct extra x = { .source = FROM_MINI_DEBUG };
	size_t size;

	if (!b.p)
		return false;
	x.heap = unpack(b, &size);
	if (!x.heap || image_parse(&x.image, x.heap, size, m->path) < 0) {
		log_info("%s: its mini debug info is damaged", m->path);
		extra_close(&x);
		return false;
	}
	priv(m)->extra = x;
	return true;
}

static bool find(struct search *s, const char *root)
{
	s->root = root;
	if (root && (by_build_id(s) || by_link(s)))
		return true;
	s->root = "";
	return root && *root && (by_build_id(s) || by_link(s));
}

void extra_find(struct module *m, const char *root)
{
	struct search s = { .m = m, .good = has_symbols };

	if (find(&s, root))
		priv(m)->extra = s.x;
	else
		by_mini_debug(m);
}

bool extra_find_dwarf(struct module *m, struct extra *ret_extra)
{
	struct search s = { .m = m, .good = image_has_dwarf };

	if (!find(&s, priv(m)->root))
		return false;
	*ret_extra = s.x;
	return true;
}
