/* SPDX-License-Identifier: MIT */
/*
 * Return values that are more than a number in a register. An event of plain fields can't hold them, and what a
 * register has in their place is none of them. So before a probe that asks for the return value is resolved, the
 * functions that it means are looked at, and where one of them returns such a value the probe becomes a program,
 * which shows its members or says why there is nothing to show.
 *
 * So does a probe on entries without fields if a function that it means has a parameter that is text: it is shown as text,
 * as call probes do.
 */
#include "session/events/events.h"
#include "session/events/shapes.h"
#include "session/events/typed.h"
#include "session/scripts/units.h"

static bool has_text(struct module *m, const func_list *list)
{
	for (size_t i = 0; list->n <= MOST_NAMED && i < list->n; i++)
		if (typed_has_text(m, m->funcs.v[list->v[i]].addr))
			return true;
	return false;
}

/* Many functions at once have no fields of their own each, so their types are known to programs only. */
static bool is_more_of(struct module *m, const func_list *list, const struct field *f)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->n > MOST_NAMED ? typed_has_function(m, m->funcs.v[list->v[i]].addr) :
					   typed_result_is_more(m, m->funcs.v[list->v[i]].addr, f))
			return true;
	return false;
}

/* f: the field of the return value; NULL: the parameters are meant. */
static bool is_more_in(struct jab *j, const struct session_probe *p, struct target *t, struct loaded *l, const struct field *f)
{
	const struct probe_spec *spec = p->spec;
	func_list list = { 0 };
	struct module *m;
	struct types *types;
	bool more;

	if (!(spec->object ? target_has_object(t, l, spec) : l->is_exe) || target_open_file(j, t, l) < 0)
		return false;
	m = j->files.v[l->file].m;
	more = spec_match(spec, m, &list) > 0 && module_types(m, &types) == 0 && (f ? is_more_of(m, &list, f) : has_text(m, &list));
	vec_free(&list);
	return more;
}

bool probe_needs_program(struct jab *j, uint32_t probe)
{
	const struct session_probe *p = &j->probes.v[probe];
	const struct field *f = NULL;

	for (size_t i = 0; i < p->fields.n; i++)
		if (p->fields.v[i].is_result)
			f = &p->fields.v[i];
	if (!j->events || p->unit || p->spec->has_offset || p->spec->place_kind >= PLACE_ADDR)
		return false;
	if (f ? p->spec->kind != SPEC_RETURN : p->spec->kind != SPEC_ENTRY || p->fields.n || arch_lacks(j->arch, ARCH_LANGUAGE) != NULL)
		return false;
	for (uint32_t t = 0; t < j->targets.n; t++)
		for (uint32_t i = 0; !j->targets.v[t].lost && i < j->targets.v[t].loaded.n; i++)
			if (is_more_in(j, p, &j->targets.v[t], &j->targets.v[t].loaded.v[i], f))
				return true;
	return false;
}
