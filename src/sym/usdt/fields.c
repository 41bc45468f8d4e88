/* SPDX-License-Identifier: MIT */
/*
 * Names and types of the arguments of tracepoints, from the notes that <jab/tracepoint.h> writes beside those of stapsdt
 * (docs/tracepoint-notes.md). A note that is damaged, or has another number of arguments than the other one, counts as
 * not there: then the arguments are numbers without names.
 */
#include "sym/usdt/usdt.h"

#include <ctype.h>
#include "sym/priv.h"
#include "sym/usdt/usdts.h"

#define OWNER "jab"
#define NT_FIELDS 1
#define TABLE_HEAD 24
#define MOST_DEPTH 8u		/* of structs in structs */
#define MOST_BYTES (1u << 20)	/* of a struct or array */
#define MOST_MEMBERS 128u	/* of a struct: each name is compared with those before it */
#define LONGEST_NAME 200

struct note_reader {
	struct module *m;
	struct usdts *list;
	const uint8_t *p, *end;
	bool bad;
};

static uint64_t take64(struct note_reader *r)
{
	if (r->bad || r->end - r->p < 8) {
		r->bad = true;
		return 0;
	}
	r->p += 8;
	return get64(r->p - 8);
}

static bool is_identifier(const char *s, size_t n)
{
	if (n > LONGEST_NAME || isdigit((unsigned char)*s))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_')
			return false;
	return true;
}

/* A name, or "". */
static const char *take_name(struct note_reader *r)
{
	const uint8_t *nul = !r->bad && r->p < r->end ? memchr(r->p, '\0', r->end - r->p) : NULL;
	const char *s = (const char *)r->p;

	if (!nul || !is_identifier(s, nul - r->p)) {
		r->bad = true;
		return "";
	}
	r->p = nul + 1;
	return s;
}

static struct usdt_type *find_type(const struct usdts *list, uint8_t kind, const char *name, uint32_t id)
{
	for (size_t i = 0; i < list->types.n; i++) {
		struct usdt_type *t = list->types.v[i];

		if (t->kind == kind && t->id == id && !strcmp(t->name, name))
			return t;
	}
	return NULL;
}

static bool is_size(uint32_t n)
{
	return n == 1 || n == 2 || n == 4 || n == 8;
}

/* Do kind, size and shape go together? */
static bool is_sound(const struct usdt_field *f)
{
	bool scalar = f->shape == USDT_VALUE;

	if (f->shape > USDT_COUNTED || !is_size(f->size))
		return false;
	switch (f->kind) {
	case USDT_INT:
		return true;
	case USDT_BOOL:
		return f->size == 1;
	case USDT_FLOAT:
		return f->size >= 4;
	case USDT_CHARS:
		return f->size == 1 && !scalar;
	case USDT_POINTER: case USDT_STRING: case USDT_STRUCT:
		return f->size == 8 && scalar;
	case USDT_ENUM: case USDT_LENGTH:
		return scalar;
	}
	return false;
}

static struct usdt_field take_field(struct note_reader *r, uint64_t code)
{
	struct usdt_field f = {
		.kind = code >> 8, .size = code >> 16, .shape = code >> 24 & 3, .is_signed = code >> 31 & 1,
		.arg_size = code & 15, .arg_signed = code >> 4 & 1,
	};
	const char *of;

	if (f.shape == USDT_FIXED)
		f.length = code >> 32;
	f.name = take_name(r);
	of = take_name(r);
	r->bad |= !is_sound(&f) || (f.shape == USDT_FIXED && !f.length) || !*f.name != (f.kind == USDT_LENGTH) || (uint64_t)f.length * f.size > MOST_BYTES;
	if (*of && !r->bad && (f.kind == USDT_ENUM || f.kind == USDT_STRUCT)) {
		f.of_name = of;
		f.of = find_type(r->list, f.kind, of, code >> 32);
	}
	r->bad |= f.kind == USDT_STRUCT && !f.of_name;
	return f;
}

static void *keep(struct note_reader *r, size_t n, size_t size)
{
	void *p = xcalloc(n + 1, size);

	*vec_add(&r->list->made) = p;
	return p;
}

static bool has_name(const struct usdt_field *fields, uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++)
		if (*name && !strcmp(fields[i].name, name))
			return true;
	return false;
}

/* ---- tables of enums and structs ---- */

/* "RED, ns::GREEN": each without blanks. */
static bool take_enumerators(struct note_reader *r, struct usdt_type *t)
{
	struct type_value *values = keep(r, t->n, sizeof(*values));
	const char *s, *next;

	for (uint32_t i = 0; i < t->n; i++)
		values[i].value = (int64_t)take64(r);
	t->name = take_name(r);
	s = (const char *)r->p;
	if (r->bad || !memchr(s, '\0', r->end - r->p))
		return false;
	for (uint32_t i = 0; i < t->n; i++, s = next + (*next == ',')) {
		size_t len;

		s += strspn(s, " \t");
		next = s + strcspn(s, ",");
		for (len = next - s; len && (s[len - 1] == ' ' || s[len - 1] == '\t'); len--)
			;
		if (!len || len > LONGEST_NAME || (!*next && i + 1 < t->n))
			return false;
		for (size_t k = 0; k < len; k++)
			if (!isalnum((unsigned char)s[k]) && s[k] != '_' && s[k] != ':')
				return false;
		values[i].name = module_string(r->m, s, len);
	}
	t->values = values;
	return *s == '\0';
}

static uint64_t field_bytes(const struct usdt_field *f)
{
	if (f->kind == USDT_STRUCT)
		return f->of ? f->of->bytes : 0;
	return f->shape == USDT_FIXED ? (uint64_t)f->size * f->length : f->size;
}

/* The name stands behind the members' codes and offsets. */
static bool take_struct_name(struct note_reader *r, struct usdt_type *t)
{
	if (t->n > MOST_MEMBERS || (uint64_t)(r->end - r->p) < 16ull * t->n)
		return false;
	r->p += 16 * t->n;
	t->name = take_name(r);
	return !r->bad;
}

/* When all tables have names: compilers write them in any order. */
static bool take_members(struct module *m, struct usdts *list, struct usdt_type *t)
{
	const uint8_t *codes = t->raw + TABLE_HEAD;
	struct note_reader r = { .m = m, .list = list, .p = codes, .end = t->raw + t->raw_size };
	struct usdt_field *members = keep(&r, t->n, sizeof(*members));

	take_struct_name(&r, t);
	for (uint32_t i = 0; i < t->n && !r.bad; i++) {
		struct usdt_field f = take_field(&r, get64(codes + 16 * i));

		f.offset = get64(codes + 16 * i + 8);
		if (r.bad || f.shape == USDT_COUNTED || f.kind == USDT_LENGTH || has_name(members, i, f.name) || (f.kind == USDT_STRUCT && !f.of) ||
		    f.offset > t->bytes || field_bytes(&f) > t->bytes - f.offset)
			return false;
		members[i] = f;
	}
	t->members = members;
	return !r.bad;
}

/* How deep structs are in each other. Those that are deeper than anybody writes them contain themselves. */
static void find_cycles(struct usdts *list)
{
	for (uint32_t round = 0; round < MOST_DEPTH; round++)
		for (size_t i = 0; i < list->types.n; i++) {
			struct usdt_type *t = list->types.v[i];

			for (uint32_t k = 0; t->members && k < t->n; k++)
				if (t->members[k].kind == USDT_STRUCT)
					t->depth = MIN(MAX(t->depth, t->members[k].of->depth + 1u), MOST_DEPTH);
		}
	for (size_t i = 0; i < list->types.n; i++)
		if (list->types.v[i]->depth >= MOST_DEPTH)
			list->types.v[i]->is_doubtful = true;
}

static bool same_type(const struct usdt_type *a, const struct usdt_type *b)
{
	return a->raw_size == b->raw_size && !memcmp(a->raw, b->raw, a->raw_size);
}

/* The same header in several files makes the same table several times. Others of one name and number: none of them is believed. */
static void take_table(struct module *m, struct usdts *list, const uint8_t *p, uint32_t size)
{
	struct note_reader r = { .m = m, .list = list, .p = p + TABLE_HEAD, .end = p + size };
	struct usdt_type *t = keep(&r, 1, sizeof(*t)), *other;
	bool good;

	*t = (struct usdt_type){ .kind = MIN(get32(p + 8), 255u), .id = get32(p + 12), .n = get32(p + 16), .bytes = get32(p + 20), .raw = p, .raw_size = size };
	if ((t->kind != USDT_ENUM && t->kind != USDT_STRUCT) || t->n > (size - TABLE_HEAD) / 8 || !t->n || t->bytes > MOST_BYTES)
		return;
	good = t->kind == USDT_ENUM ? take_enumerators(&r, t) : take_struct_name(&r, t);
	if (!good || !*t->name)
		return;
	other = find_type(list, t->kind, t->name, t->id);
	if (!other)
		*vec_add(&list->types) = t;
	else if (!same_type(other, t))
		other->is_doubtful = true;
}

static void take_tables(struct module *m, struct usdts *list, struct bytes b)
{
	size_t at = 0;

	while (b.p && b.n - at >= TABLE_HEAD && list->types.n < USDT_TYPES_MAX) {
		uint32_t size = get32(b.p + at + 4);

		if (memcmp(b.p + at, "jabt", 4)) {
			at += 8;
			continue;
		}
		if (size < TABLE_HEAD || size > b.n - at)
			return;
		take_table(m, list, b.p + at, size);
		if ((size_t)size + 7 >= b.n - at)
			return;
		at += ((size_t)size + 7) & ~(size_t)7;
	}
}

static void read_types(struct module *m, struct usdts *list)
{
	take_tables(m, list, image_section_bytes(&priv(m)->image, image_section(&priv(m)->image, "jab_types")));
	for (size_t i = 0; i < list->types.n; i++)
		if (list->types.v[i]->kind == USDT_STRUCT && !take_members(m, list, list->types.v[i]))
			list->types.v[i]->is_doubtful = true;
	find_cycles(list);
}

/* ---- notes ---- */

/* Those of stapsdt, in the order of their addresses. */
static int by_pc(const void *a, const void *b)
{
	const struct usdt *x = *(struct usdt *const *)a, *y = *(struct usdt *const *)b;

	return x->linked_pc < y->linked_pc ? -1 : x->linked_pc > y->linked_pc;
}

static void set_fields(struct usdt **at, size_t n, const struct usdt *key, const struct usdt_field *fields, uint32_t nfields)
{
	struct usdt **found = bsearch(&key, at, n, sizeof(*at), by_pc);

	while (found && found > at && found[-1]->linked_pc == key->linked_pc)
		found--;
	for (; found && found < at + n && (*found)->linked_pc == key->linked_pc; found++)
		if (usdt_same_name(*found, key) && !(*found)->field) {
			(*found)->field = fields;
			(*found)->nfields = nfields;
		}
}

static void take_note(struct module *m, struct usdts *list, struct usdt **at, size_t n, const uint8_t *p, size_t len)
{
	struct note_reader r = { .m = m, .list = list, .p = p, .end = p + len };
	struct usdt key = { .linked_pc = take64(&r) };
	uint32_t count = r.end - r.p >= 4 ? get32(r.p) : UINT32_MAX;
	struct usdt_field *fields;

	if (r.bad || !count || count > USDT_ARGS_MAX)
		return;
	r.p += 4;
	key.provider = take_name(&r);
	key.name = take_name(&r);
	fields = keep(&r, count, sizeof(*fields));
	for (uint32_t i = 0; i < count && !r.bad; i++) {
		struct usdt_field f = take_field(&r, take64(&r));

		/* a count is that of the array before it, and each such array has one */
		if (has_name(fields, i, f.name) || (f.kind == USDT_LENGTH) != (i && fields[i - 1].shape == USDT_COUNTED))
			return;
		fields[i] = f;
	}
	if (!r.bad && fields[count - 1].shape != USDT_COUNTED)
		set_fields(at, n, &key, fields, count);
}

void usdt_take_fields(struct module *m, struct usdts *list)
{
	struct bytes b = image_section_bytes(&priv(m)->image, image_section(&priv(m)->image, ".note.jab"));
	struct usdt **by_address;
	size_t at = 0;

	if (!b.p || !list->list.n)
		return;
	read_types(m, list);
	by_address = xcalloc(list->list.n, sizeof(*by_address));
	for (size_t i = 0; i < list->list.n; i++)
		by_address[i] = &list->list.v[i];
	qsort(by_address, list->list.n, sizeof(*by_address), by_pc);
	while (b.n - at >= 12 && list->made.n < 4u * USDT_NOTES_MAX) {
		uint32_t namesz = get32(b.p + at), descsz = get32(b.p + at + 4);
		size_t desc = at + 12 + (((size_t)namesz + 3) & ~(size_t)3), next = desc + (((size_t)descsz + 3) & ~(size_t)3);

		if (desc > b.n || descsz > b.n - desc)
			break;
		if (namesz == sizeof(OWNER) && !memcmp(b.p + at + 12, OWNER, sizeof(OWNER)) && get32(b.p + at + 8) == NT_FIELDS)
			take_note(m, list, by_address, list->list.n, b.p + desc, descsz);
		if (next >= b.n)
			break;
		at = next;
	}
	free(by_address);
}

/* The arguments are read: are they what the fields say? */
void usdt_check_fields(struct usdt *u)
{
	bool fits = u->nfields == u->nargs;

	for (uint32_t i = 0; fits && i < u->nargs; i++) {
		const struct usdt_field *f = &u->field[i];

		fits = u->arg[i].size == f->arg_size && u->arg[i].is_signed == f->arg_signed &&
		       (f->shape || f->kind == USDT_STRUCT ? f->arg_size == 8 : f->arg_size == f->size);
	}
	if (!fits) {
		u->field = NULL;
		u->nfields = 0;
	}
}

char *usdt_field_type(const struct usdt_field *f)
{
	static const char *const ints[2][4] = { { "u8", "u16", "u32", "u64" }, { "s8", "s16", "s32", "s64" } };
	const char *name = ints[f->is_signed][f->size == 1 ? 0 : f->size == 2 ? 1 : f->size == 4 ? 2 : 3];

	switch ((enum usdt_kind)f->kind) {
	case USDT_BOOL: name = "bool"; break;
	case USDT_FLOAT: name = f->size == 4 ? "float" : "double"; break;
	case USDT_POINTER: return xstrdup("void *");
	case USDT_STRING: return xstrdup("char *");
	case USDT_CHARS: name = "char"; break;
	case USDT_ENUM: return xasprintf("enum %s", f->of_name ? f->of_name : "?");
	case USDT_STRUCT: return xasprintf("struct %s", f->of_name);
	case USDT_INT: case USDT_LENGTH: break;
	}
	return f->shape == USDT_FIXED ? xasprintf("%s[%u]", name, f->length) : f->shape == USDT_COUNTED ? xasprintf("%s[]", name) : xstrdup(name);
}
