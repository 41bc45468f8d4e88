/* SPDX-License-Identifier: MIT */
/*
 * EVENT_BACKTRACE: what unwind.c needs around it. The walk works on a copy of the stack in the scratch
 * memory of the ring. Where the kernel may not be asked, it ends with the page of the stack pointer.
 */
#include "blob/inside.h"
#include "blob/unwind.h"

struct walk {
	struct unwind_walk walk;
	struct bulk_context *ctx;
	bool may_call;
	bool refused;
};

/* The pad's first push, behind the red zone. */
#define TOUCHED (128 + 8)

static uint32_t read_stack(void *arg, uint64_t from, void *to, uint32_t len)
{
	struct walk *k = arg;
	int64_t n = k->may_call ? blob_read(k->ctx, to, from, len) : -1;

	if (n >= 0)
		return n;
	k->refused = true;
	return 0;
}

struct unwind_walk *walk_set(struct bulk_context *ctx, void *area, uint32_t room, uint64_t unwind, bool may_call, bool entry)
{
	struct walk *k = area;

	/* Never cleared as a whole: a copy of ourselves may be in the middle of a walk here. */
	k->ctx = ctx;
	k->may_call = may_call;
	k->refused = false;
	k->walk.dir = (const struct unwind_dir *)unwind;
	memcpy(k->walk.regs, ctx->regs, sizeof(k->walk.regs));
	k->walk.ip = ctx->regs[BULK_RIP];
	k->walk.read = read_stack;
	k->walk.arg = k;
	k->walk.copy = (uint8_t *)(k + 1);
	k->walk.copy_room = (room - sizeof(*k)) & ~7u;
	k->walk.entry = entry;
	k->walk.copy_len = 0;
	return &k->walk;
}

static struct walk *walk_of(const struct work *w)
{
	return (struct walk *)((struct bulk_area *)w->ctx)->walk;
}

struct unwind_walk *walk_start(struct work *w)
{
	struct unwind_walk *k = walk_set(w->ctx, walk_of(w), w->walk_room, w->desc->unwind, w->may_call,
					 w->desc->fields[w->trace_field].flags & BULK_AT_ENTRY);

	unwind_copy_page(k, w->rsp, w->rsp - TOUCHED);
	return k;
}

void walk_end(struct work *w, uint32_t frames, int end)
{
	const struct walk *k = walk_of(w);
	uint32_t limit = w->desc->fields[w->trace_field].limit;

	if (end == UNWIND_FAULT)
		mark_fault(w, w->trace_field, k->refused);
	*(uint64_t *)w->trace = frames < limit ? frames : limit;
}
