/* SPDX-License-Identifier: MIT */
/* A probe that matches nothing: the sentence that says why, and what was meant. */
#include "session/session.h"

#include <string.h>
#include <sys/mman.h>
#include "arch/regs.h"
#include "base/err.h"
#include "sym/types.h"

/* No module has such a line: the sentence of the one that has the file is the best. */
static int explain_line(struct jab *j, const struct probe_spec *spec)
{
	const char *first = NULL;
	size_t n = 0;

	for (size_t i = 0; i < j->files.n; i++) {
		line_list list = { 0 };
		struct types *types;
		int r;

		if (module_types(j->files.v[i].m, &types) < 0)
			continue;
		r = lines_find(types, spec->place, spec->addr, &list);
		vec_free(&list);
		if (r == -ENODATA)
			return fail_in(-ENOENT, "%s", spec->text);
		if (!n++)
			first = j->files.v[i].path;
	}
	if (!n)
		return fail(-ENOENT, "%s: no debug info is there to find source lines with (install it, or build with -g)",
			    spec->text);
	return fail(-ENOENT, "%s: no source file %s in the debug info of %s%s", spec->text, spec->place, first,
		    n > 1 ? " and what it has loaded" : "");
}

/* An address that is in no module: say what it is, so that the user sees the mistake. */
static int explain_address(struct jab *j, const struct probe_spec *spec)
{
	for (size_t i = 0; i < j->targets.n; i++) {
		const struct proc *p = j->targets.v[i].proc;
		const struct map *m = p ? proc_map_at(p, spec->addr) : NULL;

		if (m && !(m->prot & PROT_EXEC))
			return fail(-EINVAL, "%s: address %#lx is mapped (%s) but not executable",
				    spec->text, (long)spec->addr, m->path[0] ? m->path : "anonymous");
		if (m)
			return fail(-EINVAL, "%s: address %#lx is in code that belongs to no file (%s), "
				    "which can't be probed yet", spec->text, (long)spec->addr,
				    m->path[0] ? m->path : "anonymous");
	}
	return fail(-EINVAL, "%s: address %#lx is not mapped", spec->text, (long)spec->addr);
}

static bool has_process(const struct jab *j)
{
	return j->targets.n && j->targets.v[0].proc;
}

/* A stripped file keeps the names of what it exports; the one that is asked for may be among the others. */
static char *nameless(const struct jab *j, const struct probe_spec *spec)
{
	const char *path = NULL;
	size_t n = 0;

	for (size_t i = 0; i < j->targets.n; i++) {
		const struct target *t = &j->targets.v[i];

		for (size_t k = 0; !n && k < t->loaded.n; k++) {
			const struct loaded *l = &t->loaded.v[k];
			const struct module *m = l->file == UINT32_MAX ? NULL : j->files.v[l->file].m;

			if (!m || !(spec->object ? spec_matches_object(spec, l->path, l->is_exe) : l->is_exe))
				continue;
			path = l->path;
			for (size_t f = 0; f < m->funcs.n; f++)
				n += !m->funcs.v[f].name && !(m->funcs.v[f].flags & FUNC_COLD);
		}
	}
	return n ? xasprintf(" (%s is stripped: %zu of its functions have no name; its debug info, if installed, would bring "
			     "them)", path, n) : xstrdup("");
}

/* Functions move: those of libpthread are in libc now. The name of a loaded file that has it, or NULL. */
static const char *other_home(struct jab *j, const struct probe_spec *spec)
{
	const char *home = NULL;

	if (spec->place_kind != PLACE_NAME)
		return NULL;
	for (size_t i = 0; i < j->targets.n; i++) {
		struct target *t = &j->targets.v[i];

		for (size_t k = 0; !home && !t->lost && k < t->loaded.n; k++) {
			struct loaded *l = &t->loaded.v[k];
			func_list list = { 0 };

			if (target_open_file(j, t, l) == 0 && spec_match(spec, j->files.v[l->file].m, &list) > 0)
				home = strrchr(l->path, '/') ? strrchr(l->path, '/') + 1 : l->path;
			vec_free(&list);
		}
	}
	return home;
}

/*
 * Fields outside of the quotes: a shell makes words of their own of them. `probe`: the number of the probe before,
 * UINT32_MAX: none.
 */
static int say_field(struct jab *j, const struct probe_spec *spec, uint32_t probe)
{
	const char *what = !strcmp(spec->place, "if") ? "condition" : "field";

	if (!j->events)
		return fail(-EINVAL, "'%s' is a %s, not a probe; fields and conditions are for `jab trace` and `jab record`", spec->text,
			    what);
	return fail(-EINVAL, "'%s' is a %s, not a probe: put probe, fields and condition in one quoted argument: '%s %s'", spec->text,
		    what, probe == UINT32_MAX ? "PROBE" : j->probes.v[probe].spec->text, spec->text);
}

int explain_field(struct jab *j, const struct probe_spec *spec)
{
	const char *word = spec->object ? spec->object : spec->place;

	bool meant = fields_is_term(word) || (!spec->object && !strcmp(word, "if"));

	/* libc has a function of that name, which is hardly meant where a field would be. */
	meant |= !spec->object && j->probes.n && !strcmp(word, "backtrace");
	if (!meant || spec->kind != SPEC_ENTRY || spec->place_kind == PLACE_ADDR || spec->place_kind == PLACE_LINE)
		return 0;
	return say_field(j, spec, j->probes.n ? j->probes.n - 1 : UINT32_MAX);
}

/* Has a function of that probe a variable of that name? */
static bool is_variable(struct jab *j, uint32_t probe, const char *name)
{
	for (size_t i = 0; i < j->sites.n; i++) {
		const struct site *s = &j->sites.v[i];
		struct types *types;
		struct var v;

		if (s->probe == probe)
			return module_types(j->files.v[j->targets.v[s->target].loaded.v[s->loaded].file].m, &types) == 0 &&
			       types_var(types, s->addr, name, &v) == 0;
	}
	return false;
}

/* A name that nothing has, and that means something as a field of the probe before it. */
static int explain_late_field(struct jab *j, const struct probe_spec *spec, bool any_object)
{
	uint32_t probe = 0;

	while (probe < j->probes.n && j->probes.v[probe].spec != spec)
		probe++;
	if (!probe || probe == j->probes.n || spec->kind != SPEC_ENTRY || (spec->object && any_object) || spec->place_kind > PLACE_GLOB)
		return 0;
	probe--;
	if (spec->object ? !fields_is_type(spec->place) :
	    reg_number(spec->place) < 0 && !is_variable(j, probe, spec->place))
		return 0;
	return say_field(j, spec, probe);
}

static int explain_no_object(struct jab *j, const struct probe_spec *spec)
{
	const char *home = other_home(j, spec);

	if (home)
		return fail(-ENOENT, "%s: no mapped file matches '%s'; %s has a function %s", spec->text, spec->object, home, spec->place);
	return fail(-ENOENT, "%s: no mapped file matches '%s'; `jab list` shows what there is", spec->text, spec->object);
}

int explain_probe(struct jab *j, const struct probe_spec *spec, bool any_object)
{
	struct module **mods;
	char near[256] = "", *why;
	size_t n = 0;
	int r = explain_late_field(j, spec, any_object);

	if (r < 0)
		return r;
	if (spec->place_kind == PLACE_ADDR && (any_object || !spec->object))
		return explain_address(j, spec);
	if (spec->place_kind == PLACE_LINE && any_object)
		return explain_line(j, spec);
	if (!any_object && has_process(j) && (!spec->object || !strcmp(spec->object, "exe")))
		return fail(-ENOENT, "%s: the program's code is not mapped from its file (it may have moved to "
			    "anonymous memory or huge pages), so its functions can't be found", spec->text);
	if (!any_object)
		return explain_no_object(j, spec);
	mods = xcalloc(j->files.n, sizeof(*mods));
	for (size_t i = 0; i < j->files.n; i++)
		mods[n++] = j->files.v[i].m;
	if (spec->place_kind == PLACE_NAME)
		suggest_names(mods, n, spec->place, 3, near, sizeof(near));
	free(mods);
	if (near[0])
		return fail(-ENOENT, "%s: no function '%s'; did you mean %s?", spec->text, spec->place, near);
	why = nameless(j, spec);
	r = fail(-ENOENT, "%s: no function matches '%s'%s; `jab list` shows what there is", spec->text, spec->place, why);
	free(why);
	return r;
}
