/* SPDX-License-Identifier: MIT */
/*
 * Makes a type from a debugging entry. One function per kind; each reads its own entry and the entries below it,
 * and of the types it mentions only the numbers (and sizes, where its own depends on them).
 */
#include "sym/types/types_priv.h"

typedef VEC(struct type_member) member_list;

struct loading { struct types *t; struct unit *u; Dwarf_Die *die; struct type *type; };

static void load_size(struct loading *l)
{
	uint64_t bits;

	if (!die_number(l->die, DW_AT_byte_size, &l->type->size) &&
	    die_number(l->die, DW_AT_bit_size, &bits))
		l->type->size = (bits + 7) / 8;
	if (l->type->size > MOST_ARRAY)
		l->type->size = 0;
}

/* gcc's debug info has "long unsigned int", clang's and C code "unsigned long". */
static const char *usual_name(const char *name)
{
	static const char *const names[][2] = {
		{ "long int", "long" }, { "long unsigned int", "unsigned long" }, { "short int", "short" },
		{ "short unsigned int", "unsigned short" }, { "long long int", "long long" },
		{ "long long unsigned int", "unsigned long long" }, { "__int128 unsigned", "unsigned __int128" },
	};
	size_t i;

	for (i = 0; name && i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i][0], name) == 0)
			return names[i][1];
	return name;
}

static void load_base(struct loading *l)
{
	struct type *y = l->type;
	uint64_t encoding = 0;

	load_size(l);
	y->name = usual_name(y->name);
	die_number(l->die, DW_AT_encoding, &encoding);
	y->kind = TYPE_INT;
	switch (encoding) {
	case DW_ATE_signed_char: y->flags = TYPE_SIGNED | TYPE_CHAR; break;
	case DW_ATE_signed: y->flags = TYPE_SIGNED; break;
	case DW_ATE_unsigned_char: case DW_ATE_UTF: case DW_ATE_ASCII: case DW_ATE_UCS: y->flags = TYPE_CHAR; break;
	case DW_ATE_boolean: y->flags = TYPE_BOOL; break;
	case DW_ATE_complex_float: y->kind = TYPE_FLOAT; y->flags = TYPE_COMPLEX; break;
	case DW_ATE_decimal_float: y->kind = TYPE_FLOAT; y->flags = TYPE_DECIMAL; break;
	case DW_ATE_float: y->kind = TYPE_FLOAT; break;
	case DW_ATE_unsigned: case DW_ATE_address: break;
	default: y->kind = TYPE_UNKNOWN;
	}
	if (y->kind == TYPE_FLOAT && y->name && (strstr(y->name, "Float128") || strstr(y->name, "float128")))
		y->flags |= TYPE_QUAD;
}

static void load_pointer(struct loading *l, int kind, uint32_t flags)
{
	load_size(l);
	if (!l->type->size)
		l->type->size = 8;
	l->type->kind = kind;
	l->type->flags = flags;
	l->type->ref = die_type(l->t, l->die);
}

static uint32_t alignment_of(Dwarf_Die *die)
{
	uint64_t align;

	return die_number(die, DW_AT_alignment, &align) && align <= 1u << 20 ? align : 0;
}

/* typedefs and qualifiers: as large as the type they refer to */
static void load_alias(struct loading *l, int kind)
{
	const struct type *to;

	l->type->kind = kind;
	l->type->ref = die_type(l->t, l->die);
	to = type_get(l->t, l->type->ref);
	l->type->size = to->size;
	l->type->align = to->align;
	l->type->least_align = alignment_of(l->die);
}

/* The number of elements of one dimension; false if it is known only at run time. */
static bool dimension(struct loading *l, Dwarf_Die *range, uint64_t *ret_n)
{
	Dwarf_Sword first = 0;
	uint64_t lower, upper, n;

	if (die_number(range, DW_AT_count, &n)) {
		*ret_n = n;
		return (int64_t)n >= 0;
	}
	if (!die_number(range, DW_AT_upper_bound, &upper))
		return false;
	dwarf_default_lower_bound(dwarf_srclang(&l->u->die), &first);
	if (!die_number(range, DW_AT_lower_bound, &lower))
		lower = first;
	*ret_n = upper - lower + 1;
	return (int64_t)*ret_n >= 0;	/* an array [0] has the upper bound -1 */
}

static void make_array(struct types *t, struct type *y, type_id element, uint64_t n, bool known)
{
	uint64_t size = 0;

	y->kind = TYPE_ARRAY;
	y->ref = element;
	y->n = known ? n : 0;
	if (!known)
		y->flags |= TYPE_UNSIZED;
	else if (__builtin_mul_overflow(type_get(t, element)->size, n, &size) || size > MOST_ARRAY)
		*y = (struct type){ .kind = TYPE_UNKNOWN };
	y->size = size > MOST_ARRAY ? 0 : size;
}

static void load_array(struct loading *l)
{
	struct { uint64_t n; bool known; } dims[16];
	type_id element = die_type(l->t, l->die);
	size_t n = 0;
	Dwarf_Die die;

	if (die_first(l->die, &die))
		do {
			if (dwarf_tag(&die) != DW_TAG_subrange_type && dwarf_tag(&die) != DW_TAG_enumeration_type)
				continue;
			dims[n].known = dimension(l, &die, &dims[n].n);
			n++;
		} while (n < ARRAY_SIZE(dims) && die_next(&die));
	if (!n)
		dims[n++].known = false;
	while (--n) {
		struct type inner = { 0 };

		make_array(l->t, &inner, element, dims[n].n, dims[n].known);
		element = type_new(l->t, &inner);
	}
	make_array(l->t, l->type, element, dims[0].n, dims[0].known);
	if (die_flag(l->die, DW_AT_GNU_vector)) {
		l->type->flags |= TYPE_VECTOR;
		/* three elements take as much memory as four */
		while (l->type->size & (l->type->size - 1))
			l->type->size += l->type->size & -l->type->size;
	}
}

/* Offset of a member in bytes; false if it must be computed at run time (virtual bases). */
static bool member_at(Dwarf_Die *die, uint64_t *ret_bytes)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	*ret_bytes = 0;
	if (!dwarf_attr(die, DW_AT_data_member_location, &attr) || die_number(die, DW_AT_data_member_location, ret_bytes))
		return true;
	if (dwarf_getlocation(&attr, &ops, &n) != 0 || n != 1 ||
	    (ops[0].atom != DW_OP_plus_uconst && ops[0].atom != DW_OP_constu))
		return false;
	*ret_bytes = ops[0].number;
	return true;
}

static void place_bits(struct loading *l, Dwarf_Die *die, uint64_t bytes, struct type_member *m)
{
	uint64_t bits = 0, at, storage;

	m->bit_off = bytes * 8;
	if (!die_number(die, DW_AT_bit_size, &bits))
		return;
	m->bit_size = bits > 128 ? 128 : bits;
	if (die_number(die, DW_AT_data_bit_offset, &at)) {
		m->bit_off += at;
	} else if (die_number(die, DW_AT_bit_offset, &at)) {
		/* DWARF 3 counts from the highest bit of the storage unit */
		if (!die_number(die, DW_AT_byte_size, &storage))
			storage = type_get(l->t, m->type)->size;
		m->bit_off += storage * 8 - at - m->bit_size;
	}
}

static void add_member(struct loading *l, Dwarf_Die *die, member_list *list, uint32_t flags)
{
	struct type_member m = { .flags = flags };
	uint64_t bytes;

	/* Static members are not part of the object. */
	if (die_flag(die, DW_AT_declaration) || die_flag(die, DW_AT_external) || list->n >= MOST_MEMBERS)
		return;
	m.type = die_type(l->t, die);
	m.name = flags & MEMBER_BASE ? type_get(l->t, m.type)->name : die_name(die);
	if (!member_at(die, &bytes))
		m.flags |= MEMBER_VIRTUAL;
	if (bytes > MOST_ARRAY)
		return;
	place_bits(l, die, bytes, &m);
	l->type->least_align = MAX(l->type->least_align, alignment_of(die));
	if (die_flag(die, DW_AT_artificial))
		m.flags |= MEMBER_ARTIFICIAL;
	*vec_add(list) = m;
}

static void add_variant(struct loading *l, Dwarf_Die *variant, member_list *list)
{
	size_t first = list->n, i;
	uint64_t value = ~0ull;
	Dwarf_Die die;

	die_number(variant, DW_AT_discr_value, &value);
	if (!die_first(variant, &die))
		return;
	do
		if (dwarf_tag(&die) == DW_TAG_member)
			add_member(l, &die, list, MEMBER_VARIANT);
	while (die_next(&die));
	for (i = first; i < list->n; i++)
		list->v[i].variant = value;
}

/* Rust's enum: the discriminant, then one member for each variant. */
static void add_variants(struct loading *l, Dwarf_Die *part, member_list *list)
{
	Dwarf_Die die;

	if (!die_first(part, &die))
		return;
	do {
		if (dwarf_tag(&die) == DW_TAG_member)
			add_member(l, &die, list, MEMBER_DISCR | MEMBER_ARTIFICIAL);
		else if (dwarf_tag(&die) == DW_TAG_variant)
			add_variant(l, &die, list);
	} while (die_next(&die));
}

/*
 * Whether this parameter is a reference to the class that is being read. Decided by the entries, not by the types:
 * the class has no type yet, and anything that depends on its size must wait.
 */
static bool refers_to(Dwarf_Die *param, Dwarf_Die *class)
{
	Dwarf_Die to;
	int hops, tag;

	if (!die_ref(param, DW_AT_type, &to) ||
	    (dwarf_tag(&to) != DW_TAG_reference_type && dwarf_tag(&to) != DW_TAG_rvalue_reference_type))
		return false;
	for (hops = 0; hops < 8 && die_ref(&to, DW_AT_type, &to); hops++) {
		tag = dwarf_tag(&to);
		if (tag != DW_TAG_const_type && tag != DW_TAG_volatile_type && tag != DW_TAG_typedef)
			return to.addr == class->addr;
	}
	return false;
}

/* Whether it is a copy or move constructor. */
static bool is_copier(struct loading *l, Dwarf_Die *func)
{
	const char *name = die_name(func), *of = die_name(l->die), *cut;
	Dwarf_Die die;
	size_t n;

	if (!name || !of)
		return false;
	cut = strchr(of, '<');
	n = cut ? (size_t)(cut - of) : strlen(of);
	if (strncmp(name, of, n) != 0 || (name[n] && name[n] != '<') || !die_first(func, &die))
		return false;
	/* this, then one reference to the class itself */
	while (dwarf_tag(&die) != DW_TAG_formal_parameter || die_flag(&die, DW_AT_artificial))
		if (!die_next(&die))
			return false;
	return refers_to(&die, l->die) && !(die_next(&die) && dwarf_tag(&die) == DW_TAG_formal_parameter);
}

/* Whether the function is implicit or defaulted: it copies bytewise, if its members do. */
static bool is_default(Dwarf_Die *func)
{
	uint64_t how;

	return die_flag(func, DW_AT_artificial) || (die_number(func, DW_AT_defaulted, &how) && how == DW_DEFAULTED_in_class);
}

/* A class with a user-defined destructor, copy or move constructor, or without any usable one, is passed by address. */
static bool travels_by_reference(struct loading *l)
{
	bool deleted = false, usable = false;
	uint64_t convention;
	Dwarf_Die die;

	if (die_number(l->die, DW_AT_calling_convention, &convention) &&
	    (convention == DW_CC_pass_by_value || convention == DW_CC_pass_by_reference))
		return convention == DW_CC_pass_by_reference;
	if (l->u->lang != LANG_CXX || !die_first(l->die, &die))
		return false;
	do {
		const char *name = die_name(&die);
		bool own = !is_default(&die);

		if (dwarf_tag(&die) != DW_TAG_subprogram)
			continue;
		if (dwarf_hasattr(&die, DW_AT_virtuality))
			return true;
		if (die_flag(&die, DW_AT_deleted))
			deleted |= is_copier(l, &die);
		else if (own && ((name && *name == '~') || is_copier(l, &die)))
			return true;
		else if (!own)
			usable |= is_copier(l, &die);
	} while (die_next(&die));
	return deleted && !usable;
}

static void load_struct(struct loading *l, int kind, uint32_t flags)
{
	member_list list = { 0 };
	struct type *y = l->type;
	Dwarf_Die die;

	y->kind = kind;
	y->flags = flags;
	load_size(l);
	y->align = alignment_of(l->die);
	if (die_flag(l->die, DW_AT_declaration)) {
		y->kind = TYPE_FWD;
		if (kind == TYPE_UNION)
			y->flags |= TYPE_FWD_UNION;
		return;
	}
	if (die_first(l->die, &die))
		do
			switch (dwarf_tag(&die)) {
			case DW_TAG_member: add_member(l, &die, &list, 0); break;
			case DW_TAG_inheritance: add_member(l, &die, &list, MEMBER_BASE); break;
			case DW_TAG_variant_part: add_variants(l, &die, &list); break;
			}
		while (die_next(&die));
	y->n = list.n;
	y->members = types_alloc(l->t, list.n * sizeof(*list.v));
	if (list.n)
		memcpy((void *)y->members, list.v, list.n * sizeof(*list.v));
	vec_free(&list);
	if (travels_by_reference(l))
		y->flags |= TYPE_BY_REFERENCE;
}

static void load_enum(struct loading *l)
{
	VEC(struct type_value) list = { 0 };
	struct type *y = l->type;
	Dwarf_Die die;
	uint64_t v;

	y->kind = TYPE_ENUM;
	load_size(l);
	y->ref = die_type(l->t, l->die);
	if (die_flag(l->die, DW_AT_declaration) && !dwarf_haschildren(l->die)) {
		y->kind = TYPE_FWD;
		y->flags = TYPE_FWD_ENUM;
		return;
	}
	if (die_first(l->die, &die))
		do
			if (dwarf_tag(&die) == DW_TAG_enumerator && die_name(&die) && list.n < MOST_MEMBERS &&
			    die_number(&die, DW_AT_const_value, &v)) {
				*vec_add(&list) = (struct type_value){ die_name(&die), v };
				if ((int64_t)v < 0)
					y->flags |= TYPE_SIGNED;
			}
		while (die_next(&die));
	/* The underlying type takes precedence over the values. */
	if (y->ref)
		y->flags = type_get(l->t, type_strip(l->t, y->ref))->flags & TYPE_SIGNED;
	y->n = list.n;
	y->values = types_alloc(l->t, list.n * sizeof(*list.v));
	if (list.n)
		memcpy((void *)y->values, list.v, list.n * sizeof(*list.v));
	vec_free(&list);
}

static void load_func(struct loading *l)
{
	member_list list = { 0 };
	Dwarf_Die die;

	l->type->kind = TYPE_FUNC;
	l->type->ref = die_type(l->t, l->die);
	if (die_first(l->die, &die))
		do {
			if (dwarf_tag(&die) == DW_TAG_unspecified_parameters)
				l->type->flags |= TYPE_VARIADIC;
			if (dwarf_tag(&die) == DW_TAG_formal_parameter && list.n < MOST_MEMBERS)
				*vec_add(&list) = (struct type_member){ .name = die_name(&die), .type = die_type(l->t, &die) };
		} while (die_next(&die));
	l->type->n = list.n;
	l->type->members = types_alloc(l->t, list.n * sizeof(*list.v));
	if (list.n)
		memcpy((void *)l->type->members, list.v, list.n * sizeof(*list.v));
	vec_free(&list);
}

static void load_unspecified(struct loading *l)
{
	l->type->kind = TYPE_VOID;
	/* decltype(nullptr) is passed like a pointer */
	if (l->type->name && strstr(l->type->name, "nullptr")) {
		l->type->kind = TYPE_PTR;
		l->type->size = 8;
	}
}

static void load_member_pointer(struct loading *l)
{
	load_pointer(l, TYPE_MEMBER_PTR, 0);
	if (type_get(l->t, l->type->ref)->kind == TYPE_FUNC)
		l->type->size = 16;
}

static void load_kind(struct loading *l)
{
	switch (dwarf_tag(l->die)) {
	case DW_TAG_base_type: load_base(l); break;
	case DW_TAG_pointer_type: load_pointer(l, TYPE_PTR, 0); break;
	case DW_TAG_reference_type: load_pointer(l, TYPE_REF, 0); break;
	case DW_TAG_rvalue_reference_type: load_pointer(l, TYPE_REF, TYPE_RVALUE); break;
	case DW_TAG_ptr_to_member_type: load_member_pointer(l); break;
	case DW_TAG_array_type: load_array(l); break;
	case DW_TAG_structure_type: load_struct(l, TYPE_STRUCT, 0); break;
	case DW_TAG_class_type: load_struct(l, TYPE_STRUCT, TYPE_CLASS); break;
	case DW_TAG_interface_type: load_struct(l, TYPE_STRUCT, TYPE_CLASS); break;
	case DW_TAG_union_type: load_struct(l, TYPE_UNION, 0); break;
	case DW_TAG_enumeration_type: load_enum(l); break;
	case DW_TAG_typedef: case DW_TAG_template_alias: load_alias(l, TYPE_TYPEDEF); break;
	case DW_TAG_const_type: load_alias(l, TYPE_CONST); break;
	case DW_TAG_volatile_type: load_alias(l, TYPE_VOLATILE); break;
	case DW_TAG_restrict_type: load_alias(l, TYPE_RESTRICT); break;
	case DW_TAG_atomic_type: load_alias(l, TYPE_ATOMIC); break;
	case DW_TAG_subrange_type: load_alias(l, TYPE_TYPEDEF); break;
	case DW_TAG_subroutine_type: case DW_TAG_subprogram: load_func(l); break;
	case DW_TAG_unspecified_type: load_unspecified(l); break;
	default: l->type->kind = TYPE_UNKNOWN;
	}
}

void dw_load(struct types *t, struct slot *s, struct type *type)
{
	struct loading l = { t, unit_of(t, &s->die), &s->die, type };

	*type = (struct type){ .kind = TYPE_UNKNOWN };
	if (!l.u)
		return;
	type->name = unit_qualified(t, l.u, &s->die);
	load_kind(&l);
}
