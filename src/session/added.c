/* SPDX-License-Identifier: MIT */
/*
 * Single probes while others are in. A probe that is added then gets a part of its own in each target (session.h), with
 * the modules that the target has: its jumps are planned beside those that are there, and can be taken out without
 * them. The jumps of a probe that came with the first insertion stay until session_remove(), since one jump may serve
 * several probes; such a probe is only switched off.
 *
 * A clause has a switch in the target. A counter has none: hits while its probe is off are subtracted here.
 */
#include "session/session.h"

#include <string.h>
#include "arch/arch.h"
#include "base/err.h"
#include "session/arrivals/follow.h"
#include "session/events/shapes.h"
#include "session/scripts/units.h"

static bool has_module(const struct target *t, const struct loaded *l)
{
	for (size_t i = 0; i < t->loaded.n; i++)
		if (t->loaded.v[i].start == l->start)
			return true;
	return false;
}

static void copy_modules(struct target *t, const struct target *from)
{
	for (size_t i = 0; i < from->loaded.n; i++) {
		const struct loaded *l = &from->loaded.v[i];

		if (!l->start || has_module(t, l))
			continue;
		*vec_add(&t->loaded) = (struct loaded){
			.file = l->file, .path = xstrdup(l->path), .bias = l->bias, .start = l->start, .end = l->end, .is_exe = l->is_exe
		};
	}
}

static void add_part(struct jab *j, uint32_t main, uint32_t probe)
{
	struct target *t = vec_add(&j->targets);

	t->main = main;
	t->proc = j->targets.v[main].proc;
	t->only = probe + 1;
	for (size_t i = 0; i < j->targets.n; i++)
		if (&j->targets.v[i] != t && j->targets.v[i].main == main && j->targets.v[i].inserted)
			copy_modules(t, &j->targets.v[i]);
}

static bool takes_more(const struct jab *j, uint32_t target)
{
	const struct target *t = &j->targets.v[target];

	return t->main == target && t->inserted && !t->lost && !t->scout && t->proc && proc_alive(t->proc);
}

static void drop_parts(struct jab *j, uint32_t probe)
{
	for (size_t i = j->targets.n; i-- > 0;) {
		struct target *t = &j->targets.v[i];
		struct text_report report = { 0 };

		if (t->only != probe + 1 || !t->loaded.n)
			continue;
		if (t->inserted && (text_remove(t->proc, t->arena, &report) < 0 || report.arena_left))
			continue;	/* this target is tried again at the end */
		t->inserted = false;
		target_drop(j, t);
	}
}

/* A probe is added to all targets or to none. */
static int place_parts(struct jab *j, uint32_t probe, uint32_t first_part, size_t first_site)
{
	struct session_probe *p = &j->probes.v[probe];
	uint32_t parts = j->targets.n;
	int r = 0;

	for (uint32_t i = first_part; !r && i < parts; i++) {
		if (!follow_has_sites(j, i)) {
			target_drop(j, &j->targets.v[i]);
			continue;
		}
		r = follow_place(j, i, first_site);
		if (r < 0 && target_lost(j, &j->targets.v[i]))
			r = 0;
	}
	if (!r && p->sites && p->refused == p->sites)
		r = fail(-ENOSPC, "none of its %zu sites can be placed (%s); where a probe is in, no second one can be added", p->sites,
			 p->why ? p->why : "no room for its counters");
	return r;
}

/*
 * Clauses that come later have memory of their own, taken from what was set aside; tables of open calls, and what returns note of
 * tail calls, were laid out with the first insertion.
 */
bool clauses_may_come(const struct jab *j)
{
	return j->events && j->more_sites && !arch_lacks(j->arch, ARCH_LANGUAGE);
}

static int check_event(const struct jab *j, const char *text)
{
	struct probe_spec *spec;
	int r = j->events ? spec_parse(text, &spec) : 0;
	bool refused;

	if (r < 0 || !j->events)
		return r;
	refused = spec->kind != SPEC_ENTRY && spec->kind != SPEC_INSNS;
	spec_free(spec);
	return refused ? fail(-ENOTSUP, "probe '%s': while events are recorded, only entries of functions and instructions can be added", text) : 0;
}

int session_add_running(struct jab *j, const char *text)
{
	uint32_t first_part = j->targets.n, n = j->targets.n, probe;
	size_t first_site = j->sites.n;
	int r = check_event(j, text);

	if (!r)
		r = session_add_probe(j, text, true);
	if (r < 0)
		return r;
	probe = j->probes.n - 1;
	for (uint32_t i = 0; i < n; i++)
		if (takes_more(j, i))
			add_part(j, i, probe);
	r = resolve_added(j, probe, first_part);
	if (!r)
		r = place_parts(j, probe, first_part, first_site);
	if (r < 0) {
		char *why = xstrdup(err_text());

		session_take_out(j, probe);
		r = fail_in(fail(r, "%s", why), "probe '%s'", text);
		free(why);
	}
	return r;
}

static bool has_part(const struct jab *j, uint32_t probe)
{
	for (size_t i = 0; i < j->targets.n; i++)
		if (j->targets.v[i].only == probe + 1 && j->targets.v[i].loaded.n)
			return true;
	return false;
}

int session_take_out(struct jab *j, uint32_t probe)
{
	struct session_probe *p = &j->probes.v[probe];
	int r = session_switch(j, probe, false);

	if (r < 0 && !has_part(j, probe))
		return r;
	p->missing = p->removed = true;	/* also for what targets load and execute later */
	drop_parts(j, probe);
	return 0;
}

int session_switch(struct jab *j, uint32_t probe, bool on)
{
	struct session_probe *p = &j->probes.v[probe];

	if (p->removed || p->off == !on)
		return 0;
	if (p->unit)
		unit_enable(j, p->unit - 1, p->clause, on);
	else
		rows_switch(j, probe, on);
	p->off = !on;
	return 0;
}
