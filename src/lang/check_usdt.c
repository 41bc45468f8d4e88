/* SPDX-License-Identifier: MIT */
/* The arguments of static tracepoints: arg0, arg1 and so on, with the types that their note gives them. */
#include "lang/check.h"

#include <string.h>
#include "lang/builtin.h"

bool check_has_usdt(const struct checker *c)
{
	return c->site && c->site->usdt;
}

const struct vtype *check_usdt_arg(struct checker *c, struct expr *e, uint32_t number)
{
	const struct usdt *u = c->site->usdt;
	const struct usdt_arg *a;

	if (e->meaning == B_SARG) {
		check_error(c, e, "a static tracepoint has no arguments on the stack; arg0 is its first one");
		return &v_error;
	}
	if (number >= u->nargs) {
		check_error(c, e, u->nargs == 1 ? "%s has 1 argument" : u->nargs ? "%s has %u arguments" : "%s has no arguments",
			    u->shown, u->nargs);
		return &v_error;
	}
	a = &u->arg[number];
	if (a->why) {
		check_error(c, e, "arg%u of %s ('%s') can't be read: %s", number, u->shown, a->text, a->why);
		return &v_error;
	}
	e->ref = (void *)a;
	return v_of_usdt(a);
}

static const struct usdt_field *find_field(const struct usdt *u, const char *name)
{
	for (uint32_t i = 0; u && u->field && i < u->nfields; i++)
		if (*name && !strcmp(u->field[i].name, name))
			return &u->field[i];
	return NULL;
}

bool check_has_field(const struct checker *c, const char *name)
{
	return check_has_usdt(c) && find_field(c->site->usdt, name);
}

const struct vtype *check_usdt_field(struct checker *c, struct expr *e)
{
	const struct usdt *u = c->site->usdt;
	const struct usdt_field *f = find_field(u, e->name);
	const struct usdt_arg *a = &u->arg[f - u->field];

	if (a->why) {
		check_error(c, e, "'%s' of %s ('%s') can't be read: %s", e->name, u->shown, a->text, a->why);
		return &v_error;
	}
	e->meaning = B_FIELD;
	e->ref = (void *)f;
	return v_of_whole_field(c->l, f, c->c_rules);
}

static const struct type_value *find_value(const struct usdt_field *fields, uint32_t n, const char *name, int depth)
{
	const struct type_value *v = NULL;

	for (uint32_t i = 0; i < n && !v; i++) {
		const struct usdt_type *of = fields[i].of;

		if (!of || of->is_doubtful)
			continue;
		for (uint32_t k = 0; of->kind == USDT_ENUM && k < of->n && !v; k++)
			v = strcmp(of->values[k].name, name) ? NULL : &of->values[k];
		if (of->kind == USDT_STRUCT && depth < 2)
			v = find_value(of->members, of->n, name, depth + 1);
	}
	return v;
}

/* A value of an enum that one of the fields has. */
bool check_usdt_enumerator(const struct checker *c, struct expr *e)
{
	const struct usdt *u = check_has_usdt(c) ? c->site->usdt : NULL;
	const struct type_value *v = u && u->field ? find_value(u->field, u->nfields, e->name, 0) : NULL;

	if (!v)
		return false;
	e->meaning = B_CONSTANT;
	e->value = v->value;
	return true;
}

/* "id, price, buyer" */
static const char *field_names(struct checker *c)
{
	const struct usdt *u = c->site->usdt;
	const char *text = NULL;

	for (uint32_t i = 0; i < u->nfields; i++)
		if (*u->field[i].name)
			text = text ? pool_printf(c->l->pool, "%s, %s", text, u->field[i].name) : u->field[i].name;
	return text ? text : "arg0, arg1, ...";
}

const struct vtype *check_usdt_member(struct checker *c, struct expr *e)
{
	uint32_t number = 0;

	if (check_has_field(c, e->name))
		return check_usdt_field(c, e);
	e->meaning = builtin_find(e->name, &number);
	if (e->meaning != B_ARG) {
		check_error(c, e, "%s has no argument '%s'; they are %s", c->site->usdt->shown, e->name, field_names(c));
		return &v_error;
	}
	e->value = number;
	return check_usdt_arg(c, e, number);
}

const struct vtype *v_of_usdt(const struct usdt_arg *a)
{
	static const struct vtype *const ints[2][4] = { { &v_u8, &v_u16, &v_u32, &v_u64 }, { &v_i8, &v_i16, &v_i32, &v_i64 } };

	if (a->is_float)
		return a->size == 4 ? &v_f32 : &v_f64;
	return ints[a->is_signed][a->size == 1 ? 0 : a->size == 2 ? 1 : a->size == 4 ? 2 : 3];
}

/* ---- the types of fields ---- */

static const struct vtype *number_type(const struct usdt_field *f)
{
	struct usdt_arg a = { .size = f->size, .is_signed = f->is_signed, .is_float = f->kind == USDT_FLOAT };

	return f->kind == USDT_BOOL ? &v_bool : f->kind == USDT_CHARS ? &v_char : v_of_usdt(&a);
}

static const struct vtype *enum_type(struct lang *l, const struct usdt_field *f)
{
	struct enum_decl *d = pool_new(l->pool, struct enum_decl);
	struct vtype *t = pool_new(l->pool, struct vtype);

	*d = (struct enum_decl){ .name = f->of->name, .items = (struct type_value *)f->of->values, .nitems = f->of->n };
	*t = *number_type(f);
	t->show = IR_ENUM;
	t->enums = d;
	return t;
}

/* Each is made once, so that what is the same is the same object. */
static const struct vtype *struct_type(struct lang *l, const struct usdt_type *of)
{
	struct struct_decl *d;
	struct vmember *members;
	struct vtype *t;

	for (size_t i = 0; i < l->noted.n; i++)
		if (l->noted.v[i].of == of)
			return l->noted.v[i].type;
	d = pool_new(l->pool, struct struct_decl);
	t = pool_new(l->pool, struct vtype);
	members = pool_alloc(l->pool, (of->n + 1) * sizeof(*members));
	*d = (struct struct_decl){ .tag = "struct", .name = of->name };
	for (uint32_t i = 0; i < of->n; i++) {
		const struct usdt_field *f = &of->members[i];
		bool odd = f->kind == USDT_STRUCT && f->of->is_doubtful;

		members[i] = (struct vmember){ .name = f->name, .bit_off = 8 * f->offset,
					       .type = odd ? v_array(l->pool, &v_u8, f->of->bytes) : v_of_field(l, f) };
	}
	*t = (struct vtype){ .kind = V_STRUCT, .show = IR_STRUCT, .size = of->bytes, .decl = d, .members = members, .nmembers = of->n };
	*vec_add(&l->noted) = (struct noted_struct){ of, t };
	return t;
}

static const struct vtype *text_pointer(struct lang *l)
{
	struct vtype *t = pool_new(l->pool, struct vtype);

	*t = v_char_ptr;
	t->is_text = true;
	return t;
}

const struct vtype *v_of_field(struct lang *l, const struct usdt_field *f)
{
	bool known = f->of && !f->of->is_doubtful;

	switch ((enum usdt_kind)f->kind) {
	case USDT_POINTER:
		return &v_void_ptr;
	case USDT_STRING:
		return text_pointer(l);
	case USDT_ENUM:
		return known ? enum_type(l, f) : number_type(f);
	case USDT_STRUCT:
		return known ? struct_type(l, f->of) : &v_void_ptr;
	default:
		return f->shape == USDT_FIXED ? v_array(l->pool, number_type(f), f->length) : number_type(f);
	}
}

/* Of a whole field: text is text, and a counted array knows its count, or is a pointer to its elements. */
const struct vtype *v_of_whole_field(struct lang *l, const struct usdt_field *f, bool with_count)
{
	struct vtype *t;

	if (f->kind == USDT_STRING || (f->kind == USDT_CHARS && f->shape == USDT_COUNTED))
		return v_text(l->pool, l->config.max_strlen);
	if (f->shape != USDT_COUNTED)
		return v_of_field(l, f);
	if (!with_count)
		return v_pointer(l->pool, number_type(f));
	t = pool_new(l->pool, struct vtype);
	*t = *v_array(l->pool, number_type(f), USDT_COUNTED_SHOWN);
	t->counted = true;
	return t;
}
