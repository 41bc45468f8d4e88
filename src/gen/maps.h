/* SPDX-License-Identifier: MIT */
/*
 * The maps of a script in memory that the target and we share.
 *
 *	per CPU, and once more for everybody else:	values of aggregations
 *	behind that last part:				those of aggregations too large to have one per CPU
 *	once:						keys, values of other maps, stacks if a program has any
 *
 * maps_layout_new() says where everything stands; pads, the blob and the reader go by it.
 */
#ifndef JAB_GEN_MAPS_H
#define JAB_GEN_MAPS_H

#include "blob/program.h"
#include "lang/ir.h"
#include "lang/store.h"

struct map_place {
	uint64_t table;		/* keyed maps: struct prog_table, from the start */
	uint64_t values;	/* aggregations: from the start of a CPU's part; others: from the start */
	uint64_t base;		/* aggregations: epoch and an empty copy */
	uint64_t cleared;	/* aggregations: u64 per entry; see struct prog_agg */
	uint64_t before;	/* aggregations without keys: each counter of each part at the last clear */
	uint32_t value_size;	/* of one key */
	uint32_t entries;	/* 1 without keys, else a power of two */
	bool percpu;		/* else only the last part is used */
};

struct maps_layout {
	uint64_t size;		/* of all */
	uint64_t parts;		/* where part 0 begins */
	uint64_t part_size;	/* the last one goes on: what all share stands from there on */
	uint32_t ncpus;		/* parts 0...ncpus - 1; part ncpus is for everybody */
	uint32_t nmaps;
	uint64_t stacks;	/* struct prog_stacks, from the start; 0: none */
	uint32_t stack_index, stack_words;	/* words of its index and of its pool */
	struct map_place maps[];
};

/* Values that are one number can be changed at once; others need their owner's number and so a ring. */
static inline bool maps_is_simple(const struct ir_map *m)
{
	return m->kind != IR_MAP_VALUE || (m->nvalues == 1 && !ir_in_slot(m->values[0].type));
}

static inline bool maps_has_table(const struct ir_map *m)
{
	return m->nkeys || m->kind == IR_MAP_VALUE;
}

/* Words that a part of a key or value takes. */
uint32_t maps_part_words(const struct ir_part *p);

/* -E2BIG with a sentence if a map is too large. */
int maps_layout_new(const struct ir_unit *u, uint32_t ncpus, struct maps_layout **ret_layout);

/* How its table is made up. */
struct prog_shape maps_shape(const struct ir_map *m, const struct map_place *p);

/* Fill memory that is zero. */
void maps_init(const struct ir_unit *u, const struct maps_layout *l, uint8_t *memory);

/*
 * All maps as lang/store.h wants them: what pads have done so far, merged. Changes (set, del, clear,
 * zero) are those of a tracer; they may happen beside running pads.
 */
struct maps_reader;
struct maps_reader *maps_reader_new(const struct ir_unit *u, const struct maps_layout *l, uint8_t *memory);
void maps_reader_free(struct maps_reader *r);
extern const struct map_ops maps_reader_ops;	/* store: struct maps_reader */

/*
 * The frames of a stack by the number that programs have for it (IR_STACK), innermost first. Returns how many,
 * 0 if there is none of that number. Stacks are never forgotten.
 */
uint32_t maps_reader_stack(const struct maps_reader *r, uint64_t number, uint64_t *frames, uint32_t most);

/* Free values that the dead have locked. dead(tid): is it? Keys that they were writing are lost, and passed over. */
void maps_reader_clean(struct maps_reader *r, bool (*dead)(void *arg, uint32_t tid), void *arg);

#endif
