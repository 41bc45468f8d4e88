/* SPDX-License-Identifier: MIT */
/*
 * Exception tables: where the unwinder may land inside a function. Usually a table's landing pads
 * are in the FDE that names it; splitters (basic block sections, BOLT) put them elsewhere, so a
 * module's stray pads are gathered once and asked too.
 */
#include "sym/priv.h"

typedef void (*pad_fn)(void *arg, uint64_t addr);

/* Returns how much was read: a damaged file may name one table a million times, callers stop then. */
static size_t each_pad(struct module *m, const struct fde_range *f, pad_fn add, void *arg)
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
		read_uleb(&r);			/* where the types are */
	enc = read_u8(&r);
	len = read_uleb(&r);
	if (r.bad || len > (uint64_t)(r.end - r.p))
		return 0;
	r.end = r.p + len;
	while (r.p < r.end && !r.bad) {
		uint64_t pad;

		read_encoded(&r, enc & 0x0f, 0);	/* start */
		read_encoded(&r, enc & 0x0f, 0);	/* length */
		pad = read_encoded(&r, enc & 0x0f, 0);
		read_uleb(&r);				/* action */
		if (pad && !r.bad && in_text(m, base + pad))
			add(arg, base + pad);
	}
	return len;
}

struct stray_search { struct sym_priv *p; const struct fde_range *fde; };

static void note_stray(void *arg, uint64_t addr)
{
	struct stray_search *s = arg;

	if (addr < s->fde->lo || addr >= s->fde->hi)
		*vec_add(&s->p->strays) = addr;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void find_strays(struct module *m)
{
	struct sym_priv *p = priv(m);
	struct stray_search s = { .p = p };
	size_t i, seen = 0;

	if (p->have_strays)
		return;
	p->have_strays = true;
	for (i = 0; i < p->fdes.n && seen <= m->image_size; i++) {
		s.fde = &p->fdes.v[i];
		seen += each_pad(m, s.fde, note_stray, &s);
	}
	if (p->strays.n)
		qsort(p->strays.v, p->strays.n, sizeof(*p->strays.v), by_address);
}

/* First stray pad at or behind addr. */
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

void module_landing_pads(struct module *m, uint64_t lo, uint64_t hi,
			 void (*add)(void *arg, uint64_t addr), void *arg)
{
	struct sym_priv *p = priv(m);
	size_t a = 0, b = p->fdes.n, seen = 0;

	while (a < b) {
		size_t mid = a + (b - a) / 2;

		if (p->fdes.v[mid].lo < lo)
			a = mid + 1;
		else
			b = mid;
	}
	while (a > 0 && p->fdes.v[a - 1].hi > lo)
		a--;
	for (; a < p->fdes.n && p->fdes.v[a].lo < hi && seen <= m->image_size; a++)
		seen += each_pad(m, &p->fdes.v[a], add, arg);
	find_strays(m);
	for (a = stray_from(p, lo); a < p->strays.n && p->strays.v[a] < hi; a++)
		add(arg, p->strays.v[a]);
}
