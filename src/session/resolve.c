/* SPDX-License-Identifier: MIT */
/*
 * From what the user wrote to the instructions that are meant. Nothing is decided here about whether
 * a jump fits; but a place that does not exist (no such name, an address in no code or inside an
 * instruction) is told here, with what stands next to it.
 */
#include "session/arrivals/newcomers.h"
#include "session/scripts/units.h"

#include <libgen.h>
#include <stdio.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include "base/err.h"
#include "sym/types/types.h"

/* What the sites of one match belong to. */
struct match {
	struct jab *j;
	uint32_t probe, target, loaded;
	struct module *m;
	uint32_t file;
	bool dry;		/* only look whether the places are code: there is no target, and no site is added */
};

static struct probe_spec *spec_of(const struct match *x)
{
	return x->j->probes.v[x->probe].spec;
}

/* The function around addr, decoded; NULL with a sentence. */
static const struct fcode *decoded(const struct match *x, uint64_t addr)
{
	struct file *f = &x->j->files.v[x->file];

	if (!f->code && code_open(f->m, &f->code) < 0)
		return NULL;
	return code_func(f->code, addr);
}

static void add_site(const struct match *x, uint32_t func, uint64_t addr, uint8_t kind,
		     uint8_t exit_kind, uint32_t counter)
{
	struct site *s;

	if (x->dry)
		return;
	s = vec_add(&x->j->sites);
	s->probe = x->probe;
	s->target = x->target;
	s->loaded = x->loaded;
	s->counter = counter;
	s->func = func;
	s->addr = addr;
	s->kind = kind;
	s->exit_kind = exit_kind;
	x->j->probes.v[x->probe].sites++;
}

/* A site where no probe is possible: it is listed with the reason and never planned. */
static void add_refused(const struct match *x, uint32_t func, uint64_t addr, uint8_t kind,
			const char *reason)
{
	if (x->dry)
		return;
	add_site(x, func, addr, kind, 0, UINT32_MAX);
	x->j->sites.v[x->j->sites.n - 1].reason = reason;
	site_refused(x->j, &x->j->sites.v[x->j->sites.n - 1]);
}

static uint32_t new_counter(const struct match *x, uint32_t func, uint64_t offset, bool is_return,
			    uint8_t role)
{
	if (x->dry)
		return UINT32_MAX;
	return counter_add(x->j, x->j->targets.v[x->target].main, row_find(x->j, x->probe, x->file, func, offset, is_return), role);
}

static int add_entry(const struct match *x, uint32_t func)
{
	add_site(x, func, x->m->funcs.v[func].addr, WANT_ENTRY, 0,
		 new_counter(x, func, UINT64_MAX, false, COUNT_HITS));
	return 0;
}

/*
 * All exits of a function, counted as one; and its entry, to tell how many calls are open: those
 * that are still running or were ended by an exception or a longjmp.
 */
static int add_exits(const struct match *x, uint32_t func)
{
	const struct fcode *f;
	uint32_t hits, early = 0;
	bool tails = false;

	if (x->dry)
		return 0;
	f = decoded(x, x->m->funcs.v[func].addr);
	if (!f || f->broken) {
		add_refused(x, func, x->m->funcs.v[func].addr, WANT_EXIT, "its code can't be decoded");
		return 0;
	}
	if (!f->exits.n) {	/* nothing to be placed, so nothing is refused: it is only listed */
		add_site(x, func, x->m->funcs.v[func].addr, WANT_EXIT, 0, UINT32_MAX);
		x->j->sites.v[x->j->sites.n - 1].reason = "it has no exit: it never returns";
		x->j->sites.v[x->j->sites.n - 1].never_returns = true;
		x->j->probes.v[x->probe].sites--;
		return 0;
	}
	for (size_t i = 0; i < f->exits.n; i++)
		tails |= f->exits.v[i].kind != EXIT_RET;
	if (tails && x->j->events && !x->m->runtime->no_tail_calls)	/* first: where there is a counter for hits, there is one for these */
		early = new_counter(x, func, UINT64_MAX, true, COUNT_EARLY) + 1;
	hits = new_counter(x, func, UINT64_MAX, true, COUNT_HITS);
	x->j->rows.v[x->j->counters.v[hits].row].tails |= tails;
	for (size_t i = 0; i < f->exits.n; i++) {
		add_site(x, func, f->exits.v[i].addr, WANT_EXIT, f->exits.v[i].kind, hits);
		if (f->exits.v[i].kind != EXIT_RET)
			x->j->sites.v[x->j->sites.n - 1].early = early;
	}
	if (x->j->probes.v[x->probe].unit && spec_of(x)->kind != SPEC_CALL)	/* the number of open calls is not shown */
		return 0;
	add_site(x, func, x->m->funcs.v[func].addr, WANT_ENTRY, 0,
		 new_counter(x, func, UINT64_MAX, true, COUNT_ENTRIES));
	return 0;
}

static int add_insns(const struct match *x, uint32_t func)
{
	uint64_t lo = x->m->funcs.v[func].addr;
	const struct fcode *f;

	if (x->dry)
		return 0;
	f = decoded(x, lo);
	if (!f || f->broken) {
		add_refused(x, func, lo, WANT_INSN, "its code can't be decoded");
		return 0;
	}
	for (uint32_t i = 0; i < f->insns.n && fcode_addr(f, i) < f->end; i++) {
		uint64_t addr = fcode_addr(f, i);

		add_site(x, func, addr, WANT_INSN, 0,
			 new_counter(x, func, addr - lo, false, COUNT_HITS));
	}
	return 0;
}

/* One instruction at a link address, which must be the start of one. */
static int add_address(const struct match *x, uint64_t addr, const char *shown)
{
	const struct fcode *f = decoded(x, addr);
	uint64_t lo, hi;
	uint32_t func, n;

	if (!f)
		return fail(-EINVAL, "%s: no function is known there, so what stands there may be data",
			    shown);
	n = addr - f->lo < f->hi - f->lo ? f->index[addr - f->lo] : UINT32_MAX;
	if (n != UINT32_MAX) {
		func = f->func - x->m->funcs.v;
		lo = f->func->addr;
		add_site(x, func, addr, addr == lo ? WANT_ENTRY : WANT_INSN, 0,
			 new_counter(x, func, addr == lo ? UINT64_MAX : addr - lo, false, COUNT_HITS));
		return 0;
	}
	for (lo = addr; lo > f->lo && f->index[lo - f->lo] == UINT32_MAX; lo--)
		;
	for (hi = addr; hi < f->hi && f->index[hi - f->lo] == UINT32_MAX; hi++)
		;
	return fail(-EINVAL, "%s is inside an instruction; try %s+%#lx or +%#lx", shown,
		    func_name(x->m, f->func), (long)(lo - f->func->addr), (long)(hi - f->func->addr));
}

/*
 * An ifunc's symbol is its resolver; what runs is where the resolver's slots point by now. Gives the
 * function, or UINT32_MAX while no slot is resolved.
 */
static uint32_t resolve_ifunc(const struct match *x, uint32_t func)
{
	const struct target *t = x->dry ? NULL : &x->j->targets.v[x->target];
	const struct loaded *l = t ? &t->loaded.v[x->loaded] : NULL;
	const struct irel *rel;
	size_t n = module_irelative(x->m, &rel);

	for (size_t i = 0; t && t->proc && i < n; i++) {
		const struct func *f;
		uint64_t value;

		if (rel[i].resolver != x->m->funcs.v[func].addr ||
		    proc_read(t->proc, TADDR(l->bias + rel[i].slot), &value, sizeof(value)) < 0)
			continue;
		f = module_func_at(x->m, value - l->bias);
		if (f && f->addr == value - l->bias)
			return f - x->m->funcs.v;
	}
	return UINT32_MAX;
}

static int add_function(const struct match *x, uint32_t func)
{
	const struct probe_spec *spec = spec_of(x);
	char shown[160];

	if (x->m->funcs.v[func].flags & FUNC_IFUNC) {
		uint32_t runs = resolve_ifunc(x, func);

		if (runs != UINT32_MAX)
			func = runs;
	}
	if (spec->has_offset) {
		snprintf(shown, sizeof(shown), "%.120s", spec->text);
		if (x->m->funcs.v[func].size && spec->offset >= x->m->funcs.v[func].size)
			return fail(-EINVAL, "%s is not in that function, which has %#" PRIx64 " bytes", shown,
				    x->m->funcs.v[func].size);
		return add_address(x, x->m->funcs.v[func].addr + spec->offset, shown);
	}
	switch (spec->kind) {
	case SPEC_RETURN:
	case SPEC_CALL:
		return add_exits(x, func);
	case SPEC_INSNS:
		return add_insns(x, func);
	default:
		return add_entry(x, func);
	}
}

/* Two names (an ifunc and the code that it chose) may mean one function: it gets one site. */
static int add_functions(const struct match *x, const func_list *list)
{
	uint8_t *seen = xcalloc(x->m->funcs.n / 8 + 1, 1);
	int r = 0;

	for (size_t i = 0; !r && i < list->n; i++) {
		uint32_t f = list->v[i], runs = UINT32_MAX;

		if (x->m->funcs.v[f].flags & FUNC_IFUNC)
			runs = resolve_ifunc(x, f);
		if (runs != UINT32_MAX)
			f = runs;
		if (seen[f / 8] & 1 << f % 8)
			continue;
		seen[f / 8] |= 1 << f % 8;
		r = add_function(x, f);
	}
	free(seen);
	return r;
}

/* Resolves a place of a file in all targets that have mapped it. */
static int matching_functions(const struct match *x, func_list *ret_funcs)
{
	struct file *f = &x->j->files.v[x->file];
	func_list list = { 0 };
	int r;

	for (size_t i = 0; i < f->matches.n; i++)
		if (f->matches.v[i].probe == x->probe) {
			*ret_funcs = f->matches.v[i].funcs;
			return 0;
		}
	r = spec_match(spec_of(x), x->m, &list);
	if (r < 0) {
		vec_free(&list);
		return r;
	}
	*vec_add(&f->matches) = (struct known_match){ x->probe, list };
	*ret_funcs = list;
	return 0;
}

static int match_names(const struct match *x, size_t *found)
{
	func_list list;
	int r = matching_functions(x, &list);

	if (r < 0)
		return r;
	*found += list.n;
	r = add_functions(x, &list);
	return r < 0 ? r : 0;
}

static int match_address(const struct match *x, size_t *found)
{
	const struct target *t = x->dry ? NULL : &x->j->targets.v[x->target];
	const struct probe_spec *spec = spec_of(x);
	uint64_t addr = spec->addr;

	if (t && t->proc && !spec->object)
		addr -= t->loaded.v[x->loaded].bias;
	if (addr < x->m->lo || addr >= x->m->hi)
		return 0;
	++*found;
	return add_address(x, addr, spec->text);
}

/* Every place where a source line begins. Most modules do not have the file: that is no error. */
static int match_line(const struct match *x, size_t *found)
{
	const struct probe_spec *spec = spec_of(x);
	line_list list = { 0 };
	struct types *types;
	int r = module_types(x->m, &types);

	if (r < 0)
		return 0;
	if (lines_find(types, spec->place, spec->addr, &list) < 0)
		list.n = 0;
	for (size_t i = 0; !r && i < list.n; i++)
		r = add_address(x, list.v[i].addr, spec->text);
	*found += list.n;
	vec_free(&list);
	return r;
}

/* Can the process write where the semaphore is, so that it is in no file and in no other process? */
static bool may_raise(const struct match *x, const struct usdt *u)
{
	const struct target *t = x->dry ? NULL : &x->j->targets.v[x->target];
	uint64_t at = t ? u->semaphore + t->loaded.v[x->loaded].bias : 0;
	const struct map *m;

	if (!t || !t->proc || !u->semaphore)
		return true;
	m = proc_map_at(t->proc, at);
	return m && at + 1 < m->end && (m->prot & PROT_WRITE) && !m->shared;
}

/* The place of a tracepoint may be anything: it is refused by name, while the others are probed. */
static void add_usdt(const struct match *x, uint32_t number, const struct usdt *u)
{
	const struct fcode *f = u->why ? NULL : decoded(x, u->pc);
	uint32_t func = f ? f->func - x->m->funcs.v : UINT32_MAX;
	uint64_t lo = f ? f->func->addr : 0;
	const char *why = u->why;
	struct site *s;

	if (x->dry)
		return;
	if (!why && !f)
		why = "its note points to where no function is known, so what stands there may be data";
	else if (!why && (u->pc - f->lo >= f->hi - f->lo || f->index[u->pc - f->lo] == UINT32_MAX))
		why = "its note points into the middle of an instruction";
	else if (!why && !may_raise(x, u))
		why = "the semaphore of its note is not in memory that the process can write";
	add_site(x, func, u->pc, !why && u->pc == lo ? WANT_ENTRY : WANT_INSN, 0, why ? UINT32_MAX :
		 counter_add(x->j, x->j->targets.v[x->target].main,
			     row_find_usdt(x->j, x->probe, x->file, func, u->pc - lo, number), COUNT_HITS));
	s = &x->j->sites.v[x->j->sites.n - 1];
	s->usdt = number;
	s->reason = why;
	if (why)
		site_refused(x->j, s);
}

static int match_tracepoints(const struct match *x, size_t *found)
{
	struct usdt *list;
	size_t n = module_usdts(x->m, &list);

	for (size_t i = 0; i < n; i++)
		if (usdt_matches(spec_of(x), &list[i])) {
			add_usdt(x, i + 1, &list[i]);
			++*found;
		}
	if (module_usdt_damage(x->m) && *found)
		log_warn("%s", module_usdt_damage(x->m));
	return 0;
}

static int match_module(const struct match *x, size_t *found)
{
	if (spec_of(x)->kind == SPEC_USDT)
		return match_tracepoints(x, found);
	switch (spec_of(x)->place_kind) {
	case PLACE_ADDR: return match_address(x, found);
	case PLACE_LINE: return match_line(x, found);
	default: return match_names(x, found);
	}
}

/* An address without an object is looked up in the one module that holds it; nothing else is opened. */
static bool may_hold(const struct target *t, const struct loaded *l, const struct probe_spec *spec)
{
	const struct map *m;

	if (!t->proc || spec->place_kind != PLACE_ADDR || spec->object)
		return true;
	m = proc_map_at(t->proc, spec->addr);
	return m && (m->prot & PROT_EXEC) && !strcmp(m->path, l->path);
}

/*
 * exe_pass: without an object the main program is asked first, and only if it does not know the name
 * all other modules are.
 */
static int match_all(struct jab *j, uint32_t probe, uint32_t first, int exe_pass, size_t *found, bool *any_object)
{
	const struct probe_spec *spec = j->probes.v[probe].spec;

	for (uint32_t t = first; t < j->targets.n; t++) {
		for (uint32_t i = 0; !j->targets.v[t].lost && i < j->targets.v[t].loaded.n; i++) {
			struct loaded *l = &j->targets.v[t].loaded.v[i];
			struct match x = { .j = j, .probe = probe, .target = t, .loaded = i };
			int r;

			if (exe_pass >= 0 && l->is_exe != !!exe_pass)
				continue;
			if (!target_has_object(&j->targets.v[t], l, spec) ||
			    !may_hold(&j->targets.v[t], l, spec))
				continue;
			*any_object = true;
			if (spec->kind == SPEC_USDT && !target_may_have_usdts(&j->targets.v[t], l))
				continue;
			r = target_open_file(j, &j->targets.v[t], l);
			if (r == 0)
				r = target_may_patch(&j->targets.v[t], l);
			if (r < 0 && target_lost(j, &j->targets.v[t]))
				break;
			if (r < 0 && spec->object && strcmp(spec->object, "*"))
				return r;
			if (r < 0) {
				log_warn("%s; its functions are left out", err_text());
				continue;
			}
			x.file = l->file;
			x.m = j->files.v[l->file].m;
			r = match_module(&x, found);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/*
 * A library that is not loaded yet, or a function of a program that will be executed. What is asked of
 * a file that is there is a mistake now, and so is a name that a running process does not know.
 */
static bool may_come_later(const struct jab *j, const struct probe_spec *spec, bool any_object)
{
	if (!j->follow || spec->place_kind == PLACE_ADDR || (spec->object && !strcmp(spec->object, "exe")) ||
	    !(j->targets.n || newcomers_may_come(j)))
		return false;
	return spec->object ? !any_object : j->child != 0;
}

/* Copies of a function that the compiler has put into others: each begins at an instruction of its own. */
static int match_inlined(const struct match *x, size_t *found)
{
	const struct probe_spec *spec = spec_of(x);
	inlined_list list = { 0 };
	struct types *types;
	int r = 0;

	if (module_types(x->m, &types) < 0 || types_inlined(types, spec->place, &list) < 0)
		list.n = 0;
	for (size_t i = 0; !r && i < list.n; i++)
		r = add_address(x, list.v[i].entry, spec->text);
	if (list.n)
		x->j->probes.v[x->probe].is_copies = true;
	*found += list.n;
	vec_free(&list);
	return r;
}

/* All debug info must be read for this, so it is done only where no module has a function of that name. */
static int match_all_inlined(struct jab *j, uint32_t probe, uint32_t first, size_t *found)
{
	const struct probe_spec *spec = j->probes.v[probe].spec;
	int r = 0;

	if (spec->place_kind != PLACE_NAME || spec->has_offset || (spec->kind != SPEC_ENTRY))
		return 0;
	for (uint32_t t = first; !r && t < j->targets.n; t++)
		for (uint32_t i = 0; !r && !j->targets.v[t].lost && i < j->targets.v[t].loaded.n; i++) {
			const struct loaded *l = &j->targets.v[t].loaded.v[i];
			struct match x = { .j = j, .probe = probe, .target = t, .loaded = i, .file = l->file };

			if (l->file == UINT32_MAX || !target_has_object(&j->targets.v[t], l, spec))
				continue;
			x.m = j->files.v[l->file].m;
			r = match_inlined(&x, found);
		}
	return r;
}

/*
 * Whether the file that is on disk has the place, for when a process uses it. 1: there is no such file; -ENOENT: it does not
 * have the place; -EINVAL with a sentence: the place is no code.
 */
static int match_on_disk(struct jab *j, uint32_t probe)
{
	struct match x = { .j = j, .probe = probe, .dry = true };
	const struct probe_spec *spec = spec_of(&x);
	size_t found = 0;
	int r;

	x.m = spec->object ? file_on_disk(j, spec->object) : NULL;
	if (!x.m)
		return 1;
	while (x.file < j->files.n && j->files.v[x.file].m != x.m)
		x.file++;
	r = match_module(&x, &found);
	if (!r && !found && spec->place_kind == PLACE_NAME && !spec->has_offset && spec->kind == SPEC_ENTRY)
		r = match_inlined(&x, &found);
	return r < 0 ? r : found ? 0 : -ENOENT;
}

static uint8_t missing_probes(const struct jab *j, uint32_t probe)
{
	uint32_t unit = j->probes.v[probe].unit;

	return unit ? lang_config(j->units.v[unit - 1].lang)->missing_probes : MISSING_NOT_SAID;
}

/* err_text() says what is missing. */
static void say_waits(const struct probe_spec *spec, bool lacks)
{
	const char *said = err_text();

	log_warn("%s%s%s %s", said, lacks ? "; the file of that name on disk has no such place" : "",
		 said[strlen(said) - 1] == '?' ? " If not," : ";", spec->object ?
		 "the probe waits until one is loaded" : "it is probed when a program or library has it");
}

static int find_probe(struct jab *j, uint32_t probe, uint32_t first)
{
	const struct probe_spec *spec = j->probes.v[probe].spec;
	bool any_object = false, on_disk, lacks;
	size_t found = 0;
	int r;

	if (spec->object || spec->place_kind == PLACE_ADDR || spec->kind == SPEC_USDT) {
		r = match_all(j, probe, first, -1, &found, &any_object);
	} else {
		r = match_all(j, probe, first, 1, &found, &any_object);
		if (!r && !found)
			r = match_all(j, probe, first, 0, &found, &any_object);
	}
	if (!r && !found)
		r = match_all_inlined(j, probe, first, &found);
	if (r < 0)
		return r;
	if (found)
		return 0;
	r = any_object ? 1 : match_on_disk(j, probe);
	if (r <= 0 && r != -ENOENT && newcomers_watches(j, spec))
		return r;
	/* Targets may have another file of that name; those that are waited for use the one that is watched. */
	lacks = r < 0;
	any_object |= lacks && (newcomers_watches(j, spec) || missing_probes(j, probe) == MISSING_ERROR);
	on_disk = !r;
	r = explain_probe(j, spec, any_object);
	if (r != -ENOENT || !may_come_later(j, spec, any_object) || (missing_probes(j, probe) == MISSING_ERROR && !on_disk))
		return r;
	if (missing_probes(j, probe) != MISSING_IGNORE)
		say_waits(spec, lacks);
	return 0;
}

int resolve_probe(struct jab *j, uint32_t probe)
{
	uint8_t how = missing_probes(j, probe);
	int r = find_probe(j, probe, 0);

	/* A tool names the functions of several releases of a library: one of a list may be missing. */
	if (r == -ENOENT && how == MISSING_NOT_SAID && unit_has_others(j, probe))
		how = MISSING_WARN;

	if ((r != -ENOENT && r != -EINVAL) || (how != MISSING_WARN && how != MISSING_IGNORE))
		return r;
	if (how == MISSING_WARN)
		log_warn("%s; the probe is left out", err_text());
	j->probes.v[probe].missing = true;
	return 0;
}

int resolve_added(struct jab *j, uint32_t probe, uint32_t first)
{
	return find_probe(j, probe, first);
}

/*
 * A name without an object is looked for in libraries only where the program does not have it: the
 * sites that are there already tell.
 */
static bool is_in_program(const struct jab *j, uint32_t probe, uint32_t main)
{
	for (size_t i = 0; i < j->sites.n; i++) {
		const struct site *s = &j->sites.v[i];

		if (s->probe == probe && !s->link && j->targets.v[s->target].main == main && !j->targets.v[s->target].lost &&
		    j->targets.v[s->target].loaded.v[s->loaded].is_exe)
			return true;
	}
	return false;
}

int resolve_more(struct jab *j, uint32_t target)
{
	const struct target *t = &j->targets.v[target];
	bool is_part = t->main != target, any;
	size_t found;
	int r = 0;

	for (uint32_t i = 0; !r && i < j->probes.n; i++) {
		const struct probe_spec *spec = j->probes.v[i].spec;

		found = 0;
		if (j->probes.v[i].missing || (spec->place_kind == PLACE_ADDR && !spec->object))	/* is not searched on disk */
			continue;
		if (spec->object || spec->kind == SPEC_USDT) {
			r = match_all(j, i, target, -1, &found, &any);
			continue;
		}
		if (!is_part)
			r = match_all(j, i, target, 1, &found, &any);
		if (!r && !found && !(is_part && is_in_program(j, i, t->main)))
			r = match_all(j, i, target, 0, &found, &any);
	}
	return r;
}
