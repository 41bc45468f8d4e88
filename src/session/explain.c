/* SPDX-License-Identifier: MIT */
/* Probes that match nothing, or are never hit: the sentence that says why, and what was meant. */
#include "session/events/events.h"
#include "session/scripts/units.h"

#include <string.h>
#include <sys/mman.h>
#include "arch/regs.h"
#include "base/err.h"
#include "sym/types/types.h"

#define LARGE_FILE (64u << 20)		/* bytes; the debug info of a larger file is not read for a hint */

/* No module has such a line. If one has the source file, its message says most. */
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

/* The address is in no module: the message says what is mapped there. */
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

			if (!m || !(spec->object ? target_has_object(t, l, spec) : l->is_exe))
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
 * Fields that the user wrote outside of the quotes: the shell has made separate arguments of them. `probe`: the number of the probe before,
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
	bool meant = line_is_field(word) || (!spec->object && !strcmp(word, "if"));

	/* libc has a function of that name too, but after a probe the field is meant. */
	meant |= !spec->object && j->probes.n && !strcmp(word, "backtrace");
	if (!meant || spec->kind != SPEC_ENTRY || spec->place_kind == PLACE_ADDR || spec->place_kind == PLACE_LINE)
		return 0;
	return say_field(j, spec, j->probes.n ? j->probes.n - 1 : UINT32_MAX);
}

/* Whether a function of that probe has a variable of that name. */
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

/* No module has this name, and it would be a field of the probe before it. */
static int explain_late_field(struct jab *j, const struct probe_spec *spec, bool any_object)
{
	uint32_t probe = 0;

	while (probe < j->probes.n && j->probes.v[probe].spec != spec)
		probe++;
	if (!probe || probe == j->probes.n || spec->kind != SPEC_ENTRY || (spec->object && any_object) || spec->place_kind > PLACE_GLOB)
		return 0;
	probe--;
	if (spec->object ? !line_is_type(spec->place) :
	    reg_number(j->arch->regs, spec->place) < 0 && !is_variable(j, probe, spec->place))
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

/* Of inlined copies only the beginning is known: they have no return and no offsets. */
static int explain_inlined(struct jab *j, const struct probe_spec *spec)
{
	size_t n = 0;

	for (size_t i = 0; spec->kind != SPEC_ENTRY && spec->place_kind == PLACE_NAME && i < j->files.n; i++) {
		struct module *m = j->files.v[i].m;
		inlined_list list = { 0 };
		struct types *types;

		if (m->image_size <= LARGE_FILE && module_types(m, &types) == 0 && types_inlined(types, spec->place, &list) > 0)
			n += list.n;
		vec_free(&list);
	}
	return !n ? 0 : fail(-EINVAL, "%s: the compiler has inlined %s wherever it is called (%zu cop%s), so nothing returns; the probe "
			     "'%s' is hit where a copy begins", spec->text, spec->place, n, n == 1 ? "y" : "ies", spec->place);
}

/* The program that runs now may be a launcher: the file may be that of a program it executes later. */
static const char *later_hint(const struct jab *j, const struct probe_spec *spec)
{
	bool any_file = spec->object && (!strcmp(spec->object, "exe") || !strcmp(spec->object, "*"));

	return j->child && j->follow && any_file ? "; for a program that it executes later, write the "
						   "function alone or PROGRAM:FUNCTION" : "";
}

int explain_probe(struct jab *j, const struct probe_spec *spec, bool any_object)
{
	struct module **mods;
	char near[256] = "", *why;
	size_t n = 0;
	int r = explain_late_field(j, spec, any_object);

	if (r < 0)
		return r;
	if (spec->kind == SPEC_USDT && any_object)
		return explain_tracepoint(j, spec);
	if (spec->place_kind == PLACE_ADDR && (any_object || !spec->object))
		return explain_address(j, spec);
	if (spec->place_kind == PLACE_LINE && any_object)
		return explain_line(j, spec);
	if (!any_object && has_process(j) && (!spec->object || !strcmp(spec->object, "exe")))
		return fail(-ENOENT, "%s: the program's code is not mapped from its file (it may have moved to "
			    "anonymous memory or huge pages), so its functions can't be found", spec->text);
	if (!any_object)
		return explain_no_object(j, spec);
	r = explain_inlined(j, spec);
	if (r < 0)
		return r;
	mods = xcalloc(j->files.n, sizeof(*mods));
	for (size_t i = 0; i < j->files.n; i++)
		mods[n++] = j->files.v[i].m;
	if (spec->place_kind == PLACE_NAME)
		suggest_names(mods, n, spec->place, 3, near, sizeof(near));
	free(mods);
	if (near[0])
		return fail(-ENOENT, "%s: no function '%s'%s; did you mean %s?", spec->text, spec->place, later_hint(j, spec), near);
	why = nameless(j, spec);
	r = fail(-ENOENT, "%s: no function matches '%s'%s%s; `jab list` shows what there is", spec->text, spec->place, why,
		 later_hint(j, spec));
	free(why);
	return r;
}

/* ---- the end of a run: probes without a hit ---- */

#define MOST_HINTS 4
#define MOST_LOOKS 16		/* probes without a hit that hints are looked for: each look reads all names of all files */
#define MOST_TARGETS 16			/* targets that are searched for one hint */

/* The target may have ended. A command that jab started has used the files that jab sees. */
static struct module *module_of(struct jab *j, struct target *t, struct loaded *l)
{
	if (t->proc && target_open_file(j, t, l) == 0)
		return j->files.v[l->file].m;
	return t->proc && t->proc->started_by_us ? file_on_disk(j, l->path) : NULL;
}

/* A file of the targets, other than those that the probe names, that has the function. */
static const char *home_beside(struct jab *j, const struct probe_spec *spec)
{
	for (size_t i = 0; i < MIN(j->targets.n, (size_t)MOST_TARGETS); i++)
		for (size_t k = 0; k < j->targets.v[i].loaded.n; k++) {
			struct loaded *l = &j->targets.v[i].loaded.v[k];
			bool is_meant = target_has_object(&j->targets.v[i], l, spec);
			struct module *m = is_meant ? NULL : module_of(j, &j->targets.v[i], l);
			func_list list = { 0 };
			int n = m ? spec_match(spec, m, &list) : 0;

			vec_free(&list);
			if (n > 0)
				return strrchr(l->path, '/') ? strrchr(l->path, '/') + 1 : l->path;
		}
	return NULL;
}

/* How many copies of it the compiler has put into others, in the files of its sites. */
static size_t inlined_copies(struct jab *j, uint32_t probe)
{
	const struct session_probe *p = &j->probes.v[probe];
	inlined_list list = { 0 };
	size_t n = 0;

	for (size_t i = 0; !p->is_copies && i < j->rows.n; i++) {
		struct module *m = j->files.v[j->rows.v[i].file].m;
		struct types *types;

		if (j->rows.v[i].probe != probe || m->image_size > LARGE_FILE || module_types(m, &types) < 0)
			continue;
		n = types_inlined(types, p->spec->place, &list) > 0 ? list.n : 0;
		break;
	}
	vec_free(&list);
	return n;
}

/* Events were lost, so the probe may have been hit. */
static bool is_conditional(const struct jab *j, uint32_t probe)
{
	const struct session_probe *p = &j->probes.v[probe];

	return p->unit && j->units.v[p->unit - 1].script->clauses.v[p->clause]->predicate;
}

/* The script's missing_probes says what becomes of a probe without a place: it was said, or is not to be. */
static bool may_be_missing(const struct jab *j, uint32_t probe)
{
	const struct session_probe *p = &j->probes.v[probe];

	return p->missing || (p->unit && lang_config(j->units.v[p->unit - 1].lang)->missing_probes == MISSING_IGNORE);
}

static void say_unmatched(const struct jab *j, const struct probe_spec *spec)
{
	char *bare = nameless(j, spec);

	log_warn("%s: no hit; nothing that was loaded has such a place%s", spec->text, bare);
	free(bare);
}

static bool say_hint(struct jab *j, uint32_t probe)
{
	const struct probe_spec *spec = j->probes.v[probe].spec;
	const char *home = spec->place_kind == PLACE_NAME && spec->object ? home_beside(j, spec) : NULL;
	size_t copies = spec->place_kind == PLACE_NAME && !spec->has_offset ? inlined_copies(j, probe) : 0;

	if (copies)
		log_warn("%s: no hit; calls that the compiler has inlined (%zu) don't reach its entry; @FILE:LINE probes a line of it",
			 spec->text, copies);
	else if (home)
		log_warn("%s: no hit; %s has a function %s: '%s:%s'", spec->text, home, spec->place, home, spec->place);
	if (copies || home || j->probes.v[probe].sites || may_be_missing(j, probe))
		return copies || home;
	say_unmatched(j, spec);
	return true;
}

struct hitless { VEC(uint32_t) probes; uint32_t n; };

static int add_hitless(void *arg, const struct jab_probe_info *p)
{
	struct hitless *h = arg;

	if (!p->hits && !p->not_placed && !p->uncounted && !p->removed)
		*vec_add(&h->probes) = h->n;
	h->n++;
	return 0;
}

void probes_say_unmatched(struct jab *j)
{
	int said = 0;

	for (size_t i = 0; !j->newcomers && i < j->probes.n && said < MOST_HINTS; i++)
		if (!j->probes.v[i].sites && !may_be_missing(j, i)) {
			say_unmatched(j, j->probes.v[i].spec);
			said++;
		}
}

void probes_say_hints(struct jab *j)
{
	struct hitless h = { 0 };
	int said = 0;

	session_each_probe(j, add_hitless, &h);
	for (size_t i = 0; i < h.probes.n && i < MOST_LOOKS && said < MOST_HINTS; i++)
		said += !is_conditional(j, h.probes.v[i]) && say_hint(j, h.probes.v[i]);
	vec_free(&h.probes);
}
