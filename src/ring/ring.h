/* SPDX-License-Identifier: MIT */
/*
 * Reading the rings that pads write (arch/event.h has the layout). The other side may be broken or
 * hostile: head, lengths and everything else can be anything and can change while we look. What we
 * read never lies outside of the ring, every call ends, and what makes no sense is given up and
 * counted as damaged.
 *
 *	while ((len = ring_peek(&r, &span)))	whole events, in one piece
 *		write them somewhere, ring_consume(&r, len)
 */
#ifndef JAB_RING_H
#define JAB_RING_H

#include "arch/event.h"

#define RING_NO_EVENT 1u	/* in lens: nothing in the target writes events of this id. No event has this length */

struct ring {
	struct ring_head *head;		/* shared */
	const uint8_t *data;		/* shared; 2 * size bytes, the same ones twice */
	uint64_t size;
	uint64_t tail;			/* ours; the one in the head page is for the writer only */
	const uint32_t *lens;		/* lens[id] = length of such an event, 0: any; or NULL */
	uint32_t nids;			/* used if lens is set */
	uint32_t longest;		/* event that may be there */
	uint64_t damaged;		/* times that something was given up; at least one event each time */
	uint64_t damaged_bytes;
};

/*
 * Take a ring over. Both views are ours to read, the head page also to write. -EINVAL for a size that
 * is no power of two or out of range. Reading begins at the tail that stands there.
 */
int ring_attach(struct ring *r, void *head, const void *data, uint64_t size);

/* From now on an event of another id or length is damage. lens lives as long as the ring; NULL: any id and length. */
void ring_expect(struct ring *r, const uint32_t *lens, uint32_t nids);

/* From now on an event of up to so many bytes, above EVENT_LEN_MAX, is good. Not for overwrite mode. */
void ring_allow(struct ring *r, uint32_t longest);

/* All whole events that are there now. Returns how many bytes, 0: nothing. */
uint64_t ring_peek(struct ring *r, const uint8_t **ret_span);

/* The same, but what is behind the event that reaches `most` bytes stays for the next time. */
uint64_t ring_peek_some(struct ring *r, uint64_t most, const uint8_t **ret_span);

/* The first len bytes of the last peek are not needed any more. */
void ring_consume(struct ring *r, uint64_t len);

/* What was peeked at is no event, so many bytes of it. The caller consumes them. */
void ring_damage(struct ring *r, uint64_t bytes);

/*
 * Step through a span: a checked copy of the header at *off, and *off moves behind that event.
 * False at the end, and where the bytes have become nonsense since they were peeked at. The payload
 * is span + its offset + 24, head.len - 24 bytes.
 */
bool ring_next(const struct ring *r, const uint8_t *span, uint64_t len, uint64_t *off,
	       struct event_head *ret_head);

/*
 * Overwrite mode: copy the newest events to buf (size bytes of room) while the writer goes on. Returns
 * how many bytes from *ret_start on are whole events, oldest first, up to the newest. -EAGAIN if the
 * writer was too fast for us each time, -EBADMSG if the ring is damaged. Nothing is consumed.
 */
int64_t ring_snapshot(struct ring *r, uint8_t *buf, const uint8_t **ret_start);

/* Events lost because this ring was full. */
uint64_t ring_lost(const struct ring *r);

/* Who holds the lock (a tid as its own pid namespace knows it), 0: nobody. */
uint32_t ring_owner(const struct ring *r);

/* That owner is dead, or nowhere near the ring: free its lock. False if it isn't its any more. */
bool ring_free(struct ring *r, uint32_t owner);

#endif
