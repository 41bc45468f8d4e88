/* SPDX-License-Identifier: MIT */
/*
 * The type store: numbers for types, and their memory. A number represents a debugging entry (known by its address)
 * or a type made here, such as the pointer of a cast. An entry is read once, when it is first needed.
 */
#include "sym/types/types_priv.h"

#include "base/err.h"

#define CHUNK 65536

void *types_alloc(struct types *t, size_t size)
{
	void *p;

	size = (size + 15) & ~(size_t)15;
	if (t->chunk_left < size) {
		t->chunk_left = MAX(size, (size_t)CHUNK);
		t->chunk_at = xcalloc(1, t->chunk_left);
		*vec_add(&t->chunks) = t->chunk_at;
	}
	p = t->chunk_at;
	t->chunk_at += size;
	t->chunk_left -= size;
	return p;
}

char *types_string(struct types *t, const char *s)
{
	size_t n = strlen(s) + 1;

	return memcpy(types_alloc(t, n), s, n);
}

static struct hashed *table_slot(const struct table *b, const void *key)
{
	size_t i = ((uintptr_t)key * 0x9e3779b97f4a7c15ull) >> 20;

	for (;; i++) {
		struct hashed *h = &b->v[i & (b->cap - 1)];

		if (!h->id || h->key == key)
			return h;
	}
}

uint32_t table_get(const struct table *b, const void *key)
{
	return b->cap ? table_slot(b, key)->id : 0;
}

void table_put(struct table *b, const void *key, uint32_t id)
{
	struct table old = *b;
	size_t i;

	if (b->n * 2 >= b->cap) {
		b->cap = MAX(b->cap * 2, (size_t)256);
		b->v = xcalloc(b->cap, sizeof(*b->v));
		for (i = 0; i < old.cap; i++)
			if (old.v[i].id)
				*table_slot(b, old.v[i].key) = old.v[i];
		free(old.v);
	}
	*table_slot(b, key) = (struct hashed){ key, id };
	b->n++;
}

type_id type_new(struct types *t, const struct type *type)
{
	struct slot *s = vec_add(&t->slots);

	s->type = types_alloc(t, sizeof(*type));
	*s->type = *type;
	return t->slots.n - 1;
}

type_id type_of_die(struct types *t, Dwarf_Die *die)
{
	type_id id = table_get(&t->by_die, die->addr);
	Dwarf_Die whole;

	if (id)
		return id;
	/* A declaration with a reference to a type unit is that type. */
	if (die_ref(die, DW_AT_signature, &whole) && whole.addr != die->addr) {
		id = table_get(&t->by_die, whole.addr);
		if (!id) {
			vec_add(&t->slots)->die = whole;
			id = t->slots.n - 1;
			table_put(&t->by_die, whole.addr, id);
		}
	} else {
		vec_add(&t->slots)->die = *die;
		id = t->slots.n - 1;
	}
	table_put(&t->by_die, die->addr, id);
	return id;
}

Dwarf_Die *type_die(struct types *t, type_id id)
{
	return id < t->slots.n && t->slots.v[id].die.addr ? &t->slots.v[id].die : NULL;
}

const struct type *type_get(struct types *t, type_id id)
{
	static const struct type unknown = { .kind = TYPE_UNKNOWN };
	struct type *type;
	struct slot copy;

	if (id >= t->slots.n || t->slots.v[id].loading)
		return &unknown;
	if (t->slots.v[id].type)
		return t->slots.v[id].type;
	if (t->depth >= MOST_DEPTH)
		return &unknown;
	/* Reading it may add numbers, and so reallocate the slots. */
	t->slots.v[id].loading = true;
	copy = t->slots.v[id];
	type = types_alloc(t, sizeof(*type));
	t->depth++;
	dw_load(t, &copy, type);
	t->depth--;
	t->slots.v[id].loading = false;
	t->slots.v[id].type = type;
	return type;
}

type_id type_pointer_to(struct types *t, type_id id)
{
	return type_new(t, &(struct type){ .kind = TYPE_PTR, .size = 8, .ref = id });
}

type_id type_array_of(struct types *t, type_id id, uint64_t n)
{
	const struct type *e = type_get(t, id);
	uint64_t size = 0;

	if (__builtin_mul_overflow(e->size, n, &size) || size > MOST_ARRAY)
		return type_new(t, &(struct type){ .kind = TYPE_UNKNOWN });
	return type_new(t, &(struct type){ .kind = TYPE_ARRAY, .size = size, .ref = id, .n = n });
}

static enum find_what wanted_of(const struct type *type)
{
	if (type->flags & TYPE_FWD_ENUM)
		return FIND_ENUM;
	return type->flags & TYPE_FWD_UNION ? FIND_UNION : FIND_STRUCT;
}

/* The definition of a declaration in any unit; the declaration itself if there is none. */
static type_id resolve(struct types *t, type_id id)
{
	const struct type *type = type_get(t, id);
	enum find_what what = wanted_of(type);
	die_list list = { 0 };
	type_id found = id;
	size_t i;

	if (!type->name)
		return id;
	for (i = 0; i < t->resolved.n; i++)
		if (t->resolved.v[i].kind == what && strcmp(t->resolved.v[i].name, type->name) == 0)
			return t->resolved.v[i].id ? t->resolved.v[i].id : id;
	if (dw_find(t, NULL, type->name, what, 1, &list) == 0 && !die_flag(&list.v[0], DW_AT_declaration))
		found = type_of_die(t, &list.v[0]);
	vec_free(&list);
	vec_add(&t->resolved);
	t->resolved.v[t->resolved.n - 1].name = type->name;
	t->resolved.v[t->resolved.n - 1].kind = what;
	t->resolved.v[t->resolved.n - 1].id = found == id ? 0 : found;
	return found;
}

type_id type_strip(struct types *t, type_id id)
{
	int i;

	for (i = 0; i < MOST_DEPTH; i++) {
		const struct type *type = type_get(t, id);

		switch (type->kind) {
		case TYPE_TYPEDEF: case TYPE_CONST: case TYPE_VOLATILE: case TYPE_RESTRICT: case TYPE_ATOMIC:
			id = type->ref;
			break;
		case TYPE_FWD:
			return resolve(t, id);
		default:
			return id;
		}
	}
	return id;
}

int module_types(struct module *m, struct types **ret_types)
{
	struct sym_priv *p = priv(m);
	struct types *t;
	int r;

	if (!p->types) {
		t = xcalloc(1, sizeof(*t));
		t->m = m;
		type_new(t, &(struct type){ .kind = TYPE_VOID });
		r = dw_open(t);
		if (r < 0) {
			/* There is debug info, and callers may continue without it: hence the warning. */
			if ((r == -EFBIG || r == -ESTALE) && !p->types_refused)
				log_warn("%s", err_text());
			p->types_refused = true;
			types_close(t);
			return r;
		}
		p->types = t;
	}
	*ret_types = p->types;
	return 0;
}

void types_close(struct types *t)
{
	size_t i;

	if (!t)
		return;
	for (i = 0; i < t->units.n; i++) {
		vec_free(&t->units.v[i].scopes);
		vec_free(&t->units.v[i].entries);
		vec_free(&t->units.v[i].codes);
		vec_free(&t->units.v[i].nested);
		vec_free(&t->units.v[i].imports);
	}
	dw_close(t);
	for (i = 0; i < t->chunks.n; i++)
		free(t->chunks.v[i]);
	vec_free(&t->chunks);
	vec_free(&t->units);
	vec_free(&t->ranges);
	vec_free(&t->slots);
	vec_free(&t->func_list);
	vec_free(&t->resolved);
	vec_free(&t->asked);
	free(t->by_die.v);
	free(t->by_cu.v);
	free(t->funcs.v);
	free(t);
}
