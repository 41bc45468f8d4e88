/* SPDX-License-Identifier: MIT */
/* Which bytes can be reached other than from the instruction before, and the module's lists from which that is known. */
#include "pad/code_priv.h"

#include <string.h>

static void add_pointer(void *arg, uint64_t addr)
{
	addr_list *list = arg;

	*vec_add(list) = addr;
}

static int compare_addr(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void addr_sort(addr_list *list)
{
	size_t n = 0;

	if (!list->n)
		return;
	qsort(list->v, list->n, sizeof(*list->v), compare_addr);
	for (size_t i = 0; i < list->n; i++)
		if (!n || list->v[i] != list->v[n - 1])
			list->v[n++] = list->v[i];
	list->n = n;
}

const addr_list *code_pointers(struct code *c)
{
	addr_list *list = &priv(c)->pointers;

	if (!priv(c)->have_pointers) {
		priv(c)->have_pointers = true;
		module_text_pointers(c->m, add_pointer, list);
		addr_sort(list);
	}
	return list;
}

size_t addr_lower(const addr_list *list, uint64_t addr)
{
	size_t lo = 0, hi = list->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (list->v[mid] < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Index of the first extra target at or above addr. */
static size_t extra_lower(struct code *c, uint64_t addr)
{
	size_t lo = 0, hi = priv(c)->extra.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (priv(c)->extra.v[mid].addr < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static enum target_why extra_at(struct code *c, uint64_t addr)
{
	size_t i = extra_lower(c, addr);

	if (i < priv(c)->extra.n && priv(c)->extra.v[i].addr == addr)
		return priv(c)->extra.v[i].why;
	return TARGET_NONE;
}

void code_mark_extra(struct code *c, struct body *b)
{
	for (size_t i = extra_lower(c, b->f.lo); i < priv(c)->extra.n; i++) {
		if (priv(c)->extra.v[i].addr >= b->f.hi)
			break;
		body_mark(b, priv(c)->extra.v[i].addr, priv(c)->extra.v[i].why);
	}
}

bool code_add_target(struct code *c, uint64_t addr, enum target_why why)
{
	struct code_priv *pr = priv(c);
	size_t i = extra_lower(c, addr), num = code_find(c, addr);

	if (why == TARGET_NONE)
		return false;
	if (num != NO_FUNC && pr->bodies[num])
		body_mark(pr->bodies[num], addr, why);
	if (i < pr->extra.n && pr->extra.v[i].addr == addr)
		return false;
	vec_add(&pr->extra);
	memmove(&pr->extra.v[i + 1], &pr->extra.v[i], (pr->extra.n - 1 - i) * sizeof(*pr->extra.v));
	pr->extra.v[i] = (struct extra_target){ addr, why };
	return true;
}

/* Finds something only if the whole text was scanned: then branches from other functions are known as well. */
static enum target_why cross_at(struct code *c, uint64_t addr)
{
	for (size_t i = cross_lower(c, addr); i < priv(c)->cross.n; i++) {
		if (priv(c)->cross.v[i].to != addr)
			break;
		if (cross_confirm(c, i)) {
			code_add_target(c, addr, TARGET_BRANCH);
			return TARGET_BRANCH;
		}
	}
	return TARGET_NONE;
}

enum target_why code_target(struct code *c, const struct fcode *f, uint64_t addr)
{
	const addr_list *pointers;
	enum target_why why;
	size_t i;

	if (f && addr >= f->lo && addr < f->hi && f->target[addr - f->lo])
		return f->target[addr - f->lo];
	why = extra_at(c, addr);
	if (why != TARGET_NONE)
		return why;
	if (!f || addr < f->lo || addr >= f->hi) {
		if (code_next_start(c, addr) == addr)
			return TARGET_ENTRY;
		pointers = code_pointers(c);
		i = addr_lower(pointers, addr);
		if (i < pointers->n && pointers->v[i] == addr)
			return TARGET_POINTER;
	}
	return cross_at(c, addr);
}

/* Whether there is a target in (lo, hi) that the function's own bytes don't show. */
static bool known_inside(struct code *c, const struct func *f, uint64_t lo, uint64_t hi)
{
	const addr_list *pointers = code_pointers(c);
	const struct rseq_range *rseq;
	size_t i = addr_lower(pointers, lo + 1), n = module_rseqs(c->m, &rseq);

	if (i < pointers->n && pointers->v[i] < hi)
		return true;
	if (code_next_start(c, lo + 1) < hi)
		return true;
	i = extra_lower(c, lo + 1);
	if (i < priv(c)->extra.n && priv(c)->extra.v[i].addr < hi)
		return true;
	for (i = 0; i < n; i++)
		if (rseq[i].start < f->addr + f->size && f->addr <= rseq[i].start + rseq[i].len)
			return true;
	return false;
}

static void note_landing(void *arg, uint64_t addr)
{
	struct span *s = arg;

	if (addr > s->lo && addr < s->hi)
		s->hi = s->lo;	/* recorded as an empty window */
}

bool code_window_is_quiet(struct code *c, const struct func *f, uint64_t lo, uint64_t hi)
{
	uint64_t end = code_func_end(c, f - c->m->funcs.v);
	size_t size = end - f->addr;
	const struct branch_scan *scan = c->arch->jumps->scan;
	struct span landing = { lo, hi };
	const uint8_t *code;

	if (lo < f->addr || lo >= end || hi <= lo)
		return false;
	if (hi - lo <= c->arch->jumps->insn_least)
		return true;
	code = module_bytes(c->m, f->addr, size);
	if (!code || size > INT32_MAX || known_inside(c, f, lo, hi))
		return false;
	if (!scan || scan->enters(code, size, f->addr, lo + 1 - f->addr, hi - lo - 1, c->m->is_exec))
		return false;
	module_landing_pads(c->m, f->addr, end, note_landing, &landing);
	return landing.hi > landing.lo;
}
