/* SPDX-License-Identifier: MIT */
/*
 * What programs of the language (src/gen) and the blob share: what a pad's code asks the blob to do, and
 * the maps' keys. A program's registers are words of its frame on the stack; an operation names
 * them by their distance from the frame. Its description stands in the code of the pad, beside constants.
 *
 * Operations that need memory beyond the frame (text, checked reads) have the scratch memory of a locked ring:
 *
 *	struct bulk_context	who we are
 *	struct prog_run		faults, a key in the making
 *	slots			u32 length and the bytes, each
 *	area			what one operation needs for itself: an event, values or a stack in the making
 */
#ifndef JAB_BLOB_PROGRAM_H
#define JAB_BLOB_PROGRAM_H

#include "arch/event.h"

#define PROG_KEY_MAX 4608
#define PROG_VALUE_MAX (64u << 10)

#define PROG_LOADS 16		/* of one program that may be read ahead of their turn */
#define PROG_AHEAD 4		/* with one call */
#define PROG_GUESSES 64

struct prog_run {
	uint64_t faults;
	uint64_t ahead;			/* bit per load: it was read already, in this run */
	uint64_t ahead_from[PROG_LOADS], ahead_value[PROG_LOADS];
	struct { uint64_t prog, from; } guess[PROG_GUESSES];	/* where loads have read the last time */
	uint64_t address[64];		/* that failed, by bit */
	uint64_t loaded;		/* by the last load */
	uint64_t key[PROG_KEY_MAX / 8];
};

#define PROG_RUN ((uint32_t)sizeof(struct bulk_context))	/* from the start of scratch memory */
#define PROG_SLOTS (PROG_RUN + (uint32_t)sizeof(struct prog_run))
#define PROG_SLOT_LIMIT (1u << 20)	/* slots below are in scratch memory, above at an address */

enum prog_ops {
	PROG_LOAD,		/* dst = size bytes at a + imm; cap: its number, slot: whose; n of struct prog_ahead */
	PROG_READ_STR, PROG_READ_BUF,
	PROG_COMM,
	PROG_SLOT_COPY, PROG_SLOT_AND, PROG_SLOT_LOAD, PROG_STR_CMP, PROG_STR_LEN, PROG_STR_FIND,
	PROG_EMIT,		/* id imm */
	PROG_IDS,		/* dst = pid << 32 | tid, from the kernel; with a table (arch/event.h) as we have them. shape: struct park */
	PROG_THREAD,		/* returns the thread pointer, from the kernel */
	PROG_STACK,		/* dst = number of the stack; PROG_FULL: it is 0 */
	PROG_FAULTS,		/* the word a has faults of the entry of this call; where is forgotten */
	/* maps; they return PROG_FULL where there is no room */
	PROG_KEY,		/* returns the number of the entry of a key, made if it is not there */
	PROG_GET, PROG_SET, PROG_ADD, PROG_DEL, PROG_HAS, PROG_LEN,
	/* aggregations; slot is the address of struct prog_agg */
	PROG_AGG_GET, PROG_AGG_HAS, PROG_AGG_LEN, PROG_AGG_DEL,
};

#define PROG_KEY_BIAS 16		/* PROG_KEY answers with the number of an entry and this */

enum prog_answer {
	PROG_OK = 0, PROG_FULL = 1, PROG_ABSENT = 2, PROG_RANGE = 3,
	PROG_STOP = -1,		/* this is the copy of a process that goes on elsewhere: end here */
};

struct prog_arg {
	uint64_t mask;		/* faults it depends on */
	uint64_t slot;		/* 0: a number */
	uint32_t cap;		/* most bytes wanted */
	uint32_t slot_cap;
	int32_t word;		/* of a number */
	uint32_t nul;		/* 1: a NUL goes behind it in an event, if there is room */
};

#define PROG_NONE (-1)

struct prog_op {
	uint8_t op, size, bit, flags;
	uint16_t n, nkeys;
	int32_t dst, a, b;	/* words, or PROG_NONE */
	uint32_t cap, cap2;
	uint32_t area;		/* from the start of scratch memory */
	uint64_t slot, slot2;
	int64_t imm;
	uint64_t mask;
	uint64_t table;		/* struct prog_table, or struct prog_stacks */
	uint64_t shape;		/* struct prog_shape, beside this description; PROG_STACK: words of the pool << 32 | of the index */
	/* events */
	uint64_t ring_size, pid_cell;
	uint32_t max_len, lost_index;
	uint64_t quiet;		/* u32: if it is not 0 PROG_MAY_CALL counts as cleared; 0: no such word */
	struct prog_arg args[];
};

/*
 * Behind the description of a checked load: others that will certainly follow. A call of the kernel costs more
 * than what it reads, so they are read with it: from where they surely are (the same pointer, another
 * offset) or from where they were the last time. If that turns out to be right they need no call of their own.
 */
struct prog_ahead {
	int64_t imm;
	uint32_t size;
	uint16_t number;	/* of the load */
	uint16_t sure;
};

enum prog_flags { PROG_MAY_CALL = 1, PROG_OVERWRITE = 2, PROG_FAULTY = 4, PROG_SIGNED = 8, PROG_AT_ENTRY = 16 };

_Static_assert(sizeof(struct prog_arg) == 32 && sizeof(struct prog_op) == 112, "both sides know it");

/*
 * Keys are found by open addressing within PROG_WINDOW entries of where they belong. The state of an entry
 * changes by compare-and-exchange only:
 *
 *	free -> claimed (key and value are written) -> ready -> deleted -> claimed -> ...
 *
 * Each change counts in `turn`, so that an old sight of an entry is never taken for a new one. What was
 * claimed by a thread that died stays so and is passed over. Entries of aggregations are not used again: somebody
 * might be adding to what the old key had. If two threads add one key at once, who stands further from
 * home takes his entry back; so does who finds, before others can see his, that the key is there (table_put()).
 */
enum prog_state { PROG_FREE, PROG_CLAIMED, PROG_READY, PROG_DELETED, PROG_STATE = 3 };
#define PROG_TURN 4ull			/* one turn */
#define PROG_TURNS (0x3fffffull << 2)
#define PROG_HASH (~0ull << 24)
#define PROG_WINDOW 128

struct prog_entry {
	uint64_t state;			/* enum prog_state, turn, upper bits of the hash */
	uint64_t value;			/* maps with one number as value; others: a lock (owner's tid) */
	uint64_t key[];			/* then the value of others */
} __attribute__((aligned(16)));

/* In memory that the target and its children can write: nothing there leads anywhere. */
struct prog_table {
	uint64_t count;			/* keys that are there */
	uint64_t pad[5];
	/* entries */
};

/* How a table is made up: in code, or in the reader's own memory. */
struct prog_shape {
	uint32_t max_keys;
	uint32_t mask;			/* entries - 1 */
	uint32_t stride;		/* of entries, a multiple of 16 */
	uint32_t key_words;
	uint32_t value_words;		/* behind the key; 0: none */
	uint32_t reuse;			/* entries may be used again */
};

_Static_assert(sizeof(struct prog_table) == 48 && sizeof(struct prog_entry) == 16 && sizeof(struct prog_shape) == 24, "both sides know it");

static inline struct prog_entry *prog_entry(const struct prog_table *t, const struct prog_shape *shape, uint32_t i)
{
	return (struct prog_entry *)((uint8_t *)(t + 1) + (uint64_t)i * shape->stride);
}

/* gen/keys.c does the same. */
#define PROG_HASH_SEED 0x9e3779b97f4a7c15ull
#define PROG_HASH_WORD 0xff51afd7ed558ccdull
#define PROG_HASH_END 0xc4ceb9fe1a85ec53ull

static inline uint64_t prog_hash(const uint64_t *key, uint32_t words)
{
	uint64_t h = PROG_HASH_SEED;

	for (uint32_t i = 0; i < words; i++) {
		h = (h ^ key[i]) * PROG_HASH_WORD;
		h ^= h >> 32;
	}
	return h * PROG_HASH_END;
}

/*
 * One aggregation of more than a word: which copy holds, and the two copies; see gen/aggs.c. Offsets are
 * for the first copy.
 */
#define AGG_COPY 64		/* from the first to the second */
#define AGG_COUNT 8
#define AGG_SUM 16
#define AGG_MIN 24
#define AGG_MAX 32
#define AGG_EPOCH 40
#define AGG_SIZE 112

/* What the aggregations of a map are like, for those who read them in the target. */
struct prog_agg {
	uint64_t parts;		/* values of the first part that is used */
	uint64_t part_size;
	uint32_t nparts;	/* the last one is everybody's */
	uint32_t value_size;	/* of one key */
	uint64_t base;		/* epoch, and an empty copy */
	uint64_t cleared;	/* u64 per entry: AGG_SHOWN, and the sum of its counters at the last clear */
	uint64_t before;	/* without keys: each counter of each part at the last clear; else 0 */
	uint32_t ncounters, counters;	/* how many words that only grow, and where */
	uint8_t flip;		/* it has copies */
	uint8_t number, is_float, is_unsigned;
	uint32_t pad;
};

#define AGG_SHOWN (1ull << 63)	/* it is there even if nothing was added since */
enum prog_agg_number { AGG_IS_COUNT, AGG_IS_SUM, AGG_IS_AVG, AGG_IS_MIN, AGG_IS_MAX };

_Static_assert(sizeof(struct prog_agg) == 64, "both sides know it");

/*
 * Stacks that were seen, each once. A word of the index is 0 or the upper half of the hash of a stack and where
 * it stands: words from the start of the pool, and 1. There are first how many frames it has and then these.
 * Nothing that can be found is ever changed, so nobody waits; who dies on the way has wasted his words.
 */
struct prog_stacks {
	uint64_t used;		/* words of the pool; may be more than there are */
	uint64_t pad[7];
	uint64_t index[];	/* then the pool */
};

#define PROG_STACKS_WINDOW 256
#define PROG_STACKS_FRAMES 128		/* of one stack, at most */

_Static_assert(sizeof(struct prog_stacks) == 64, "both sides know it");

#endif
