/* SPDX-License-Identifier: MIT */
#include "lang/type.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define INT(bytes, sign, as) { .kind = V_INT, .size = bytes, .is_signed = sign, .show = as }

const struct vtype v_error = { .kind = V_ERROR }, v_void = { .kind = V_VOID }, v_args = { .kind = V_ARGS },
	v_agg = { .kind = V_AGG };
const struct vtype v_bool = { .kind = V_INT, .size = 1, .is_bool = true, .show = IR_BOOL };
const struct vtype v_char = { .kind = V_INT, .size = 1, .is_signed = true, .is_char = true, .show = IR_I8 };
const struct vtype v_i8 = INT(1, true, IR_I8), v_i16 = INT(2, true, IR_I16), v_i32 = INT(4, true, IR_I32),
	v_i64 = INT(8, true, IR_I64), v_u8 = INT(1, false, IR_U8), v_u16 = INT(2, false, IR_U16),
	v_u32 = INT(4, false, IR_U32), v_u64 = INT(8, false, IR_U64);
static const struct vtype v_x8 = { .kind = V_INT, .size = 1, .show = IR_U8, .base = IR_SHOW_RAW }, v_x16 = { .kind = V_INT, .size = 2, .show = IR_U16, .base = IR_SHOW_RAW },
	v_x32 = { .kind = V_INT, .size = 4, .show = IR_U32, .base = IR_SHOW_RAW }, v_x64 = { .kind = V_INT, .size = 8, .show = IR_U64, .base = IR_SHOW_RAW },
	v_o64 = { .kind = V_INT, .size = 8, .show = IR_U64, .base = IR_SHOW_OCTAL };
const struct vtype v_raw = { .kind = V_INT, .size = 8, .show = IR_U64, .is_raw = true };
const struct vtype v_f32 = { .kind = V_FLOAT, .size = 4, .show = IR_F32 }, v_f64 = { .kind = V_FLOAT, .size = 8, .show = IR_F64 };
const struct vtype v_void_ptr = { .kind = V_PTR, .size = 8, .to = &v_void, .show = IR_PTR };
const struct vtype v_char_ptr = { .kind = V_PTR, .size = 8, .to = &v_char, .show = IR_PTR };
const struct vtype v_inet4 = { .kind = V_SHOWN, .size = 8, .show = IR_ENUM, .extra = SHOWN_INET4 };
const struct vtype v_inet6 = { .kind = V_SHOWN, .size = 16, .show = IR_STRUCT, .extra = SHOWN_INET6 };
const struct vtype v_mac = { .kind = V_SHOWN, .size = 8, .show = IR_ENUM, .extra = SHOWN_MAC };
const struct vtype v_errno = { .kind = V_SHOWN, .size = 8, .show = IR_ENUM, .extra = SHOWN_ERRNO };
const struct vtype v_user = { .kind = V_SHOWN, .size = 8, .show = IR_ENUM, .extra = SHOWN_USER };

#define SHOWN(as) { .kind = V_SHOWN, .size = 8, .show = IR_ENUM, .extra = as }
const struct vtype v_signal = SHOWN(SHOWN_SIGNAL), v_syscall = SHOWN(SHOWN_SYSCALL), v_comm_of = SHOWN(SHOWN_COMM), v_pcomm = SHOWN(SHOWN_PCOMM), v_ppid = SHOWN(SHOWN_PPID),
	v_cgroup = SHOWN(SHOWN_CGROUP), v_cgroup_path = SHOWN(SHOWN_CGROUP_PATH), v_cgroup_id = SHOWN(SHOWN_CGROUP_ID);

static const struct { const char *name; const struct vtype *type; } basics[] = {
	{ "void", &v_void }, { "bool", &v_bool }, { "_Bool", &v_bool }, { "char", &v_char }, { "signed char", &v_i8 },
	{ "unsigned char", &v_u8 }, { "short", &v_i16 }, { "short int", &v_i16 }, { "unsigned short", &v_u16 },
	{ "unsigned short int", &v_u16 }, { "int", &v_i32 }, { "signed", &v_i32 }, { "signed int", &v_i32 },
	{ "unsigned", &v_u32 }, { "unsigned int", &v_u32 }, { "long", &v_i64 }, { "long int", &v_i64 },
	{ "signed long", &v_i64 }, { "unsigned long", &v_u64 }, { "unsigned long int", &v_u64 }, { "long unsigned int", &v_u64 },
	{ "long unsigned", &v_u64 }, { "long long", &v_i64 }, { "long long int", &v_i64 }, { "unsigned long long", &v_u64 },
	{ "unsigned long long int", &v_u64 }, { "long long unsigned int", &v_u64 }, { "long long unsigned", &v_u64 },
	{ "signed long long", &v_i64 }, { "signed short", &v_i16 },
	{ "float", &v_f32 }, { "double", &v_f64 },
	{ "int8", &v_i8 }, { "int16", &v_i16 }, { "int32", &v_i32 }, { "int64", &v_i64 },
	{ "uint8", &v_u8 }, { "uint16", &v_u16 }, { "uint32", &v_u32 }, { "uint64", &v_u64 },
	{ "int8_t", &v_i8 }, { "int16_t", &v_i16 }, { "int32_t", &v_i32 }, { "int64_t", &v_i64 },
	{ "uint8_t", &v_u8 }, { "uint16_t", &v_u16 }, { "uint32_t", &v_u32 }, { "uint64_t", &v_u64 },
	{ "u8", &v_u8 }, { "u16", &v_u16 }, { "u32", &v_u32 }, { "u64", &v_u64 },
	{ "s8", &v_i8 }, { "s16", &v_i16 }, { "s32", &v_i32 }, { "s64", &v_i64 },
	{ "__u8", &v_u8 }, { "__u16", &v_u16 }, { "__u32", &v_u32 }, { "__u64", &v_u64 },
	{ "x8", &v_x8 }, { "x16", &v_x16 }, { "x32", &v_x32 }, { "x64", &v_x64 }, { "o64", &v_o64 }, { "uint", &v_u32 }, { "ulong", &v_u64 },
	{ "__s8", &v_i8 }, { "__s16", &v_i16 }, { "__s32", &v_i32 }, { "__s64", &v_i64 },
	{ "size_t", &v_u64 }, { "ssize_t", &v_i64 }, { "intptr_t", &v_i64 }, { "uintptr_t", &v_u64 }, { "ptrdiff_t", &v_i64 },
	{ "off_t", &v_i64 }, { "time_t", &v_i64 }, { "pid_t", &v_i32 }, { "wchar_t", &v_i32 },
};

const struct vtype *v_basic(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(basics); i++)
		if (strcmp(basics[i].name, name) == 0)
			return basics[i].type;
	return NULL;
}

static struct vtype *new_type(struct pool *pool, uint8_t kind, uint64_t size, uint8_t show)
{
	struct vtype *t = pool_new(pool, struct vtype);

	t->kind = kind;
	t->size = size;
	t->show = show;
	return t;
}

const struct vtype *v_pointer(struct pool *pool, const struct vtype *to)
{
	struct vtype *t;

	if (to == &v_char)
		return &v_char_ptr;
	if (to == &v_void)
		return &v_void_ptr;
	t = new_type(pool, V_PTR, 8, IR_PTR);
	t->to = to;
	return t;
}

const struct vtype *v_array(struct pool *pool, const struct vtype *of, uint64_t n)
{
	struct vtype *t = new_type(pool, V_ARRAY, of->size * n, IR_STRUCT);

	t->to = of;
	t->n = n;
	return t;
}

const struct vtype *v_held_array(struct pool *pool, const struct vtype *of, uint64_t n)
{
	struct vtype *t = new_type(pool, V_ARRAY, of->size * n, IR_ENUM);

	t->to = of;
	t->n = n;
	t->held = true;
	return t;
}

const struct vtype *v_to_int(struct pool *pool, const struct vtype *of)
{
	struct vtype *t = pool_new(pool, struct vtype);

	*t = *of;
	t->to_int = true;
	return t;
}

const struct vtype *v_enum(struct pool *pool, const struct enum_decl *d)
{
	struct vtype *t = new_type(pool, V_INT, 4, IR_ENUM);
	uint32_t i;

	t->enums = d;
	for (i = 0; i < d->nitems; i++) {
		t->is_signed |= d->items[i].value < 0;
		if (d->items[i].value > UINT32_MAX || d->items[i].value < INT32_MIN)
			t->size = 8;
	}
	return t;
}

const struct vtype *v_text(struct pool *pool, uint64_t size)
{
	return new_type(pool, V_STR, size, IR_STR);
}

const struct vtype *v_bytes(struct pool *pool, uint64_t size)
{
	return new_type(pool, V_BUF, size, IR_BUF);
}

const struct vtype *v_tuple(struct pool *pool, const struct vtype *const *elems, uint32_t n)
{
	struct vtype *t = new_type(pool, V_TUPLE, 0, 0);
	uint32_t i;

	t->elems = elems;
	t->n = n;
	for (i = 0; i < n; i++)
		t->size += elems[i]->size;
	return t;
}

const struct vtype *v_record(struct pool *pool, const struct vtype *const *elems, const char *const *fields, uint32_t n)
{
	struct vtype *t = (struct vtype *)v_tuple(pool, elems, n);

	t->fields = fields;
	return t;
}

/* long double, __int128, complex numbers: there is no register for them, but a size and a name. */
static const struct vtype *odd_number(struct pool *pool, struct types *types, type_id id, const struct type *t)
{
	struct vtype *v = new_type(pool, V_ERROR, t->size, 0);

	v->types = types;
	v->id = id;
	return v;
}

static const struct vtype *number_from(struct pool *pool, const struct type *t)
{
	static const struct vtype *const ints[2][4] = { { &v_u8, &v_u16, &v_u32, &v_u64 }, { &v_i8, &v_i16, &v_i32, &v_i64 } };
	bool sign = t->flags & TYPE_SIGNED;

	if (t->kind == TYPE_FLOAT)
		return t->flags & (TYPE_COMPLEX | TYPE_DECIMAL) ? NULL : t->size == 4 ? &v_f32 : t->size == 8 ? &v_f64 : NULL;
	if (t->flags & TYPE_BOOL && t->size == 1)
		return &v_bool;
	if (t->flags & TYPE_CHAR && t->size == 1 && sign)
		return &v_char;
	/* unsigned char is a byte, unless all characters of the program are unsigned */
	if (t->flags & TYPE_CHAR && t->size == 1 && t->name && strcmp(t->name, "char") == 0) {
		struct vtype *c = new_type(pool, V_INT, 1, IR_U8);

		c->is_char = true;
		return c;
	}
	return t->size == 1 || t->size == 2 || t->size == 4 || t->size == 8 ? ints[sign][__builtin_ctz(t->size)] : NULL;
}

static const struct vtype *from_aggregate(struct pool *pool, struct types *types, type_id id, const struct type *t)
{
	struct vtype *v = new_type(pool, t->kind == TYPE_ENUM ? V_INT : V_STRUCT, t->size, IR_STRUCT);

	v->types = types;
	v->id = id;
	if (t->kind == TYPE_ENUM) {
		v->show = IR_ENUM;
		v->is_signed = type_get(types, type_strip(types, t->ref))->flags & TYPE_SIGNED;
		if (!v->size)
			v->size = 4;
	}
	return v;
}

const struct vtype *v_from(struct pool *pool, struct types *types, type_id id)
{
	const struct vtype *known;
	const struct type *t;
	struct vtype *v;

	id = type_strip(types, id);
	t = type_get(types, id);
	switch (t->kind) {
	case TYPE_VOID:		return &v_void;
	case TYPE_INT: case TYPE_FLOAT:
		known = number_from(pool, t);
		return known ? known : odd_number(pool, types, id, t);
	case TYPE_STRUCT: case TYPE_UNION: case TYPE_ENUM: case TYPE_FWD: return from_aggregate(pool, types, id, t);
	case TYPE_FUNC:		return &v_void;
	case TYPE_MEMBER_PTR:	return t->size == 8 ? &v_i64 : odd_number(pool, types, id, t);
	case TYPE_ARRAY:
		v = new_type(pool, V_ARRAY, t->size, IR_STRUCT);
		v->to = v_from(pool, types, t->ref);
		v->n = t->n;
		v->size = v->to->size * v->n;
		return v;
	case TYPE_PTR: case TYPE_REF:
		/* what it points to is asked later: a list points to itself */
		v = new_type(pool, V_PTR, 8, IR_PTR);
		v->types = types;
		v->id = t->ref;
		return v;
	}
	return odd_number(pool, types, id, t);
}

const struct vtype *v_of_var(struct pool *pool, struct types *types, type_id id, bool *ret_is_ref)
{
	const struct type *t = type_get(types, type_strip(types, id));

	*ret_is_ref = t->kind == TYPE_REF;
	return v_from(pool, types, *ret_is_ref ? t->ref : id);
}

static bool same_class(struct types *types, type_id a, type_id b)
{
	const char *x = type_get(types, a)->name, *y = type_get(types, b)->name;

	return a == b || (x && y && strcmp(x, y) == 0);
}

static bool find_base(struct types *types, type_id derived, type_id base, int depth, uint64_t *ret_off)
{
	const struct type *t = type_get(types, derived);
	uint64_t i, off;

	for (i = 0; t->kind == TYPE_STRUCT && depth < 16 && i < t->n; i++) {
		const struct type_member *m = &t->members[i];
		type_id id = type_strip(types, m->type);

		if (!(m->flags & MEMBER_BASE) || m->flags & MEMBER_VIRTUAL)
			continue;
		off = 0;
		if (!same_class(types, id, base) && !find_base(types, id, base, depth + 1, &off))
			continue;
		*ret_off = m->bit_off / 8 + off;
		return true;
	}
	return false;
}

bool v_base(const struct vtype *derived, const struct vtype *base, uint64_t *ret_off)
{
	return derived->kind == V_STRUCT && base->kind == V_STRUCT && derived->types && derived->types == base->types &&
	       find_base(derived->types, derived->id, base->id, 0, ret_off);
}

const struct vtype *v_pointee(struct pool *pool, const struct vtype *t)
{
	if (!t->to && t->types)
		((struct vtype *)t)->to = v_from(pool, t->types, t->id);
	return t->to;
}

/* Through unnamed ones, too. */
static bool find_member(const struct vtype *t, const char *name, struct vmember *ret)
{
	uint32_t i;

	for (i = 0; i < t->nmembers; i++) {
		const struct vmember *m = &t->members[i];

		if (strcmp(m->name, name) == 0) {
			*ret = *m;
			return true;
		}
		if (!*m->name && m->type->kind == V_STRUCT && find_member(m->type, name, ret)) {
			ret->bit_off += m->bit_off;
			return true;
		}
	}
	return false;
}

static bool decl_member(const struct vtype *t, const char *name, struct vmember *ret)
{
	if (find_member(t, name, ret))
		return true;
	fail(-ENOENT, "%s %s has no member '%s'", t->decl->tag, t->decl->name, name);
	return false;
}

bool v_member(struct pool *pool, const struct vtype *t, const char *name, struct vmember *ret_member)
{
	struct type_member m;

	if (t->decl)
		return decl_member(t, name, ret_member);
	if (type_member(t->types, t->id, name, &m) < 0)
		return false;
	*ret_member = (struct vmember){ .name = name, .type = v_from(pool, t->types, m.type), .bit_off = m.bit_off,
					.bit_size = m.bit_size };
	return true;
}

bool v_is_char_array(const struct vtype *t)
{
	return t->kind == V_ARRAY && t->to->kind == V_INT && (t->to->is_char || (t->to->size == 1 && t->to->is_signed)) && t->n &&
	       !t->held;
}

bool v_has_text(const struct vtype *t)
{
	struct type_string s;

	return t->kind == V_STR || t->is_text || v_is_char_array(t) || (t->kind == V_STRUCT && t->types && type_is_string(t->types, t->id, &s));
}

bool v_can_text(const struct vtype *t)
{
	return v_has_text(t) || (t->kind == V_ARRAY && t->to->kind == V_INT && t->to->size == 1 && !t->held);
}

uint64_t v_align(const struct vtype *t)
{
	const struct type *of = t->kind == V_STRUCT && !t->decl && t->types ? type_get(t->types, t->id) : NULL;
	struct pool pool = { 0 };
	uint64_t a = 1;

	if (t->kind == V_ARRAY)
		return v_align(t->to);
	if (t->kind != V_STRUCT)
		return t->size & 7 || !t->size ? MAX(t->size & -t->size, 1u) : 8;
	for (uint64_t i = 0; of && i < of->n && !(of->members[i].flags & MEMBER_VIRTUAL); i++)
		a = MAX(a, v_align(v_from(&pool, t->types, of->members[i].type)));
	for (uint32_t i = 0; i < t->nmembers && !t->packed; i++)
		a = MAX(a, v_align(t->members[i].type));
	pool_free(&pool);
	return a;
}

uint64_t v_field(const struct vtype *t, const struct vtype *like, uint64_t i)
{
	uint64_t k = 0;

	if (!t->fields || !like->fields)
		return i;
	while (k < t->n && strcmp(t->fields[k], like->fields[i]) != 0)
		k++;
	return k;
}

static bool same_elems(const struct vtype *a, const struct vtype *b)
{
	uint64_t i;

	if (!a->fields != !b->fields)
		return false;
	for (i = 0; i < a->n; i++)
		if (v_field(b, a, i) == b->n || !v_same(a->elems[i], b->elems[v_field(b, a, i)]))
			return false;
	return true;
}

bool v_same(const struct vtype *a, const struct vtype *b)
{
	if (a->kind == V_ERROR || b->kind == V_ERROR)
		return true;
	/* pointers are numbers to whoever stores them */
	if ((a->kind == V_INT || a->kind == V_PTR) && (b->kind == V_INT || b->kind == V_PTR))
		return true;
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case V_TUPLE:	return a->n == b->n && same_elems(a, b);
	case V_STRUCT:	return a->types == b->types && a->id == b->id && a->decl == b->decl;
	case V_ARRAY:	return a->n == b->n && v_same(a->to, b->to);
	case V_AGG:	return a->agg == b->agg;
	case V_SITE:	return a->show == b->show;
	case V_SHOWN:	return a->extra == b->extra;
	}
	return true;
}

bool v_alike(const struct vtype *a, const struct vtype *b)
{
	if (a == b)
		return true;
	if (a->kind != b->kind || a->size != b->size || a->types != b->types || a->id != b->id || a->decl != b->decl ||
	    a->enums != b->enums || a->is_signed != b->is_signed || a->is_bool != b->is_bool || a->is_char != b->is_char ||
	    a->held != b->held || a->extra != b->extra || a->n != b->n)
		return false;
	return a->kind != V_ARRAY || v_alike(a->to, b->to);
}

static const char *tuple_name(struct pool *pool, const struct vtype *t)
{
	const char *s = "(";
	uint64_t i;

	for (i = 0; i < t->n; i++)
		s = pool_printf(pool, "%s%s%s%s%s", s, i ? ", " : "", t->fields ? t->fields[i] : "", t->fields ? "=" : "", v_name(pool, t->elems[i]));
	if (t->fields)
		return pool_printf(pool, "%s)", s);
	return pool_printf(pool, "%s%s)", s, t->n == 1 ? "," : "");
}

static const char *program_name(struct pool *pool, const struct vtype *t)
{
	char *name = type_name(t->types, t->id);
	const char *kept = pool_text(pool, name ? name : "?", strlen(name ? name : "?"));

	free(name);
	return kept;
}

const char *v_name(struct pool *pool, const struct vtype *t)
{
	static const char *const aggs[] = { "value", "count", "sum", "avg", "min", "max", "stats", "hist", "lhist", "quantile" };

	switch ((enum v_kind)t->kind) {
	case V_ERROR:	return t->types ? program_name(pool, t) : "unknown";
	case V_VOID:	return "void";
	case V_INT:
		if (t->types)
			return program_name(pool, t);
		if (t->enums)
			return pool_printf(pool, "enum %s", t->enums->name);
		if (t->is_bool)
			return "bool";
		if (t->is_char)
			return "char";
		return pool_printf(pool, "%sint%d", t->is_signed ? "" : "u", (int)t->size * 8);
	case V_FLOAT:	return t->size == 4 ? "float" : "double";
	case V_PTR:
		if (!t->to && t->types)
			return pool_printf(pool, "%s *", program_name(pool, t));
		return pool_printf(pool, "%s *", v_name(pool, t->to));
	case V_ARRAY:	return pool_printf(pool, "%s[%d]", v_name(pool, t->to), (int)t->n);
	case V_STRUCT:
		return t->decl ? pool_printf(pool, "%s %s", t->decl->tag, t->decl->name) : program_name(pool, t);
	case V_STR:	return "string";
	case V_BUF:	return "buffer";
	case V_TUPLE:	return tuple_name(pool, t);
	case V_STACK:	return "stack";
	case V_USYM:	return "symbol";
	case V_SITE:	return "string";
	case V_TIME:	return "timestamp";
	case V_SHOWN:	return t->extra >= SHOWN_ERRNO ? "string" : "address";
	case V_AGG:	return pool_printf(pool, "%s()", aggs[t->agg]);
	case V_ARGS:	return "args";
	}
	return "?";
}

uint8_t v_ir(const struct vtype *t)
{
	static const uint8_t ints[2][4] = { { IR_U8, IR_U16, IR_U32, IR_U64 }, { IR_I8, IR_I16, IR_I32, IR_I64 } };

	switch (t->kind) {
	case V_INT:	return t->is_bool ? IR_BOOL : ints[t->is_signed][__builtin_ctzll(t->size | 8)];
	case V_FLOAT:	return t->size == 4 ? IR_F32 : IR_F64;
	case V_STR:	return IR_STR;
	case V_BUF:	return IR_BUF;
	case V_STRUCT: case V_ARRAY: case V_SHOWN: return v_is_scalar(t) ? IR_U64 : IR_STRUCT;
	}
	return IR_U64;
}

uint8_t v_shown(const struct vtype *t)
{
	return t->kind == V_INT && t->show != IR_ENUM ? v_ir(t) : t->show;
}

unsigned int v_field_bits(const struct ir_unit *u, const struct ir_field *f)
{
	const struct vtype *t = f->type == IR_ENUM && f->show < u->shown.n ? u->shown.v[f->show] : NULL;

	if (f->type == IR_F32)
		return f->show == IR_SHOW_RAW ? 32 : 64;
	if (f->type == IR_BOOL)
		return 8;
	if (t && t->kind == V_INT && (t->size == 1 || t->size == 2 || t->size == 4))
		return 8 * t->size;
	return f->type <= IR_U64 ? 8 * ir_size(f->type) : 64;
}
