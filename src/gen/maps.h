/* SPDX-License-Identifier: MIT */
/*
 * The maps of a script, in memory that the target and the tracer share:
 *
 *	once			keys, values of maps that are not aggregations, stacks if a clause records any
 *	a part for each CPU	values of aggregations, changed by threads on that CPU
 *	the last part		the same values once more, for threads that can't use their CPU's part; then the values of
 *				aggregations that are too large to exist once per CPU
 *
 * maps_layout_new() computes the offsets, which pads, the blob and the reader use.
 */
#ifndef JAB_GEN_MAPS_H
#define JAB_GEN_MAPS_H

#include "blob/program.h"
#include "lang/ir.h"
#include "lang/store.h"

struct map_place {
	uint64_t table;		/* keyed maps: offset of struct prog_table */
	uint64_t values;	/* aggregations: offset from the start of a part */
	uint64_t base;		/* aggregations: offset of the epoch and an empty copy */
	uint64_t cleared;	/* aggregations: offset of a u64 per entry; see struct prog_agg */
	uint64_t before;	/* aggregations without keys: offset of each counter of each part at the last clear */
	uint32_t value_size;	/* bytes of one key's value */
	uint32_t entries;	/* 1 without keys, else a power of two */
	bool percpu;		/* else only the last part is used */
};

struct maps_layout {
	uint64_t size;		/* of the whole memory */
	uint64_t parts;		/* offset of part 0 */
	uint64_t part_size;	/* the last part is longer, by the values of large aggregations */
	uint32_t ncpus;		/* part n belongs to CPU n; part ncpus, the last, to threads that can't use a CPU's part */
	uint32_t nmaps;
	uint64_t stacks;	/* offset of struct prog_stacks; 0: none */
	uint32_t stack_index, stack_words;	/* words of its index and of its pool */
	struct map_place maps[];
};

/* The value is one number, so it is changed by one atomic instruction; other values are locked, which needs the tid and so a ring. */
static inline bool maps_is_simple(const struct ir_map *m)
{
	return m->kind != IR_MAP_VALUE || (m->nvalues == 1 && !ir_in_slot(m->values[0].type));
}

static inline bool maps_has_table(const struct ir_map *m)
{
	return m->nkeys || m->kind == IR_MAP_VALUE;
}

/* Number of words of a part of a key or value. */
uint32_t maps_part_words(const struct ir_part *p);

/* -E2BIG with a message if a map is too large. */
int maps_layout_new(const struct ir_unit *u, uint32_t ncpus, struct maps_layout **ret_layout);

/* The dimensions of a map's table. */
struct prog_shape maps_shape(const struct ir_map *m, const struct map_place *p);

/* Initialises zeroed memory of l->size bytes. */
void maps_init(const struct ir_unit *u, const struct maps_layout *l, uint8_t *memory);

/*
 * The tracer's access to all maps (struct map_ops of lang/store.h), with the parts of the CPUs merged. The tracer may change
 * maps (set, del, clear, zero) while pads run. One thread uses a reader.
 */
struct maps_reader;
struct maps_reader *maps_reader_new(const struct ir_unit *u, const struct maps_layout *l, uint8_t *memory);
void maps_reader_free(struct maps_reader *r);
extern const struct map_ops maps_reader_ops;	/* store: struct maps_reader */

/*
 * The frames of the stack with this number (the result of IR_STACK), innermost first. Returns how many; 0 if no stack has
 * that number. Stacks are never removed.
 */
uint32_t maps_reader_stack(const struct maps_reader *r, uint64_t number, uint64_t *frames, uint32_t most);

/*
 * Unlocks values that a dead thread has locked; dead(tid) says whether the thread is dead. An entry whose key a dead thread
 * was inserting stays claimed, and is skipped.
 */
void maps_reader_clean(struct maps_reader *r, bool (*dead)(void *arg, uint32_t tid), void *arg);

#endif
