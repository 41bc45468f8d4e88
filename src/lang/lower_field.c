/* SPDX-License-Identifier: MIT */
/*
 * Fields of events. A trace knows numbers and strings, so what is text in any way becomes a string, a
 * struct becomes its members and an array its elements, each with its own name.
 */
#include "lang/lower.h"

#include <string.h>

#define MOST_FIELDS 32		/* of an event, where some were made of one */
#define MOST_DEPTH 4
#define MOST_ELEMENTS 16

static void put_part(struct lower *w, struct ir_record *r, arg_list *list, const char *name, const struct val *v, int depth);

static bool is_full(const arg_list *list, int depth)
{
	return list->n >= MOST_FIELDS || depth >= MOST_DEPTH;
}

static void put_member(struct lower *w, struct ir_record *r, arg_list *list, const char *name, const struct val *obj,
		       const struct vmember *m, int depth)
{
	struct val v;

	if (is_full(list, depth) || m->type->kind == V_ERROR || m->type->kind == V_VOID)
		return;
	v = lower_member_of(w, obj, m);
	/* what has no name is found through what it is in */
	put_part(w, r, list, m->name && *m->name ? pool_printf(w->pool, "%s.%s", name, m->name) : name, &v, depth);
}

static void put_members(struct lower *w, struct ir_record *r, arg_list *list, const char *name, const struct val *obj, int depth)
{
	const struct type *t = obj->type->decl ? NULL : type_get(obj->type->types, obj->type->id);
	uint64_t i;

	for (i = 0; obj->type->decl && i < obj->type->nmembers; i++)
		put_member(w, r, list, name, obj, &obj->type->members[i], depth);
	if (!t || (t->kind != TYPE_STRUCT && t->kind != TYPE_UNION))
		return;
	for (i = 0; i < t->n; i++) {
		const struct type_member *from = &t->members[i];
		struct vmember m = { .name = from->flags & MEMBER_BASE ? NULL : from->name, .bit_off = from->bit_off,
				     .bit_size = from->bit_size };

		if (from->flags & (MEMBER_VIRTUAL | MEMBER_ARTIFICIAL | MEMBER_VARIANT))
			continue;
		m.type = v_from(w->pool, obj->type->types, from->type);
		put_member(w, r, list, name, obj, &m, depth);
	}
}

static void put_elements(struct lower *w, struct ir_record *r, arg_list *list, const char *name, const struct val *array, int depth)
{
	uint64_t n = MIN(array->type->n, (uint64_t)MOST_ELEMENTS), i;

	for (i = 0; i < n; i++) {
		struct vmember m = { .name = NULL, .type = array->type->to, .bit_off = i * array->type->to->size * 8 };

		put_member(w, r, list, pool_printf(w->pool, "%s[%d]", name, (int)i), array, &m, depth);
	}
}

static void put_part(struct lower *w, struct ir_record *r, arg_list *list, const char *name, const struct val *v, int depth)
{
	bool is_text = v->type->kind != V_STR && v_has_text(v->type);
	struct val text;

	if (is_text && (v->type->kind != V_ARRAY || v->kind == K_MEM)) {
		text = val_text(w, v, w->at);
		lower_field(w, r, list, name, &text);
	} else if (v->type->kind == V_STRUCT && v->kind != K_SLOT) {
		put_members(w, r, list, name, v, depth + 1);
	} else if (v->type->kind == V_ARRAY && !v->type->held && v->kind != K_SLOT) {
		put_elements(w, r, list, name, v, depth + 1);
	} else {
		lower_field(w, r, list, name, v);
	}
}

void lower_fields(struct lower *w, struct ir_record *r, arg_list *list, const char *name, const struct val *v)
{
	struct val o = v->kind == K_SLOT && v_is_object(v->type) && v->type->kind != V_SHOWN ? val_object(w, v) : *v;

	size_t had = list->n;

	put_part(w, r, list, name, &o, 0);
	if (list->n >= MOST_FIELDS && list->n > had + 1)
		diag_warn(w->l->diags, w->at->at, w->at->len, "only %d fields are recorded; members behind them are left out",
			  MOST_FIELDS);
	if (list->n == had && !w->failed)
		lower_error(w, w->at, "nothing of this %s can be recorded", v_name(w->pool, v->type));
}
