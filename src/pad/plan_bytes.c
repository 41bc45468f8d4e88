/* SPDX-License-Identifier: MIT */
/*
 * The final value of every byte of the text. A cell is zero until the plan touches its byte, so that the kernel
 * allocates memory only for the planned parts of a large text.
 */
#include "arch/page.h"
#include "pad/plan_priv.h"

#define CELL_WRITTEN 0x8000
#define CELL_LEANER 0x0100	/* counted in seven bits */
#define CELL_LEANERS 0x7f00

static uint16_t *cell(const struct plan *p, uint64_t addr)
{
	return &p->cells[addr - p->text_lo];
}

void plan_foreign(struct plan *p, uint64_t lo, uint64_t hi)
{
	*vec_add(&p->foreign) = (struct span){ lo, hi };
}

static int compare_span(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

void plan_beside(struct plan *p, const struct plan *other)
{
	size_t n = 0;

	for (size_t i = 0; i < other->windows.n; i++) {
		const struct window *w = other->windows.v[i];

		plan_foreign(p, w->start, MAX(w->end, w->start + w->rel + 4));
		if (w->shape == SHAPE_HOP)
			plan_foreign(p, w->land, w->land + jump_len(p));
	}
	if (!p->foreign.n)
		return;
	qsort(p->foreign.v, p->foreign.n, sizeof(*p->foreign.v), compare_span);
	for (size_t i = 1; i < p->foreign.n; i++) {
		struct span *last = &p->foreign.v[n], s = p->foreign.v[i];

		if (s.lo <= last->hi)
			last->hi = MAX(last->hi, s.hi);
		else
			p->foreign.v[++n] = s;
	}
	p->foreign.n = n + 1;
}

bool plan_is_foreign(const struct plan *p, uint64_t lo, uint64_t hi)
{
	size_t a = 0, b = p->foreign.n;

	while (a < b) {
		size_t mid = a + (b - a) / 2;

		if (p->foreign.v[mid].hi <= lo)
			a = mid + 1;
		else
			b = mid;
	}
	return a < p->foreign.n && p->foreign.v[a].lo < hi;
}

const char *plan_forbidden(struct plan *p, uint64_t lo, uint64_t hi)
{
	if (plan_is_foreign(p, lo, hi))
		return "the text differs from its file here (a breakpoint or another tracer?)";
	return code_forbidden(p->code, lo, hi);
}

bool plan_has_bytes(const struct plan *p, uint64_t addr, size_t n)
{
	return addr >= p->text_lo && addr < p->text_hi && n <= p->text_hi - addr &&
	       module_bytes(p->m, addr, n) && !plan_is_foreign(p, addr, addr + n);
}

uint8_t plan_byte(const struct plan *p, uint64_t addr)
{
	uint16_t c = *cell(p, addr);

	return c & CELL_WRITTEN ? c & 0xff : *module_bytes(p->m, addr, 1);
}

bool plan_is_free(const struct plan *p, uint64_t addr, size_t n)
{
	if (!plan_has_bytes(p, addr, n))
		return false;
	for (size_t i = 0; i < n; i++)
		if (*cell(p, addr + i))
			return false;
	return true;
}

bool plan_is_written(const struct plan *p, uint64_t addr)
{
	return plan_has_bytes(p, addr, 1) && (*cell(p, addr) & CELL_WRITTEN);
}

bool plan_is_leaned_on(const struct plan *p, uint64_t addr, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (*cell(p, addr + i) & CELL_LEANERS)
			return true;
	return false;
}

void plan_write_byte(struct plan *p, uint64_t addr, uint8_t byte)
{
	uint16_t *c = cell(p, addr);

	*c = (*c & CELL_LEANERS) | CELL_WRITTEN | byte;
}

void plan_unwrite(struct plan *p, uint64_t addr, size_t n)
{
	for (size_t i = 0; i < n; i++)
		*cell(p, addr + i) &= CELL_LEANERS;
}

void plan_lean(struct plan *p, uint64_t addr, size_t n, int by)
{
	for (size_t i = 0; i < n; i++)
		*cell(p, addr + i) += by * CELL_LEANER;
}

/*
 * Text is written page by page. If the tracer is killed in between, each page is new or old, and every combination
 * must work: so a jump, and bytes that only work together, are in one page.
 */
bool plan_same_page(const struct plan *p, uint64_t lo, uint64_t hi)
{
	return p->may_cross || PAGE_DOWN(lo + p->bias) == PAGE_DOWN(hi - 1 + p->bias);
}
