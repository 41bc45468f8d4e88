/* SPDX-License-Identifier: MIT */
/* What can be probed: the functions of the modules, and the types of their parameters. */
#include "session/session.h"

#include <string.h>
#include "base/err.h"
#include "sym/types/types.h"

/* A module whose functions are being listed. Debug info is opened for the first one that is asked about. */
struct jab_module {
	struct jab *j;
	struct module *m;
	struct types *types;
	bool asked;
};

struct jab *function_session(const struct jab_function *f)
{
	return f->of->j;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int each_of_module(struct jab *j, const struct probe_spec *spec, const struct loaded *l,
			  int (*each)(void *arg, const struct jab_function *f), void *arg, size_t *found)
{
	struct module *m = j->files.v[l->file].m;
	char *object = spec_quote_object(base_name(l->path));
	struct jab_module of = { .j = j, .m = m };
	func_list list = { 0 };
	int r = spec_match(spec, m, &list);

	for (size_t i = 0; r >= 0 && i < list.n; i++) {
		const struct func *f = &m->funcs.v[list.v[i]];
		const char *name = func_name(m, f);
		char *quoted = spec_quote(name), *text = xasprintf("%s:%s", object, quoted);
		struct jab_function out = { text, l->path, name, f->addr + l->bias, f->size, &of, f->addr };

		r = each(arg, &out);
		free(quoted);
		free(text);
	}
	*found += list.n;
	free(object);
	vec_free(&list);
	return r < 0 ? r : 0;
}

/* Processes of one program have the same files: each is listed once, with the addresses of the first process. */
bool was_listed(const struct jab *j, size_t target, size_t loaded)
{
	uint32_t file = j->targets.v[target].loaded.v[loaded].file;

	for (size_t t = 0; t < target; t++)
		for (size_t i = 0; i < j->targets.v[t].loaded.n; i++)
			if (j->targets.v[t].loaded.v[i].file == file)
				return true;
	return false;
}

/* A function that was only ever inlined can be probed, but there is none to be listed. */
static size_t count_copies(struct jab *j, const char *name)
{
	inlined_list list = { 0 };
	struct types *t;
	size_t n = 0;

	for (size_t i = 0; i < j->files.n; i++) {
		list.n = 0;
		if (module_types(j->files.v[i].m, &t) == 0 && types_inlined(t, name, &list) > 0)
			n += list.n;
	}
	vec_free(&list);
	return n;
}

static int explain_nothing(struct jab *j, const struct probe_spec *spec)
{
	size_t copies = spec->place_kind == PLACE_NAME ? count_copies(j, spec->place) : 0;
	VEC(struct module *) mods = { 0 };
	char near[256] = "";

	if (copies)
		return fail(-ENOENT, "no function matches '%s': it was inlined; a probe on it means its copies, %zu in all",
			    spec->text, copies);
	if (spec->place_kind == PLACE_LINE)
		return fail(-EINVAL, "'%s' is a source line, and only functions are listed; `jab check` shows where it is", spec->text);
	for (size_t i = 0; i < j->files.n; i++)
		*vec_add(&mods) = j->files.v[i].m;
	if (spec->place_kind == PLACE_NAME)
		suggest_names(mods.v, mods.n, spec->place, 3, near, sizeof(near));
	vec_free(&mods);
	return near[0] ? fail(-ENOENT, "no function matches '%s'; did you mean %s?", spec->text, near) :
	       fail(-ENOENT, "no function matches '%s'", spec->text);
}

int session_each_function(struct jab *j, const char *pattern,
			  int (*each)(void *arg, const struct jab_function *f), void *arg)
{
	struct probe_spec *spec;
	size_t found = 0;
	int r = spec_parse(pattern, &spec);

	if (r < 0)
		return r;
	for (size_t t = 0; !r && t < j->targets.n; t++) {
		struct target *target = &j->targets.v[t];

		for (size_t i = 0; !r && i < target->loaded.n; i++) {
			struct loaded *l = &target->loaded.v[i];

			if (!target_has_object(target, l, spec))
				continue;
			r = target_open_file(j, target, l);
			if (r < 0) {
				log_warn("%s", err_text());
				r = 0;
				continue;
			}
			if (!was_listed(j, t, i))
				r = each_of_module(j, spec, l, each, arg, &found);
		}
	}
	if (!r && !found)
		r = explain_nothing(j, spec);
	spec_free(spec);
	return r;
}

static int open_types(struct jab_module *of)
{
	int r = of->asked ? -ENODATA : module_types(of->m, &of->types);

	of->asked = true;
	if (r < 0)
		of->types = NULL;
	return of->types ? 0 : fail(-ENODATA, "%s: no debug info", of->m->path);
}

static struct jab_param param_of(struct types *t, const struct var *v)
{
	const char *name = v->name ? v->name : "";

	return (struct jab_param){ xstrdup(name), type_name(t, v->type), type_declare(t, v->type, name) };
}

int function_types(const struct jab_function *f, struct jab_function_types **ret_types)
{
	struct jab_module *of = f->of;
	struct jab_function_types *out;
	const struct func_types *types;
	int r = of->types ? 0 : open_types(of);

	if (r == 0)
		r = types_func(of->types, f->entry, &types);
	if (r < 0)
		return r;
	out = *ret_types = xcalloc(1, sizeof(*out));
	*out = (struct jab_function_types){
		.nparams = types->nparams,
		.params = xcalloc(types->nparams + 1, sizeof(*out->params)),
		.result = type_name(of->types, types->ret),
		.declared = type_declare(of->types, types->ret, "retval"),
		.variadic = types->variadic,
	};
	for (uint32_t i = 0; i < types->nparams; i++)
		out->params[i] = param_of(of->types, &types->params[i]);
	return 0;
}

void jab_function_types_free(struct jab_function_types *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->nparams; i++) {
		free(t->params[i].name);
		free(t->params[i].type);
		free(t->params[i].declared);
	}
	free(t->params);
	free(t->result);
	free(t->declared);
	free(t);
}
