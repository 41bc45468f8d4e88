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
#include <sys/mman.h>
#include <unistd.h>

#define DEBUG_DIR "/usr/lib/debug"
#define MINI_LIMIT (256u << 20)		/* unpacked; a few kB can claim to be terabytes */

void extra_close(struct extra *x)
{
	image_release(&x->image);
	if (x->map)
		munmap(x->map, x->map_size);
	free(x->heap);
	*x = (struct extra){ 0 };
}

static bool belongs(const struct module *m, const struct extra *x, const uint32_t *crc)
{
	struct bytes id = image_note(&x->image, "GNU", NT_GNU_BUILD_ID);

	if (m->build_id_len && id.n)
		return MIN(id.n, sizeof(m->build_id)) == m->build_id_len &&
		       memcmp(id.p, m->build_id, m->build_id_len) == 0;
	return crc && lzma_crc32(x->map, x->map_size, 0) == *crc;
}

static bool try_file(struct module *m, const char *root, const char *path, const uint32_t *crc)
{
	struct extra x = { .source = FROM_DEBUG_FILE };
	int fd = open_below(root, path), r;

	if (fd < 0)
		return false;
	r = map_file(fd, path, &x.map, &x.map_size);
	close(fd);
	if (r == 0)
		r = image_parse(&x.image, x.map, x.map_size, path);
	if (r < 0 || !belongs(m, &x, crc) || !image_symtab(&x.image, SHT_SYMTAB).p) {
		log_info("%s: %s is no debug file for it", m->path, path);
		extra_close(&x);
		return false;
	}
	log_info("%s: names from %s%s", m->path, root, path);
	priv(m)->extra = x;
	return true;
}

static bool by_build_id(struct module *m, const char *root)
{
	char path[sizeof(DEBUG_DIR) + 128] = "";
	size_t i;
	int n;

	if (m->build_id_len < 2)
		return false;
	n = snprintf(path, sizeof(path), DEBUG_DIR "/.build-id/%02x/", m->build_id[0]);
	for (i = 1; i < m->build_id_len; i++)
		n += snprintf(path + n, sizeof(path) - n, "%02x", m->build_id[i]);
	snprintf(path + n, sizeof(path) - n, ".debug");
	return try_file(m, root, path, NULL);
}

static bool try_link(struct module *m, const char *root, const char *front, const char *dir,
		     const char *name, uint32_t crc)
{
	char *path = xasprintf("%s%.*s/%s%s", front, (int)(strrchr(m->path, '/') - m->path), m->path,
			       dir, name);
	bool found = try_file(m, root, path, &crc);

	free(path);
	return found;
}

static bool by_link(struct module *m, const char *root)
{
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
	return try_link(m, root, "", "", name, crc) || try_link(m, root, "", ".debug/", name, crc) ||
	       (m->path[0] == '/' && try_link(m, root, DEBUG_DIR, "", name, crc));
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

void extra_find(struct module *m, const char *root)
{
	bool other_root = root && *root;

	if (root && (by_build_id(m, root) || by_link(m, root)))
		return;
	if (other_root && (by_build_id(m, "") || by_link(m, "")))
		return;
	by_mini_debug(m);
}
