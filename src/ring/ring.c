/* SPDX-License-Identifier: MIT */
#include "ring/ring.h"

#include <string.h>

#include "base/err.h"

int ring_attach(struct ring *r, void *head, const void *data, uint64_t size)
{
	if (size < RING_SIZE_MIN || size > RING_SIZE_MAX || size & (size - 1))
		return fail(-EINVAL, "a ring can't have %lu bytes: a power of two from 64 KiB to 1 GiB",
			    (unsigned long)size);
	*r = (struct ring){ .head = head, .data = data, .size = size, .longest = EVENT_LEN_MAX };
	/* Relaxed: only the reader writes tail. */
	r->tail = __atomic_load_n(&r->head->tail, __ATOMIC_RELAXED);
	return 0;
}

void ring_expect(struct ring *r, const uint32_t *lens, uint32_t nids)
{
	r->lens = lens;
	r->nids = nids;
}

void ring_allow(struct ring *r, uint32_t longest)
{
	if (longest > r->longest)
		r->longest = longest < EVENT_LONG_MAX ? longest : EVENT_LONG_MAX;
}

static bool is_good(const struct ring *r, const struct event_head *e, uint64_t room)
{
	if (e->len < sizeof(*e) || e->len > r->longest || e->len % 8 || e->len > room)
		return false;
	if (!r->lens)
		return true;
	return e->id < r->nids && (!r->lens[e->id] || r->lens[e->id] == e->len);
}

bool ring_next(const struct ring *r, const uint8_t *span, uint64_t len, uint64_t *off,
	       struct event_head *ret_head)
{
	struct event_head e;

	if (*off >= len || len - *off < sizeof(e))
		return false;
	memcpy(&e, span + *off, sizeof(e));
	__asm__ volatile("" : "+m"(e));		/* the copy is checked and used; the shared memory is not read a second time */
	if (!is_good(r, &e, len - *off))
		return false;
	*off += e.len;
	*ret_head = e;
	return true;
}

static void set_tail(struct ring *r, uint64_t tail)
{
	r->tail = tail;
	/*
	 * Pairs with the writer's load of tail in its check for room: arch.emit_event,
	 * blob_record(), emit() in blob/program.c. The reader's loads are done before the writer overwrites these
	 * bytes. On x86-64 that load is plain: the CPU does not move later stores before it.
	 */
	__atomic_store_n(&r->head->tail, tail, __ATOMIC_RELEASE);
}

void ring_damage(struct ring *r, uint64_t bytes)
{
	r->damaged++;
	r->damaged_bytes += bytes > r->size ? r->size : bytes;
}

/* Skips everything up to head as damaged. */
static void give_up(struct ring *r, uint64_t head)
{
	ring_damage(r, head - r->tail);
	set_tail(r, head);
}

uint64_t ring_peek(struct ring *r, const uint8_t **ret_span)
{
	return ring_peek_some(r, UINT64_MAX, ret_span);
}

uint64_t ring_peek_some(struct ring *r, uint64_t most, const uint8_t **ret_span)
{
	/*
	 * Pairs with the store to head that commits an event: the last store of the sequence of arch.emit_event, the exchange
	 * in put_finish() (event_slow.c), commit() in blob/record.c, emit() in blob/program.c. The event's bytes
	 * are written before the new head is seen.
	 */
	uint64_t head = __atomic_load_n(&r->head->head, __ATOMIC_ACQUIRE);
	uint64_t len = head - r->tail, off = 0;
	const uint8_t *span = r->data + (r->tail & (r->size - 1));
	struct event_head e;

	if (!len)
		return 0;
	if (len <= r->size)
		while (off < most && ring_next(r, span, len, &off, &e))
			;
	if (!off) {
		give_up(r, head);
		return 0;
	}
	*ret_span = span;	/* invalid bytes after these events are at the front of the next peek, and skipped there */
	return off;
}

void ring_consume(struct ring *r, uint64_t len)
{
	set_tail(r, r->tail + len);
}

uint64_t ring_lost(const struct ring *r)
{
	/* Relaxed: a statistic. */
	return __atomic_load_n(&r->head->lost, __ATOMIC_RELAXED);
}

uint32_t ring_owner(const struct ring *r)
{
	/* Relaxed: ring_free() reads the lock again and changes it only if the owner is still the same. */
	return ring_lock_owner(__atomic_load_n(&r->head->lock, __ATOMIC_RELAXED));
}

bool ring_free(struct ring *r, uint32_t owner)
{
	uint64_t lock = __atomic_load_n(&r->head->lock, __ATOMIC_RELAXED);

	/* Pairs with the exchange of arch.emit_event_slow that takes the lock next. */
	return owner && ring_lock_owner(lock) == owner &&
	       __atomic_compare_exchange_n(&r->head->lock, &lock, ring_lock_given_back(lock), false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}
