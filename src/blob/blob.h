/* SPDX-License-Identifier: MIT */
/*
 * The blob: C code that runs inside the target, called by pads. It is compiled apart (freestanding,
 * position independent, general registers only, no data of its own) into one flat image that we carry
 * as bytes; whoever attaches copies it once per target to a piece of code memory.
 *
 * What runs outside sees only this header; inside.h is the same for the code inside. Entries are called as
 * C functions are, with the direction flag clear; rsp may be anything.
 */
#ifndef JAB_BLOB_H
#define JAB_BLOB_H

#include <stddef.h>
#include <stdint.h>

#include "arch/event.h"

/*
 * The entry table stands at the start of the image: u32 offsets. Entries are only added at the end.
 *
 *	BLOB_RECORD	void record(const struct ring_ref *ref, const struct bulk_desc *desc, uint64_t rsp)
 *			Write one bulk event to a ring whose lock is the caller's and whose context is
 *			filled, and give the lock back; unless it isn't ours: we are a copy
 *			of its owner made by a fork in a signal handler.
 *	BLOB_READ	int64_t read(struct bulk_context *ctx, void *to, uint64_t from, uint64_t len)
 *			A checked read of the target's own memory as the thread ctx->tid. How many bytes
 *			from the front could be read; a negative errno if the kernel can't be asked. At
 *			most BULK_PIECES pages.
 *	BLOB_PARK	void park(struct park *p, uint32_t kind, uint64_t arg0, uint64_t arg1)
 *			Wait for the tracer, see arch/park.h.
 *	BLOB_PROGRAM	int64_t program(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
 *			One operation of a program of the language, see blob/program.h.
 *	BLOB_LEAVE	void leave(const struct leave_desc *d, uint64_t rsp, uint64_t where, uint32_t how)
 *			Frames go away, see blob/leave.h.
 */
enum blob_entry { BLOB_RECORD, BLOB_READ, BLOB_PARK, BLOB_PROGRAM, BLOB_LEAVE, BLOB_ENTRIES };

extern const uint8_t blob_image[];
extern const size_t blob_size;

#define BLOB_ALIGN 64		/* where the image may be put */

/* Where an entry stands, from the start of the image. */
uint32_t blob_offset(enum blob_entry entry);

/*
 * Can the blob write an event of these fields? 0; -EINVAL for what makes no sense (also a second
 * backtrace, and BULK_GOOD at a place that isn't), -ERANGE for more than
 * BULK_FIELDS_MAX fields or BULK_LEN_MAX bytes.
 */
int blob_check(const struct bulk_field *fields, uint32_t n);

#endif
