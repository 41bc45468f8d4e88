/* SPDX-License-Identifier: MIT */
/*
 * Reading the rings that pads write (arch/event.h has the layout). The target may be broken or hostile: head,
 * lengths and everything else can have any value and can change during a read. Nothing outside of the ring is read,
 * every call ends, and bytes that are no valid events are skipped and counted as damaged.
 *
 *	while ((len = ring_peek(&r, &span)))	whole events, in one piece
 *		write them somewhere, ring_consume(&r, len)
 */
#ifndef JAB_RING_H
#define JAB_RING_H

#include "arch/event.h"

#define RING_NO_EVENT 1u	/* in lens: no code in the target writes events of this id. No event has this length */

struct ring {
	struct ring_head *head;		/* shared */
	const uint8_t *data;		/* shared; 2 * size bytes: the ring's data mapped twice in a row */
	uint64_t size;
	uint64_t tail;			/* the reader's own copy; the one in the head page is only for the writer to see */
	const uint32_t *lens;		/* lens[id] = length of an event of this id, 0: any length; or NULL */
	uint32_t nids;			/* used if lens is set */
	uint32_t longest;		/* longest event that is accepted */
	uint64_t damaged;		/* how many times bytes were skipped as damaged; at least one event was lost each
					   time */
	uint64_t damaged_bytes;
};

/*
 * Starts to read a ring, at the tail that its head page has. Both mappings are readable for this process, the head
 * page also writable. -EINVAL for a size that is no power of two or out of range.
 */
int ring_attach(struct ring *r, void *head, const void *data, uint64_t size);

/* From now on an event of another id or length is damage. lens must live as long as the ring; NULL: any id and length. */
void ring_expect(struct ring *r, const uint32_t *lens, uint32_t nids);

/* From now on events of up to `longest` bytes are accepted, beyond EVENT_LEN_MAX. Not for overwrite mode. */
void ring_allow(struct ring *r, uint32_t longest);

/* Finds all whole events that are in the ring now. Returns their length in bytes, 0: there are none. */
uint64_t ring_peek(struct ring *r, const uint8_t **ret_span);

/* Like ring_peek(), but ends after the event that reaches `most` bytes; the events after it are left for the next call. */
uint64_t ring_peek_some(struct ring *r, uint64_t most, const uint8_t **ret_span);

/* The first len bytes of the last peek are not needed any more. */
void ring_consume(struct ring *r, uint64_t len);

/* Counts `bytes` bytes of the last peek as damaged. The caller consumes them. */
void ring_damage(struct ring *r, uint64_t bytes);

/*
 * Steps through a span: copies and checks the header at *off, and moves *off to the end of that event. False at the
 * end of the span, and where the bytes have been changed into an invalid header since ring_peek(). The payload is
 * at span + the old *off + 24 and has head.len - 24 bytes.
 */
bool ring_next(const struct ring *r, const uint8_t *span, uint64_t len, uint64_t *off,
	       struct event_head *ret_head);

/*
 * Overwrite mode: copies the newest events to buf (size bytes of room) while the writer goes on. Returns how many
 * bytes from *ret_start on are whole events, oldest first, up to the newest. -EAGAIN if the writer overtook the
 * copy at each attempt, -EBADMSG if the ring is damaged. Nothing is consumed.
 */
int64_t ring_snapshot(struct ring *r, uint8_t *buf, const uint8_t **ret_start);

/* Events lost because this ring was full. */
uint64_t ring_lost(const struct ring *r);

/* The tid of the thread that holds the lock, as its own pid namespace numbers it; 0: the ring is not locked. */
uint32_t ring_owner(const struct ring *r);

/* Releases the lock of an owner that is dead or is in no pad. False if `owner` does not hold the lock any more. */
bool ring_free(struct ring *r, uint32_t owner);

#endif
