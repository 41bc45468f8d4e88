/* SPDX-License-Identifier: MIT */
/*
 * The layout of events and rings: the memory that pads write and the tracer reads.
 *
 *	page 0          struct ring_head
 *	page 1...       size bytes of events, and the same bytes mapped a second time after them, so
 *	                that an event may cross the end
 *
 * A ring has one writer at a time: the CPU that it belongs to, or the thread that holds its lock. An event becomes
 * visible by the store to `head` and by nothing else; everything before head is complete. An event is 24 bytes of
 * struct event_head and 8 bytes for each field. This is also the layout of CTF (header: id, len, time; context:
 * pid, tid), so a run of whole events is the content of a packet without any change.
 */
#ifndef JAB_ARCH_EVENT_H
#define JAB_ARCH_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/regs.h"

#define RING_HEAD_SIZE 4096
#define RING_SIZE_MIN (64u << 10)
#define RING_SIZE_MAX (1u << 30)
#define RING_MARKS 256

#define BULK_PIECES 24
#define BULK_FIELDS_MAX 32

#define BULK_REGS (CPU_REGS + 2)	/* numbered as in struct arch_regs */

/* Like struct iovec, for process_vm_readv(). */
struct bulk_piece {
	uint64_t addr;
	uint64_t len;
};

/*
 * The thread that makes a bulk event, with its registers at the site, and memory to work in: the traced program's
 * stack may have no room for it. This is the start of a ring's scratch memory, see struct bulk_area.
 */
struct bulk_context {
	uint64_t regs[BULK_REGS];	/* by their number; the stack pointer is that at the site, the pc the site's address */
	uint32_t pid;
	uint32_t tid;
	uint64_t vectors[CPU_VECTORS];	/* low halves of the registers in bulk_spec.vectors */
	uint64_t from[BULK_FIELDS_MAX];		/* the address that each field is read from */
	uint64_t pointer[BULK_FIELDS_MAX];	/* with BULK_DEREF: the pointer that was read first */
	struct bulk_piece local[BULK_PIECES];
	struct bulk_piece remote[BULK_PIECES];
	uint8_t piece_of[BULK_PIECES];		/* the field that a piece belongs to */
};

/*
 * A ring with a lock, as code in the target finds it. In memory that the target can't write, so that a child of it
 * with fewer rights can't redirect its parent. All addresses are those of the target.
 *
 * In the scratch memory the owner of the lock makes an event before it is copied to the ring. It must be private to
 * a process and copied by a fork (not shared, not wiped): if a signal handler forks in the middle of an event, the
 * child goes on in its copy while its parent uses the original.
 */
struct ring_ref {
	uint64_t ring;		/* address of struct ring_head; 0: there is no ring */
	uint64_t lost;		/* address of this ring's lost counters, one u64 per probe */
	uint64_t scratch;	/* address, 8-aligned; 0: no bulk events in this ring */
	uint64_t scratch_size;
};

/* Flags of a whole process: in memory that is private to it and copied by a fork, so that no other process can change them. */
struct process_state {
	uint32_t fast;		/* not 0: every thread has a thread block (TLS) of its own whose tid and CPU number are
				   right. While it is 0 no pad touches memory relative to the thread pointer */
	uint32_t quiet;		/* not 0: system calls may be forbidden by now (seccomp) */
	uint32_t timeless;	/* not 0: reading the clock may be forbidden by now; fast is 0 then */
};

/* Entries of a table by CPU. cpu_id is truncated to this size, so -1 and -2 (thread not registered) are the last two. */
#define CPU_TABLE_FEW 256
#define CPU_TABLE_MANY 65536	/* if the machine has too many CPUs for CPU_TABLE_FEW */

#define BULK_SCRATCH_MIN (16u << 10)

/*
 * The target and all its children can write here: no member is ever used as an address, and a value that selects a
 * position in the ring is truncated to its size first.
 */
struct ring_head {
	uint64_t head;		/* bytes written since the ring was created */
	uint64_t lock;		/* the owner's tid and a count: see ring_lock_owner() */
	uint64_t lost;		/* events lost because this ring was full */
	uint64_t pad0[5];
	uint64_t tail;		/* bytes read since the ring was created; written by the reader, on a cache line of its own */
	uint64_t pad1[247];
	/*
	 * Overwrite mode: the position of the first event of each stretch of the ring, written before the head that
	 * passes it. Marks of earlier laps are still there: their positions are too old.
	 */
	uint64_t marks[RING_MARKS];
};

/*
 * The lock of a ring: in its lower half the tid of the owner, 0 if there is none; in its upper half how many times
 * it was released. So no two periods of ownership have the same value.
 *
 * That is for forks. A signal handler may fork in the middle of an event, and the child then goes on there as a
 * copy of the lock's owner. It recognises itself by the pid cell, which a fork wipes; but another fork may come
 * between that check and the next instruction. So nothing after the check can take effect twice: one cmpxchg16b of
 * head and lock commits the event and releases the lock (or one cmpxchg releases the lock alone), and it expects
 * the values read before the check. Of the owner and its copy the first one succeeds, the other one changes
 * nothing. The blob commits and releases by two exchanges (commit() and unlock() in blob/record.c), each of which
 * expects such values, too.
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
 * A page that a fork wipes. A thread that asks the kernel for its pid and tid first stores its stack pointer in
 * `asking`; the answer is stored only if that is still there. So whatever forks meanwhile, no child stores its
 * parent's pid as its own.
 */
struct pid_page {
	uint32_t pid;		/* the pid cell; 0: not known, or not to be relied on */
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
	uint32_t len;		/* length of the whole event, a multiple of 8 */
	uint64_t time;		/* time stamp counter */
	uint32_t pid;
	uint32_t tid;
};

_Static_assert(sizeof(struct event_head) == 24, "pads know it");

#define EVENT_LEN_MAX 4096	/* a longer rseq sequence could be aborted every time */
#define EVENT_LONG_MAX 65536	/* only under a ring's lock, and only if its reader expects it; see ring_allow() */
#define EVENT_FIELDS_MAX 64

struct bulk_area {
	struct bulk_context context;
	uint8_t event[EVENT_LEN_MAX];
	uint8_t walk[];		/* for EVENT_BACKTRACE, to the end of the scratch memory */
};

/* Length of the stretch of the ring that one mark is for: never shorter than an event. */
static inline uint32_t ring_stretch(uint64_t size)
{
	return size / RING_MARKS < EVENT_LEN_MAX ? EVENT_LEN_MAX : size / RING_MARKS;
}

enum event_kind {
	EVENT_REG,		/* a general register, by its number */
	EVENT_IMM,		/* the value itself */
	EVENT_STACK,		/* 8 bytes at the site's stack pointer + value */
	EVENT_VECTOR,		/* the low 8 bytes of a vector register */
	EVENT_ABS,		/* size bytes at the address `value`, which stays mapped */
	/* the following kinds are for bulk events only */
	EVENT_MEM,		/* a number of size bytes, read from memory (struct bulk_field says where) */
	EVENT_BYTES,		/* limit bytes, read from memory */
	EVENT_STRING,		/* the bytes up to a NUL or the limit, read from memory */
	EVENT_BACKTRACE,	/* the site and up to limit - 1 return addresses */
};

#define EVENT_STACK_MIN (-128)	/* below it a signal handler may write */
#define EVENT_STACK_MAX 2040	/* above it the stack may end */

/* Always 8 bytes in the event; size says how many of them are significant. */
struct event_field {
	uint8_t kind;		/* enum event_kind */
	uint8_t reg;
	uint8_t size;		/* 1, 2, 4 or 8 */
	int64_t value;
};

/* Parameters of a pad's event code. All addresses are those of the target. */
struct event_spec {
	int32_t rseq_off;	/* rseq area from the thread pointer; used if has_rseq */
	uint32_t rseq_sig;
	bool has_rseq;
	bool has_tid;		/* the tid of each thread is at tid_off from its thread pointer */
	bool overwrite;		/* overwrite mode: the newest events stay, not the oldest; tail is ignored */
	int32_t tid_off;
	bool many_cpus;		/* the tables have CPU_TABLE_MANY entries, not CPU_TABLE_FEW */
	uint64_t ring_table;	/* u64 table[] by the lower bits of cpu_id: address of that CPU's ring_head, 0: it has none.
				   The target can write neither this table nor lost_table */
	uint64_t lost_table;	/* u64 table[] by the lower bits of cpu_id: address of that ring's lost counters, one u64 per
				   probe */
	uint64_t fast;		/* process_state.fast */
	uint64_t pid_cell;	/* address of struct pid_page */
	uint64_t slow;		/* address of the code of emit_event_slow() */
	uint64_t lost_shared;	/* u64: this probe's events that got no ring, or a locked ring without room */
	uint64_t no_stack;	/* u64: this probe's events that were lost for lack of stack; 0: there is enough, no check */
	uint32_t lost_index;	/* this probe's counter in the lost counters of a ring */
	uint32_t ring_size;	/* power of two; the same for all rings */
	uint32_t id;
	uint32_t nfields;
	const struct event_field *fields;
	uint64_t far;		/* where to jump to, with nothing done, if a field of kind EVENT_STACK is above the stack
				   pointer and in another page, which may not be mapped. 0: no check, it is taken to be
				   mapped */
	uint32_t behind;	/* bytes of other code that follow the event code: it jumps over them */
};

/*
 * For emit_event(): -ERANGE or -EINVAL if the parameters can't be of an event. regs: the number of registers of each kind; lowest:
 * the lowest offset from the stack pointer at which a field may be.
 */
int event_spec_check(const struct event_spec *spec, unsigned int regs, int32_t lowest);

/* Parameters of the slow path, for threads that can't use the ring of their CPU. Once per target. */
struct event_slow_spec {
	uint64_t fast;		/* process_state.fast: pid cell and tid are right, with rseq or without */
	uint64_t pid_cell;
	int32_t tid_off;
	bool has_tid;
	bool may_call;		/* false: system calls may be forbidden, the event is lost instead */
	uint64_t rings;		/* struct ring_ref[nrings]: the rings with a lock */
	uint32_t nrings;	/* power of two */
	uint32_t ring_size;	/* power of two */
	uint64_t pages;		/* u64[STACK_PAGES], the cache of mapped stack pages; private to a process */
	uint64_t epoch;		/* u64 that the tracer writes: a multiple of STACK_EPOCH */
	uint64_t quiet;		/* process_state.quiet: while it is not 0, may_call counts as false; 0: there is no such flag */
	uint64_t timeless;	/* process_state.timeless: while it is not 0 no thread gets a ring; 0: there is no such flag */
};

/*
 * A probe must not overrun the thread's stack. A frame that ends in the page of the stack pointer needs no check. Code that needs
 * the next page jumps to the fourth routine of emit_event_slow(). It has a cache of pages that were mapped a moment
 * ago; for any other page it has the kernel write to the page, which reports an unmapped one, and which grows the
 * stack as the traced program's own write would. Where system calls are forbidden the page is taken to be mapped,
 * as the program itself assumes.
 *
 * STACK_UNASKED bytes are used without a check; the 128 bytes of the red zone, which every function may use, are
 * part of them. The check itself takes no more than that, and neither does counting a hit.
 */
#define STACK_UNASKED 192
#define STACK_PAGES 256		/* cache of mapped pages: the page's number, plus the epoch, in the entry that its lower bits
				   select */
#define STACK_EPOCH (1ull << 40)	/* when the epoch changes, which it does now and then, all entries are void */

/*
 * Bulk events: their fields may be unreadable or have no fixed length. They are written by C code that runs in the
 * target (src/blob), always to a ring with a lock and scratch memory. After the head of the event there are
 *
 *	u64 _faults		bit i: field i could not be read; bit 32 + i: because system calls are forbidden
 *	fields			8-aligned, padded to 8 with zeros
 *
 * A number is 8 bytes; EVENT_BYTES are limit bytes; EVENT_STRING is u32 len and len bytes (with the NUL of a whole
 * string, without one if it was cut); EVENT_BACKTRACE is u32 count, u32 0, u64 each. If a field could not be read,
 * its address is in its place: instead of a number, in the first 8 of 8 or more bytes, or after the NUL of the
 * string "<fault>" or "<unreadable>".
 */
#define BULK_NO_REG 0xff

enum bulk_field_flags {
	BULK_GOOD = 1 << 0,	/* the bytes stay mapped: a plain load. reg is the stack pointer or BULK_NO_REG */
	BULK_DEREF = 1 << 1,	/* the address is that of a pointer; the bytes are at the pointer's value + offset */
	BULK_GOOD_PTR = 1 << 2,	/* with DEREF: the pointer itself stays mapped: a plain load. reg is the stack pointer or BULK_NO_REG */
	BULK_PARTIAL = 1 << 3,	/* EVENT_BYTES: keep the bytes read before the fault, zeros after them */
	BULK_AT_ENTRY = 1 << 4,	/* EVENT_BACKTRACE: the site is the first instruction of a function */
};

/*
 * Where a field is read from memory: at register reg (BULK_NO_REG: 0) + value; with BULK_DEREF at the pointer found
 * there + offset. So an argument on the stack that is a pointer has the stack pointer as reg, its offset on the stack, and BULK_DEREF
 * | BULK_GOOD_PTR. The other kinds are as in struct event_field; value of EVENT_STACK has the same limits, and reg
 * may be that of any register of the context.
 */
struct bulk_field {
	uint8_t kind;		/* enum event_kind */
	uint8_t reg;
	uint8_t size;		/* numbers: 1, 2, 4 or 8 */
	uint8_t flags;		/* enum bulk_field_flags */
	uint32_t limit;		/* bytes, including a NUL; or frames */
	int64_t value;
	int64_t offset;
};

enum bulk_flags {
	BULK_OVERWRITE = 1 << 0,	/* as in struct event_spec */
	BULK_MAY_CALL = 1 << 1,		/* system calls are allowed; may be cleared at any time */
};

/* In memory that the target can read, as long as there is code that uses it. */
struct bulk_desc {
	uint32_t id;
	uint32_t nfields;
	uint32_t max_len;	/* bulk_max_len() */
	uint32_t ring_size;
	uint32_t lost_index;
	uint32_t flags;		/* enum bulk_flags */
	uint64_t pid_cell;	/* as in struct event_spec; 0: there is none */
	uint64_t unwind;	/* the target's address of the tables for EVENT_BACKTRACE; 0: frame pointers only */
	uint64_t quiet;		/* process_state.quiet: while it is not 0 BULK_MAY_CALL counts as cleared; 0: there is no
				   such flag */
	struct bulk_field fields[];
};

_Static_assert(sizeof(struct bulk_field) == 24 && sizeof(struct bulk_desc) == 48, "both sides know it");

/* Parameters of a pad's bulk code. All addresses are those of the target. */
struct bulk_spec {
	uint64_t slow;		/* address of the code of emit_event_slow() */
	uint64_t record;	/* address of blob_record() */
	uint64_t desc;		/* address of struct bulk_desc */
	uint64_t lost_shared;	/* as in struct event_spec */
	uint64_t no_stack;	/* as in struct event_spec */
	uint64_t site;		/* address of the site: the pc in the context */
	uint32_t vectors;	/* bit n: vector register n is stored in the context */
};

#define BULK_STRING_MIN 21	/* "<unreadable>", NUL, address */
#define BULK_LEN_MAX EVENT_LEN_MAX
#define EVENT_STACK_NEED 232	/* below the site's stack pointer, red zone included */
#define BULK_STACK_MAX 640
#define BULK_STACK_PAD 216	/* of that: the pad, up to the return address of what it calls */

/* The greatest length of this field in an event. */
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

/* The greatest length of an event of these fields; more than BULK_LEN_MAX can't be recorded. */
static inline uint64_t bulk_max_len(const struct bulk_field *fields, uint32_t n)
{
	uint64_t len = sizeof(struct event_head) + 8;

	for (uint32_t i = 0; i < n; i++)
		len += bulk_field_max(&fields[i]);
	return len;
}

/* lengths of code, in bytes */
#define EVENT_CODE_MAX 3584
#define EVENT_SLOW_MAX 720
#define EVENT_UNTIMED 16	/* with a timeless flag: offset at which the first routine goes on after it has looked at that */
#define EVENT_FINISH 336	/* offset of the second routine of emit_event_slow() */
#define EVENT_GIVE_BACK 472	/* offset of the third one */
#define EVENT_ROOM 552		/* offset of the fourth one */
#define BULK_CODE_MAX 704

static inline uint32_t event_len(uint32_t nfields)
{
	return sizeof(struct event_head) + 8 * nfields;
}

#endif
