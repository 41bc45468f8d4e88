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

#define BULK_PIECES 24
#define BULK_FIELDS_MAX 32

enum bulk_reg {
	BULK_RSP = 4,
	BULK_RBP = 5,
	BULK_RIP = 16,		/* the site */
	BULK_FLAGS = 17,
	BULK_REGS = 18,
};

/* As process_vm_readv() wants it. */
struct bulk_piece {
	uint64_t addr;
	uint64_t len;
};

/*
 * The thread that is making a bulk event, as it was at the site, and memory to work with: there is no
 * room for these on a foreign stack. It stands at the start of a ring's scratch memory; see struct
 * bulk_area.
 */
struct bulk_context {
	uint64_t regs[BULK_REGS];	/* by number in machine code; 4 is the site's stack pointer */
	uint32_t pid;
	uint32_t tid;
	uint64_t xmm[16];	/* low halves of those that the spec asks for */
	uint64_t from[BULK_FIELDS_MAX];		/* where each field is read, */
	uint64_t pointer[BULK_FIELDS_MAX];	/* and with BULK_DEREF what was found there first */
	struct bulk_piece local[BULK_PIECES];
	struct bulk_piece remote[BULK_PIECES];
	uint8_t piece_of[BULK_PIECES];		/* field */
};

/*
 * A ring behind a lock, as the code in the target finds it: in memory that the target can't write, so that a child of
 * it with fewer rights can't lead its parent elsewhere. All addresses are live ones.
 *
 * The scratch memory is for its owner to make an event in, before it goes to the ring. It should
 * be private to a process and copied by a fork (not shared, not wiped): a signal handler that forks in
 * the middle has a child that goes on here, too, beside its parent.
 */
struct ring_ref {
	uint64_t ring;		/* struct ring_head; 0: none there */
	uint64_t lost;		/* this ring's lost counters, one u64 per probe */
	uint64_t scratch;	/* 8-aligned; 0: no bulk events here */
	uint64_t scratch_size;
};

/*
 * What holds for a whole process: in memory that is private to it and copied by a fork, so that no other process
 * can change it.
 */
struct process_state {
	uint32_t fast;		/* not 0: every thread has a block that can be believed, with its number and its CPU.
				   While it is 0 nothing relative to the thread pointer may be touched */
	uint32_t quiet;		/* not 0: system calls may be forbidden by now */
	uint32_t timeless;	/* not 0: reading the time stamp counter may be; fast is 0 then */
};

/* Entries of a table by CPU. cpu_id is cut to that, so that -1 and -2 (not registered) are its last two. */
#define CPU_TABLE_FEW 256
#define CPU_TABLE_MANY 65536	/* where there are more CPUs than the other one has places */

#define BULK_SCRATCH_MIN (16u << 10)

/*
 * Every process of a family can write here: no word of it is ever followed as an address, and what selects a place in
 * the ring is cut to its size first.
 */
struct ring_head {
	uint64_t head;		/* bytes written since ever */
	uint64_t lock;		/* who holds it and for which time: see ring_lock_owner() */
	uint64_t lost;		/* events that found this ring full */
	uint64_t pad0[5];
	uint64_t tail;		/* bytes read since ever; the reader's, on a line of its own */
	uint64_t pad1[247];
	/*
	 * Overwrite mode: where the first event of each stretch of the ring begins, written before
	 * the head that passes it. Old laps are still in there; the positions tell.
	 */
	uint64_t marks[RING_MARKS];
};

/*
 * The lock of a ring: in its lower half the tid of who holds it, 0 if nobody; above it how many times it was
 * given back. So no two times of holding it look the same.
 *
 * That is for forks. A signal handler may fork in the middle of an event, and then its child goes on there as the
 * copy of the lock's owner. It is told by the pid cell, which a fork wipes; but between looking and doing there is
 * always room for one more fork. So nothing that comes behind that look can be done twice: one
 * cmpxchg16b of head and lock commits the event and gives the lock back (or a cmpxchg gives it back alone),
 * expecting what was there before the look. Whether the owner comes first or its copy, the other changes nothing.
 */
static inline uint32_t ring_lock_owner(uint64_t lock)
{
	return (uint32_t)lock;
}

static inline uint64_t ring_lock_given_back(uint64_t lock)
{
	return ((lock >> 32) + 1) << 32;
}

/*
 * What a fork wipes. Who asks the kernel for its numbers leaves its stack pointer here, and the answer is noted only if
 * that is still there. So whatever forks meanwhile, no child takes its parent's number for its own.
 */
struct pid_page {
	uint32_t pid;		/* the pid cell; 0: not known, or not believed */
	uint32_t asking;
};

/*
 * Numbers of processes and threads in another pid namespace, and ours for the same: theirs | ours << 32, at the place that the
 * lower bits of theirs say, or at its other one. ours is 0 where nobody has told us. The table is private to a process and wiped
 * by a fork: a child may be in a namespace of its own, in which the same numbers are other processes. A process that finds
 * itself missing asks the tracer (PARK_IDS).
 */
#define ID_TABLE 4096		/* entries, a power of two */
#define ID_OTHER 1024		/* the other place of an entry: its number with this bit changed */
#define ID_TABLE_BYTES (8 * ID_TABLE)

static inline uint64_t id_entry(uint32_t theirs, uint32_t ours)
{
	return theirs | (uint64_t)ours << 32;
}

_Static_assert(offsetof(struct ring_head, head) == 0 && offsetof(struct ring_head, lock) == 8, "changed at once");
_Static_assert(offsetof(struct ring_head, tail) == 64, "pads know it");
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
#define EVENT_LONG_MAX 65536	/* by who holds a ring's lock, and only if its reader expects it; see ring_allow() */
#define EVENT_FIELDS_MAX 64

struct bulk_area {
	struct bulk_context context;
	uint8_t event[EVENT_LEN_MAX];
	uint8_t walk[];		/* the rest is for EVENT_BACKTRACE */
};

/* The stretch of the ring that one mark stands for: never shorter than an event. */
static inline uint32_t ring_stretch(uint64_t size)
{
	return size / RING_MARKS < EVENT_LEN_MAX ? EVENT_LEN_MAX : size / RING_MARKS;
}

enum event_kind {
	EVENT_REG,		/* a general register, by its number in machine code */
	EVENT_IMM,		/* the value itself */
	EVENT_STACK,		/* 8 bytes at the site's stack pointer + value */
	EVENT_XMM,		/* the low 8 bytes of xmm0 to xmm15 */
	EVENT_ABS,		/* size bytes at the address `value`, which stays mapped for ever */
	/* in bulk events only */
	EVENT_MEM,		/* size bytes from somewhere, as a number */
	EVENT_BYTES,		/* limit bytes from somewhere, as they are */
	EVENT_STRING,		/* the bytes from somewhere up to a NUL or the limit */
	EVENT_BACKTRACE,	/* the site and up to limit - 1 return addresses */
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
	bool many_cpus;		/* the tables have CPU_TABLE_MANY entries, not CPU_TABLE_FEW */
	uint64_t ring_table;	/* u64 table[] by the lower bits of cpu_id: that CPU's ring_head, 0: it has none. The target can't
				   write it, nor the next one */
	uint64_t lost_table;	/* likewise: that ring's lost counters, one u64 per probe */
	uint64_t fast;		/* process_state.fast */
	uint64_t pid_cell;	/* struct pid_page */
	uint64_t slow;		/* where the code of emit_event_slow() stands */
	uint64_t lost_shared;	/* u64: this probe's events that got no ring, or a locked one without room */
	uint64_t no_stack;	/* u64: likewise for want of stack; 0: there is enough, don't ask */
	uint32_t lost_index;	/* this probe's counter in the lost counters of a ring */
	uint32_t ring_size;	/* power of two; the same for all rings */
	uint32_t id;
	uint32_t nfields;
	const struct event_field *fields;
	uint64_t far;		/* where to go on if a field of kind EVENT_STACK is above the stack pointer and in another page, which
				   may be missing: nothing has been done then. 0: believe that it is there */
	uint32_t behind;	/* bytes of code that follow and are none of an event's: jumped over */
};

/* The way of those who can't use the ring of their CPU. Once per target. */
struct event_slow_spec {
	uint64_t fast;		/* process_state.fast: pid cell and tid may be believed, with rseq or without */
	uint64_t pid_cell;
	int32_t tid_off;
	bool has_tid;
	bool may_call;		/* false: a system call might be forbidden; lose the event instead */
	uint64_t rings;		/* struct ring_ref[nrings]: those behind a lock */
	uint32_t nrings;	/* power of two */
	uint32_t ring_size;	/* power of two */
	uint64_t pages;		/* u64[STACK_PAGES], see there; private to a process */
	uint64_t epoch;		/* u64 of the tracer's: a multiple of STACK_EPOCH */
	uint64_t quiet;		/* process_state.quiet: if it is not 0, may_call is over; 0: no such word */
	uint64_t timeless;	/* process_state.timeless: if it is not 0 there is no ring for anybody; 0: no such word */
};

/*
 * A hit must not take stack that isn't there. The page that the stack pointer is in is there, so what ends in it needs no
 * look. Who needs the next one asks the fourth routine of emit_event_slow(): it knows pages that were good a moment
 * ago, and has the kernel write to any other one, which says so if it can't; and which lets a stack grow as the
 * program's own write would. Where there is no asking it is believed to be there, as the program itself does.
 *
 * So that little can be taken unasked; the 128 bytes of the red zone, which every function may use, are in it. To ask
 * takes no more than that, and neither does counting a hit.
 */
#define STACK_UNASKED 192
#define STACK_PAGES 256		/* a good page's number stands where its lower bits say, */
#define STACK_EPOCH (1ull << 40)	/* with the epoch added: when that changes, which it does now and then, all are forgotten */

/*
 * Bulk events: those whose fields may be unreadable or have no fixed length. They are written by C code
 * that runs in the target (src/blob), always to a ring behind a lock with scratch memory. Behind the head of
 * the event there are
 *
 *	u64 _faults		bit i: field i could not be read; bit 32 + i: because we may not ask
 *	fields			8-aligned, padded to 8 with zeros
 *
 * A number is 8 bytes; EVENT_BYTES are limit bytes; EVENT_STRING is u32 len and len bytes (with the NUL
 * of a whole string, without one if it was cut); EVENT_BACKTRACE is u32 count, u32 0, u64 each.
 * Of what could not be read, the address stands in the slot of a number and in the first 8 of 8 or more
 * bytes, and is the 8 bytes behind the NUL of the string "<fault>" or "<unreadable>".
 */
#define BULK_NO_REG 0xff

enum bulk_field_flags {
	BULK_GOOD = 1 << 0,	/* the bytes stay mapped for ever: a plain load. reg is 4 or none */
	BULK_DEREF = 1 << 1,	/* what the address leads to is a pointer; the bytes are at it + offset */
	BULK_GOOD_PTR = 1 << 2,	/* with DEREF: the pointer itself is good to load; likewise */
	BULK_PARTIAL = 1 << 3,	/* EVENT_BYTES: keep what was read in front of the fault, zeros behind */
	BULK_AT_ENTRY = 1 << 4,	/* EVENT_BACKTRACE: the site is the first instruction of a function */
};

/*
 * From somewhere: at register reg (or 0: BULK_NO_REG) + value; with BULK_DEREF one pointer further. So
 * a pointer that was passed on the stack is reg 4, its offset there, BULK_DEREF | BULK_GOOD_PTR.
 * The other kinds are as in struct event_field; value of EVENT_STACK has the same limits, and reg may
 * be any of enum bulk_reg.
 */
struct bulk_field {
	uint8_t kind;		/* enum event_kind */
	uint8_t reg;
	uint8_t size;		/* numbers: 1, 2, 4 or 8 */
	uint8_t flags;		/* enum bulk_field_flags */
	uint32_t limit;		/* bytes, with the NUL; frames */
	int64_t value;
	int64_t offset;
};

enum bulk_flags {
	BULK_OVERWRITE = 1 << 0,	/* as in struct event_spec */
	BULK_MAY_CALL = 1 << 1,		/* may be cleared at any time */
};

/* In memory of the target that it can read, as long as there is code for it. */
struct bulk_desc {
	uint32_t id;
	uint32_t nfields;
	uint32_t max_len;	/* bulk_max_len() */
	uint32_t ring_size;
	uint32_t lost_index;
	uint32_t flags;		/* enum bulk_flags */
	uint64_t pid_cell;	/* as in struct event_spec; 0: none */
	uint64_t unwind;	/* live address of the tables for EVENT_BACKTRACE; 0: frame pointers only */
	uint64_t quiet;		/* process_state.quiet: if it is not 0 the flag counts as cleared; 0: no such word */
	struct bulk_field fields[];
};

_Static_assert(sizeof(struct bulk_field) == 24 && sizeof(struct bulk_desc) == 48, "both sides know it");

/* What the bulk code of a pad must know. Addresses are the target's. */
struct bulk_spec {
	uint64_t slow;		/* where the code of emit_event_slow() stands */
	uint64_t record;	/* where blob_record() stands */
	uint64_t desc;		/* struct bulk_desc */
	uint64_t lost_shared;	/* as in struct event_spec */
	uint64_t no_stack;	/* likewise */
	uint64_t site;		/* goes to the context as rip */
	uint16_t xmm;		/* bit n: xmm n is wanted */
};

#define BULK_STRING_MIN 21	/* "<unreadable>", NUL, address */
#define BULK_LEN_MAX EVENT_LEN_MAX
#define EVENT_STACK_NEED 232	/* below the site's stack pointer, red zone included */
#define BULK_STACK_MAX 576

/* The longest that this field can get in an event. */
static inline uint64_t bulk_field_max(const struct bulk_field *f)
{
	switch (f->kind) {
	case EVENT_BYTES:
		return ((uint64_t)f->limit + 7) & ~7ull;
	case EVENT_STRING:
		return (4 + (uint64_t)(f->limit < BULK_STRING_MIN ? BULK_STRING_MIN : f->limit) + 7) & ~7ull;
	case EVENT_BACKTRACE:
		return 8 + 8 * (uint64_t)f->limit;
	default:
		return 8;
	}
}

/* The longest that such an event can get; more than BULK_LEN_MAX can't be recorded. */
static inline uint64_t bulk_max_len(const struct bulk_field *fields, uint32_t n)
{
	uint64_t len = sizeof(struct event_head) + 8;

	for (uint32_t i = 0; i < n; i++)
		len += bulk_field_max(&fields[i]);
	return len;
}

/* bytes of code */
#define EVENT_CODE_MAX 3584
#define EVENT_SLOW_MAX 720
#define EVENT_FINISH 336	/* the second routine of emit_event_slow(), from its start */
#define EVENT_GIVE_BACK 472	/* the third */
#define EVENT_ROOM 552		/* the fourth */
#define BULK_CODE_MAX 704

static inline uint32_t event_len(uint32_t nfields)
{
	return sizeof(struct event_head) + 8 * nfields;
}

#endif
