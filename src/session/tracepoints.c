/* SPDX-License-Identifier: MIT */
/* Static tracepoints (USDT) of the targets, as they are listed; which rows are one tracepoint. */
#include "session/session.h"

#include <stdio.h>
#include <string.h>
#include "base/err.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

uint32_t row_of_tracepoint(const struct jab *j, uint32_t row)
{
	const struct row *r = &j->rows.v[row];

	for (uint32_t i = 0; i < row; i++) {
		const struct row *o = &j->rows.v[i];

		if (o->usdt && o->probe == r->probe && o->file == r->file && usdt_same_name(row_usdt(j, o), row_usdt(j, r)))
			return i;
	}
	return row;
}

static void add_semaphore(struct text_patch *p, uint64_t at, uint64_t site)
{
	for (size_t i = 0; i < p->semaphores.n; i++)
		if (p->semaphores.v[i].at.v == at)
			return;
	*vec_add(&p->semaphores) = (struct semaphore){ .at = TADDR(at), .edit = TADDR(site) };
}

/* The address in an edit of that module: that of the site, or of a jump that leads there. */
static uint64_t edit_of(const struct text_patch *p, const struct loaded *l, uint64_t site)
{
	uint64_t near = 0;

	for (size_t i = 0; i < p->edits.n; i++) {
		const struct edit *e = &p->edits.v[i];

		if (site - e->at.v < e->len)
			return site;
		if (e->at.v >= l->start && e->at.v < l->end && !near)
			near = e->at.v;
	}
	return near;
}

void semaphores_add(struct jab *j, struct target *t)
{
	uint32_t target = t - j->targets.v;

	t->patch.semaphores.n = 0;
	for (size_t i = 0; i < j->sites.n; i++) {
		const struct site *s = &j->sites.v[i];
		const struct loaded *l = s->target == target && s->usdt && s->tactic != TACTIC_NONE ? &t->loaded.v[s->loaded] : NULL;
		struct usdt *list;
		uint64_t at, edit;

		if (!l || s->usdt > module_usdts(j->files.v[l->file].m, &list) || !list[s->usdt - 1].semaphore)
			continue;
		at = list[s->usdt - 1].semaphore + l->bias;
		edit = edit_of(&t->patch, l, s->addr + l->bias);
		if (edit)
			add_semaphore(&t->patch, at, edit);
	}
}

/* What one callback gets; the texts and arrays of one tracepoint. */
struct shown {
	struct jab_tracepoint_site *sites;
	struct jab_tracepoint_arg *args;
};

static void show_args(struct module *m, struct usdt *u, struct jab_tracepoint_arg *args, struct jab_tracepoint_site *s)
{
	usdt_read_args(m, u);
	s->nargs = u->nargs;
	s->args = args;
	for (uint32_t i = 0; i < u->nargs; i++) {
		const struct usdt_field *f = u->field ? &u->field[i] : NULL;

		args[i] = (struct jab_tracepoint_arg){ .type = f ? usdt_field_type(f) : xstrdup(usdt_type_name(&u->arg[i])), .operand = u->arg[i].text,
						       .name = f ? f->name : NULL, .why = u->arg[i].why };
	}
}

static struct jab_tracepoint_site show_site(struct module *m, const struct usdt *u, uint64_t bias)
{
	const struct func *f = module_func_at(m, u->pc);

	return (struct jab_tracepoint_site){
		.address = u->pc + bias, .function = f ? func_name(m, f) : NULL, .offset = f ? u->pc - f->addr : 0,
		.semaphore = u->semaphore ? u->semaphore + bias : 0, .why = u->why,
	};
}

static int show(struct module *m, const struct loaded *l, struct usdt *first, size_t n,
		int (*each)(void *arg, const struct jab_tracepoint *t), void *arg)
{
	struct jab_tracepoint_site *sites = xcalloc(n, sizeof(*sites));
	struct jab_tracepoint_arg *args = xcalloc(n, USDT_ARGS_MAX * sizeof(*args));
	char *object = spec_quote_object(base_name(l->path)), *text = xasprintf("usdt:%s:%s", object, first->shown);
	struct jab_tracepoint out = { text, l->path, first->provider, first->name, n, sites };
	int r;

	for (size_t i = 0; i < n; i++) {
		sites[i] = show_site(m, &first[i], l->bias);
		show_args(m, &first[i], args + i * USDT_ARGS_MAX, &sites[i]);
	}
	r = each(arg, &out);
	free(text);
	free(object);
	for (size_t i = 0; i < n * USDT_ARGS_MAX; i++)
		free((char *)args[i].type);
	free(args);
	free(sites);
	return r;
}

static int each_of_module(struct module *m, const struct probe_spec *spec, const struct loaded *l,
			  int (*each)(void *arg, const struct jab_tracepoint *t), void *arg, size_t *found)
{
	struct usdt *list;
	size_t n = module_usdts(m, &list), next;
	int r = 0;

	for (size_t i = 0; !r && i < n; i = next) {
		for (next = i + 1; next < n && usdt_same_name(&list[i], &list[next]); next++)
			;
		if (!usdt_matches(spec, &list[i]))
			continue;
		++*found;
		r = show(m, l, &list[i], next - i, each, arg);
	}
	if (module_usdt_damage(m))
		log_warn("%s", module_usdt_damage(m));
	return r;
}

int explain_tracepoint(struct jab *j, const struct probe_spec *spec)
{
	const char *near = NULL;
	size_t n = 0;

	for (size_t i = 0; i < j->files.n; i++) {
		struct usdt *list;
		size_t has = module_usdts(j->files.v[i].m, &list);

		n += has;
		for (size_t k = 0; k < has && !near; k++)
			if (!strcmp(list[k].name, spec->place) || !strcmp(list[k].provider, spec->place))
				near = list[k].shown;
	}
	if (near)
		return fail(-ENOENT, "no static tracepoint matches '%s'; there is '%s'", spec->text, near);
	return n ? fail(-ENOENT, "no static tracepoint matches '%s'; `jab list 'usdt:*'` shows what there is", spec->text) :
		   fail(-ENOENT, "no static tracepoint matches '%s': none of the files has notes of such (section .note.stapsdt)", spec->text);
}

int session_each_tracepoint(struct jab *j, const char *pattern, int (*each)(void *arg, const struct jab_tracepoint *t), void *arg)
{
	struct probe_spec *spec;
	size_t found = 0;
	int r = spec_parse(pattern, &spec);

	if (r < 0)
		return r;
	if (spec->kind != SPEC_USDT)
		r = fail(-EINVAL, "'%s' names no static tracepoints (usdt:...)", pattern);
	for (size_t t = 0; !r && t < j->targets.n; t++) {
		struct target *target = &j->targets.v[t];

		for (size_t i = 0; !r && i < target->loaded.n; i++) {
			struct loaded *l = &target->loaded.v[i];

			if (!target_has_object(target, l, spec) || !target_may_have_usdts(target, l))
				continue;
			if (target_open_file(j, target, l) < 0)
				log_warn("%s", err_text());
			else if (!was_listed(j, t, i))
				r = each_of_module(j->files.v[l->file].m, spec, l, each, arg, &found);
		}
	}
	if (!r && !found)
		r = explain_tracepoint(j, spec);
	spec_free(spec);
	return r;
}
