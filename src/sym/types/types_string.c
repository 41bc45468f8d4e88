/* SPDX-License-Identifier: MIT */
/*
 * Strings with a length. They are recognised by their members, not only by their names, and the offsets come from
 * the debug info: a library with another layout is still supported, and one with a hidden layout (libc++ stores
 * short strings in place of the pointer) does not match.
 */
#include "sym/types/types_priv.h"

static bool member_path(struct types *t, type_id id, const char *const *path, uint32_t *ret_off, type_id *ret_type)
{
	uint64_t bits = 0;

	for (; *path; path++) {
		const struct type *y = type_get(t, type_strip(t, id));
		uint64_t i;

		if (y->kind != TYPE_STRUCT && y->kind != TYPE_UNION)
			return false;
		for (i = 0; i < y->n; i++)
			if (y->members[i].name && !(y->members[i].flags & MEMBER_BASE) &&
			    strcmp(y->members[i].name, *path) == 0)
				break;
		if (i == y->n || y->members[i].bit_size)
			return false;
		bits += y->members[i].bit_off;
		id = y->members[i].type;
	}
	if (bits / 8 > UINT32_MAX)
		return false;
	*ret_off = bits / 8;
	*ret_type = id;
	return true;
}

#define PATH 8

static const struct {
	const char *name;	/* start of the type's name; the whole name if it ends with $ */
	const char *ptr[PATH], *len[PATH];
} shapes[] = {
	{ "std::__cxx11::basic_string<char,", { "_M_dataplus", "_M_p" }, { "_M_string_length" } },
	{ "std::__cxx11::basic_string<char,", { "_M_dataplus" }, { "_M_string_length" } },	/* see below */
	{ "std::basic_string_view<char,", { "_M_str" }, { "_M_len" } },
	{ "std::__1::basic_string_view<char,", { "__data" }, { "__size" } },
	{ "&str$", { "data_ptr" }, { "length" } },
	{ "&mut str$", { "data_ptr" }, { "length" } },
	{ "alloc::string::String$", { "vec", "buf", "ptr", "pointer", "pointer" }, { "vec", "len" } },
	{ "alloc::string::String$", { "vec", "buf", "ptr", "pointer" }, { "vec", "len" } },
	{ "alloc::string::String$", { "vec", "buf", "inner", "ptr", "pointer", "pointer" }, { "vec", "len" } },
	{ "string$", { "str" }, { "len" } },
};

static bool name_fits(const char *name, const char *shape)
{
	size_t n = strlen(shape);

	return shape[n - 1] == '$' ? strlen(name) == n - 1 && strncmp(name, shape, n - 1) == 0 :
				     strncmp(name, shape, n) == 0;
}

bool type_is_string(struct types *t, type_id id, struct type_string *ret_string)
{
	type_id real = type_strip(t, id), ptr, len;
	const struct type *y = type_get(t, real), *l, *p;
	struct type_string s;
	size_t i;

	/*
	 * clang leaves the description of this type, or of the part that has the pointer, to the library. Its
	 * layout is part of libstdc++'s ABI.
	 */
	if (y->kind == TYPE_FWD && y->name && name_fits(y->name, shapes[0].name)) {
		*ret_string = (struct type_string){ .ptr_off = 0, .len_off = 8, .len_size = 8 };
		return true;
	}
	if (y->kind != TYPE_STRUCT || !y->name)
		return false;
	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		if (!name_fits(y->name, shapes[i].name) ||
		    !member_path(t, real, shapes[i].ptr, &s.ptr_off, &ptr) ||
		    !member_path(t, real, shapes[i].len, &s.len_off, &len))
			continue;
		p = type_get(t, type_strip(t, ptr));
		l = type_get(t, type_strip(t, len));
		if ((p->kind != TYPE_PTR && p->kind != TYPE_FWD) || l->kind != TYPE_INT || (l->size != 8 && l->size != 4))
			continue;
		s.len_size = l->size;
		*ret_string = s;
		return true;
	}
	return false;
}
