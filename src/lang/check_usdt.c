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

const struct vtype *check_usdt_member(struct checker *c, struct expr *e)
{
	uint32_t number = 0;

	e->meaning = builtin_find(e->name, &number);
	if (e->meaning != B_ARG) {
		check_error(c, e, "%s has no argument '%s'; they are arg0, arg1, ...", c->site->usdt->shown, e->name);
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
