/* SPDX-License-Identifier: MIT */
/*
 * Code without call frame information: hand-written assembly, libraries built without it. Little is certain of it,
 * but enough for most probes: at a function's first instruction only the return address is on the stack, and if it
 * begins by making rbp its frame pointer, rbp is valid from there on. The end of a signal handler has the same code
 * everywhere.
 */
#include "sym/unwind_priv.h"

enum { RSP = 4, RBP = 5 };

static const struct unwind_rule none = { .kind = UNWIND_NONE };
static const struct unwind_rule at_entry = { .kind = UNWIND_CFA, .reg = RSP, .off = 8, .ra = -8 };
static const struct unwind_rule pushed = { .kind = UNWIND_CFA, .reg = RSP, .off = 16, .ra = -8,
	.flags = UNWIND_BP_CFA, .bp = -16 };
static const struct unwind_rule framed = { .kind = UNWIND_CFA, .reg = RBP, .off = 16, .ra = -8,
	.flags = UNWIND_BP_CFA, .bp = -16 };
static const struct unwind_rule outermost = { .kind = UNWIND_END };
static const struct unwind_rule signal_frame = { .kind = UNWIND_SIGNAL };

static const uint8_t sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };	/* mov $15,%rax; syscall */
static const uint8_t sigreturn32[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };		/* mov $15,%eax; syscall */
static const uint8_t endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa };
static const uint8_t push_rbp[] = { 0x55, 0x48, 0x89, 0xe5 };	/* push %rbp; mov %rsp,%rbp */

static bool starts_with(const uint8_t *p, size_t n, const uint8_t *what, size_t len)
{
	return n >= len && memcmp(p, what, len) == 0;
}

#define STARTS(p, n, what) starts_with(p, n, what, sizeof(what))

bool is_sigreturn(const uint8_t *p, size_t n)
{
	return STARTS(p, n, sigreturn) || STARTS(p, n, sigreturn32);
}

bool sigreturn_row(struct module *m, uint64_t lo, uint64_t hi, struct row_writer *w)
{
	const uint8_t *p = module_bytes(m, lo, hi - lo);

	if (!p || !is_sigreturn(p, hi - lo))
		return false;
	row_add(w, lo - 1, &signal_frame);	/* the handler returns here without a call: ip - 1 is looked up */
	return true;
}

static void function_rows(struct module *m, const struct func *f, uint64_t hi, struct row_writer *w)
{
	uint64_t n = MIN(f->size, hi - f->addr), skip = 0;
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
	if (STARTS(p, n, endbr))
		skip = sizeof(endbr);
	if (STARTS(p + skip, n - skip, push_rbp)) {
		row_add(w, f->addr + skip + 1, &pushed);
		row_add(w, f->addr + skip + 4, &framed);
	} else {
		row_add(w, f->addr + 1, &none);
	}
}

/* Without a symbol (stripped file) the trampoline is found by its bytes: it is always aligned. */
static void stray_trampolines(struct module *m, uint64_t lo, uint64_t hi, struct row_writer *w)
{
	const uint8_t *p = module_bytes(m, lo, hi - lo), *at = p, *end = p + (hi - lo);
	static const uint8_t syscall_15[] = { 0x0f, 0, 0, 0, 0x0f, 0x05 };

	while (p && (at = memmem(at, end - at, syscall_15, sizeof(syscall_15)))) {
		uint64_t addr = lo + (at - p);
		uint64_t start = at - p >= 3 && is_sigreturn(at - 3, end - at + 3) ? addr - 3 : addr - 1;

		at += sizeof(syscall_15);
		if (start < lo || !is_sigreturn(p + (start - lo), hi - start))
			continue;
		row_add(w, start - 1, &signal_frame);
		row_add(w, addr + sizeof(syscall_15), &none);
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
