/* SPDX-License-Identifier: MIT */
/* A walk of the stack, from the registers of a context. */
#ifndef JAB_BLOB_WALK_H
#define JAB_BLOB_WALK_H

#include "blob/inside.h"
#include "blob/unwind.h"

/* On the stack of who walks. */
struct walk {
	struct unwind_walk walk;
	struct bulk_context *ctx;
	bool may_call;		/* set by the caller of walk_set() */
	bool refused;
};

/* area: scratch memory of `room` bytes. */
void walk_set(struct walk *k, struct bulk_context *ctx, void *area, uint32_t room, uint64_t unwind, bool entry);

#endif
