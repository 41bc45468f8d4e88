/* SPDX-License-Identifier: MIT */
/*
 * Writes the bytes of a plan: every pad, the jumps that lead to them, and for a thread that is in the middle of
 * either where it must be moved to.
 *
 *	pad:	bodies of the wants at the first instruction
 *		first instruction
 *		bodies of the wants at the second
 *		...
 *		bodies of the wants at the end of the window (tail)
 *		jump back to the end of the window
 *		bodies of the exits by a conditional jump, each with the jump to its target
 */
#include "arch/written.h"
#include "pad/plan_priv.h"

#include <string.h>

#include "base/err.h"

struct pen {
	struct plan *p;
	const struct plan_output *out;
	struct text_patch *patch;
	const struct window *w;
	uint8_t *here;		/* the tracer's mapping of the pad */
	uint32_t at;		/* bytes written so far */
	int err;
};

static uint64_t pen_addr(const struct pen *n)
{
	return n->w->pad + n->at;
}

static void move_out(struct pen *n, uint64_t from, uint64_t to_link)
{
	*vec_add(&n->patch->moves_out) = (struct move){ TADDR(from), TADDR(to_link + n->p->bias) };
}

static void put_jump(struct pen *n, uint64_t to)
{
	if (n->at + jump_len(n->p) > n->w->pad_size ||
	    n->p->arch->jump(n->here + n->at, pen_addr(n), to + n->p->bias) < 0)
		n->err = -ERANGE;
	move_out(n, pen_addr(n), to);
	n->at += jump_len(n->p);
}

static bool is_taken_exit(const struct slot *s)
{
	return s->want->kind == WANT_EXIT && s->want->exit_kind == EXIT_JCC;
}

/* Writes the bodies of the wants at addr; taken: only those for the taken branch of a conditional jump. */
static int put_bodies(struct pen *n, uint64_t addr, bool taken)
{
	size_t first, count = slots_in(n->p, addr, addr + 1, &first);
	int put = 0;

	for (size_t i = first; i < first + count; i++) {
		const struct slot *s = &n->p->slots[i];

		if (s->state != SLOT_PLACED || is_taken_exit(s) != taken)
			continue;
		if (n->at + body_of(n->p, s) > n->w->pad_size) {
			n->err = -ENOSPC;
			return put;
		}
		s->want->pushed = !n->p->arch->one_insn && (n->w->shape == SHAPE_CALL || n->w->shape == SHAPE_CALL_SLOT);
		n->out->body(n->out->arg, s->want, pen_addr(n), n->here + n->at);
		n->at += body_of(n->p, s);
		put++;
	}
	return put;
}

static bool has_taken(const struct pen *n, uint64_t addr)
{
	size_t first, count = slots_in(n->p, addr, addr + 1, &first);

	for (size_t i = first; i < first + count; i++)
		if (n->p->slots[i].state == SLOT_PLACED && is_taken_exit(&n->p->slots[i]))
			return true;
	return false;
}

/* Copies an instruction; with live addresses, because a moved call stores its return address. */
static void put_insn(struct pen *n, uint64_t addr, struct insn in, uint64_t stub)
{
	uint8_t out[RELOC_MAX];
	int len;

	if (in.rel_size)
		in.target = stub ? stub : in.target + n->p->bias;
	len = n->p->arch->relocate(module_bytes(n->p->m, addr, in.len), &in, addr + n->p->bias,
				   pen_addr(n), out);
	if (len < 0 || n->at + len > n->w->pad_size) {
		n->err = len < 0 ? len : -ENOSPC;
		return;
	}
	memcpy(n->here + n->at, out, len);
	move_out(n, pen_addr(n), addr);
	n->at += len;
}

/* A conditional jump whose taken branch is observed leads to its bodies, at the end of the pad. */
struct stub { uint64_t addr, target, from; struct insn in; };

static int put_run(struct pen *n, struct stub *stubs)
{
	const struct window *w = n->w;
	struct plan *p = n->p;
	int nstubs = 0;
	struct insn in = { 0 };

	for (uint64_t addr = w->start; addr < w->end && !n->err; addr += in.len) {
		if (!line_insn(p, NULL, addr, &in)) {
			n->err = -EILSEQ;
			break;
		}
		if (addr > w->start)
			*vec_add(&n->patch->moves_in) =
				(struct move){ TADDR(addr + p->bias), TADDR(pen_addr(n)) };
		if (put_bodies(n, addr, false) && addr == w->start)
			move_out(n, w->pad, w->start);
		if (has_taken(n, addr) && nstubs < LINE_MAX)
			stubs[nstubs++] = (struct stub){ addr, in.target, pen_addr(n), in };
		put_insn(n, addr, in, 0);
	}
	if (w->tail)
		put_bodies(n, w->end, false);
	if (insn_goes_on(&in))
		put_jump(n, w->end);
	return nstubs;
}

static void put_stub(struct pen *n, const struct stub *s)
{
	uint32_t at = n->at;
	size_t outs = n->patch->moves_out.n;

	/* The copy is written a second time, now that the address of its bodies is known. */
	n->at = s->from - n->w->pad;
	put_insn(n, s->addr, s->in, n->w->pad + at);
	n->patch->moves_out.n = outs;
	n->at = at;
	put_bodies(n, s->addr, true);
	put_jump(n, s->target);
}

static void put_displaced(struct pen *n)
{
	struct stub stubs[LINE_MAX];
	int nstubs = put_run(n, stubs);

	for (int i = 0; i < nstubs && !n->err; i++)
		put_stub(n, &stubs[i]);
}

/* A branch that kept its opcode: a thread that arrives here has executed the call or taken the jump already. */
static void put_retargeted(struct pen *n)
{
	const struct window *w = n->w;
	struct plan *p = n->p;
	struct insn in;

	if (!line_insn(p, NULL, w->start, &in)) {
		n->err = -EILSEQ;
		return;
	}
	put_bodies(n, w->start, false);
	put_bodies(n, w->start, true);
	if (w->shape != SHAPE_CALL_SLOT) {
		if (n->at)
			move_out(n, w->pad, in.target);
		put_jump(n, in.target);
		return;
	}
	if (n->at + p->arch->jumps->slot_len > w->pad_size ||
	    p->arch->jumps->by_slot(n->here + n->at, pen_addr(n), in.target + p->bias) < 0) {
		n->err = -ERANGE;
		return;
	}
	n->at += p->arch->jumps->slot_len;
}

static void add_edit(struct pen *n, uint64_t at, size_t len, uint64_t resume)
{
	struct edit *e = vec_add(&n->patch->edits);

	e->at = TADDR(at + n->p->bias);
	e->resume = TADDR(resume + n->p->bias);
	e->len = len;
	memcpy(e->old, module_bytes(n->p->m, at, len), len);
	for (size_t i = 0; i < len; i++)
		e->new[i] = plan_byte(n->p, at + i);
}

static int emit_window(struct plan *p, const struct plan_output *out, struct text_patch *patch, struct window *w)
{
	struct pen n = { .p = p, .out = out, .patch = patch, .w = w };

	n.here = out->here(out->arg, w->pad);
	if (!n.here)
		return fail(-EFAULT, "no view of the pad at %#llx", (unsigned long long)w->pad);
	if (w->shape == SHAPE_JUMP || w->shape == SHAPE_HOP)
		put_displaced(&n);
	else
		put_retargeted(&n);
	if (w->tramp) {
		uint8_t *tramp = out->here(out->arg, w->tramp);

		if (!tramp || p->arch->jump(tramp, w->tramp, w->pad) < 0)
			n.err = n.err ? n.err : -ERANGE;
		if (w->shape == SHAPE_JUMP)
			move_out(&n, w->tramp, w->start);
	}
	code_written(n.here, n.at);
	add_edit(&n, w->start, w->n, w->start);
	if (w->shape == SHAPE_HOP)
		add_edit(&n, w->land, jump_len(p), w->start);
	if (n.err)
		return fail(n.err, "the pad of %#llx does not come out as planned", (unsigned long long)w->start);
	return 0;
}

int plan_emit(struct plan *p, const struct plan_output *out, struct text_patch *patch)
{
	for (size_t i = 0; i < p->windows.n; i++) {
		int r = emit_window(p, out, patch, p->windows.v[i]);

		if (r < 0)
			return r;
	}
	return 0;
}
