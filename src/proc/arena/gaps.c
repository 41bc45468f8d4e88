/* SPDX-License-Identifier: MIT */
/*
 * Where pieces of the arena may be mapped without getting in the program's way. Room to grow is left free for
 * the heap above the break, the stack down to its limit, and new mappings at the side of the large gaps where the
 * kernel puts them. A strip at both ends of every gap stays empty, so that a program that
 * runs off the end of a mapping faults as it did before.
 *
 * Some programs map and unmap all the time, for instance a stack for each request: a gap that is free
 * now may be taken a moment later. Ranges that changed between two reads of the mappings are "restless", and they are
 * avoided from then on, with a wide margin.
 */
#include "arch/page.h"
#include "proc/internal.h"
#include "proc/undo/undo.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include "base/err.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define USER_TOP (arch_host()->user_top - 4096)
#define LOW_END (64 * 1024ull)
#define STRIP (64 * 1024ull)		/* kept empty next to any mapping */
#define HEAP_ROOM GIB
#define STACK_LEAST (64 * MIB)
#define STACK_MOST GIB
#define LARGE (4 * GIB)			/* a gap into which the kernel puts new mappings */
#define ROOM_BELOW MIN(256 * MIB, arch_host()->jumps->reach / 4)	/* of the mapping above a large gap (top-down layout): jumps must reach beyond */
#define ROOM_BELOW_EXE MIB
#define ROOM_ABOVE (64 * MIB)		/* of the mapping below it (bottom-up layout) */
#define MARGIN (64 * MIB)		/* around what changed between two looks */

static uint64_t lowest_allowed(void)
{
	static uint64_t lowest;
	unsigned long long min = 0;
	FILE *f = lowest ? NULL : fopen("/proc/sys/vm/mmap_min_addr", "re");

	if (f) {
		if (fscanf(f, "%llu", &min) != 1)
			min = 0;
		fclose(f);
	}
	min = (min + PAGE - 1) & ~(PAGE - 1);
	if (!lowest)
		lowest = MAX(min, LOW_END);
	return lowest;
}

/* Where the heap begins, also if the program has none yet. 0: not known. */
static uint64_t start_brk(struct proc *p)
{
	struct proc_priv *v = priv(p);
	bool still = proc_is_still(p);
	struct task_stat s;

	if (still && v->heap)
		return v->heap;
	if (task_stat(p->pid, p->pid, &s) < 0)
		return 0;
	if (still)
		v->heap = s.start_brk;
	return s.start_brk;
}

static uint64_t stack_limit(struct proc *p)
{
	struct rlimit l;

	if (prlimit(p->pid, RLIMIT_STACK, NULL, &l) < 0)
		return STACK_MOST;
	return MIN(MAX(l.rlim_cur, STACK_LEAST), STACK_MOST);
}

/* Ranges that are kept free for growth though nothing is mapped there. */
struct growth { struct gap heap, stack; };

static void find_growth(struct proc *p, struct growth *g)
{
	uint64_t brk = start_brk(p);
	size_t i;

	*g = (struct growth){ 0 };
	for (i = 0; i < p->maps.n; i++) {
		const struct map *m = &p->maps.v[i];

		if (strcmp(m->path, "[heap]") == 0)
			brk = MAX(brk, m->end);
		if (strcmp(m->path, "[stack]") == 0) {
			uint64_t room = stack_limit(p) + MIB;

			g->stack.hi = m->end;
			g->stack.lo = m->end > room ? m->end - room : 0;
		}
	}
	if (brk)
		g->heap = (struct gap){ brk, brk + HEAP_ROOM };
}

static void add_gap(gap_list *out, uint64_t lo, uint64_t hi)
{
	if (lo < hi && hi - lo >= PAGE)
		*vec_add(out) = (struct gap){ lo, hi };
}

/* [lo, hi) without [cut.lo, cut.hi), handed on to the next cut. */
static void add_without(gap_list *out, uint64_t lo, uint64_t hi, const struct gap *cuts, size_t n)
{
	if (lo >= hi)
		return;
	if (!n) {
		add_gap(out, lo, hi);
		return;
	}
	if (cuts->hi <= lo || cuts->lo >= hi) {
		add_without(out, lo, hi, cuts + 1, n - 1);
		return;
	}
	add_without(out, lo, MIN(hi, cuts->lo), cuts + 1, n - 1);
	add_without(out, MAX(lo, cuts->hi), hi, cuts + 1, n - 1);
}

/*
 * New mappings are put below the lowest library or, in the old layout, above the highest one: never
 * below the program itself, so that side keeps only a strip.
 */
static void add_between(gap_list *out, const struct growth *g, uint64_t lo, uint64_t hi)
{
	bool large = hi > lo && hi - lo > LARGE;
	uint64_t above = large ? ROOM_ABOVE : STRIP;
	uint64_t below = large ? ROOM_BELOW : STRIP;
	struct gap cuts[2] = { g->heap, g->stack };

	if (hi <= g->heap.lo)
		below = MIN(below, ROOM_BELOW_EXE);
	if (hi < below)
		return;
	lo += above;
	hi -= below;
	add_without(out, lo & ~(PAGE - 1), hi & ~(PAGE - 1), cuts, ARRAY_SIZE(cuts));
}

static int gap_order(const void *a, const void *b)
{
	const struct gap *x = a, *y = b;

	return (x->lo > y->lo) - (x->lo < y->lo);
}

static void sort_and_join(gap_list *l)
{
	size_t kept = 0;

	if (!l->n)
		return;
	qsort(l->v, l->n, sizeof(*l->v), gap_order);
	for (size_t i = 1; i < l->n; i++) {
		if (l->v[i].lo <= l->v[kept].hi)
			l->v[kept].hi = MAX(l->v[kept].hi, l->v[i].hi);
		else
			l->v[++kept] = l->v[i];
	}
	l->n = kept + 1;
}

/* What is in one and not in the other; both sorted and without overlaps. */
static void add_difference(gap_list *out, const gap_list *one, const gap_list *other)
{
	size_t first = 0;

	for (size_t i = 0; i < one->n; i++) {
		uint64_t at = one->v[i].lo, hi = one->v[i].hi;

		while (first < other->n && other->v[first].hi <= at)
			first++;
		for (size_t k = first; k < other->n && other->v[k].lo < hi; k++) {
			add_gap(out, at, other->v[k].lo);
			at = MAX(at, other->v[k].hi);
		}
		add_gap(out, at, hi);
	}
}

/* The addresses that the program leaves free: pieces of arenas don't count as mappings of the program. */
static void list_free(struct proc *p, gap_list *out)
{
	uint64_t at = 0;

	for (size_t i = 0; i < p->maps.n && p->maps.v[i].start < USER_TOP; i++) {
		if (is_arena_path(p->maps.v[i].path))
			continue;
		add_gap(out, at, p->maps.v[i].start);
		at = MAX(at, p->maps.v[i].end);
	}
	add_gap(out, at, USER_TOP);
}

/* The heap and the stack may grow: their room is kept anyway. */
static bool is_growth(const struct growth *g, const struct gap *changed, uint64_t heap)
{
	return (changed->lo >= heap && changed->hi <= g->heap.hi) ||
	       (changed->lo >= g->stack.lo && changed->hi <= g->stack.hi);
}

static void note_changes(struct proc *p, const struct growth *g)
{
	struct proc_priv *v = priv(p);
	uint64_t heap = start_brk(p);
	gap_list now = { 0 }, changed = { 0 };

	list_free(p, &now);
	if (v->free_before.n) {
		add_difference(&changed, &now, &v->free_before);
		add_difference(&changed, &v->free_before, &now);
	}
	for (size_t i = 0; i < changed.n; i++) {
		const struct gap *c = &changed.v[i];

		if (!is_growth(g, c, heap))
			*vec_add(&v->restless) = (struct gap){ c->lo - MIN(c->lo, MARGIN), c->hi + MARGIN };
	}
	sort_and_join(&v->restless);
	vec_free(&changed);
	vec_free(&v->free_before);
	v->free_before = now;
}

int proc_gaps(struct proc *p, gap_list *ret_gaps)
{
	gap_list all = { 0 }, quiet = { 0 };
	struct growth g;
	uint64_t at = lowest_allowed();
	size_t i;
	int r = proc_read_maps(p);

	if (r < 0)
		return r;
	find_growth(p, &g);
	note_changes(p, &g);
	at -= MIN(at, STRIP);	/* no mapping below: no strip is needed there */
	for (i = 0; i < p->maps.n && p->maps.v[i].start < USER_TOP; i++) {
		add_between(&all, &g, at, p->maps.v[i].start);
		at = MAX(at, p->maps.v[i].end);
	}
	if (at < USER_TOP)
		add_between(&all, &g, at, USER_TOP);
	add_difference(&quiet, &all, &priv(p)->restless);
	vec_free(&all);
	*ret_gaps = quiet;
	return 0;
}
