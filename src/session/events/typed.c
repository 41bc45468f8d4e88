/* SPDX-License-Identifier: MIT */
/*
 * Fields by the names that the program's own source gave them. What a name means differs from
 * function to function, so these are looked up for each row: parameters where the calling convention
 * puts them, at entries; locals and parameters where the debug info says, elsewhere; the return value
 * with its type.
 */
#include "session/events/typed.h"

#include <string.h>
#include "arch/regs.h"
#include "base/err.h"
#include "sym/types/types.h"

/* Numbers and pointers only; false for anything else. */
static bool number_type(struct types *t, type_id id, struct ctf_field *ret_field)
{
	const struct type *type = type_get(t, type_strip(t, id)), *beneath;
	bool is_int = type->kind == TYPE_INT || type->kind == TYPE_ENUM;

	if (type->kind == TYPE_PTR || type->kind == TYPE_REF) {
		*ret_field = (struct ctf_field){ .kind = CTF_POINTER, .bits = 64, .base = 16 };
		return true;
	}
	if (type->kind == TYPE_FLOAT && (type->size == 4 || type->size == 8) && !(type->flags & TYPE_COMPLEX)) {
		*ret_field = (struct ctf_field){ .kind = CTF_FLOAT, .bits = type->size * 8 };
		return true;
	}
	if (!is_int || (type->size != 1 && type->size != 2 && type->size != 4 && type->size != 8))
		return false;
	beneath = type->kind == TYPE_ENUM && type->ref ? type_get(t, type_strip(t, type->ref)) : type;
	*ret_field = (struct ctf_field){ .kind = beneath->flags & TYPE_SIGNED || beneath->kind == TYPE_ENUM ? CTF_SIGNED :
					 CTF_UNSIGNED, .bits = type->size * 8, .base = 10 };
	if (type->kind == TYPE_ENUM && type->n <= CTF_MAX_VALUES) {
		ret_field->values = type->values;
		ret_field->nvalues = type->n;
	}
	return true;
}

/* Where it is, in the terms that pads know. */
static bool take_place(const struct module *m, const struct loc *l, struct field *f)
{
	const struct loc_piece *p = &l->pieces[0];

	if (!loc_is_whole(l))
		return false;
	switch (p->kind) {
	case LOC_REG:
		f->from = FROM_REG;
		f->reg = p->reg;
		return true;
	case LOC_VECTOR:
		f->from = FROM_VECTOR;
		f->reg = p->reg;
		return true;
	case LOC_MEM:
		if (p->reg != m->arch->regs->sp || p->off < EVENT_STACK_MIN || p->off > EVENT_STACK_MAX)
			return false;
		f->from = FROM_STACK;
		f->value = p->off;
		return true;
	default:
		return false;
	}
}

/* A type that was written behind the name counts; otherwise the program's own. */
static int take_var(const struct module *m, struct types *t, const struct var *v, struct field *f, const char *where)
{
	struct ctf_field type;

	if (!take_place(m, &v->loc, f))
		return fail(-ENOTSUP, "%s: '%s' can't be recorded there: %s", where, f->name,
			    v->loc.why ? v->loc.why : "it is neither in a register nor near on the stack");
	if (f->has_type)
		return 0;
	if (!number_type(t, v->type, &type)) {
		char *name = type_name(t, v->type);
		int r = fail(-ENOTSUP, "%s: '%s' is of type %s: only numbers and pointers can be recorded by name",
			     where, f->name, name);

		free(name);
		return r;
	}
	f->type = type;
	return 0;
}

int typed_lookup(struct module *m, uint64_t pc, struct field *f, const char *where)
{
	struct types *t;
	struct var v;
	int r = module_types(m, &t);

	if (r < 0)
		return fail_in(r, "%s: '%s' is no argN and no register, and there are no names", where, f->symbol);
	r = types_var(t, pc, f->symbol, &v);
	if (r < 0)
		return fail_in(r, "%s", where);
	return take_var(m, t, &v, f, where);
}

static struct field *add(field_list *list, const char *name)
{
	struct field *f = vec_add(list);

	f->name = xstrdup(name);
	return f;
}

static void drop_last(field_list *list)
{
	free(list->v[--list->n].name);
}

/* Nothing, or nobody says what: as of functions that were written in assembly. */
static bool has_no_type(struct types *t, const struct func_types *f)
{
	return type_get(t, type_strip(t, f->ret))->kind == TYPE_VOID;
}

int typed_result(struct module *m, uint64_t entry, struct field *f, const char *where)
{
	const struct func_types *func;
	struct field typed = *f;
	struct types *t;
	int r;

	if (module_types(m, &t) < 0 || types_func(t, entry, &func) < 0)
		return 0;
	f->is_void = func->is_void;
	if (has_no_type(t, func))
		return 0;
	r = take_var(m, t, &func->retval, &typed, where);
	if (r)
		return r;
	*f = typed;
	return !!(func->retval.flags & VAR_UNSURE);
}

/* A type that was written is read out of a register; only a program can convert. */
static bool is_converted(const struct ctf_field *has, const struct field *f)
{
	if (f->type.kind == CTF_FLOAT && !f->deref)
		return has->kind != CTF_FLOAT || has->bits != f->type.bits;
	return has->kind == CTF_FLOAT || (f->deref ? 64u : f->type.bits) > has->bits;
}

bool typed_result_is_more(struct module *m, uint64_t entry, const struct field *f)
{
	const struct func_types *func;
	struct field plain = { .name = f->name };
	struct types *t;

	if (module_types(m, &t) < 0 || types_func(t, entry, &func) < 0)
		return false;
	if (has_no_type(t, func))
		return func->is_void && f->has_type;
	return type_get(t, type_strip(t, func->ret))->kind == TYPE_REF || take_var(m, t, &func->retval, &plain, "") < 0 ||
	       (f->has_type && is_converted(&plain.type, f));
}

static bool is_text(struct types *t, type_id id)
{
	const struct type *type = type_get(t, type_strip(t, id)), *to;
	struct type_string text;

	if (type->kind == TYPE_REF)
		return type_is_string(t, type_strip(t, type->ref), &text);
	if (type->kind != TYPE_PTR)
		return type_is_string(t, type_strip(t, id), &text);
	to = type_get(t, type_strip(t, type->ref));
	return type_get(t, type->ref)->kind == TYPE_CONST && to->kind == TYPE_INT && to->size == 1 && to->flags & TYPE_CHAR;
}

bool typed_has_text(struct module *m, uint64_t entry)
{
	const struct func_types *f;
	struct types *t;

	if (module_types(m, &t) < 0 || types_func(t, entry, &f) < 0)
		return false;
	for (uint32_t i = 0; i < f->nparams; i++)
		if (f->params[i].name && is_text(t, f->params[i].type))
			return true;
	return false;
}

bool typed_has_function(struct module *m, uint64_t entry)
{
	const struct func_types *func;
	struct types *t;

	return module_types(m, &t) == 0 && types_func(t, entry, &func) == 0;
}

/* What can't be recorded is left out: nobody has asked for it by name. */
bool typed_parameters(struct module *m, uint64_t entry, bool is_exit, field_list *list)
{
	const struct func_types *f;
	bool unsure = false;
	struct types *t;

	if (module_types(m, &t) < 0 || types_func(t, entry, &f) < 0)
		return true;
	if (is_exit) {
		if (!has_no_type(t, f)) {
			struct field *result = add(list, "retval");

			result->is_result = true;
			if (take_var(m, t, &f->retval, result, "") < 0)
				drop_last(list);
			else
				unsure = f->retval.flags & VAR_UNSURE;
		}
		return !unsure;
	}
	for (uint32_t i = 0; i < f->nparams && list->n < 16; i++) {
		if (!f->params[i].name)
			continue;
		if (take_var(m, t, &f->params[i], add(list, f->params[i].name), "") < 0) {
			drop_last(list);
			log_info("parameter %s is no plain number or pointer, and is left out unless it is named", f->params[i].name);
			continue;
		}
		unsure |= f->params[i].flags & VAR_UNSURE;
	}
	return !unsure;
}
