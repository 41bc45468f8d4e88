/* SPDX-License-Identifier: MIT */
/*
 * Finds the line tables that list a file, without decoding them. The last part of its name is in .debug_line itself
 * (DWARF 4), or in .debug_line_str or .debug_str, with its offset there in .debug_line (DWARF 5). The linker may
 * have made the name the end of a longer string, so the offset of every path component before it counts as well.
 */
#include "sym/types/types_priv.h"

struct table_at { uint64_t off; uint32_t unit; };

struct marking { struct types *t; uint8_t *marked; VEC(struct table_at) tables; };

static int compare_tables(const void *a, const void *b)
{
	const struct table_at *x = a, *y = b;

	return x->off < y->off ? -1 : x->off > y->off;
}

static void list_tables(struct marking *k)
{
	struct types *t = k->t;
	uint32_t i;

	for (i = 0; i < t->main.n; i++) {
		Dwarf_Die die = t->units.v[t->main.first + i].die;
		Dwarf_Attribute attr;
		Dwarf_Word off;

		if (dwarf_tag(&die) != DW_TAG_compile_unit)
			continue;
		if (dwarf_formudata(dwarf_attr(&die, DW_AT_stmt_list, &attr), &off) == 0)
			*vec_add(&k->tables) = (struct table_at){ off, t->main.first + i };
	}
	if (k->tables.n)
		qsort(k->tables.v, k->tables.n, sizeof(*k->tables.v), compare_tables);
}

/* Marks the unit whose table contains this offset of .debug_line; returns the end of that table. */
static uint64_t mark_at(struct marking *k, uint64_t off)
{
	size_t a = 0, b = k->tables.n, i;

	while (a < b) {
		size_t mid = a + (b - a) / 2;

		if (k->tables.v[mid].off <= off)
			a = mid + 1;
		else
			b = mid;
	}
	for (i = a; i > 0 && k->tables.v[i - 1].off == k->tables.v[a - 1].off; i--)
		k->marked[k->tables.v[i - 1].unit] = 1;
	return a < k->tables.n ? k->tables.v[a].off : UINT64_MAX;
}

static void mark_bytes(struct marking *k, const void *bytes, size_t n)
{
	struct bytes line = k->t->main.line;
	const uint8_t *hit;
	uint64_t at = 0;

	while (at < line.n && (hit = memmem(line.p + at, line.n - at, bytes, n)))
		at = MAX(mark_at(k, hit - line.p), (uint64_t)(hit - line.p) + 1);
}

static void mark_strings(struct marking *k, struct bytes str, const char *name)
{
	const uint8_t *p = str.p, *end = str.p + str.n, *hit, *from;
	size_t n = strlen(name) + 1, tries = 0;
	uint32_t off;

	for (; p && p < end && (hit = memmem(p, end - p, name, n)); p = hit + 1) {
		if (hit > str.p && hit[-1] && hit[-1] != '/')
			continue;
		for (from = hit; ; from--) {
			off = from - str.p;
			if ((from == str.p || !from[-1] || from[-1] == '/') && tries++ < 256)
				mark_bytes(k, &off, sizeof(off));
			if (from == str.p || !from[-1] || hit - from > 4096)
				break;
		}
	}
	if (tries >= 256)	/* too many candidates: all units are marked */
		memset(k->marked + k->t->main.first, 1, k->t->main.n);
}

void dw_mark_file(struct types *t, const char *file, uint8_t *marked)
{
	struct marking k = { .t = t, .marked = marked };
	const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;

	if (!*name)
		return;
	list_tables(&k);
	mark_bytes(&k, name, strlen(name) + 1);
	mark_strings(&k, t->main.line_str, name);
	mark_strings(&k, t->main.str, name);
	vec_free(&k.tables);
}
