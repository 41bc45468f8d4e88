/* SPDX-License-Identifier: MIT */
/* Objects by their type: structs, arrays, enums, and numbers that stand for something else. */
#include "lang/format.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <pwd.h>
#include <string.h>

#include "lang/type.h"

static void print_object(FILE *f, struct pool *pool, const struct vtype *t, const uint8_t *p, size_t len);

static const char *value_name(const struct vtype *t, int64_t value)
{
	uint32_t i;

	if (t->types)
		return type_value_name(t->types, t->id, value);
	for (i = 0; t->enums && i < t->enums->nitems; i++)
		if (t->enums->items[i].value == value)
			return t->enums->items[i].name;
	return NULL;
}

static void print_user(FILE *f, uint32_t uid)
{
	const struct passwd *p = getpwuid(uid);

	if (p)
		fputs(p->pw_name, f);
	else
		fprintf(f, "%u", uid);
}

/* Addresses of networks in their usual spelling. */
static void print_special(FILE *f, const struct vtype *t, const uint8_t *p, size_t len)
{
	char text[INET6_ADDRSTRLEN];
	int32_t number = 0;
	uint64_t wide = 0;

	memcpy(&number, p, MIN(len, sizeof(number)));
	memcpy(&wide, p, MIN(len, sizeof(wide)));
	if (t->extra == SHOWN_SIGNAL)
		fputs(number < 0 || number > 64 ? "N/A" : strsignal(number), f);
	else if (t->extra == SHOWN_SYSCALL)
		fputs(syscall_known(wide), f);
	else if (t->extra >= SHOWN_CGROUP_ID)
		format_process(f, t->extra, wide);
	else if (t->extra == SHOWN_ERRNO)
		fputs(strerror(number), f);
	else if (t->extra == SHOWN_USER)
		print_user(f, number);
	else if (t->extra == SHOWN_MAC && len >= 6)
		fprintf(f, "%02X:%02X:%02X:%02X:%02X:%02X", p[0], p[1], p[2], p[3], p[4], p[5]);
	else if (len >= (t->extra == SHOWN_INET6 ? 16 : 4) && inet_ntop(t->extra == SHOWN_INET6 ? AF_INET6 : AF_INET, p, text, sizeof(text)))
		fputs(text, f);
}

static void print_number(FILE *f, const struct vtype *t, const uint8_t *p)
{
	uint64_t v = 0;
	float f4;
	double f8;
	unsigned int unused = 64 - 8 * t->size;
	const char *name;

	memcpy(&v, p, MIN(t->size, 8u));
	memcpy(&f4, &v, 4);
	memcpy(&f8, &v, 8);
	if (t->kind == V_FLOAT) {
		fprintf(f, "%g", t->size == 4 ? (double)f4 : f8);
		return;
	}
	if (t->kind == V_PTR) {
		fprintf(f, "0x%" PRIx64, v);
		return;
	}
	if (t->is_signed && t->size < 8)
		v = (int64_t)(v << unused) >> unused;
	name = t->show == IR_ENUM ? value_name(t, v) : NULL;
	if (name)
		fputs(name, f);
	else if (t->is_bool)
		fputs(v ? "true" : "false", f);
	else if (t->is_signed)
		fprintf(f, "%" PRId64, (int64_t)v);
	else
		fprintf(f, "%" PRIu64, v);
}

static void print_array(FILE *f, struct pool *pool, const struct vtype *t, const uint8_t *p, size_t len)
{
	uint64_t i;

	if (v_is_char_array(t)) {
		fprintf(f, "\"%.*s\"", (int)strnlen((const char *)p, MIN(t->n, len)), p);
		return;
	}
	fputc('[', f);
	for (i = 0; i < t->n && (i + 1) * t->to->size <= len; i++) {
		fputs(i ? "," : "", f);
		print_object(f, pool, t->to, p + i * t->to->size, t->to->size);
	}
	fputc(']', f);
}

/* What of it is there; it may begin within a byte and end in the ninth. */
void format_bits(FILE *f, const struct vmember *m, const uint8_t *p, size_t len)
{
	unsigned int lo = m->bit_off % 8, unused = 64 - MIN(m->bit_size, 64u);
	uint64_t at = m->bit_off / 8, v = 0;

	memcpy(&v, p + at, MIN(len - at, 8u));
	v >>= lo;
	if (lo && len - at > 8)
		v |= (uint64_t)p[at + 8] << (64 - lo);
	v <<= unused;
	if (m->type->is_signed)
		fprintf(f, "%" PRId64, (int64_t)v >> unused);
	else
		fprintf(f, "%" PRIu64, v >> unused);
}

static void print_member(FILE *f, struct pool *pool, const struct vmember *m, const uint8_t *p, size_t len, bool first)
{
	uint64_t at = m->bit_off / 8;

	if (at > len || (!m->bit_size && m->type->size > len - at))
		return;
	fputs(first ? "" : ", ", f);
	if (m->name && *m->name)	/* others are part of what is around them */
		fprintf(f, ".%s = ", m->name);
	if (!m->bit_size) {
		print_object(f, pool, m->type, p + at, m->type->size);
		return;
	}
	format_bits(f, m, p, len);
}

/* ---- Rust's enums ---- */

bool format_is_variant(const struct vtype *t)
{
	const struct type *of = t->kind == V_STRUCT && t->types ? type_get(t->types, t->id) : NULL;

	for (uint64_t i = 0; of && i < of->n; i++)
		if (of->members[i].flags & MEMBER_VARIANT)
			return true;
	return false;
}

static uint64_t bits_at(const uint8_t *p, size_t len, uint64_t at, uint64_t size)
{
	uint64_t v = 0;

	if (at <= len)
		memcpy(&v, p + at, MIN(MIN(size, 8u), len - at));
	return v;
}

/* The variant that is there: the one with this discriminant, else the one for all others. */
static const struct type_member *variant_of(const struct vtype *t, const struct type *of, const uint8_t *p, size_t len)
{
	const struct type_member *other = NULL;
	uint64_t is = 0, mask = 0;

	for (uint64_t i = 0; i < of->n; i++)
		if (of->members[i].flags & MEMBER_DISCR) {
			uint64_t size = type_get(t->types, type_strip(t->types, of->members[i].type))->size;

			mask = size < 8 ? (1ull << 8 * size) - 1 : ~0ull;
			is = bits_at(p, len, of->members[i].bit_off / 8, size);
		}
	for (uint64_t i = 0; i < of->n; i++) {
		if (!(of->members[i].flags & MEMBER_VARIANT))
			continue;
		if (of->members[i].variant == ~0ull)
			other = &of->members[i];
		else if (mask && (of->members[i].variant & mask) == is)
			return &of->members[i];
	}
	return other;
}

/* __0, __1: without names */
static bool is_numbered(const struct type *of)
{
	return of->n && of->members[0].name && of->members[0].name[0] == '_' && of->members[0].name[1] == '_' &&
	       of->members[0].name[2] >= '0' && of->members[0].name[2] <= '9';
}

/* As Rust writes it: Shape::Circle(5), Shape::Box{w: 2, h: 3}, Shape::None */
static void print_variant(FILE *f, struct pool *pool, const struct vtype *t, const struct type *of, const uint8_t *p, size_t len)
{
	const struct type_member *v = variant_of(t, of, p, len);
	const struct type *in = v ? type_get(t->types, type_strip(t->types, v->type)) : NULL;
	uint64_t base = v ? v->bit_off / 8 : 0;
	bool numbered;

	fprintf(f, "%s::%s", of->name ? of->name : "", v && v->name ? v->name : "?");
	if (!in || !in->n)
		return;
	numbered = is_numbered(in);
	fputc(numbered ? '(' : '{', f);
	for (uint64_t i = 0; i < in->n; i++) {
		const struct vtype *mt = v_from(pool, t->types, in->members[i].type);
		uint64_t at = base + in->members[i].bit_off / 8;

		fputs(i ? ", " : "", f);
		if (!numbered && in->members[i].name)
			fprintf(f, "%s: ", in->members[i].name);
		if (at <= len && mt->size <= len - at)
			print_object(f, pool, mt, p + at, mt->size);
	}
	fputc(numbered ? ')' : '}', f);
}

static void print_struct(FILE *f, struct pool *pool, const struct vtype *t, const uint8_t *p, size_t len)
{
	const struct type *of = t->types ? type_get(t->types, t->id) : NULL;
	uint64_t i, n = of ? of->n : t->nmembers;
	bool first = true;
	struct vmember m;

	if (format_is_variant(t)) {
		print_variant(f, pool, t, of, p, len);
		return;
	}
	fputs("{ ", f);
	for (i = 0; i < n; i++) {
		if (of && of->members[i].flags & MEMBER_VIRTUAL)	/* only the program knows where it is */
			continue;
		if (of)
			m = (struct vmember){ of->members[i].name, v_from(pool, t->types, of->members[i].type), of->members[i].bit_off,
					      of->members[i].bit_size };
		else
			m = t->members[i];
		print_member(f, pool, &m, p, len, first);
		first = false;
	}
	fputs(" }", f);
}

static void print_object(FILE *f, struct pool *pool, const struct vtype *t, const uint8_t *p, size_t len)
{
	if (t->kind == V_STRUCT)
		print_struct(f, pool, t, p, len);
	else if (t->kind == V_ARRAY)
		print_array(f, pool, t, p, len);
	else if (t->kind == V_SHOWN)
		print_special(f, t, p, len);
	else if (v_is_number(t) || t->kind == V_PTR)
		print_number(f, t, p);
	else
		fputc('?', f);
}

void format_object(FILE *f, const struct ir_unit *u, uint32_t show, const uint8_t *p, size_t len)
{
	struct pool pool = { 0 };

	if (show < u->shown.n)
		print_object(f, &pool, u->shown.v[show], p, len);
	pool_free(&pool);
}

void format_number(FILE *f, const struct ir_unit *u, uint32_t show, int64_t value)
{
	const struct vtype *t = show < u->shown.n ? u->shown.v[show] : NULL;
	const char *name = t && t->kind == V_INT ? value_name(t, value) : NULL;

	if (t && t->kind != V_INT)
		format_object(f, u, show, (const uint8_t *)&value, sizeof(value));
	else if (name)
		fputs(name, f);
	else
		fprintf(f, "%" PRId64, value);
}

void format_typed(FILE *f, struct pool *pool, const struct vtype *t, const uint8_t *p, size_t len)
{
	print_object(f, pool, t, p, len);
}
