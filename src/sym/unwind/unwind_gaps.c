/* SPDX-License-Identifier: MIT */
/*
 * Code without call frame information: hand-written assembly, libraries built without it. Little is certain of it,
 * but enough for most probes: at a function's first instruction only the return address is on the stack, and if it
 * begins by making a frame pointer, that is valid from there on. The end of a signal handler has the same code
 * everywhere.
 */
#include "sym/unwind/unwind_priv.h"

#include "arch/arch.h"

static const struct unwind_rule none = { .kind = UNWIND_NONE };
static const struct unwind_rule outermost = { .kind = UNWIND_END };
static const struct unwind_rule signal_frame = { .kind = UNWIND_SIGNAL };

/* Length of the code that ends a signal handler; 0: it is other code. */
static size_t sigreturn_len(const struct arch *a, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(a->thread->restorers); i++) {
		const struct code_bytes *r = &a->thread->restorers[i];

		if (r->len && n >= r->len && !memcmp(p, r->bytes, r->len))
			return r->len;
	}
	return 0;
}

bool find_sigreturn(const struct arch *a, const uint8_t *code, size_t n, size_t *off, size_t *ret_len)
{
	const uint8_t *best = NULL;

	for (size_t i = 0; *off < n && i < ARRAY_SIZE(a->thread->restorers); i++) {
		const struct code_bytes *r = &a->thread->restorers[i];
		const uint8_t *at = r->len ? memmem(code + *off, n - *off, r->bytes, r->len) : NULL;

		if (at && (!best || at < best)) {
			best = at;
			*ret_len = r->len;
		}
	}
	*off = best ? (size_t)(best - code) : n;
	return best;
}

bool sigreturn_row(struct module *m, uint64_t lo, uint64_t hi, struct row_writer *w)
{
	const uint8_t *p = module_bytes(m, lo, hi - lo);

	if (!p || !sigreturn_len(m->arch, p, hi - lo))
		return false;
	row_add(w, lo - 1, &signal_frame);	/* the handler returns here without a call: ip - 1 is looked up */
	return true;
}

/* Rows of a function that begins by making a frame pointer, which is done by two instructions. False: it does not. */
static bool frame_rows(const struct arch *a, const uint8_t *p, uint64_t n, uint64_t addr, struct row_writer *w)
{
	struct stack_height h = height_at_entry(a);
	struct unwind_rule pushed, framed;
	struct insn first, second;
	uint64_t at = 0;

	if (a->idioms->landing_len && n >= a->idioms->landing_len && !memcmp(p, a->idioms->landing, a->idioms->landing_len))
		at = a->idioms->landing_len;
	if (a->decode(p + at, n - at, addr + at, &first) < 0 || first.kind != INSN_PLAIN || !(first.flags & INSN_USES_SP))
		return false;
	a->unwind->follow(&h, p + at, first.len);
	at += first.len;
	pushed = rule_of_height(a, &h);
	if (!h.saved_fp || a->decode(p + at, n - at, addr + at, &second) < 0 || second.kind != INSN_PLAIN || !(second.flags & INSN_USES_SP))
		return false;
	a->unwind->follow(&h, p + at, second.len);
	if (h.fp == HEIGHT_UNKNOWN)
		return false;
	h.depth = HEIGHT_UNKNOWN;	/* it may change from here on */
	framed = rule_of_height(a, &h);
	row_add(w, addr + at, &pushed);
	row_add(w, addr + at + second.len, &framed);
	return true;
}

static void function_rows(struct module *m, const struct func *f, uint64_t hi, struct row_writer *w)
{
	struct stack_height entry = height_at_entry(m->arch);
	struct unwind_rule at_entry = rule_of_height(m->arch, &entry);
	uint64_t n = MIN(f->size, hi - f->addr);
	const uint8_t *p = module_bytes(m, f->addr, n);

	if (!p)
		return;
	if (f->addr == m->entry) {
		row_add(w, f->addr, &outermost);
		return;
	}
	if (sigreturn_row(m, f->addr, f->addr + n, w))
		return;
	row_add(w, f->addr, &at_entry);
	if (!frame_rows(m->arch, p, n, f->addr, w))
		row_add(w, f->addr + 1, &none);
}

/* Without a symbol (stripped file) the trampoline is found by its bytes: it is always aligned. */
static void stray_trampolines(struct module *m, uint64_t lo, uint64_t hi, struct row_writer *w)
{
	const uint8_t *p = module_bytes(m, lo, hi - lo);
	size_t off, len;

	for (off = 0; p && find_sigreturn(m->arch, p, hi - lo, &off, &len); off += len) {
		row_add(w, lo + off - 1, &signal_frame);
		row_add(w, lo + off + len, &none);
	}
}

size_t func_from(const struct module *m, uint64_t addr)
{
	size_t a = 0, b = m->funcs.n, mid;

	while (a < b) {
		mid = a + (b - a) / 2;
		if (m->funcs.v[mid].addr < addr)
			a = mid + 1;
		else
			b = mid;
	}
	return a;
}

void gap_rows(struct module *m, uint64_t lo, uint64_t hi, struct row_writer *w)
{
	size_t a = func_from(m, lo), i;

	if (a < m->funcs.n && m->funcs.v[a].addr < hi && code_rows(m, lo, hi, w))
		return;
	for (i = a; i < m->funcs.n && m->funcs.v[i].addr < hi; i++) {
		const struct func *f = &m->funcs.v[i];
		uint64_t end = f->addr + f->size;

		if (i == a)
			stray_trampolines(m, lo, f->addr, w);
		function_rows(m, f, hi, w);
		if (end < hi)
			row_add(w, end, &none);
	}
	if (i == a)
		stray_trampolines(m, lo, hi, w);
}
