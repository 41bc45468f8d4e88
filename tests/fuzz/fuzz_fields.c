/* SPDX-License-Identifier: MIT */
/* Damaged notes of <jab/tracepoint.h> and tables of enums and structs, in a file whose tracepoints are whole. */
#include "base/err.h"
#include "sym/usdt/usdt.h"

#include "../unit/notes.h"
#include "mutate.h"

#define SITES 3

static volatile uint64_t sink;	/* what was read must not be optimised away */

static void ask_type(const struct usdt_type *t, int depth);

static void ask_field(const struct usdt_field *f, int depth)
{
	char *type = usdt_field_type(f);

	sink += strlen(type) + strlen(f->name);
	free(type);
	if (f->shape > USDT_COUNTED || (f->shape == USDT_FIXED && (!f->length || (uint64_t)f->length * f->size > 1u << 20)))
		abort();
	if (f->of && !f->of->is_doubtful)
		ask_type(f->of, depth);
}

static void ask_type(const struct usdt_type *t, int depth)
{
	if (depth > 8)		/* a struct that contains itself */
		abort();
	for (uint32_t i = 0; t->kind == USDT_ENUM && i < t->n; i++)
		sink += strlen(t->values[i].name) + t->values[i].value;
	for (uint32_t i = 0; t->kind == USDT_STRUCT && i < MIN(t->n, 4u); i++) {
		if (t->members[i].offset >= t->bytes)
			abort();
		ask_field(&t->members[i], depth + 1);
	}
}

static int fuzz_one(const uint8_t *p, size_t size)
{
	static struct made e;
	struct made_notes x = { 0 }, fields = { 0 }, tables = { 0 };
	size_t first = size > 2 ? MIN((size_t)(p[0] | p[1] << 8), size - 2) : 0, n;
	struct module *m;
	struct usdt *u;
	int named = 0;

	if (size < 2)
		return -ENOENT;
	notes_add(&x, TEXT, 0, 0, "app", "one", "-4@%eax", -1);
	notes_add(&x, TEXT + 8, 0, 0, "app", "two", "8@%rax 8@%rbx -4@%ecx", -1);
	notes_add(&x, TEXT + 16, 0, 0, "app", "three", "8@%rax -4@%ebx", -1);
	notes_put(&fields, p + 2, MIN(first, sizeof(fields.p)));
	notes_put(&tables, p + 2 + first, MIN(size - 2 - first, sizeof(tables.p)));
	n = notes_file3(&e, &x, &fields, &tables);
	if (module_open_memory(e.p, n, "fuzz", &m) < 0)
		abort();
	if (module_usdts(m, &u) != SITES)
		abort();
	for (size_t i = 0; i < SITES; i++) {
		usdt_read_args(m, &u[i]);
		if (u[i].nfields && u[i].nfields != u[i].nargs)
			abort();
		for (uint32_t k = 0; k < u[i].nfields; k++)
			ask_field(&u[i].field[k], 0);
		named += u[i].nfields != 0;
	}
	module_close(m);
	return named ? 0 : -ENOENT;
}

#ifndef WITH_LIBFUZZER
static struct seed fuzz_seed(size_t i)
{
	static const int64_t values[] = { 0, -1, 5 };
	static const struct made_field one = { FIELD(USDT_ENUM, 4, 0x80, 3) | 16, "color", "color" };
	static const struct made_field two[] = {
		{ FIELD(USDT_STRING, 8, 0, 0), "text", "" }, { FIELD_ARRAY(USDT_INT, 2, 2, 0), "some", "" }, { FIELD(USDT_LENGTH, 4, 0x80, 0) | 16, "", "" },
	};
	static const struct made_field three[] = { { FIELD(USDT_STRUCT, 8, 0, 5), "s", "outer" }, { FIELD(USDT_INT, 4, 0x80, 0) | 16, "x", "" } };
	static const struct made_field outer[] = { { FIELD(USDT_STRUCT, 8, 0, 9), "in", "inner" }, { FIELD(USDT_ENUM, 4, 0x80, 3), "color", "color" } };
	static const struct made_field inner[] = { { FIELD_ARRAY(USDT_CHARS, 1, 1, 4), "text", "" }, { FIELD(USDT_STRING, 8, 0, 0), "more", "" } };
	struct made_notes fields = { 0 }, tables = { 0 };
	struct seed s = { 0 };

	if (i >= 1)
		return s;
	notes_fields(&fields, TEXT, "app", "one", &one, 1);
	notes_fields(&fields, TEXT + 8, "app", "two", two, 3);
	notes_fields(&fields, TEXT + 16, "app", "three", three, 2);
	table_struct(&tables, 5, "outer", 24, outer, 2);
	table_enum(&tables, 3, "color", "RED, BLUE,ns::GREEN", values, 3);
	table_struct(&tables, 9, "inner", 16, inner, 2);
	s = (struct seed){ malloc(2 + fields.n + tables.n), 2 + fields.n + tables.n, "fields" };
	s.p[0] = fields.n;
	s.p[1] = fields.n >> 8;
	memcpy(s.p + 2, fields.p, fields.n);
	memcpy(s.p + 2 + fields.n, tables.p, tables.n);
	return s;
}
#endif
