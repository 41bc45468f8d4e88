/* SPDX-License-Identifier: MIT */
/*
 * Probes on files that nobody has mapped yet: a library that will be loaded, a program that will be executed. By
 * then the memory of maps is made and events have their numbers, so the program is compiled once before, as
 * it will be: for the file as it is on disk if the probe names its path, else for a function of which nothing
 * is known.
 */
#include "session/scripts/units.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/err.h"

/* Kept as any other file, and found again by its number when somebody has it. */
struct module *file_on_disk(struct jab *j, const char *path)
{
	struct file_id before, after;
	struct module *m;
	struct stat st;
	struct file *f;

	if (!strchr(path, '/') || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	for (size_t i = 0; i < j->files.n; i++)
		if (!strcmp(j->files.v[i].path, path))
			return j->files.v[i].m;
	before = file_id_of(&st);
	if (module_open("", path, &m) < 0)
		return NULL;
	after = stat(path, &st) == 0 ? file_id_of(&st) : (struct file_id){ 0 };
	f = file_add(j, path, m);
	f->id = (struct file_id){ .dev = before.dev, .inode = before.inode };
	file_note_id(f, &before, &after);
	f->kept = true;
	return m;
}

static uint8_t place_of(const struct probe_spec *spec)
{
	if (spec->kind == SPEC_CALL)
		return LANG_CALL;
	if (spec->kind == SPEC_RETURN)
		return LANG_RETURN;
	return spec->kind == SPEC_USDT || spec->has_offset || spec->kind == SPEC_INSNS || spec->place_kind >= PLACE_ADDR ? LANG_INSIDE : LANG_ENTRY;
}

static bool take_line(const struct probe_spec *spec, struct module *m, struct lang_site *s)
{
	line_list list = { 0 };
	bool found = lines_find(s->types, spec->place, spec->addr, &list) >= 0 && list.n;
	const struct func *f = found ? module_func_at(m, list.v[0].addr) : NULL;

	if (f) {
		s->entry = f->addr;
		s->func = func_name(m, f);
		s->pc = list.v[0].addr;
	}
	vec_free(&list);
	return f;
}

static void take_one(const struct probe_spec *spec, struct module *m, uint32_t func, struct lang_site *s)
{
	s->entry = m->funcs.v[func].addr;
	s->func = func_name(m, &m->funcs.v[func]);
	s->pc = s->entry + (spec->has_offset ? spec->offset : 0);
}

static bool take_function(const struct probe_spec *spec, struct module *m, struct lang_site *s)
{
	func_list list = { 0 };
	bool found = spec_match(spec, m, &list) > 0;

	if (found)
		take_one(spec, m, list.v[0], s);
	vec_free(&list);
	return found;
}

static bool take_tracepoint(const struct probe_spec *spec, struct module *m, struct lang_site *s)
{
	struct usdt *list;
	size_t n = module_usdts(m, &list);

	for (size_t i = 0; i < n; i++) {
		const struct func *f = usdt_matches(spec, &list[i]) ? module_func_at(m, list[i].pc) : NULL;

		if (!f)
			continue;
		usdt_read_args(m, &list[i]);
		s->usdt = &list[i];
		s->entry = f->addr;
		s->func = func_name(m, f);
		s->pc = list[i].pc;
		return true;
	}
	return false;
}

static bool guess_place(const struct probe_spec *spec, struct module *m, struct lang_site *s)
{
	if (spec->kind == SPEC_USDT)
		return take_tracepoint(spec, m, s);
	return spec->place_kind == PLACE_LINE ? s->types && take_line(spec, m, s) : take_function(spec, m, s);
}

static bool guess_site(struct jab *j, const struct session_probe *p, struct lang_site *s)
{
	const struct probe_spec *spec = p->spec;
	struct module *m = spec->object ? file_on_disk(j, spec->object) : NULL;

	*s = (struct lang_site){ .at = place_of(spec), .probe = spec->text, .func = "" };
	if (!m || spec->place_kind == PLACE_ADDR)
		return false;
	s->module = m;
	if ((spec->place_kind != PLACE_LINE && !lang_asks_types(j->units.v[p->unit - 1].lang, p->clause, s)) || module_types(m, &s->types) < 0)
		s->types = NULL;
	if (guess_place(spec, m, s))
		return true;
	s->types = NULL;
	return false;
}

void unit_guess(struct jab *j, uint32_t unit, struct lang_site *sites, uint8_t *known)
{
	for (size_t i = 0; j->follow && i < j->probes.n; i++) {
		const struct session_probe *p = &j->probes.v[i];

		if (p->unit == unit + 1 && known[p->clause] == SITE_NONE && !p->missing)
			known[p->clause] = guess_site(j, p, &sites[p->clause]) ? SITE_ON_DISK : SITE_GUESSED;
	}
}

bool unit_guess_better(struct jab *j, uint32_t unit, uint32_t clause, struct lang_site *s)
{
	struct lang *l = j->units.v[unit].lang;
	bool found = false;

	for (size_t i = 0; !found && i < j->probes.n; i++) {
		const struct session_probe *p = &j->probes.v[i];
		struct module *m = p->spec->object ? file_on_disk(j, p->spec->object) : NULL;
		func_list list = { 0 };

		if (p->unit != unit + 1 || p->clause != clause || !m || p->spec->place_kind >= PLACE_ADDR || p->spec->kind == SPEC_USDT)
			continue;
		if (spec_match(p->spec, m, &list) < 0)
			list.n = 0;
		for (size_t k = 0; !found && k < list.n; k++) {
			struct lang_site one = { .at = place_of(p->spec), .probe = p->spec->text };

			one.module = m;
			if (module_types(m, &one.types) < 0)
				one.types = NULL;
			take_one(p->spec, m, list.v[k], &one);
			found = lang_fits(l, clause, &one);
			if (found)
				*s = one;
		}
		vec_free(&list);
	}
	return found;
}

/* It is not wrong before it is there. */
int unit_try(struct unit *u, uint32_t clause, const struct lang_site *site, uint8_t known, struct ir_prog *ret_progs[2])
{
	struct diags *d = &u->script->diags;
	size_t had = d->list.n;
	int r = lang_compile(u->lang, clause, site, ret_progs);

	if (known == SITE_ON_DISK)
		return r;
	free(diags_take_back(d, had));
	return r < 0 ? -ENOENT : 0;
}
