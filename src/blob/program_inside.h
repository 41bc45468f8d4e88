/* SPDX-License-Identifier: MIT */
/* Shared by the files that do the operations of clause programs. */
#ifndef JAB_BLOB_PROGRAM_INSIDE_H
#define JAB_BLOB_PROGRAM_INSIDE_H

#include "blob/inside.h"
#include "blob/program.h"
#include "blob/table.h"

#define ONE __attribute__((noinline)) int64_t

struct text { uint32_t len; uint8_t bytes[]; };

static inline uint64_t *word(uint8_t *frame, int32_t off)
{
	return (uint64_t *)(frame + off);
}

static inline bool may_call(const struct prog_op *op)
{
	return op->flags & PROG_MAY_CALL && !is_quiet(op->quiet);
}

static inline struct ring_head *head_of(const struct ring_ref *ring)
{
	return (struct ring_head *)ring->ring;
}

static inline struct bulk_context *context(const struct ring_ref *ring)
{
	return (struct bulk_context *)ring->scratch;
}

static inline struct prog_run *run_of(const struct ring_ref *ring)
{
	return (struct prog_run *)(ring->scratch + PROG_RUN);
}

static inline uint8_t *area_of(const struct ring_ref *ring, const struct prog_op *op)
{
	return (uint8_t *)ring->scratch + op->area;
}

static inline struct text *text_at(const struct ring_ref *ring, uint64_t slot)
{
	return (struct text *)(slot < PROG_SLOT_LIMIT ? ring->scratch + slot : slot);
}

/* The length of a text, limited to its capacity: the stored length may have been overwritten. */
static inline uint32_t text_len(const struct text *t, uint32_t cap)
{
	uint32_t len = *(const volatile uint32_t *)&t->len;	/* read once: it may change meanwhile */

	return len < cap ? len : cap;
}

static inline struct prog_table *table_of(const struct prog_op *op)
{
	return (struct prog_table *)op->table;
}

static inline const struct prog_shape *shape_of(const struct prog_op *op)
{
	return (const struct prog_shape *)op->shape;
}

/* program_maps.c */
const uint64_t *pack_key(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring);

/* Without a ring the key consists of numbers, which are already in the frame one after another. */
static inline const uint64_t *key_of(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	if (!ring)
		return op->nkeys ? word(frame, op->args[0].word) : (const uint64_t *)frame;
	return pack_key(frame, op, ring);
}

typedef int64_t prog_do(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring);

prog_do map_key, map_get, map_set, map_add, map_delete, map_has, map_len;
prog_do agg_get, agg_has, agg_len, agg_delete;		/* program_aggs.c */
prog_do stack_walk;					/* stacks.c */

void note_fault(const struct ring_ref *ring, const struct prog_op *op, uint64_t addr, bool refused);	/* of a read: its bit is set */

#endif
