/* SPDX-License-Identifier: MIT */
/*
 * Finds filler near an address, and bytes that must never be changed although they could be. The latter are few,
 * and for each of them some code compares program counters or bytes: unwinders recognise the signal return by its
 * bytes, the C library its cancellation points by their range, the kernel restartable sequences.
 */
#include "pad/code_priv.h"

#include <string.h>

/* Finds the first run that has `need` bytes from an address in [from, to] on. */
static bool pick_forward(const struct body *b, uint64_t from, uint64_t to, size_t need,
			 struct span *ret_span)
{
	for (size_t i = 0; i < b->filler.n; i++) {
		uint64_t lo = MAX(b->filler.v[i].lo, from), hi = b->filler.v[i].hi;

		if (lo > to)
			return false;
		if (hi > lo && hi - lo >= need) {
			*ret_span = (struct span){ lo, hi };
			return true;
		}
	}
	return false;
}

/* Finds the last run that has `need` bytes within [from, to). */
static bool pick_backward(const struct body *b, uint64_t from, uint64_t to, size_t need,
			  struct span *ret_span)
{
	for (size_t i = b->filler.n; i-- > 0; ) {
		uint64_t lo = MAX(b->filler.v[i].lo, from), hi = MIN(b->filler.v[i].hi, to);

		if (b->filler.v[i].hi <= from)
			return false;
		if (hi > lo && hi - lo >= need) {
			*ret_span = (struct span){ lo, hi };
			return true;
		}
	}
	return false;
}

bool code_filler_near(struct code *c, uint64_t addr, int64_t reach, size_t need, struct span *ret_span)
{
	size_t above = code_starts_up_to(c, addr), n = c->m->funcs.n;
	uint64_t far;

	need = MAX(need, (size_t)1);
	if (reach >= 0) {
		far = addr + (uint64_t)reach < addr ? UINT64_MAX : addr + (uint64_t)reach;
		for (size_t i = above ? above - 1 : 0; i < n && c->m->funcs.v[i].addr <= far; i++)
			if (pick_forward(code_linked(c, i), addr, far, need, ret_span))
				return true;
		return false;
	}
	far = addr < -(uint64_t)reach ? 0 : addr + (uint64_t)reach;
	for (size_t i = above; i-- > 0; ) {
		struct body *b = code_linked(c, i);

		if (b->f.hi <= far)
			break;
		if (pick_backward(b, far, addr, need, ret_span))
			return true;
	}
	return false;
}

#define AROUND 64

static const char *pattern_near(struct code *c, uint64_t lo, uint64_t hi)
{
	const struct segment *s = code_text_at(c, lo);
	uint64_t from = MAX(s->addr, lo > AROUND ? lo - AROUND : 0);
	uint64_t to = MIN(s->addr + s->filesz, hi + AROUND);
	const uint8_t *p = module_bytes(c->m, from, to - from);
	const struct long_code *cancel = &c->arch->idioms->musl_cancel;

	if (!p)
		return "no bytes of the file are behind this address";
	for (size_t i = 0; i < ARRAY_SIZE(c->arch->thread->restorers); i++) {
		const struct code_bytes *r = &c->arch->thread->restorers[i];

		for (const uint8_t *at = p; r->len && (at = memmem(at, p + (to - from) - at, r->bytes, r->len)); at++) {
			uint64_t found = from + (at - p);

			/* glibc's unwind data begins a byte before it */
			if (lo < found + r->len && hi > found - 1)
				return "signal return code, which unwinders recognise by its bytes";
		}
	}
	/* Stripped libraries have no name for it. */
	if (cancel->len && memmem(p, to - from, cancel->bytes, cancel->len))
		return "cancellation point: the C library compares program counters with this range";
	return NULL;
}

static const char *rseq_near(struct code *c, uint64_t lo, uint64_t hi)
{
	const struct rseq_range *r;
	size_t n = module_rseqs(c->m, &r);

	for (size_t i = 0; i < n; i++) {
		if (lo < r[i].start + r[i].len && hi >= r[i].start)
			return "restartable sequence of the program";
		if (lo < r[i].abort && hi > r[i].abort - 4)
			return "signature of a restartable sequence of the program";
	}
	return NULL;
}

static bool is_known_abort(const struct rseq_range *r, size_t n, uint64_t abort)
{
	for (size_t i = 0; i < n; i++)
		if (r[i].abort == abort)
			return true;
	return false;
}

/*
 * The kernel requires the C library's signature before the abort address of a restartable sequence. If the file
 * lists no sequence for it, the descriptor is made at run time, and the sequence may be any part of this function:
 * a jump in it would lead out of the sequence, and the kernel would not abort it there.
 */
static const char *rseq_unnamed(struct code *c, const struct func *f)
{
	uint64_t end = MIN(code_next_start(c, f->addr + 1), f->addr + f->size + 64);
	const struct segment *s = code_text_at(c, f->addr);
	uint32_t sig = c->arch->thread->rseq_sig;
	const uint8_t *p, *at;
	const struct rseq_range *r;
	size_t n, len;

	end = s ? MIN(end, s->addr + s->filesz) : 0;
	len = end > f->addr ? end - f->addr : 0;
	p = len ? module_bytes(c->m, f->addr, len) : NULL;
	if (!p)
		return NULL;
	n = module_rseqs(c->m, &r);
	for (at = p; (at = memmem(at, p + len - at, &sig, sizeof(sig))); at++)
		if (!c->arch->idioms->is_operand(at, at - p) && !is_known_abort(r, n, f->addr + (at - p) + sizeof(sig)))
			return "the function has a restartable sequence of the program whose bounds are not known";
	return NULL;
}

static const char *name_forbids(const char *name)
{
	if (!strncmp(name, "__syscall_cancel_arch", 21) || !strcmp(name, "__syscall_cp_asm") ||
	    !strncmp(name, "__cp_begin", 10) || !strncmp(name, "__cp_end", 8) ||
	    !strncmp(name, "__cp_cancel", 11))
		return "cancellation point: the C library compares program counters with this range";
	if (strstr(name, "SafeFetch32") || strstr(name, "SafeFetchN") || strstr(name, "ProbeMemory"))
		return "the program's fault handler compares program counters with this function";
	return NULL;
}

static const char *names_forbid(struct code *c, const struct func *f)
{
	const char *why;

	for (size_t i = 0; i < f->nalias && f->alias + i < c->m->names.n; i++) {
		why = name_forbids(c->m->names.v[f->alias + i].name);
		if (why)
			return why;
	}
	return f->name ? name_forbids(f->name) : NULL;
}

static bool is_gap_filler(struct code *c, uint64_t lo, uint64_t hi)
{
	size_t above = code_starts_up_to(c, lo);
	const struct body *b;

	if (!above)
		return false;
	b = code_linked(c, above - 1);
	for (size_t i = 0; i < b->filler.n; i++)
		if (lo >= b->filler.v[i].lo && hi <= b->filler.v[i].hi)
			return true;
	return false;
}

/*
 * Bytes after a jump that no known branch reaches may be a table, which can look like a return instruction. In a
 * function that was not linked (yet) only the first instructions are ever requested, and these are reached.
 */
static const char *orphan_near(struct code *c, size_t num, uint64_t lo, uint64_t hi)
{
	const struct body *b = priv(c)->bodies[num];

	for (size_t i = 0; b && b->linked && i < b->orphans.n; i++)
		if (lo < b->orphans.v[i].hi && hi > b->orphans.v[i].lo)
			return "nothing is known to lead here: it may be data";
	return NULL;
}

const char *code_never(struct code *c, uint64_t addr)
{
	size_t num = code_find(c, addr);
	const char *why;

	if (num == NO_FUNC)
		return NULL;
	why = names_forbid(c, &c->m->funcs.v[num]);
	return why ? why : rseq_unnamed(c, &c->m->funcs.v[num]);
}

const char *code_forbidden(struct code *c, uint64_t lo, uint64_t hi)
{
	const struct segment *s = code_text_at(c, lo);
	size_t num = code_find(c, lo);
	const char *why;

	if (!s || hi <= lo || hi > s->addr + s->filesz)
		return "no bytes of the file's text are behind this address";
	why = pattern_near(c, lo, hi);
	if (!why)
		why = rseq_near(c, lo, hi);
	if (!why)
		why = code_never(c, lo);
	if (!why && num != NO_FUNC)
		why = orphan_near(c, num, lo, hi);
	if (!why && num == NO_FUNC && !is_gap_filler(c, lo, hi))
		why = "no function is known here: it may be data";
	return why;
}
