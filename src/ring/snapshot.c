/* SPDX-License-Identifier: MIT */
/*
 * Overwrite mode. The writer ignores tail: at any time the bytes from head on, as many as the largest event has,
 * may be half written. If head was h1 before the ring was copied and h2 afterwards, the copy is valid from h2 +
 * largest - size to h1.
 *
 * The marks say where events begin: one for the first event of each stretch of the ring. From the newest mark to
 * the oldest, each run of events must end exactly where the next one begins. At the first run that does not, the
 * rest is older than the copy, or the ring was overwritten with other bytes.
 */
#include "ring/ring.h"

#include <string.h>

#include "base/err.h"

#define TRIES 8

/* The valid part of a copy. Positions count the bytes written since the ring was created. */
struct part {
	const uint8_t *buf;	/* byte `from` is buf[0] */
	uint64_t from;
	uint64_t to;
	uint64_t marks[RING_MARKS];
};

static uint64_t oldest_safe(const struct ring *r, uint64_t head)
{
	uint64_t kept = r->size - EVENT_LEN_MAX;

	return head > kept ? head - kept : 0;
}

/*
 * False: the writer overtook the copy. The acquire load pairs with the stores to head that commit events, see
 * ring_peek_some(). The marks are loaded relaxed: a mark that is too new or too old is rejected by mark_before() or
 * is_run().
 */
static bool copy(const struct ring *r, uint8_t *buf, struct part *part)
{
	uint64_t h1 = __atomic_load_n(&r->head->head, __ATOMIC_ACQUIRE);
	uint64_t from = oldest_safe(r, h1), h2, safe;

	memcpy(buf, r->data + (from & (r->size - 1)), h1 - from);
	for (int i = 0; i < RING_MARKS; i++)
		part->marks[i] = __atomic_load_n(&r->head->marks[i], __ATOMIC_RELAXED);
	/*
	 * All reads of the copy come before the second load of head. Pairs with the order of the writer's stores,
	 * which x86 keeps: head of one event, then the bytes of the next event. So if the copy has any of those
	 * bytes, h2 is at least that head.
	 */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	h2 = __atomic_load_n(&r->head->head, __ATOMIC_RELAXED);
	safe = oldest_safe(r, h2);
	part->from = safe > from ? safe : from;
	part->to = h1;
	if (h2 < h1 || part->from >= part->to)
		return false;
	part->buf = buf + (part->from - from);
	return true;
}

/* Finds the newest mark before `end` that is in the valid part. Position 0 needs no mark. */
static bool mark_before(const struct part *part, uint64_t end, uint64_t *ret_mark)
{
	bool found = !part->from && end;
	uint64_t newest = 0;

	for (int i = 0; i < RING_MARKS; i++) {
		uint64_t m = part->marks[i];

		if (m < part->from || m >= end || m < newest)
			continue;
		newest = m;
		found = true;
	}
	if (found)
		*ret_mark = newest;
	return found;
}

static bool is_run(const struct ring *r, const struct part *part, uint64_t from, uint64_t to)
{
	uint64_t off = 0, len = to - from;
	struct event_head e;

	while (ring_next(r, part->buf + (from - part->from), len, &off, &e))
		;
	return off == len;
}

/* Makes a copy in which the start of at least one event is known. */
static bool take(const struct ring *r, uint8_t *buf, struct part *part)
{
	uint64_t mark;

	for (int i = 0; i < TRIES; i++)
		if (copy(r, buf, part) && mark_before(part, part->to, &mark))
			return true;
	return false;
}

int64_t ring_snapshot(struct ring *r, uint8_t *buf, const uint8_t **ret_start)
{
	struct part part;
	uint64_t first, mark = 0;

	if (!__atomic_load_n(&r->head->head, __ATOMIC_RELAXED)) {
		*ret_start = buf;
		return 0;
	}
	if (!take(r, buf, &part))
		return fail(-EAGAIN, "the ring is written faster than it can be read");
	first = part.to;
	while (mark_before(&part, first, &mark) && is_run(r, &part, mark, first))
		first = mark;
	if (first == part.to) {
		ring_damage(r, part.to - part.from);
		return fail(-EBADMSG, "the newest events of a ring are damaged");
	}
	*ret_start = part.buf + (first - part.from);
	return part.to - first;
}
