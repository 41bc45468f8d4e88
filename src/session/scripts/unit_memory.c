/* SPDX-License-Identifier: MIT */
/*
 * The memory of the units in each target: a part of the data piece, shared with the target and its forks;
 * and pairs of calls behind the private page, which a fork wipes.
 *
 *	u64 cells[ncells]
 *	u64 errors[clauses][IR_ERRORS]
 *	u64 unpaired[clauses + 1], unseen[clauses]
 *	u32 enabled[clauses]
 *	maps
 *
 * What may be read plainly (struct gen_good) is in memory that each process has for itself and a fork copies: a child
 * can't tell its parent that a page is still there.
 */
#include "arch/page.h"
#include "session/scripts/units.h"

#include <string.h>
#include <sys/sysinfo.h>
#include "base/err.h"
#include "proc/threads/ids.h"
#include "session/watches/good.h"
#include "session/watches/known.h"
#include "session/watches/parks.h"
#include "session/events/rings.h"
#include "session/events/shapes.h"

#define SPARE_CELLS 64	/* for programs of what comes later */
#define SPARE_OF_LINE 8

static bool any_ins(const struct jab *j, bool (*is)(const struct ir_ins *i))
{
	for (size_t i = 0; i < j->programs.n; i++)
		for (int k = 0; k < PARTS && j->programs.v[i].progs[k]; k++) {
			const struct ir_prog *p = j->programs.v[i].progs[k];

			for (size_t n = 0; n < p->ins.n; n++)
				if (is(&p->ins.v[n]))
					return true;
		}
	return false;
}

static bool is_stack(const struct ir_ins *i)
{
	return i->op == IR_STACK;
}

static bool is_walk(const struct ir_ins *i)
{
	return i->op == IR_STACK || i->op == IR_FRAMES;
}

static bool is_checked_read(const struct ir_ins *i)
{
	return (i->op == IR_LOAD && !(i->flags & IR_GOOD)) || i->op == IR_READ_STR || i->op == IR_READ_BUF;
}

bool units_read_memory(const struct jab *j)
{
	return any_ins(j, is_checked_read);
}

/* All units have the same. */
uint64_t units_good_at(const struct target *t)
{
	return t->nviews ? t->views[0].env.good : 0;
}

bool units_want_stacks(const struct jab *j)
{
	return any_ins(j, is_walk);
}

uint32_t units_scratch(const struct jab *j)
{
	uint32_t most = 0;

	for (size_t i = 0; i < j->programs.n; i++)
		for (int k = 0; k < PARTS; k++)
			most = MAX(most, j->programs.v[i].scratch[k]);
	return most;
}

/* Whoever wants scratch memory must have a locked ring. */
bool units_are_heavy(const struct jab *j)
{
	return units_scratch(j) || clauses_may_come(j);
}

uint32_t units_event_max(const struct jab *j)
{
	uint32_t most = 0;

	for (size_t i = 0; i < j->programs.n; i++)
		for (int k = 0; k < PARTS; k++)
			most = MAX(most, j->programs.v[i].event_max[k]);
	return most;
}

bool units_have_calls(const struct jab *j)
{
	for (size_t i = 0; i < j->programs.n; i++)
		if (j->programs.v[i].progs[1])
			return true;
	return false;
}

size_t units_private_size(const struct jab *j)
{
	return units_have_calls(j) ? PAGE_UP(GEN_PAIRS_SIZE(PAIR_BITS)) : 0;
}

int units_plan(struct jab *j)
{
	int r = 0;

	for (size_t i = 0; !r && i < j->units.n; i++) {
		struct unit *u = &j->units.v[i];
		struct ir_unit *ir = lang_unit(u->lang);

		if (u->layout)
			continue;
		u->ncells = ir->ncells + (!j->follow ? 0 : u->is_line ? SPARE_OF_LINE : SPARE_CELLS);
		r = maps_layout_new(ir, get_nprocs_conf(), &u->layout);
	}
	return r;
}

static uint64_t up(uint64_t n)
{
	return (n + 63) & ~63ull;
}

static uint64_t off_errors(const struct unit *u)
{
	return 8ull * u->ncells;
}

static uint64_t off_unpaired(const struct unit *u)
{
	return off_errors(u) + 8ull * IR_ERRORS * u->script->clauses.n;
}

static uint64_t off_enabled(const struct unit *u)
{
	return off_unpaired(u) + 8ull * (2 * u->script->clauses.n + 1);
}

static uint64_t off_maps(const struct unit *u)
{
	return up(off_enabled(u) + 4ull * u->script->clauses.n);
}

static uint64_t size_of(const struct unit *u)
{
	return up(off_maps(u) + u->layout->size);
}

#define SPARE_UNIT 256u		/* of a probe line that is added later: it has no maps */
#define SPARE_UNITS 4096u
#define SPARE_FOLLOWED 64u

size_t units_data_size(const struct jab *j)
{
	size_t size = j->events ? SPARE_UNIT * MAX(MIN(j->more_sites, SPARE_UNITS), j->follow ? SPARE_FOLLOWED : 0u) : 0;

	for (size_t i = 0; i < j->units.n; i++)
		size += size_of(&j->units.v[i]);
	return PAGE_UP(size);
}

/* Does any of its programs switch clauses, be it one of the tracer? */
static bool switches(const struct unit *u)
{
	const struct ir_unit *ir = lang_unit(u->lang);

	for (size_t i = 0; i < ir->progs.n; i++)
		for (size_t k = 0; k < ir->progs.v[i]->ins.n; k++)
			if (ir->progs.v[i]->ins.v[k].op == IR_ENABLE)
				return true;
	return false;
}

static void fill_env(const struct jab *j, const struct unit *u, struct unit_view *v, uint64_t private_at, uint64_t own_at)
{
	v->env = (struct gen_env){
		.ids = u->ids.v,
		.maps = v->at + off_maps(u),
		.layout = u->layout,
		.cells = v->at,
		.errors = v->at + off_errors(u),
		.unpaired = v->at + off_unpaired(u),
		.enabled = j->budget || u->switched || switches(u) ? v->at + off_enabled(u) : 0,
		.nclauses = u->script->clauses.n,
		.good = own_at,
		.pairs = units_have_calls(j) ? private_at : 0,
		.pair_bits = units_have_calls(j) ? PAIR_BITS : 0,
		.uid = 0, .gid = 0,
		.online_cpus = get_nprocs(),
		.cpid = j->child,
	};
}

static bool is_off(const struct unit *u, uint32_t clause)
{
	return clause < u->off.n && u->off.v[clause];
}

static void take_view(struct jab *j, struct target *t, uint32_t unit)
{
	struct unit_room *room = &t->unit_room;
	struct unit *u = &j->units.v[unit];
	struct unit_view *v;

	t->views = xrealloc(t->views, (unit + 1) * sizeof(*t->views));
	t->nviews = unit + 1;
	v = &t->views[unit];
	*v = (struct unit_view){ .unit = unit, .pid = t->proc->pid, .here = room->here + room->used, .at = room->at + room->used };
	v->maps = v->here + off_maps(u);
	fill_env(j, u, v, room->private_at, room->own_at);
	v->env.known = known_at(t);
	v->env.known_cpus = known_cpus(t);
	maps_init(lang_unit(u->lang), u->layout, v->maps);
	for (uint32_t k = 0; k < u->script->clauses.n; k++)
		((uint32_t *)(v->here + off_enabled(u)))[k] = is_off(u, k) ? 0 : GEN_ON;
	v->reader = maps_reader_new(lang_unit(u->lang), u->layout, v->maps);
	room->used += size_of(u);
}

void units_take(struct jab *j, struct target *t, uint8_t *here, uint64_t at, uint64_t private_at, uint64_t own_at)
{
	t->unit_room = (struct unit_room){ here, at, private_at, own_at, 0, units_data_size(j) };
	for (uint32_t i = 0; i < j->units.n; i++)
		take_view(j, t, i);
}

int units_take_more(struct jab *j, struct target *t)
{
	int r = units_plan(j);

	for (uint32_t i = t->nviews; !r && i < j->units.n; i++) {
		if (size_of(&j->units.v[i]) > t->unit_room.size - t->unit_room.used)
			return fail(-ENOSPC, "there is no room for what more clauses keep (jab_options.more_sites)");
		if (units_scratch(j) && !t->rings->bulk)
			return fail(-ENOTSUP, "a probe that reads memory or has text can be added only if there is room for it "
				    "(jab_options.more_sites)");
		if (units_event_max(j) > MAX(t->rings->longest, (uint32_t)EVENT_LEN_MAX))
			return fail(-E2BIG, "its events may take %u bytes, and the rings have been made for %u", units_event_max(j),
				    MAX(t->rings->longest, (uint32_t)EVENT_LEN_MAX));
		take_view(j, t, i);
	}
	return r;
}

static int fill_clock(struct jab *j, struct gen_env *env)
{
	struct tsc_clock c;
	int r = events_clock(j, &c);

	if (r < 0)
		return r;
	env->tsc0 = clock_now();
	env->ns0 = clock_ns(&c, env->tsc0);
	env->mult = ((unsigned __int128)NS_PER_S << 32) / c.hz;
	env->start_ns = j->started_ns;
	return 0;
}

static void fill_owner(const struct target *t, struct gen_env *env)
{
	uint64_t n = 0;

	if (proc_status_number(t->proc, "Uid", &n) == 0)
		env->uid = n;
	if (proc_status_number(t->proc, "Gid", &n) == 0)
		env->gid = n;
}

/* Code that reads it is not there yet. */
static void fill_good(struct target *t)
{
	struct gen_good good;

	if (t->unguarded) {
		log_info("process %d: calls that take memory away can't be watched; all reads are checked", t->proc->pid);
		return;
	}
	good_find(t->proc, &good);
	if (proc_write(t->proc, TADDR(units_good_at(t)), &good, sizeof(good)) < 0)
		log_info("process %d: what can be read plainly can't be noted; all reads are checked", t->proc->pid);
}

int units_init(struct jab *j, struct target *t)
{
	struct rings *r = t->rings;
	int err = 0;

	if (units_read_memory(j) && t->nviews && !t->views[0].env.event.ring_size)
		fill_good(t);
	if (units_read_memory(j) && t->nviews && !t->views[0].env.event.ring_size)
		known_init(t);
	for (size_t i = 0; !err && i < t->nviews; i++) {
		struct gen_env *env = &t->views[i].env;

		if (env->event.ring_size)	/* done before */
			continue;
		env->event = r->spec;
		env->event.overwrite = j->events->o.overwrite;
		env->blob = t->blob_at;
		env->has_thread_insn = t->proc->arch->thread->reads_pointer();
		env->scratch_size = r->scratch_size;
		env->may_call = r->may_read;
		env->quiet = r->quiet_at;
		env->timeless = r->timeless_at;
		env->unwind = r->unwind_at;
		env->ids_table = r->ids_table;
		env->keeper = t->park ? t->park->keeper_at : 0;
		fill_owner(t, env);
		err = fill_clock(j, env);
		if (!err && env->pairs)
			err = proc_take_memory(t->proc, TADDR(env->pairs), GEN_PAIRS_SIZE(PAIR_BITS));
		if (!err && j->tracer_maps && !j->units.v[i].is_line)
			unit_maps_copy(j->tracer_maps, &t->views[i]);
	}
	return err;
}

static bool is_dead(void *arg, uint32_t tid)
{
	struct target *t = arg;

	return !proc_has_tid(t->proc, tid, t->rings->foreign_ids);
}

void units_look_after(struct jab *j, struct target *t)
{
	for (size_t i = 0; i < t->nviews; i++)
		maps_reader_clean(t->views[i].reader, is_dead, t);
}

static uint64_t sum(const struct jab *j, uint32_t unit, uint64_t off)
{
	uint64_t n = 0;

	for (size_t i = 0; i < j->targets.n; i++)
		if (unit < j->targets.v[i].nviews)
			n += __atomic_load_n((uint64_t *)(j->targets.v[i].views[unit].here + off), __ATOMIC_RELAXED);
	for (size_t i = 0; i < j->past_views.n; i++)
		if (j->past_views.v[i].unit == unit)
			n += *(uint64_t *)(j->past_views.v[i].here + off);
	return n;
}

uint64_t unit_error_count(const struct jab *j, uint32_t unit, uint32_t clause, enum ir_error e)
{
	return sum(j, unit, off_errors(&j->units.v[unit]) + 8ull * (clause * IR_ERRORS + e));
}

static uint64_t unpaired(const struct jab *j, uint32_t unit, uint32_t clause)
{
	return sum(j, unit, off_unpaired(&j->units.v[unit]) + 8ull * clause);
}

/* One byte of the word of a clause, in all targets. */
static void put_switch(struct jab *j, uint32_t unit, uint32_t clause, int byte, uint8_t value)
{
	for (size_t i = 0; i < j->targets.n; i++) {
		uint32_t *word;
		uint8_t *at;

		if (unit >= j->targets.v[i].nviews)
			continue;
		word = (uint32_t *)(j->targets.v[i].views[unit].here + off_enabled(&j->units.v[unit])) + clause;
		at = (uint8_t *)word + byte;
		if (__atomic_load_n(at, __ATOMIC_RELAXED) == value)
			continue;
		__atomic_fetch_add(word, GEN_SWITCHED, __ATOMIC_RELAXED);
		__atomic_store_n(at, value, __ATOMIC_RELEASE);
	}
}

void unit_enable(struct jab *j, uint32_t unit, uint32_t clause, bool on)
{
	struct unit *u = &j->units.v[unit];

	while (u->off.n <= clause)
		*vec_add(&u->off) = false;
	u->off.v[clause] = !on;
	put_switch(j, unit, clause, 0, on ? GEN_ON : 0);
}

void unit_thin(struct jab *j, uint32_t unit, uint32_t clause, bool off)
{
	put_switch(j, unit, clause, GEN_THINNED, off);
}

/* Maps have room for much more than is in them mostly: pages without anything stay the kernel's. */
static void copy_what_is_there(uint8_t *to, const uint8_t *from, size_t len)
{
	static const uint8_t nothing[4096];

	for (size_t at = 0; at < len; at += sizeof(nothing)) {
		size_t n = MIN(len - at, sizeof(nothing));

		if (memcmp(from + at, nothing, n))
			memcpy(to + at, from + at, n);
	}
}

/* With its maps: numbers of stacks in them lead to others. */
static void keep_whole(struct jab *j, const struct unit_view *from)
{
	struct unit *u = &j->units.v[from->unit];
	struct unit_view *v = vec_add(&j->past_views);

	*v = *from;
	v->here = xcalloc(1, size_of(u));
	copy_what_is_there(v->here, from->here, size_of(u));
	v->maps = v->here + off_maps(u);
	v->reader = maps_reader_new(lang_unit(u->lang), u->layout, v->maps);
}

/* What was counted. One view has that of all. */
static void keep_counts(struct jab *j, const struct unit_view *from)
{
	const struct unit *u = &j->units.v[from->unit];
	struct unit_view *v = NULL;

	for (size_t i = 0; !v && i < j->past_views.n; i++)
		if (j->past_views.v[i].unit == from->unit && !j->past_views.v[i].reader)
			v = &j->past_views.v[i];
	if (!v) {
		v = vec_add(&j->past_views);
		*v = (struct unit_view){ .unit = from->unit, .here = xcalloc(1, off_maps(u)) };
	}
	for (uint64_t off = off_errors(u); off < off_enabled(u); off += 8)
		*(uint64_t *)(v->here + off) += *(uint64_t *)(from->here + off);
}

void unit_views_keep(struct jab *j, struct target *t)
{
	for (size_t i = 0; i < t->nviews; i++) {
		if (any_ins(j, is_stack)) {	/* numbers in events lead to them */
			keep_whole(j, &t->views[i]);
			continue;
		}
		keep_counts(j, &t->views[i]);
		if (j->tracer_maps && unit_maps_number(j->tracer_maps) == i)
			unit_maps_keep(j->tracer_maps, &t->views[i]);
	}
}

void unit_views_free(struct jab *j, struct target *t)
{
	for (size_t i = 0; i < t->nviews; i++)
		maps_reader_free(t->views[i].reader);
	free(t->views);
	t->views = NULL;
	t->nviews = 0;
}

static const char *const error_texts[IR_ERRORS] = {
	[IR_ERR_FAULT] = "times a condition, key or value could not be read",
	[IR_ERR_DIV] = "divisions by zero (they give 1, 0 in probe lines) or of the smallest number by -1 (0)",
	[IR_ERR_RANGE] = "times an index was out of range and 0 was taken",
	[IR_ERR_LOOP] = "loops were ended by their bound",
	[IR_ERR_IDS] = "times pid or tid of another pid namespace was not known and 0 was taken",
	[IR_ERR_MAP_FULL] = "values were left out because a map was full, or in the middle of a change",
};

/* " (@a has room for 512 keys, @b for 4096; ...)": what a clause writes to. The caller frees it. */
static char *room_of_maps(const struct ir_unit *u, uint32_t clause)
{
	bool *seen = xcalloc(u->maps.n + 1, sizeof(*seen));
	char *text = xstrdup("");

	for (size_t i = 0; i < u->progs.n; i++)
		for (size_t k = 0; u->progs.v[i]->clause == clause && k < u->progs.v[i]->ins.n; k++) {
			const struct ir_ins *x = &u->progs.v[i]->ins.v[k];
			bool writes = x->op == IR_MAP_SET || x->op == IR_MAP_ADD || x->op == IR_MAP_AGG;
			char *more;

			if (!writes || seen[x->map] || !u->maps.v[x->map].nkeys)
				continue;
			seen[x->map] = true;
			more = xasprintf("%s%s%s %s %u%s", text, *text ? ", " : " (", u->maps.v[x->map].name,
					 *text ? "for" : "has room for", u->maps.v[x->map].max_keys, *text ? "" : " keys");
			free(text);
			text = more;
		}
	free(seen);
	return text;
}

static void say_full(const struct jab *j, uint32_t unit, uint32_t clause, const char *probe, uint64_t times)
{
	char *room = room_of_maps(lang_unit(j->units.v[unit].lang), clause);

	log_warn("%s: %llu %s%s%s", probe, (unsigned long long)times, error_texts[IR_ERR_MAP_FULL], room,
		 *room ? "; config: max_map_keys)" : "");
	free(room);
}

static void say_unpaired(const struct jab *j, uint32_t unit, uint32_t clause, const char *probe)
{
	uint64_t n = unpaired(j, unit, clause), crowded = unpaired(j, unit, j->units.v[unit].script->clauses.n);

	if (n)	/* seldom of interest: any program has calls open when probes come */
		log_info("%s: %llu returns of calls that %sbegan before the probe was there, or in a function that jumps into "
			 "this one, are left out", probe, (unsigned long long)n, crowded ? "were too many at once or " : "");
}

/* Left by an exit that has no probe, or in a way that is none of those we watch (docs/why/exits.md). */
static void say_unseen(const struct jab *j, uint32_t unit, uint32_t clause, const char *probe)
{
	uint64_t n = unpaired(j, unit, j->units.v[unit].script->clauses.n + 1 + clause);

	if (n)
		log_warn("%s: %llu calls were left in a way that is not watched, and have no event", probe, (unsigned long long)n);
}

/* Calls of all clauses stand in the same tables. Which one was full is not known: say the lower number. */
static void say_crowded(const struct jab *j, uint32_t unit)
{
	uint64_t n = unpaired(j, unit, j->units.v[unit].script->clauses.n);
	uint32_t most = 1u << PAIR_BITS;

	for (size_t i = 0; i < j->programs.n; i++)
		if (j->programs.v[i].unit == unit && j->programs.v[i].progs[1])
			most = MIN(most, gen_open_calls(j->programs.v[i].progs[1], PAIR_BITS));
	if (n)
		log_warn("%llu calls were given up, because more than about %u were open at once", (unsigned long long)n, most);
}

static void say_unit(const struct jab *j, uint32_t unit)
{
	const struct script *sc = j->units.v[unit].script;

	for (uint32_t i = 0; i < sc->clauses.n; i++) {
		const char *probe = sc->clauses.v[i]->nprobes ? sc->clauses.v[i]->probes[0]->text : "";

		for (int e = 0; e < IR_ERRORS; e++) {
			uint64_t times = unit_error_count(j, unit, i, e);

			if (times && e == IR_ERR_MAP_FULL)
				say_full(j, unit, i, probe, times);
			else if (times && error_texts[e])
				log_warn("%s: %llu %s%s", probe, (unsigned long long)times, error_texts[e],
					 e == IR_ERR_FAULT && j->events && j->events->any_quiet ?
					 ": a process has forbidden system calls (seccomp), which it takes to read memory" : "");
		}
		say_unpaired(j, unit, i, probe);
		say_unseen(j, unit, i, probe);
	}
	say_crowded(j, unit);
}

void unit_say_tracer(const uint64_t errors[IR_ERRORS])
{
	for (int e = 0; e < IR_ERRORS; e++)
		if (errors[e] && error_texts[e])
			log_warn("begin, end or interval: %llu %s%s", (unsigned long long)errors[e], error_texts[e],
				 e == IR_ERR_MAP_FULL ? " (config: max_map_keys)" : "");
}

void units_say_errors(const struct jab *j)
{
	for (uint32_t i = 0; i < j->units.n; i++)
		say_unit(j, i);
}
