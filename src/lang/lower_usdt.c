/* SPDX-License-Identifier: MIT */
/* The arguments of static tracepoints are read like variables of the program, where their note says. */
#include "lang/lower.h"

struct val lower_usdt_arg(struct lower *w, const struct expr *e)
{
	const struct usdt_arg *a = e->ref;

	return lower_located(w, &a->loc, v_of_usdt(a), e);
}

/* All of them; those that can't be read are left out with a warning. */
void lower_usdt_params(struct lower *w, arg_list *list, struct ir_record *r)
{
	const struct usdt *u = w->c->site->usdt;

	for (uint32_t i = 0; i < u->nargs; i++) {
		const struct usdt_arg *a = &u->arg[i];
		struct expr e = { .kind = E_NAME, .ref = (void *)a, .name = pool_printf(w->pool, "arg%u", i), .type = v_of_usdt(a),
				  .at = w->at->at, .len = w->at->len };
		struct val v;

		if (a->why) {
			diag_warn(w->l->diags, e.at, e.len, "arg%u of %s ('%s') is left out: %s", i, u->shown, a->text, a->why);
			continue;
		}
		v = lower_usdt_arg(w, &e);
		lower_field(w, r, list, e.name, &v);
	}
}
