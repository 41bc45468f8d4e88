/* SPDX-License-Identifier: MIT */
#include "session/scripts/budget.h"

#include <string.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/meter.h"
#include "session/events/shapes.h"
#include "session/scripts/units.h"

#define WINDOW_NS 200000000ull	/* looks are judged that often */
#define CYCLE_NS 100000000ull	/* a thinned probe is on for a part of that */
#define LOOKS_LEAST 50		/* fewer say nothing */
#define LOOKS_SURE 3000		/* before a probe gets more again */
#define LOOKS_MOST 10000	/* what was longer ago does not count */
#define HALVINGS 7		/* then it is off */

struct body { uint64_t lo, hi; uint32_t target, clause; };	/* clause: number in budget.clauses */

/* What can be switched. */
struct switched {
	uint32_t unit, clause;
	uint32_t halvings;	/* on for 1 / 2^halvings of the time */
	uint64_t found;		/* in this window */
};

struct looks { uint32_t tid; uint64_t all, inside; };

struct budget {
	double share;
	VEC(struct body) bodies;
	VEC(struct switched) clauses;
	VEC(struct looks) threads;
	VEC(struct meter *) meters;	/* by target; NULL: none */
	uint64_t window_at;
	bool told_hopeless;
	struct jab *j;
	uint32_t target;		/* whose looks are being read */
};

int budget_new(struct jab *j, double share)
{
	j->budget = xcalloc(1, sizeof(*j->budget));
	j->budget->share = share;
	j->budget->j = j;
	return 0;
}

void budget_free(struct budget *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->meters.n; i++)
		meter_free(b->meters.v[i]);
	vec_free(&b->meters);
	vec_free(&b->bodies);
	vec_free(&b->clauses);
	vec_free(&b->threads);
	free(b);
}

static uint32_t clause_of(struct budget *b, uint32_t unit, uint32_t clause)
{
	for (uint32_t i = 0; i < b->clauses.n; i++)
		if (b->clauses.v[i].unit == unit && b->clauses.v[i].clause == clause)
			return i;
	*vec_add(&b->clauses) = (struct switched){ .unit = unit, .clause = clause };
	return b->clauses.n - 1;
}

void budget_body(struct jab *j, const struct target *t, uint32_t unit, uint32_t clause, uint64_t at, size_t len)
{
	*vec_add(&j->budget->bodies) = (struct body){ at, at + len, t - j->targets.v, clause_of(j->budget, unit, clause) };
}

int budget_watch(struct jab *j, struct target *t)
{
	struct budget *b = j->budget;
	uint32_t target = t - j->targets.v;

	while (b->meters.n <= target)
		*vec_add(&b->meters) = NULL;
	return b->meters.v[target] ? 0 : meter_new(t->proc, &b->meters.v[target]);
}

void budget_forget(struct jab *j, const struct target *t)
{
	struct budget *b = j->budget;
	uint32_t target = t - j->targets.v;
	size_t n = 0;

	for (size_t i = 0; i < b->bodies.n; i++)
		if (b->bodies.v[i].target != target)
			b->bodies.v[n++] = b->bodies.v[i];
	b->bodies.n = n;
	if (target >= b->meters.n)
		return;
	meter_free(b->meters.v[target]);
	b->meters.v[target] = NULL;
}

/* Programs have the same addresses. */
static const struct body *body_at(const struct budget *b, uint64_t addr)
{
	for (size_t i = 0; i < b->bodies.n; i++) {
		const struct body *body = &b->bodies.v[i];

		if (b->j->targets.v[body->target].main == b->target && addr - body->lo < body->hi - body->lo)
			return body;
	}
	return NULL;
}

static bool is_ours(const struct budget *b, uint64_t addr)
{
	for (size_t i = 0; i < b->j->targets.n; i++) {
		const struct target *t = &b->j->targets.v[i];

		if (t->main == b->target && t->inserted && arena_view(t->arena, TADDR(addr)))
			return true;
	}
	return false;
}

static struct looks *looks_of(struct budget *b, uint32_t tid)
{
	for (size_t i = 0; i < b->threads.n; i++)
		if (b->threads.v[i].tid == tid)
			return &b->threads.v[i];
	*vec_add(&b->threads) = (struct looks){ .tid = tid };
	return &b->threads.v[b->threads.n - 1];
}

/* Who was started, or executed another program, is looked at by those who looked before, too. */
static bool is_seen_twice(const struct budget *b, uint32_t pid)
{
	for (size_t i = b->meters.n; i-- > 0;)
		if (b->meters.v[i] && b->j->targets.v[i].proc && (uint32_t)b->j->targets.v[i].proc->pid == pid)
			return i != b->target;
	return false;
}

/* In the code that all probes share, the stack tells which one has called it. */
static void take_look(void *arg, const struct meter_sample *s)
{
	struct budget *b = arg;
	const struct body *body = NULL;
	struct looks *l;

	if (is_seen_twice(b, s->pid))
		return;
	l = looks_of(b, s->tid);
	l->all++;
	if (!is_ours(b, s->ip))
		return;
	l->inside++;
	body = body_at(b, s->ip);
	for (size_t i = 0; !body && i < s->nstack; i++)
		body = body_at(b, s->stack[i]);
	if (body)
		b->clauses.v[body->clause].found++;
}

/*
 * How often a thread is found inside is a matter of chance: twice the square root of a number is how far it
 * may well be off. Is it above or below a limit even then?
 */
static bool is_above(const struct looks *l, double limit)
{
	double more = l->inside - limit;

	return more > 0 && more * more > 4.0 * l->inside;
}

static bool is_below(const struct looks *l, double limit)
{
	double less = limit - l->inside - 1;

	return less > 0 && less * less > 4.0 * l->inside;
}

static const struct looks *too_slow(const struct budget *b)
{
	const struct looks *worst = NULL;

	for (size_t i = 0; i < b->threads.n; i++) {
		const struct looks *l = &b->threads.v[i];

		if (l->all >= LOOKS_LEAST && is_above(l, b->share * l->all) &&
		    (!worst || l->inside * worst->all > worst->inside * l->all))
			worst = l;
	}
	return worst;
}

/* So little that twice as much would still do, for everybody? */
static bool has_room(const struct budget *b, uint64_t all)
{
	for (size_t i = 0; i < b->threads.n; i++)
		if (b->threads.v[i].all >= LOOKS_LEAST &&
		    !is_below(&b->threads.v[i], b->share / 2 * b->threads.v[i].all))
			return false;
	return all >= LOOKS_SURE;
}

static const char *name_of(const struct jab *j, const struct switched *s)
{
	const struct clause *c = j->units.v[s->unit].script->clauses.v[s->clause];

	return c->nprobes ? c->probes[0]->name ? c->probes[0]->name : c->probes[0]->text : "";
}

static void tell(struct jab *j, const struct switched *s, double share)
{
	double part = s->halvings >= HALVINGS ? 0 : 1.0 / (1u << s->halvings);

	log_warn("%s: on for %.3g %% of the time from now on (probes took %s%.1f %% of a thread's time, and %.3g %% is the limit)",
		 name_of(j, s), 100 * part, share > j->budget->share ? "" : "less than ", 100 * share, 100 * j->budget->share);
	if (j->events->trace && !j->events->in_memory)
		ctf_thinned(j->events->trace, name_of(j, s), 1000000 * part, clock_now());
}

static struct switched *hottest(struct budget *b)
{
	struct switched *best = NULL;

	for (size_t i = 0; i < b->clauses.n; i++) {
		struct switched *s = &b->clauses.v[i];

		if (s->halvings < HALVINGS && s->found && (!best || s->found > best->found))
			best = s;
	}
	return best;
}

static struct switched *most_thinned(struct budget *b)
{
	struct switched *best = NULL;

	for (size_t i = 0; i < b->clauses.n; i++)
		if (b->clauses.v[i].halvings && (!best || b->clauses.v[i].halvings > best->halvings))
			best = &b->clauses.v[i];
	return best;
}

static void forget(struct budget *b)
{
	for (size_t i = 0; i < b->clauses.n; i++)
		b->clauses.v[i].found = 0;
	b->threads.n = 0;
}

/* Looks are kept until they say something. */
static void judge(struct jab *j)
{
	struct budget *b = j->budget;
	const struct looks *slow = too_slow(b);
	struct switched *s = slow ? hottest(b) : NULL;
	uint64_t all = 0;

	for (size_t i = 0; i < b->threads.n; i++)
		all += b->threads.v[i].all;
	if (s) {
		s->halvings++;
		tell(j, s, (double)slow->inside / slow->all);
	} else if (slow && !b->told_hopeless && most_thinned(b)) {
		b->told_hopeless = true;
		log_warn("probes that are off still take %.1f %% of a thread's time: choose others",
			 100.0 * slow->inside / slow->all);
	} else if (!slow && has_room(b, all) && (s = most_thinned(b))) {
		s->halvings--;
		tell(j, s, b->share / 2);
	} else if (all < LOOKS_MOST) {
		return;
	}
	forget(b);
}

static void turn(struct jab *j, uint64_t now)
{
	for (size_t i = 0; i < j->budget->clauses.n; i++) {
		struct switched *s = &j->budget->clauses.v[i];
		uint64_t part = s->halvings >= HALVINGS ? 0 : CYCLE_NS >> s->halvings;

		unit_thin(j, s->unit, s->clause, now % CYCLE_NS >= part);	/* also where it has just come in */
	}
}

void budget_tick(struct jab *j)
{
	struct budget *b = j->budget;
	uint64_t now = now_ns();

	for (uint32_t i = 0; i < b->meters.n; i++)
		if (b->meters.v[i]) {
			b->target = i;
			meter_read(b->meters.v[i], take_look, b);
		}
	turn(j, now);
	if (now - b->window_at < WINDOW_NS)
		return;
	if (b->window_at)
		judge(j);
	b->window_at = now;
}
