/* SPDX-License-Identifier: MIT */
/*
 * Exception tables: where the unwinder may enter a function. Usually the landing pads of a table are in the FDE
 * that refers to it; tools that split functions (basic block sections, BOLT) put them elsewhere, so all pads of a
 * module outside of their FDE are collected once and checked, too.
 *
 * Usually only calls throw, and loads are in guarded ranges because they are between two calls. A range without any
 * call is a sign of a program that expects exceptions from faults (-fnon-call-exceptions).
 */
#include "sym/priv.h"

#include <string.h>

typedef void (*pad_fn)(void *arg, uint64_t addr);
typedef void (*range_fn)(void *arg, uint64_t lo, uint64_t hi, uint64_t pad);

/*
 * Calls add() for each range of instructions whose exceptions lead to a pad. Returns how many bytes were read: a
 * damaged file may refer to one table a million times, so callers limit the sum.
 */
static size_t each_range(struct module *m, const struct fde_range *f, range_fn add, void *arg)
{
	uint64_t base = f->lo, len;
	struct reader r;
	uint8_t enc;

	if (!f->lsda)
		return 0;
	r = reader_of(image_vaddr(&priv(m)->image, f->lsda));
	enc = read_u8(&r);
	if (enc != 0xff)
		base = read_encoded(&r, enc, 0);
	if (read_u8(&r) != 0xff)
		read_uleb(&r);			/* offset of the type table */
	enc = read_u8(&r);
	len = read_uleb(&r);
	if (r.bad || len > (uint64_t)(r.end - r.p))
		return 0;
	r.end = r.p + len;
	while (r.p < r.end && !r.bad) {
		uint64_t start = read_encoded(&r, enc & 0x0f, 0), size = read_encoded(&r, enc & 0x0f, 0);
		uint64_t pad = read_encoded(&r, enc & 0x0f, 0);

		read_uleb(&r);				/* action */
		if (pad && !r.bad && in_text(m, base + pad))
			add(arg, f->lo + start, f->lo + start + size, base + pad);
	}
	return len;
}

struct pad_taker { pad_fn add; void *arg; };

static void take_pad(void *arg, uint64_t lo, uint64_t hi, uint64_t pad)
{
	const struct pad_taker *t = arg;

	t->add(t->arg, pad);
}

static size_t each_pad(struct module *m, const struct fde_range *f, pad_fn add, void *arg)
{
	struct pad_taker t = { add, arg };

	return each_range(m, f, take_pad, &t);
}

struct stray_search { struct module *m; struct sym_priv *p; const struct fde_range *fde; };

/* Whether neither opcode of a call is among the bytes. */
static bool has_no_call(struct module *m, uint64_t lo, uint64_t hi)
{
	const uint8_t *code = lo < hi ? module_bytes(m, lo, hi - lo) : NULL;

	return code && !memchr(code, 0xe8, hi - lo) && !memchr(code, 0xff, hi - lo);
}

static void note_stray(void *arg, uint64_t lo, uint64_t hi, uint64_t pad)
{
	struct stray_search *s = arg;

	if (pad < s->fde->lo || pad >= s->fde->hi)
		*vec_add(&s->p->strays) = pad;
	if (!s->p->catches_faults)
		s->p->catches_faults = has_no_call(s->m, lo, hi);
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void find_strays(struct module *m)
{
	struct sym_priv *p = priv(m);
	struct stray_search s = { .m = m, .p = p };
	size_t i, seen = 0;

	if (p->have_strays)
		return;
	p->have_strays = true;
	for (i = 0; i < p->fdes.n && seen <= m->image_size; i++) {
		s.fde = &p->fdes.v[i];
		seen += each_range(m, s.fde, note_stray, &s);
	}
	if (p->strays.n)
		qsort(p->strays.v, p->strays.n, sizeof(*p->strays.v), by_address);
}

/* Index of the first stray pad at or after addr. */
static size_t stray_from(const struct sym_priv *p, uint64_t addr)
{
	size_t a = 0, b = p->strays.n;

	while (a < b) {
		size_t mid = a + (b - a) / 2;

		if (p->strays.v[mid] < addr)
			a = mid + 1;
		else
			b = mid;
	}
	return a;
}

/* Index of the first FDE that ends after addr, as far as they are sorted. */
static size_t fde_from(const struct sym_priv *p, uint64_t addr)
{
	size_t a = 0, b = p->fdes.n;

	while (a < b) {
		size_t mid = a + (b - a) / 2;

		if (p->fdes.v[mid].lo < addr)
			a = mid + 1;
		else
			b = mid;
	}
	while (a > 0 && p->fdes.v[a - 1].hi > addr)
		a--;
	return a;
}

void module_landing_pads(struct module *m, uint64_t lo, uint64_t hi,
			 void (*add)(void *arg, uint64_t addr), void *arg)
{
	struct sym_priv *p = priv(m);
	size_t a = fde_from(p, lo), seen = 0;

	for (; a < p->fdes.n && p->fdes.v[a].lo < hi && seen <= m->image_size; a++)
		seen += each_pad(m, &p->fdes.v[a], add, arg);
	find_strays(m);
	for (a = stray_from(p, lo); a < p->strays.n && p->strays.v[a] < hi; a++)
		add(arg, p->strays.v[a]);
}

struct guard_search { uint64_t addr; bool found; };

static void look_for_guard(void *arg, uint64_t lo, uint64_t hi, uint64_t pad)
{
	struct guard_search *s = arg;

	s->found |= s->addr >= lo && s->addr < hi;
}

bool module_is_guarded(struct module *m, uint64_t addr)
{
	struct guard_search s = { .addr = addr };
	struct sym_priv *p = priv(m);

	find_strays(m);
	if (!p->catches_faults)
		return false;
	for (size_t a = fde_from(p, addr); a < p->fdes.n && p->fdes.v[a].lo <= addr; a++)
		each_range(m, &p->fdes.v[a], look_for_guard, &s);
	return s.found;
}
