/* SPDX-License-Identifier: MIT */
/* A walk of the stack that starts with the registers of a struct bulk_context. */
#ifndef JAB_BLOB_WALK_H
#define JAB_BLOB_WALK_H

#include "blob/inside.h"
#include "blob/unwind.h"

/* On the stack of the function that walks. */
struct walk {
	struct unwind_walk walk;
	struct bulk_context *ctx;
	bool may_call;		/* set by the caller of walk_set() */
	bool refused;
};

/*
 * Prepares a walk. area: scratch memory of `room` bytes; unwind: address of the unwind tables, 0: none; entry: the
 * site is the first instruction of a function.
 */
void walk_set(struct walk *k, struct bulk_context *ctx, void *area, uint32_t room, uint64_t unwind, bool entry);

#endif
