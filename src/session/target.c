/* SPDX-License-Identifier: MIT */
/* Which files a process has mapped as code, and where; processes that come and go. */
#include "proc/undo/undo.h"
#include "session/scripts/budget.h"
#include "session/arrivals/follow.h"
#include "session/arrivals/newcomers.h"
#include "session/watches/parks.h"
#include "session/events/rings.h"
#include "session/scripts/units.h"
#include "session/watches/known.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "session/ends.h"
#include "base/file.h"

static bool same_file(const struct map *a, const struct map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && !strcmp(a->path, b->path);
}

/* Code of a real file: has an inode and a path. The vDSO and JIT code have neither and are not probed. */
bool is_module_code(const struct map *m)
{
	return (m->prot & PROT_EXEC) && m->inode && m->path[0] == '/' && !is_arena_path(m->path);
}

static bool first_of_file(const struct proc *p, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (is_module_code(&p->maps.v[k]) && same_file(&p->maps.v[k], &p->maps.v[i]))
			return false;
	return true;
}

static void add_loaded(struct target *t, const struct proc *p, const struct map *m)
{
	struct loaded *l = vec_add(&t->loaded);

	l->file = UINT32_MAX;
	l->path = xstrdup(m->path);
	l->start = m->start;
	l->is_exe = !strcmp(m->path, p->exe);
}

int target_add(struct jab *j, struct proc *p)
{
	struct target *t;
	int r = proc_read_maps(p);

	if (r < 0)
		return r;
	t = vec_add(&j->targets);
	t->main = j->targets.n - 1;
	t->proc = p;
	for (size_t i = 0; i < p->maps.n; i++)
		if (is_module_code(&p->maps.v[i]) && first_of_file(p, i))
			add_loaded(t, p, &p->maps.v[i]);
	return 0;
}

/* Whether a part of this process has the mapping already. The same file at another address is another mapping. */
static bool is_known(const struct jab *j, uint32_t main, const struct map *m)
{
	for (size_t i = 0; i < j->targets.n; i++) {
		const struct target *t = &j->targets.v[i];

		for (size_t k = 0; t->main == main && k < t->loaded.n; k++)
			if (t->loaded.v[k].start == m->start && !strcmp(t->loaded.v[k].path, m->path))
				return true;
	}
	return false;
}

/* A library that was unmapped may be mapped again at the same address, then without jumps. */
static void forget_unmapped(struct jab *j, uint32_t main)
{
	struct proc *p = j->targets.v[main].proc;

	for (size_t i = 0; i < j->targets.n; i++) {
		struct target *t = &j->targets.v[i];

		for (size_t k = 0; t->main == main && k < t->loaded.n; k++) {
			const struct map *m = proc_map_at(p, t->loaded.v[k].start);

			if (!m || strcmp(m->path, t->loaded.v[k].path))
				t->loaded.v[k].start = 0;
		}
	}
}

static bool is_unmapped(const struct target *t)
{
	for (size_t i = 0; i < t->loaded.n; i++)
		if (t->loaded.v[i].start)
			return false;
	return true;
}

/* The pads of a part go when its libraries are gone: a program may load and unload libraries for ever. */
static void drop_unmapped(struct jab *j, uint32_t main)
{
	for (size_t i = 0; i < j->targets.n; i++) {
		struct target *t = &j->targets.v[i];
		struct text_report report = { 0 };

		if (i == main || t->main != main || !t->inserted || !is_unmapped(t))
			continue;
		if (text_remove(t->proc, t->arena, &report) < 0 || report.arena_left)
			continue;	/* tried again at the end */
		t->inserted = false;
		target_drop(j, t);
	}
}

struct target *target_add_part(struct jab *j, uint32_t main)
{
	struct proc *p = j->targets.v[main].proc;
	struct target *t = NULL;

	if (proc_read_maps(p) < 0)
		return NULL;
	forget_unmapped(j, main);
	drop_unmapped(j, main);
	for (size_t i = 0; i < p->maps.n; i++) {
		const struct map *m = &p->maps.v[i];

		if (!is_module_code(m) || !first_of_file(p, i) || is_known(j, main, m))
			continue;
		if (!t) {
			t = vec_add(&j->targets);
			t->main = main;
			t->proc = p;
		}
		add_loaded(t, p, m);
	}
	return t;
}

int target_add_file(struct jab *j, const char *path)
{
	struct module *m;
	struct target *t;
	struct loaded *l;
	struct file *f;
	int r = module_open("", path, &m);

	if (r < 0)
		return r;
	f = file_add(j, path, m);
	t = vec_add(&j->targets);
	t->main = j->targets.n - 1;
	l = vec_add(&t->loaded);
	l->file = f - j->files.v;
	l->path = xstrdup(path);
	l->is_exe = true;
	return 0;
}

/*
 * A server's workers come and go while we read symbols and plan. A process that ended (or started
 * another program) meanwhile is no reason to leave the others alone, or those who are still to come; what it would have
 * counted is nothing.
 */
bool target_lost(struct jab *j, struct target *t)
{
	bool others = newcomers_may_come(j);

	if (!t->proc || t->proc->started_by_us || proc_alive(t->proc))
		return false;
	t->lost = true;
	for (size_t i = 0; i < j->targets.n; i++)
		others |= !j->targets.v[i].lost;
	if (others)
		log_info("process %d ended before it was probed; the others go on", t->proc->pid);
	return others;
}

/* Parts, and programs that this one has executed, are freed before it. */
static bool has_parts(const struct jab *j, uint32_t target)
{
	for (size_t i = 0; i < j->targets.n; i++)
		if (i != target && j->targets.v[i].main == target && !j->targets.v[i].lost)
			return true;
	return false;
}

static void keep_counts(struct jab *j, uint32_t target)
{
	while (j->past.n < j->rows.n)
		vec_add(&j->past);
	for (size_t i = 0; i < j->counters.n; i++) {
		const struct counter *c = &j->counters.v[i];
		uint64_t n;

		if (c->target != target)
			continue;
		n = counter_read(&j->targets.v[target], c->index);
		if (c->role == COUNT_ENTRIES) {
			j->past.v[c->row].entries += n;
		} else if (c->role == COUNT_EARLY) {
			j->past.v[c->row].early += n;
		} else {
			j->past.v[c->row].hits += n;
			j->past.v[c->row].lost += rings_lost(&j->targets.v[target], c->index);
			j->past.v[c->row].no_stack += rings_no_stack(&j->targets.v[target], c->index);
		}
	}
}

void target_drop(struct jab *j, struct target *t)
{
	uint32_t main = t->main;

	if (j->budget)
		budget_forget(j, t);
	park_count_missed(j, t->park);
	target_free(j, t);
	*t = (struct target){ .main = main, .lost = true };
}

static void put_away(struct jab *j, struct target *t)
{
	keep_counts(j, t - j->targets.v);
	unit_views_keep(j, t);
	target_drop(j, t);
	j->gone++;
}

#define MOST_TARGETS 1000
#define FDS_EACH 8

size_t targets_most(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return MOST_TARGETS;
	if (l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
		getrlimit(RLIMIT_NOFILE, &l);
	}
	return MIN((rlim_t)MOST_TARGETS, l.rlim_cur / FDS_EACH);
}

size_t targets_living(const struct jab *j)
{
	size_t n = 0;

	for (size_t i = 0; i < j->targets.n; i++)
		n += j->targets.v[i].proc && j->targets.v[i].main == i && !j->targets.v[i].seen_dead;
	return n;
}

/* So many ended targets are kept before they are put away: with few, the search would cost more than their memory. */
#define MOST_DEAD 8
#define LOOK_AGAIN 100000000ull
#define RETIRE_AGAIN 300000000ull	/* ns; each search looks at all processes */

static bool is_put_away(const struct target *t)
{
	return t->lost && !t->proc && !t->loaded.n;
}

/* These are not needed for an ended target, and of targets that come and go there may be many. */
static void forget_sites(struct jab *j)
{
	uint32_t *moved = xcalloc(j->counters.n + 1, sizeof(*moved));
	size_t n = 0;

	for (size_t i = 0; i < j->counters.n; i++) {
		bool away = is_put_away(&j->targets.v[j->counters.v[i].target]);

		moved[i] = away ? UINT32_MAX : n;
		if (!away)
			j->counters.v[n++] = j->counters.v[i];
	}
	j->counters.n = n;
	n = 0;
	for (size_t i = 0; i < j->sites.n; i++) {
		struct site s = j->sites.v[i];

		if (is_put_away(&j->targets.v[s.target]))
			continue;
		if (s.counter != UINT32_MAX)
			s.counter = moved[s.counter];
		if (s.early)
			s.early = moved[s.early - 1] + 1;
		j->sites.v[n++] = s;
	}
	j->sites.n = n;
	free(moved);
}

static bool may_retire(const struct jab *j, uint32_t target, uint64_t now)
{
	const struct target *t = &j->targets.v[target];

	/* Its last events were read before this. */
	return t->seen_dead && now - t->seen_dead >= LOOK_AGAIN && !t->proc->started_by_us && !has_parts(j, target) && !rings_hold(t);
}

static void retire_dead(struct jab *j, uint64_t now)
{
	VEC(uint32_t) which = { 0 };
	VEC(struct arena *) arenas = { 0 };
	bool *held;

	for (size_t i = j->targets.n; i-- > 0;)
		if (may_retire(j, i, now)) {
			*vec_add(&which) = i;
			*vec_add(&arenas) = j->targets.v[i].arena;
		}
	held = xcalloc(arenas.n + 1, sizeof(*held));
	arenas_held(arenas.v, arenas.n, held);
	for (size_t i = 0; i < which.n; i++)
		if (!held[i])
			put_away(j, &j->targets.v[which.v[i]]);
	forget_sites(j);
	free(held);
	vec_free(&which);
	vec_free(&arenas);
}

void targets_retire(struct jab *j)
{
	uint64_t now = now_ns();
	size_t dead = 0;

	if (j->targets.n <= MOST_DEAD || now - j->looked_at < LOOK_AGAIN)
		return;
	j->looked_at = now;
	for (size_t i = 0; i < j->targets.n; i++) {
		struct target *t = &j->targets.v[i];

		if (t->proc && t->inserted && !t->seen_dead && !proc_alive(t->proc))
			t->seen_dead = now;
		dead += t->seen_dead != 0;
	}
	if (dead > MOST_DEAD && now - j->retired_at >= RETIRE_AGAIN) {
		j->retired_at = now;
		retire_dead(j, now);
	}
}

void target_free(struct jab *j, struct target *t)
{
	ends_note(j, t);
	for (size_t i = 0; i < t->loaded.n; i++) {
		plan_free(t->loaded.v[i].plan);
		vec_free(&t->loaded.v[i].wants);
		free(t->loaded.v[i].path);
	}
	vec_free(&t->loaded);
	vec_free(&t->watches);
	vec_free(&t->leavers);
	vec_free(&t->left_funcs);
	vec_free(&t->patch.edits);
	vec_free(&t->patch.moves_in);
	vec_free(&t->patch.moves_out);
	vec_free(&t->patch.semaphores);
	room_free(t->room);
	unit_views_free(j, t);
	rings_free(t->rings);
	vec_free(&t->links);
	vec_free(&t->learned);
	if (t->arena)
		arena_forget(t->arena);
	park_free(t->park);
	known_free(t);
	if (main_part(j, t) == t)
		proc_close(t->proc);
}
