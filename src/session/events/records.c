/* SPDX-License-Identifier: MIT */
/* Records of the language as event classes of a trace. */
#include <stdio.h>

#include "lang/type.h"
#include "session/events/shapes.h"

/* Of the program's enums: as it names their values. */
static void enum_field(const struct vtype *t, struct ctf_field *ret_field)
{
	const struct type *y = t->kind == V_INT && t->types ? type_get(t->types, type_strip(t->types, t->id)) : NULL;

	ret_field->kind = t->is_signed ? CTF_SIGNED : CTF_UNSIGNED;
	if (t->enums ? t->enums->nitems > CTF_MAX_VALUES : !y || y->kind != TYPE_ENUM || y->n > CTF_MAX_VALUES)
		return;
	ret_field->values = t->enums ? t->enums->items : y->values;
	ret_field->nvalues = t->enums ? t->enums->nitems : y->n;
}

/* Numbers, or bytes. */
static void array_field(const struct vtype *t, struct ctf_field *ret_field)
{
	const struct vtype *to = t->to;
	struct ctf_field f = { .name = ret_field->name, .kind = CTF_BYTES, .size = t->size };

	if (t->kind == V_ARRAY)
		f = (struct ctf_field){ .name = ret_field->name, .count = t->n, .bits = 8 * to->size, .base = to->kind == V_PTR || to->base == IR_SHOW_RAW ? 16 : to->base ? 8 : 10,
					.kind = to->kind == V_FLOAT ? CTF_FLOAT : to->kind == V_PTR ? CTF_POINTER : to->is_signed ? CTF_SIGNED : CTF_UNSIGNED };
	if (f.kind == CTF_FLOAT)
		f.base = 0;
	*ret_field = f;
}

static void record_field(const struct ir_unit *u, const struct ir_field *f, uint32_t number, char (*text)[16], struct ctf_field *ret_field)
{
	snprintf(*text, sizeof(*text), "f%u", number);
	*ret_field = (struct ctf_field){ .name = f->name ? f->name : *text, .kind = CTF_UNSIGNED, .bits = v_field_bits(u, f), .base = 10 };
	if (f->words)
		*ret_field = (struct ctf_field){ .name = ret_field->name, .kind = CTF_BYTES, .size = 8u * f->words, .is_text = true };
	else if (f->type == IR_ARRAY)
		array_field(u->shown.v[f->show], ret_field);
	else if (f->type == IR_ADDRS)
		*ret_field = (struct ctf_field){ .name = ret_field->name, .kind = CTF_ADDRS };
	else if (ir_in_slot(f->type))
		*ret_field = (struct ctf_field){ .name = ret_field->name, .kind = CTF_STRING };
	else if (f->type == IR_ENUM)
		enum_field(u->shown.v[f->show], ret_field);
	else if (f->type <= IR_I64)
		ret_field->kind = CTF_SIGNED;
	else if (f->type >= IR_U8 && f->type <= IR_U64 && f->show)
		ret_field->base = f->show == IR_SHOW_RAW ? 16 : 8;
	else if (ir_is_float(f->type))
		*ret_field = (struct ctf_field){ .name = ret_field->name, .kind = CTF_FLOAT, .bits = v_field_bits(u, f) };
	else if (f->type == IR_USTACK)
		*ret_field = (struct ctf_field){ .name = ret_field->name, .kind = CTF_ADDRS };
	else if (f->type == IR_PTR || f->type == IR_USYM)
		*ret_field = (struct ctf_field){ .name = ret_field->name, .kind = CTF_POINTER, .bits = 64, .base = 16 };
}

int record_declare(struct jab *j, uint32_t id, const char *name, const struct ir_unit *u, const struct ir_record *rec)
{
	struct ctf_field fields[EVENT_FIELDS_MAX + 1];
	char texts[EVENT_FIELDS_MAX][16];
	size_t n = 0;

	if (rec->faulty)
		fields[n++] = (struct ctf_field){ .name = CTF_FAULTS, .kind = CTF_UNSIGNED, .bits = 64, .base = 16 };
	for (uint32_t i = 0; i < MIN(rec->nfields, EVENT_FIELDS_MAX); i++)
		if (rec->fields[i].words != IR_WORD_MORE)
			record_field(u, &rec->fields[i], i, &texts[i], &fields[n++]);
	return ctf_class(j->events->trace, id, name, fields, n);
}
