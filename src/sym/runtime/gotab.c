/* SPDX-License-Identifier: MIT */
/*
 * Go's own function table (.gopclntab): the run time needs it for tracebacks, so even a stripped Go program has all
 * its names. The layout since Go 1.18, all offsets from the table's start:
 *
 *	u32 magic, u8 0, 0, minimal instruction size, pointer size
 *	u64 functions, files, start of text; offsets of: names, units, files, pc tables, functions
 *	functions: { u32 code (from the start of text), u32 record } ..., u32 end
 *	record: u32 code, i32 name ...
 */
#include "arch/arch.h"
#include "sym/priv.h"

#define GO_1_18 0xfffffff0u
#define GO_1_20 0xfffffff1u
#define HEADER_LEN (8 + 8 * 8)

static bool is_table(struct bytes b)
{
	return b.n >= HEADER_LEN && (get32(b.p) == GO_1_18 || get32(b.p) == GO_1_20) &&
	       !b.p[4] && !b.p[5] && b.p[6] == 1 && b.p[7] == 8;
}

/* Where the table may begin at any address, a matching header is not enough. */
static bool has_functions(struct bytes b)
{
	struct bytes funcs;

	if (!is_table(b))
		return false;
	funcs = go_part(b, 64);
	return funcs.n >= 12 && get64(b.p + 8) <= (funcs.n - 4) / 8 && get32(funcs.p) < get32(funcs.p + 8);
}

/* Other linkers than Go's put the table into .data.rel.ro, among other data. */
static struct bytes search(struct bytes b)
{
	for (; b.n >= HEADER_LEN; b.p += 8, b.n -= 8, b.addr += 8)
		if (has_functions(b))
			return b;
	return (struct bytes){ 0 };
}

static struct bytes find_table(const struct image *e)
{
	static const char *const names[] = { ".gopclntab", ".data.rel.ro.gopclntab" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct bytes b = image_section_bytes(e, image_section(e, names[i]));

		if (is_table(b))
			return b;
	}
	return search(image_section_bytes(e, image_section(e, ".data.rel.ro")));
}

struct bytes go_table(const struct module *m)
{
	struct sym_priv *v = priv(m);

	if (!v->have_go_table)
		v->go_table = find_table(&v->image);
	v->have_go_table = true;
	return v->go_table;
}

struct word { uint64_t at, value; uint32_t relative; };

static void take_word(void *arg, const struct reloc *r)
{
	struct word *w = arg;

	if (r->offset == w->at && r->type == w->relative)
		w->value = r->addend;
}

/* The start of text. In a position independent file a relocation sets it, and it may be 0 in the file. */
uint64_t go_text_start(const struct module *m, struct bytes table)
{
	const Elf64_Shdr *text = image_section(&priv(m)->image, ".text");
	struct word start = { table.addr + 24, get64(table.p + 24), m->arch->elf->relative };

	if (!start.value)
		relocs_each(m, take_word, &start);
	return start.value || !text ? start.value : text->sh_addr;
}

static const char *go_name(struct bytes names, uint32_t at)
{
	/* Longer than any name in Go. */
	if (at >= names.n || !memchr(names.p + at, 0, MIN(names.n - at, 4096u)))
		return NULL;
	return (const char *)names.p + at;
}

struct bytes go_part(struct bytes table, size_t header_at)
{
	uint64_t off = get64(table.p + header_at);

	if (off > table.n)
		return (struct bytes){ 0 };
	return (struct bytes){ table.p + off, table.n - off, 0 };
}

void go_collect(struct module *m, raw_list *list)
{
	struct bytes table = go_table(m), names, funcs;
	uint64_t text, n, i;

	if (!table.p)
		return;
	text = go_text_start(m, table);
	n = get64(table.p + 8);
	names = go_part(table, 32);
	funcs = go_part(table, 64);
	if (!names.p || funcs.n < 4)
		return;
	n = MIN(n, (funcs.n - 4) / 8);
	for (i = 0; i < n; i++) {
		uint64_t lo = get32(funcs.p + i * 8), hi = get32(funcs.p + i * 8 + 8);
		uint32_t record = get32(funcs.p + i * 8 + 4);
		const char *name;

		if (record > funcs.n - 8 || hi <= lo || !in_text(m, text + lo))
			continue;
		name = go_name(names, get32(funcs.p + record + 4));
		if (name && *name)
			raw_add(list, (struct raw_symbol){
				.addr = text + lo, .size = hi - lo, .name = name, .source = FROM_GO_TABLE,
				.type = STT_FUNC,
			}, strlen(name));
	}
}
