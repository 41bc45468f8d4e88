/* SPDX-License-Identifier: MIT */
/*
 * Shared by clause programs (the code that src/gen makes of a script's clauses) and the blob: the operations that
 * clause code has the blob do, and the keys of maps. A clause program's registers are 8-byte words of its frame on
 * the stack; an operation names them by their offset in the frame. The operation's description (struct prog_op) is
 * in the pad, among the constants.
 *
 * Operations that need memory beyond the frame (text, checked reads) use the scratch memory of a locked ring:
 *
 *	struct bulk_context	pid, tid, registers
 *	struct prog_run		faults, a key in the making
 *	slots			u32 length and the bytes, each
 *	area			memory of one operation: an event, values or a stack in the making
 */
#ifndef JAB_BLOB_PROGRAM_H
#define JAB_BLOB_PROGRAM_H

#include "arch/event.h"

#define PROG_KEY_MAX 4608
#define PROG_VALUE_MAX (64u << 10)

#define PROG_LOADS 16		/* loads of one clause program that may be read ahead of their turn */
#define PROG_AHEAD 4		/* read ahead with one system call */
#define PROG_GUESSES 64

struct prog_run {
	uint64_t faults;
	uint64_t ahead;			/* bit per load: it was already read ahead in this run */
	uint64_t ahead_from[PROG_LOADS], ahead_value[PROG_LOADS];
	struct { uint64_t prog, from; } guess[PROG_GUESSES];	/* addresses that loads have read from the last time */
	uint64_t address[64];		/* the address that failed, by bit of `faults` */
	uint64_t refused;		/* of the bits in `faults`: no read was allowed; bits that are not in `faults` mean nothing */
	uint64_t loaded;		/* value of the last load */
	uint64_t key[PROG_KEY_MAX / 8];
};

#define PROG_RUN ((uint32_t)sizeof(struct bulk_context))	/* offset from the start of scratch memory */
#define PROG_SLOTS (PROG_RUN + (uint32_t)sizeof(struct prog_run))
#define PROG_SLOT_LIMIT (1u << 20)	/* a slot below this is an offset in scratch memory, otherwise an address */

enum prog_ops {
	PROG_LOAD,		/* dst = size bytes at a + imm; cap: the load's number, slot: identifies the clause program;
				   n of struct prog_ahead */
	PROG_READ_STR, PROG_READ_BUF,
	PROG_COMM,
	PROG_SLOT_COPY, PROG_SLOT_AND, PROG_SLOT_LOAD, PROG_STR_CMP, PROG_STR_LEN, PROG_STR_FIND,
	PROG_EMIT,		/* id imm */
	PROG_IDS,		/* returns pid << 32 | tid, from the kernel; with a table (arch/event.h) as the tracer has them.
				   shape: struct park_keeper */
	PROG_THREAD,		/* returns the thread pointer, from the kernel */
	PROG_STACK,		/* dst = number of the stack; PROG_FULL: no room, dst is 0 */
	PROG_FRAMES,		/* slot = at most b return addresses; table: as slot of PROG_STACK */
	PROG_FAULTS,		/* adds the faults in the word a, which were met at the entry of this call; their addresses
				   are not kept */
	/* operations on maps return PROG_FULL where there is no room */
	PROG_KEY,		/* returns the number of the entry of a key, which is inserted if need be */
	PROG_GET, PROG_SET, PROG_ADD, PROG_DEL, PROG_HAS, PROG_LEN,
	/* aggregations; slot is the address of struct prog_agg */
	PROG_AGG_GET, PROG_AGG_HAS, PROG_AGG_LEN, PROG_AGG_DEL,
};

#define PROG_KEY_BIAS 16		/* PROG_KEY returns the number of an entry plus this, or one of enum prog_answer */

enum prog_answer {
	PROG_OK = 0, PROG_FULL = 1, PROG_ABSENT = 2, PROG_RANGE = 3,
	PROG_STOP = -1,		/* this process is a child that was forked in the middle of the clause: end here */
};

/* How the bytes of a slot are written to an event: u32 length and they, and a NUL behind them if there is room; ... */
enum prog_form { PROG_BYTES, PROG_TEXT, PROG_FIXED, PROG_ADDRS };	/* FIXED: `cap` bytes; ADDRS: u32 count, u32 0, u64 each */

struct prog_arg {
	uint64_t mask;		/* the faults that the argument depends on */
	uint64_t slot;		/* 0: a number */
	uint32_t cap;		/* greatest number of bytes to use */
	uint32_t slot_cap;
	int32_t word;		/* where a number is in the frame */
	uint32_t form;		/* enum prog_form */
};

#define PROG_NONE (-1)

struct prog_op {
	uint8_t op, size, bit, flags;
	uint16_t n, nkeys;
	int32_t dst, a, b;	/* offsets of words in the frame, or PROG_NONE */
	uint32_t cap, cap2;
	uint32_t area;		/* offset of the operation's memory from the start of scratch memory */
	uint64_t slot, slot2;
	int64_t imm;
	uint64_t mask;
	uint64_t table;		/* struct prog_table, or struct prog_stacks; with PROG_KNOWN struct known, and then */
	uint64_t shape;		/* address of process_state.fast, max_len: of the rseq area. Address of struct prog_shape; PROG_STACK: words of the pool << 32 | words of the index */
	/* events */
	uint64_t ring_size, pid_cell;
	uint32_t max_len, lost_index;
	uint64_t quiet;		/* address of process_state.quiet: while it is not 0 PROG_MAY_CALL counts as cleared; 0: none */
	struct prog_arg args[];
};

/*
 * Follows the description of a checked load: loads that will certainly come after it. A system call costs more than
 * the bytes it reads, so they are read with the same call: from a known address (same pointer, another offset), or
 * from where they were read the last time. If the address turns out to be right, such a load needs no call of its
 * own.
 */
struct prog_ahead {
	int64_t imm;
	uint32_t size;
	uint16_t number;	/* the load's number */
	uint16_t sure;
};

enum prog_flags { PROG_MAY_CALL = 1, PROG_OVERWRITE = 2, PROG_FAULTY = 4, PROG_SIGNED = 8, PROG_AT_ENTRY = 16, PROG_PARTIAL = 32, PROG_KNOWN = 64 };

_Static_assert(sizeof(struct prog_arg) == 32 && sizeof(struct prog_op) == 112, "both sides know it");

/*
 * Keys are found by open addressing, within PROG_WINDOW entries from where their hash leads (home). The state of an
 * entry changes by atomic exchange only:
 *
 *	free -> claimed (key and value are written) -> ready -> deleted -> claimed -> ...
 *
 * An entry is vacant if its key was deleted by code in a pad (gen/values.c): it keeps the key and its seat in the count of
 * keys, so that the same key can return by one exchange of state and value. Only maps whose value is one number have such
 * entries. table_sweep() makes them deleted where room is needed or the keys are counted.
 *
 *	ready -> vacant -> ready, claimed or deleted
 *
 * Each change increments `turn`, so an entry that was reused is never taken for the one seen before. An entry whose
 * claiming thread died stays claimed and is skipped. Entries of aggregations are not reused: another thread may
 * still be adding to the old key's value. If two threads insert one key at the same time, the one whose entry is
 * further from home deletes its entry; so does a thread that finds the key elsewhere before its own entry is ready
 * (table_put()).
 */
enum prog_state { PROG_FREE, PROG_CLAIMED, PROG_READY, PROG_DELETED, PROG_VACANT, PROG_STATE = 7 };
#define PROG_TURN 8ull			/* one increment of the turn count */
#define PROG_TURNS (0x1fffffull << 3)
#define PROG_HASH (~0ull << 24)
#define PROG_WINDOW 128
#define PROG_SWEEP_MOST (1u << 16)	/* entries of a table that may have vacant ones */

struct prog_entry {
	uint64_t state;			/* enum prog_state, turn, upper bits of the hash */
	uint64_t value;			/* the value, if it is one number; otherwise the lock of the value (owner's tid) */
	uint64_t key[];			/* then the value, if it is more than one number */
} __attribute__((aligned(16)));

/* In memory that the target and its children can write: no address and no length is taken from here. */
struct prog_table {
	uint64_t count;			/* number of keys, with those of vacant entries */
	uint64_t vacant;		/* not 0: there may be vacant entries */
	uint64_t pad[4];
	/* entries */
};

/* The dimensions of a table: constants of the code, or a copy in the reader's own memory. */
struct prog_shape {
	uint32_t max_keys;
	uint32_t mask;			/* entries - 1 */
	uint32_t stride;		/* bytes from entry to entry, a multiple of 16 */
	uint32_t key_words;
	uint32_t value_words;		/* after the key; 0: the value is in prog_entry.value */
	uint32_t reuse;			/* entries may be used again */
	uint32_t text;			/* if the last part of a key is text: the number of its first word, plus 1; else 0 */
	uint32_t pad;
};

_Static_assert(sizeof(struct prog_table) == 48 && sizeof(struct prog_entry) == 16 && sizeof(struct prog_shape) == 32, "both sides know it");

static inline struct prog_entry *prog_entry(const struct prog_table *t, const struct prog_shape *shape, uint32_t i)
{
	return (struct prog_entry *)((uint8_t *)(t + 1) + (uint64_t)i * shape->stride);
}

/* gen/keys.c emits code that computes the same hash. */
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
 * An aggregation of more than one word: an index that says which of two copies is valid, and the copies; see
 * gen/aggs.c. The offsets are those of the first copy.
 */
#define AGG_COPY 64		/* from the first copy to the second */
#define AGG_COUNT 8
#define AGG_SUM 16
#define AGG_MIN 24
#define AGG_MAX 32
#define AGG_EPOCH 40
#define AGG_SIZE 112

/* How the aggregations of a map are stored, for clause code that reads them in the target. */
struct prog_agg {
	uint64_t parts;		/* address of the values of the first part that is used; a part belongs to one CPU */
	uint64_t part_size;
	uint32_t nparts;	/* the last part is shared by all threads that can't use a CPU's part */
	uint32_t value_size;	/* bytes of one key's value */
	uint64_t base;		/* address of the epoch and an empty copy */
	uint64_t cleared;	/* address of u64 per entry: AGG_SHOWN, and the sum of its counters at the last clear */
	uint64_t before;	/* without keys: address of each counter of each part at the last clear; else 0 */
	uint32_t ncounters, counters;	/* how many words that only grow, and their offset */
	uint8_t flip;		/* it has two copies */
	uint8_t number, is_float, is_unsigned;
	uint32_t pad;
};

#define AGG_SHOWN (1ull << 63)	/* the entry is shown even if nothing was added since the last clear */
enum prog_agg_number { AGG_IS_COUNT, AGG_IS_SUM, AGG_IS_AVG, AGG_IS_MIN, AGG_IS_MAX };

_Static_assert(sizeof(struct prog_agg) == 64, "both sides know it");

/*
 * The stacks that were recorded, each once. A word of the index is 0, or the upper half of a stack's hash and its
 * position: words from the start of the pool, plus 1. There the pool has the number of frames, then the frames.
 * What an index word leads to is never changed, so no thread waits; the words that a thread took and did not enter
 * into the index because it died are wasted.
 */
struct prog_stacks {
	uint64_t used;		/* words of the pool that were taken; may exceed its size */
	uint64_t pad[7];
	uint64_t index[];	/* then the pool */
};

#define PROG_STACKS_WINDOW 256
#define PROG_STACKS_FRAMES 128		/* most frames of one stack */

_Static_assert(sizeof(struct prog_stacks) == 64, "both sides know it");

#endif
