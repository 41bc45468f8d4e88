/* SPDX-License-Identifier: MIT */
/*
 * From sites to jumps in one target. Everything is planned and written where nothing runs yet; then
 * text_apply() makes the one visible step.
 */
#include <stdio.h>
#include <string.h>
#include "arch/written.h"
#include "arch/page.h"
#include "base/clock.h"
#include "base/err.h"
#include "blob/blob.h"
#include "session/scripts/budget.h"
#include "session/arrivals/follow.h"
#include "session/calls/left.h"
#include "session/events/rings.h"
#include "session/events/shapes.h"
#include "session/calls/tails.h"
#include "session/scripts/units.h"
#include "session/watches/known.h"

#define OWN_ID (WATCH_ID | LANDING_ID)
#define OWN_GOOD 64		/* in the page of struct process_state: struct gen_good */

_Static_assert(sizeof(struct process_state) <= OWN_GOOD && OWN_GOOD + sizeof(struct gen_good) <= PAGE, "both in one page");

static int make_room(struct jab *j, struct target *t)
{
	gap_list gaps = { 0 };
	int r = 0;

	if (t->proc)
		r = proc_gaps(t->proc, &gaps);
	else
		room_assume(j->files.v[t->loaded.v[0].file].m, &gaps);
	if (!r)
		t->room = room_create(gaps.v, gaps.n);
	vec_free(&gaps);
	return r;
}

/* Plans each want as if there were no other. The next plan frees the reasons of the last one. */
static int solve_alone(struct jab *j, struct loaded *l)
{
	int missed = 0;

	for (size_t i = 0; i < l->wants.n; i++) {
		struct want *w = &l->wants.v[i];

		missed += plan_solve(l->plan, w, 1);
		if (w->reason)
			w->reason = *vec_add(&j->texts) = xstrdup(w->reason);
	}
	return missed;
}

/* Other parts of the process may have jumps in the same module: their bytes are not the file's. */
static void plan_beside_others(const struct jab *j, const struct target *t, const struct loaded *l)
{
	for (size_t i = 0; i < j->targets.n; i++) {
		const struct target *o = &j->targets.v[i];

		for (size_t k = 0; o != t && o->main == t->main && o->inserted && k < o->loaded.n; k++)
			if (o->loaded.v[k].start == l->start && o->loaded.v[k].file == l->file && o->loaded.v[k].plan)
				plan_beside(l->plan, o->loaded.v[k].plan);
	}
}

static int plan_module(struct jab *j, struct target *t, struct loaded *l, bool alone)
{
	struct file *f = &j->files.v[l->file];
	int r = f->code ? 0 : code_open(f->m, &f->code);

	if (!r)
		r = plan_create(f->code, t->room, t->proc ? l->bias : room_assume_bias(f->m),
				COUNT_MAX, &l->plan);
	if (!r && t->proc) {
		foreign_find(t, l, f->m);
		plan_beside_others(j, t, l);
	}
	if (!r)
		r = alone ? solve_alone(j, l) : plan_solve(l->plan, l->wants.v, l->wants.n);
	return r;
}

static void take_results(struct jab *j, struct target *t, const struct loaded *l)
{
	for (size_t i = 0; i < l->wants.n; i++) {
		const struct want *w = &l->wants.v[i];
		struct site *s;

		if (w->id & WATCH_ID) {
			watch_planned(t, w->id & ~WATCH_ID, w->tactic != TACTIC_NONE);
			continue;
		}
		if (w->id & LANDING_ID) {
			left_planned(t, l, w);
			continue;
		}
		s = &j->sites.v[w->id];
		s->tactic = w->tactic;
		s->reason = w->reason;
		s->neighbour = w->neighbour;
		if (s->link && w->tactic == TACTIC_NONE)
			tails_not_placed(j, s);
		else if (w->tactic == TACTIC_NONE)
			site_refused(j, s);
		else if (j->counters.v[s->counter].role == COUNT_HITS)
			j->rows.v[j->counters.v[s->counter].row].placed = true;
		else if (j->counters.v[s->counter].role == COUNT_ENTRIES)
			j->rows.v[j->counters.v[s->counter].row].entered = true;
	}
}

/* Drops the plan, so that place_plan() can make a new one. */
static void place_forget(struct jab *j, struct target *t)
{
	tails_forget_plan(t);
	for (size_t i = 0; i < t->loaded.n; i++) {
		struct loaded *l = &t->loaded.v[i];

		for (size_t k = 0; k < l->wants.n; k++)
			if (l->wants.v[k].tactic == TACTIC_NONE && !(l->wants.v[k].id & OWN_ID) && !j->sites.v[l->wants.v[k].id].link)
				j->probes.v[j->sites.v[l->wants.v[k].id].probe].refused--;
		plan_free(l->plan);
		l->plan = NULL;
		l->wants.n = 0;
	}
	room_free(t->room);
	t->room = NULL;
}

/*
 * Probes on libraries that come later share the counters. Those to spare cost addresses only, eight bytes each for every CPU,
 * and for every ring where there are events: less where the target has few addresses, or all its memory is locked.
 */
#define SPARE_COUNTERS (1 << 18)
#define SPARE_OF_EVENTS (1 << 15)
#define SPARE_APART 1024

static uint32_t spare_counters(const struct jab *j, const struct target *t)
{
	if (!follow_parks(j, t))
		return j->more_sites;
	return MAX(j->more_sites, t->apart ? SPARE_APART : j->events ? SPARE_OF_EVENTS : SPARE_COUNTERS);
}

static void choose_cap(const struct jab *j, struct target *t)
{
	t->counter_cap = t->ncounters + spare_counters(j, t);
	if (t->rings)
		t->rings->cap = (t->counter_cap + 7) / 8 * 8;
}

/* What is needed beside the pads: watches, memory and code of our own. */
static int plan_own(struct jab *j, struct target *t)
{
	int r = 0;

	choose_cap(j, t);
	if (!t->proc)
		return 0;
	t->blob_at = 0;
	if (j->events || follow_parks(j, t))
		t->blob_at = room_alloc(t->room, blob_size + BLOB_ALIGN, 0, UINT64_MAX);
	if ((j->events || follow_parks(j, t)) && !t->blob_at)
		return fail(-ENOSPC, "process %d has no room for code of ours", t->proc->pid);
	t->blob_at = (t->blob_at + BLOB_ALIGN - 1) / BLOB_ALIGN * BLOB_ALIGN;
	if (follow_parks(j, t) || follow_answers(j, t))
		r = follow_plan(j, t);
	strangers_watch(j, t);
	if (!r && j->events && !t->scout)
		r = rings_plan(j, t);
	return r ? r : units_plan(j);
}

int place_plan(struct jab *j, struct target *t, bool alone)
{
	uint32_t target = t - j->targets.v;
	bool is_main = main_part(j, t) == t;
	int r = make_room(j, t);

	t->apart = t->apart || (t->proc && !alone && proc_locks_memory(t->proc));

	for (size_t i = 0; !r && i < j->sites.n; i++) {
		const struct site *s = &j->sites.v[i];
		struct want *w;

		if (s->target != target || s->counter == UINT32_MAX || (alone && s->link))
			continue;
		w = vec_add(&t->loaded.v[s->loaded].wants);
		w->addr = s->addr;
		w->kind = s->kind;
		w->exit_kind = s->exit_kind;
		w->id = i;
		w->body = shape_body(j, s);	/* the code depends on what only a stop tells, its size does not */
	}
	if (!r && !alone)
		r = left_plan(j, t);
	if (!r && !alone && is_main)
		r = plan_own(j, t);
	for (size_t i = 0; !r && i < t->loaded.n; i++) {
		struct loaded *l = &t->loaded.v[i];

		if (!l->wants.n)
			continue;
		r = plan_module(j, t, l, alone);
		if (r >= 0) {
			take_results(j, t, l);
			r = 0;
		}
	}
	return r;
}

/*
 * Each mapping takes its time while the target is stopped, and exactly placed pads need many: areas
 * that are near each other are mapped as one, unless the target locks all its memory or has no address
 * space to spare (RLIMIT_AS).
 */
#define JOIN (16 << 20)

static void find_areas(const struct target *t, area_list *areas)
{
	room_areas_joined(t->room, t->apart ? 0 : JOIN, areas);
}

/* Pages without pads never become resident. */
static int touch_pads(struct target *t, struct jab_times *times)
{
	area_list used = { 0 };
	int r = 0;

	room_areas(t->room, &used);
	for (size_t i = 0; !r && i < used.n; i++) {
		r = arena_touch(t->arena, TADDR(used.v[i].lo), used.v[i].hi - used.v[i].lo);
		times->pad_bytes += used.v[i].hi - used.v[i].lo;
	}
	vec_free(&used);
	return r;
}

static size_t most_edits(const struct target *t)
{
	size_t n = t->watches.n;

	for (size_t i = 0; i < t->loaded.n; i++)
		n += 3 * t->loaded.v[i].wants.n;
	return n;
}

/* Numbers of the pieces of one target's arena, in the order in which arena_create() gets them. */
struct own_pieces {
	size_t tables, counters, data, rings, own;	/* numbers */
	size_t n;
};

/* Counters and what the rings have lost; places to park and memory of scripts. */
static int take_data(struct jab *j, struct target *t, const struct piece *pieces, const struct own_pieces *own)
{
	const struct piece *c = &pieces[own->counters], *d = &pieces[own->data];
	size_t parks = follow_data_size(t);

	t->counters = c->here;
	t->counters_at = c->at.v;
	t->touched = 0;
	if (parks)
		follow_take(t, d->here, d->at.v);
	if (!t->rings)
		return 0;
	if (units_data_size(j))
		units_take(j, t, d->here + parks, d->at.v + parks, pieces[own->own - 1].at.v + PAGE, t->state_at + OWN_GOOD);
	return rings_take(j, t, &pieces[own->rings], c->here + counters_size(t), c->at.v + counters_size(t));
}

/*
 * What pads and the blob take as an address, an offset or a limit is in a piece that the target can't write: a child
 * of it with fewer rights shares these pages.
 */
static size_t tables_size(const struct jab *j, const struct target *t)
{
	return (counters_tables_size(t) + follow_tables_size(t) + rings_tables_size(t) + left_tables_size(j, t) + PAGE - 1) / PAGE * PAGE;
}

static void take_tables(const struct jab *j, struct target *t, const struct piece *p)
{
	size_t keeper = counters_tables_size(t), off = keeper + follow_tables_size(t), left = off + rings_tables_size(t);

	t->tables = p->here;
	t->tables_at = p->at.v;
	if (t->park)
		follow_take_tables(t, p->here + keeper, p->at.v + keeper);
	if (t->rings)
		rings_take_tables(t, p->here + off, p->at.v + off);
	if (left_tables_size(j, t))
		left_take(t, p->here + left, p->at.v + left);
}

/*
 * The pieces of memory: an executable one per area of pads; in the main part one for tables, one for the counters, the
 * rings, and one that each process of a family has for itself: its state, and scratch memory.
 */
static size_t add_areas(const area_list *areas, struct piece *pieces)
{
	for (size_t i = 0; i < areas->n; i++)
		pieces[i] = (struct piece){ .kind = PIECE_CODE, .at = TADDR(areas->v[i].lo), .len = areas->v[i].hi - areas->v[i].lo };
	return areas->n;
}

static void add_own(struct jab *j, struct target *t, struct piece *pieces, size_t n, struct own_pieces *ret_own)
{
	size_t tables = tables_size(j, t), counters = counters_size(t) + rings_data_size(t);
	size_t data = follow_data_size(t) + (t->rings ? units_data_size(j) : 0);

	ret_own->tables = n;
	pieces[n++] = (struct piece){ .kind = PIECE_TABLE, .len = tables };
	ret_own->counters = n;
	pieces[n++] = (struct piece){ .kind = PIECE_DATA, .len = counters, .spare = counters };
	ret_own->data = n;
	if (data)
		pieces[n++] = (struct piece){ .kind = PIECE_DATA, .len = data };
	ret_own->rings = n;
	if (t->rings)
		rings_pieces(t, &pieces[n]);
	ret_own->own = n + rings_npieces(t);
	pieces[ret_own->own] = (struct piece){ .kind = PIECE_SCRATCH, .len = PAGE + rings_scratch_size(t) + tails_memory(j) + known_size(t) };
	ret_own->n = ret_own->own + 1;
}

static int make_arena(struct jab *j, struct target *t, struct jab_times *times)
{
	bool is_main = main_part(j, t) == t;
	struct own_pieces own = { 0 };
	area_list areas = { 0 };
	struct piece *pieces;
	int r;

	find_areas(t, &areas);
	if (is_main)
		rings_trim(t);
	pieces = xcalloc(areas.n + 4 + rings_npieces(t), sizeof(*pieces));
	own.n = add_areas(&areas, pieces);
	if (is_main)
		add_own(j, t, pieces, own.n, &own);
	r = arena_create(t->proc, pieces, own.n, most_edits(t), &t->arena);
	if (!r && rings_may_wait(t))
		arena_map_later(t->arena);
	if (!r)
		r = touch_pads(t, times);
	if (!r && is_main) {
		t->state_at = pieces[own.own].at.v;
		t->notes_at = t->state_at + PAGE + rings_scratch_size(t);
		t->has_notes = false;
		known_take(t, t->notes_at + tails_memory(j));
		take_tables(j, t, &pieces[own.tables]);
		r = take_data(j, t, pieces, &own);
	}
	for (size_t i = areas.n; i < own.n; i++)
		if (pieces[i].kind == PIECE_TABLE || pieces[i].kind == PIECE_DATA)
			times->data_bytes += pieces[i].len - pieces[i].spare;
	free(pieces);
	vec_free(&areas);
	return r;
}

struct emit_context { struct jab *j; struct target *t; int err; };

static void emit_body(void *arg, const struct want *w, uint64_t at, uint8_t *out)
{
	struct emit_context *x = arg;
	int n, size = w->body ? w->body : COUNT_MAX;

	if (w->id & WATCH_ID)
		n = strangers_body(x->t, w->id & ~WATCH_ID, at, out);
	else if (w->id & LANDING_ID)
		n = left_landing_body(x->j, x->t, w->id & ~LANDING_ID, out);
	else
		n = shape_emit(x->j, x->t, w, at, out);
	if (n > size)
		n = fail(-ENOSPC, "the code at %#llx takes %d bytes, and has room for %d", (unsigned long long)at, n, size);
	if (n < 0)
		x->err = n;
	else
		shape_fill(x->j->arch, out, at, n, size);
}

static uint8_t *view(void *arg, uint64_t at)
{
	struct emit_context *x = arg;

	return arena_view(x->t->arena, TADDR(at));
}

static int emit_all(struct jab *j, struct target *t)
{
	struct text_patch *p = &t->patch;

	for (size_t i = 0; i < t->loaded.n; i++) {
		struct loaded *l = &t->loaded.v[i];
		struct emit_context x = { j, t, 0 };
		struct plan_output out = { &x, emit_body, view };
		int r;

		if (!l->plan)
			continue;
		r = plan_emit(l->plan, &out, p);
		if (r < 0 || x.err < 0)
			return r < 0 ? r : x.err;
	}
	if (main_part(j, t) == t)
		strangers_emit(t);
	text_patch_sort(p);
	semaphores_add(j, t);
	return left_emit(j, t);
}

/* Chooses how the pads count, by what was seen in the stop in which the arena was made. */
static void choose_way(struct target *t)
{
	const struct rseq_conf *conf = arena_rseq(t->arena);

	t->spec.has_rseq = conf->usable && !t->unwatched;
	t->spec.rseq_off = conf->offset;
	t->spec.rseq_sig = conf->signature;
	log_info("process %d counts %s", t->proc->pid, t->spec.has_rseq ? "per CPU" : conf->usable ?
		 "by a locked increment: it may get threads unseen that can't be told apart" :
		 "by a locked increment: its threads have no restartable sequences");
}

/* Whether anything in the plan uses the memory of rings and programs; watches do not. */
static bool has_wants(const struct target *t)
{
	for (size_t i = 0; i < t->loaded.n; i++)
		for (size_t k = 0; k < t->loaded.v[i].wants.n; k++)
			if (!(t->loaded.v[i].wants.v[k].id & WATCH_ID))
				return true;
	return false;
}

/* Prepares the memory that pads use, before the first pad can run. */
static int init_own(struct target *t)
{
	uint8_t *blob = t->blob_at ? arena_view(t->arena, TADDR(t->blob_at)) : NULL;

	if (t->blob_at && !blob)
		return fail(-EFAULT, "no view of our own code");
	if (blob)
		memcpy(blob, blob_image, blob_size);
	if (blob)
		code_written(blob, blob_size);
	choose_way(t);
	counters_init(t);
	if (t->park)
		follow_open(t);
	return 0;
}

static int make_arena_frugally(struct jab *j, struct target *t)
{
	int r = make_arena(j, t, &j->times);

	if (r == -ENOMEM && !t->arena && !t->apart) {
		t->apart = true;
		if (main_part(j, t) == t)
			choose_cap(j, t);
		r = make_arena(j, t, &j->times);
	}
	return r;
}

/*
 * The program may have mapped something where a pad was planned: look again, plan again, and take
 * no more room than needed. A server with a thread for each request maps stacks all the time.
 */
static int make_arena_patiently(struct jab *j, uint32_t target)
{
	struct target *t = &j->targets.v[target];
	int r = make_arena_frugally(j, t);

	for (int tries = 0; r == -EEXIST && tries < 12; tries++) {
		t->apart = true;
		place_forget(j, t);
		r = place_plan(j, t, false);
		if (!r)
			r = make_arena_frugally(j, t);
	}
	return r;
}

/* Frees the arena and everything that points into it. */
static void forget_memory(struct jab *j, struct target *t)
{
	unit_views_free(j, t);
	rings_free(t->rings);
	park_free(t->park);
	arena_forget(t->arena);
	t->rings = NULL;
	t->park = NULL;
	known_free(t);
	t->arena = NULL;
	t->left = NULL;
	t->counters = NULL;
}

static void settle(void *arg)
{
	target_settle(arg);
}

int place_insert(struct jab *j, uint32_t target)
{
	struct target *t = &j->targets.v[target];
	uint64_t start = now_ns();
	int r = make_arena_patiently(j, target);

	if (!t->arena)
		return r;
	if (!r && main_part(j, t) == t)
		r = init_own(t);
	if (!r)
		r = counters_touch(main_part(j, t));
	if (!r && has_wants(t))
		r = rings_init(main_part(j, t));
	if (!r && has_wants(t))
		r = units_init(j, main_part(j, t));
	if (!r)
		r = tails_take_memory(j, t);
	if (!r)
		r = emit_all(j, t);
	t->patch.held = main_part(j, t) == t ? settle : NULL;
	t->patch.arg = t;
	if (!r)
		r = text_apply(t->proc, t->arena, &t->patch);
	if (r < 0) {
		struct text_report report;
		char *why = xstrdup(err_text());

		text_remove(t->proc, t->arena, &report);
		forget_memory(j, t);
		r = fail(r, "%s", why);
		free(why);
		return r;
	}
	t->inserted = true;
	for (size_t i = 0; i < t->loaded.n; i++)
		plan_done(t->loaded.v[i].plan);
	if (main_part(j, t) == t)
		foreign_warn(t);
	if (j->budget && main_part(j, t) == t && has_wants(t) && budget_watch(j, t) < 0)
		log_warn("%s; --max-overhead can't be kept there", err_text());
	j->times.pads += t->patch.edits.n;
	j->times.write_ns += now_ns() - start;
	j->times.pause_ns = MAX(j->times.pause_ns, t->proc->pause_ns);
	return 0;
}
