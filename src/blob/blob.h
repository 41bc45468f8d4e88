/* SPDX-License-Identifier: MIT */
/*
 * The blob: C code that runs inside the target, called by pads. It is compiled apart (freestanding,
 * position independent, general registers only, no data of its own) into one flat image that we carry
 * as bytes; whoever attaches copies it once per target to a piece of code memory.
 *
 * What runs outside sees only this header. blob_* functions of the entry table follow the usual calling
 * convention of C, so the direction flag is clear and rsp is 16-aligned when they are called.
 */
#ifndef JAB_BLOB_H
#define JAB_BLOB_H

#include <stddef.h>
#include <stdint.h>

#include "arch/event.h"

/*
 * The entry table stands at the start of the image: u32 offsets. Entries are only added at the end.
 *
 *	BLOB_RECORD	int record(struct ring_head *ring, const struct bulk_desc *desc)
 *			Write one bulk event to a ring whose lock is the caller's; its context is filled.
 *			1: the lock is not ours any more (we are the copy that a fork made); else 0.
 *	BLOB_READ	int64_t read(struct bulk_context *ctx, void *to, uint64_t from, uint64_t len)
 *			A checked read of memory of the target itself by ctx->tid. How many bytes could be
 *			read from the front; a negative errno other than -EFAULT if the kernel refuses to be asked.
 */
enum blob_entry { BLOB_RECORD, BLOB_READ, BLOB_ENTRIES };

extern const uint8_t blob_image[];
extern const size_t blob_size;

#define BLOB_ALIGN 64		/* where the image may be put */

/* Where an entry stands, from the start of the image. */
uint32_t blob_offset(enum blob_entry entry);

/*
 * Can the blob write an event of these fields? 0; -EINVAL for what makes no sense, -ERANGE for more than
 * BULK_FIELDS_MAX fields or BULK_LEN_MAX bytes.
 */
int blob_check(const struct bulk_field *fields, uint32_t n);

#endif
