/* SPDX-License-Identifier: MIT */
/*
 * EVENT_BACKTRACE: the walk of unwind.c on a copy of the stack in the scratch memory of the ring. Where system
 * calls may be forbidden, it ends with the page of the stack pointer.
 */
#include "blob/walk.h"

/* Below the site's stack pointer: the pad's first push, after the red zone. */
#define TOUCHED (RED_ZONE + 8)

static uint32_t read_stack(void *arg, uint64_t from, void *to, uint32_t len)
{
	struct walk *k = arg;
	int64_t n = k->may_call ? blob_read(k->ctx, to, from, len) : -1;

	if (n >= 0)
		return n;
	k->refused = true;
	return 0;
}

void walk_set(struct walk *k, struct bulk_context *ctx, void *area, uint32_t room, uint64_t unwind, bool entry)
{
	struct unwind_state *s = area;

	k->ctx = ctx;
	k->refused = false;
	k->walk.s = s;
	k->walk.dir = (const struct unwind_dir *)unwind;
	k->walk.read = read_stack;
	k->walk.arg = k;
	k->walk.copy = (uint8_t *)(s + 1);
	k->walk.copy_room = (room - sizeof(*s)) & ~7u;
	memcpy(s->regs, ctx->regs, sizeof(s->regs));
	s->ip = ctx->regs[REG_PC];
	s->entry = entry;
	s->copy_len = 0;
}

void walk_stack(struct work *w)
{
	const struct bulk_field *f = &w->desc->fields[w->trace_field];
	struct walk k;
	enum unwind_end end;
	uint32_t n;

	k.may_call = w->may_call;
	walk_set(&k, w->ctx, ((struct bulk_area *)w->ctx)->walk, w->walk_room, w->desc->unwind, f->flags & BULK_AT_ENTRY);
	unwind_copy_page(&k.walk, w->sp, w->sp - TOUCHED);
	n = unwind_walk(&k.walk, (uint64_t *)(w->trace + 8), f->limit, &end);
	if (end == UNWIND_FAULT)
		mark_fault(w, w->trace_field, k.refused);
	*(uint64_t *)w->trace = n < f->limit ? n : f->limit;
}
