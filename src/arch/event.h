/* SPDX-License-Identifier: MIT */
/*
 * Events as pads write them and as we read them: the memory that both sides share, stated once.
 *
 *	page 0          struct ring_head
 *	page 1...       size bytes of events, and the same bytes mapped once more behind them, so
 *	                that an event may cross the end
 *
 * A ring has one writer at a time: the CPU it belongs to, or who holds its lock. `head` is the only
 * store that makes an event seen; everything below it is whole. An event is 24 bytes of struct
 * event_head and 8 bytes for each field. This is the layout of CTF as well (header: id, len, time;
 * context: pid, tid), so a run of whole events is the content of a packet as it stands.
 */
#ifndef JAB_ARCH_EVENT_H
#define JAB_ARCH_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_HEAD_SIZE 4096
#define RING_SIZE_MIN (64u << 10)
#define RING_SIZE_MAX (1u << 30)
#define RING_MARKS 256

struct ring_head {
	uint64_t head;		/* bytes written since ever */
	uint64_t lost;		/* events that found this ring full */
	uint64_t lost_at;	/* live address of this ring's lost counters, one u64 per probe */
	uint64_t pad0[5];
	uint64_t tail;		/* bytes read since ever; the reader's, on a line of its own */
	uint64_t pad1[7];
	uint32_t owner;		/* tid of who holds the lock; stays 0 in the ring of a CPU */
	uint32_t pad2;
	uint64_t pad3[239];
	/*
	 * Overwrite mode: where the first event of each stretch of the ring begins, written before
	 * the head that passes it. Old laps are still in there; the positions tell.
	 */
	uint64_t marks[RING_MARKS];
};

_Static_assert(offsetof(struct ring_head, lost_at) == 16, "pads know it");
_Static_assert(offsetof(struct ring_head, tail) == 64, "pads know it");
_Static_assert(offsetof(struct ring_head, owner) == 128, "pads know it");
_Static_assert(offsetof(struct ring_head, marks) == 2048, "pads know it");
_Static_assert(sizeof(struct ring_head) == RING_HEAD_SIZE, "a page");

struct event_head {
	uint32_t id;
	uint32_t len;		/* of the whole event, a multiple of 8 */
	uint64_t time;		/* time stamp counter */
	uint32_t pid;
	uint32_t tid;
};

_Static_assert(sizeof(struct event_head) == 24, "pads know it");

#define EVENT_LEN_MAX 4096	/* more could be interrupted for ever */
#define EVENT_FIELDS_MAX 64

/* The stretch of the ring that one mark stands for: never shorter than an event. */
static inline uint32_t ring_stretch(uint64_t size)
{
	return size / RING_MARKS < EVENT_LEN_MAX ? EVENT_LEN_MAX : size / RING_MARKS;
}

enum event_kind {
	EVENT_REG,		/* a general register, by its number in machine code */
	EVENT_IMM,		/* the value itself */
	EVENT_STACK,		/* 8 bytes at the site's stack pointer + value */
};

#define EVENT_STACK_MIN (-128)	/* below it a signal may write */
#define EVENT_STACK_MAX 2040	/* above it the stack may end */

/* Always 8 bytes in the event; size says how many of them mean something. */
struct event_field {
	uint8_t kind;		/* enum event_kind */
	uint8_t reg;
	uint8_t size;		/* 1, 2, 4 or 8 */
	int64_t value;
};

/* What the event code of a pad must know. Addresses are the target's. */
struct event_spec {
	int32_t rseq_off;	/* rseq area from the thread pointer; used if has_rseq */
	uint32_t rseq_sig;
	bool has_rseq;
	bool has_tid;		/* the tid of each thread is at tid_off from its thread pointer */
	bool overwrite;		/* the newest events stay, not the oldest: nobody looks at tail */
	int32_t tid_off;
	uint64_t ring_table;	/* u64 table[cpu] = that CPU's ring_head; table[-1] = table[-2] = 0.
				   All 0 while there are threads that we can't tell apart */
	uint64_t pid_cell;	/* u32 in a page that a fork wipes; 0: not known */
	uint64_t slow;		/* where the code of emit_event_slow() stands */
	uint64_t lost_shared;	/* u64: this probe's events that got no ring */
	uint32_t lost_index;	/* this probe's counter in the lost counters of a ring */
	uint32_t ring_size;	/* power of two; the same for all rings */
	uint32_t id;
	uint32_t nfields;
	const struct event_field *fields;
};

/* The way of those who can't use the ring of their CPU. Once per target. */
struct event_slow_spec {
	uint64_t ring_table;	/* as above; here table[0] != 0 says that pid cell and tid may be
				   believed, with rseq or without */
	uint64_t pid_cell;
	int32_t tid_off;
	bool has_tid;
	bool may_call;		/* false: a system call might be forbidden; lose the event instead */
	uint64_t rings;		/* u64 table[nrings] = rings behind a lock; 0: none there */
	uint32_t nrings;	/* power of two */
};

/* bytes of code */
#define EVENT_CODE_MAX 1536
#define EVENT_SLOW_MAX 256

static inline uint32_t event_len(uint32_t nfields)
{
	return sizeof(struct event_head) + 8 * nfields;
}

#endif
