/* SPDX-License-Identifier: MIT */
/*
 * The blob: C code that runs inside the target, called by pads. It is compiled apart (freestanding, position
 * independent, general registers only, no data of its own) into one flat image, which is part of the tracer as an
 * array of bytes; attach copies it once per target to a piece of code memory.
 *
 * The tracer sees only this header; inside.h is for the code inside. Entries are called like C functions, with the
 * flags that the C ABI wants (asm_ops.c_enter); on x86-64 the stack pointer need not be aligned.
 */
#ifndef JAB_BLOB_H
#define JAB_BLOB_H

#include <stddef.h>
#include <stdint.h>

#include "arch/event.h"

/*
 * The entry table is at the start of the image: u32 offsets. Entries are only added at the end.
 *
 *	BLOB_RECORD	void record(const struct ring_ref *ref, const struct bulk_desc *desc, uint64_t sp)
 *			Writes one bulk event to a ring that the caller has locked and whose context is
 *			filled, and releases the lock; a child that a signal handler has forked meanwhile
 *			leaves both to its parent.
 *	BLOB_READ	int64_t read(struct bulk_context *ctx, void *to, uint64_t from, uint64_t len)
 *			A checked read of the target's own memory as the thread ctx->tid. Returns how many
 *			bytes from the front could be read; a negative errno if the kernel refuses the call.
 *			At most BULK_PIECES pages.
 *	BLOB_PARK	void park(const struct park_keeper *k, uint32_t kind, uint64_t arg0, uint64_t arg1)
 *			Waits for the tracer, see arch/park.h.
 *	BLOB_PROGRAM	int64_t program(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
 *			One operation of a program of the language, see blob/program.h.
 *	BLOB_LEAVE	void leave(const struct leave_desc *d, uint64_t sp, uint64_t where, uint32_t how)
 *			Frames go away, see blob/leave.h.
 *	BLOB_UNMAP	void unmap(struct known *k, uint64_t at, uint64_t len, uint32_t how, uint32_t ncpus, const uint32_t *quiet)
 *			The thread is going to take memory away: see arch/known.h. how: enum known_cut.
 */
enum blob_entry { BLOB_RECORD, BLOB_READ, BLOB_PARK, BLOB_PROGRAM, BLOB_LEAVE, BLOB_UNMAP, BLOB_ENTRIES };

extern const uint8_t blob_image[];
extern const size_t blob_size;

#define BLOB_ALIGN 64		/* alignment of the image in the target */

/*
 * The most stack that BLOB_PROGRAM takes for a kind of work, below its return address: counted in the machine code when the
 * blob is built (x86/depth.py), since each compiler makes other frames. BLOB_RECORD and BLOB_LEAVE have a limit, and a blob that takes
 * more is not built: their pads ask for a fixed number of bytes.
 */
enum blob_work { BLOB_OTHER_WORK, BLOB_IDS, BLOB_MAPS, BLOB_STACKS };
extern const uint32_t blob_work_depths[];
uint32_t blob_depth(enum blob_work work);
#define BLOB_RECORD_DEPTH (BULK_STACK_MAX - BULK_STACK_PAD)
#define BLOB_LEAVE_DEPTH (LEAVE_STACK - LEAVE_STACK_PAD)

/* Offset of an entry's code from the start of the image. */
uint32_t blob_offset(enum blob_entry entry);

/*
 * Checks that the blob can write an event of these fields. Returns 0; -EINVAL for invalid fields (also for a second
 * backtrace, and for BULK_GOOD at an address that a register other than the stack pointer decides); -ERANGE for more than
 * BULK_FIELDS_MAX fields or BULK_LEN_MAX bytes.
 */
int blob_check(const struct bulk_field *fields, uint32_t n);

#endif
