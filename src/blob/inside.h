/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the blob. They run in the target: no libc, no data, no vector registers, little stack
 * (BULK_STACK_MAX in all, so calls are not nested deeply), and no load from an address that is not known to be
 * mapped.
 *
 * All memory that the target shares with its children may hold anything at any time: rings, maps, stacks. A value
 * taken from there is only used as data, or is bounded by a constant before it is used as an offset or a limit; it
 * is never used as an address.
 *
 * The scratch memory is private to the process. But two threads may work in one at the same time, if a child has
 * overwritten the lock of its ring; and a child that a signal handler forks meanwhile goes on in a copy of it. So
 * here, too, everything that decides where is written, or which address is loaded from, is on the stack or in
 * registers. The one exception is the list of what the kernel is to write (struct bulk_piece): each of its pieces
 * begins in scratch memory and is no longer than a page, whichever thread has written which part of it, and after
 * all scratch memory there is a spare page.
 */
#ifndef JAB_BLOB_INSIDE_H
#define JAB_BLOB_INSIDE_H

#include "arch/event.h"
#include "blob/cpu.h"

#define EFAULT 14

/*
 * One event in the making. Each field is first put where it would be if all fields had their greatest length;
 * fields_pack() then closes the gaps. The functions of fields.c go through all fields and return true if they had
 * to stop because a system call must be made first: they are called again after it.
 */
struct work {
	struct bulk_context *ctx;
	const struct bulk_desc *desc;
	uint8_t *fields;	/* the first field, after _faults */
	uint8_t *place;		/* where field `next` is put */
	uint32_t next;		/* the field at which a pass goes on */
	uint32_t npieces;
	uint64_t faults;
	uint64_t sp;		/* stack pointer at the site */
	uint8_t *trace;		/* where EVENT_BACKTRACE is put */
	uint32_t walk_room;	/* bytes after struct bulk_area */
	uint8_t trace_field;
	bool may_call;
};

/*
 * Whether the traced program may have forbidden system calls since the attach (seccomp): a probe before such a call
 * sets the flag at this address. Relaxed: no other memory depends on it.
 */
static inline bool is_quiet(uint64_t word)
{
	return word && __atomic_load_n((const uint32_t *)word, __ATOMIC_RELAXED);
}

/* Reads this process's own memory. It is named by the tid of the calling thread: the thread group leader may have ended. */
static inline int64_t call_read(uint32_t tid, const struct bulk_piece *local,
				const struct bulk_piece *remote, uint32_t n)
{
	return call6(NR_PROCESS_VM_READV, tid, local, n, remote, n, 0);
}

/* read.c */
#define PIECES_OF_FIELD 2	/* no field is longer than a page */
void pieces_add(struct work *w, uint32_t field, void *to, uint64_t from, uint32_t len);
void pieces_read(struct work *w);
uint32_t pieces_put(struct bulk_context *ctx, uint32_t n, uint64_t to, uint64_t from, uint64_t len);	/* after n others */
int64_t blob_read(struct bulk_context *ctx, void *to, uint64_t from, uint64_t len);

/* fields.c */
bool fields_pointers(struct work *w);
bool fields_bytes(struct work *w);
bool fields_rests(struct work *w);
void fields_finish(struct work *w);
uint32_t fields_pack(struct work *w);

/* strings.c */
uint32_t string_first_part(uint64_t from, uint32_t limit);
bool string_close(uint8_t *place, uint32_t read, uint32_t limit);
bool string_is_open(const uint8_t *place);
void string_copy(uint8_t *place, const uint8_t *from, uint32_t limit);
void string_fault(uint8_t *place, uint64_t addr, bool refused);

/* walk.c */
void walk_stack(struct work *w);

/* park.c */
struct park_keeper;
uint64_t park_ask(const struct park_keeper *k, uint32_t kind);	/* PARK_NO_ANSWER: the tracer has not said */

/* record.c */
void blob_record(const struct ring_ref *ref, const struct bulk_desc *desc, uint64_t sp);

/* leave.c */
struct leave_desc;
void blob_leave(const struct leave_desc *d, uint64_t sp, uint64_t where, uint32_t how);

void *memcpy(void *to, const void *from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);

static inline void mark_fault(struct work *w, uint32_t field, bool refused)
{
	w->faults |= 1ull << (field + (refused ? 32 : 0));
}

static inline bool is_faulted(const struct work *w, uint32_t field)
{
	return w->faults >> field & 0x100000001ull;
}

#endif
