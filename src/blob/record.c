/* SPDX-License-Identifier: MIT */
/*
 * Writes one bulk event, between taking a ring's lock and the store that commits. The event is made in scratch
 * memory and copied to the ring as a whole. Its length is known only then, but there must be room for the longest
 * that it can be before anything is read: the reads are what costs.
 */
#include "blob/inside.h"

static struct ring_head *head_of(const struct ring_ref *ref)
{
	return (struct ring_head *)ref->ring;
}

/* Relaxed: statistics. */
static void count_lost(const struct ring_ref *ref, uint32_t index)
{
	__atomic_fetch_add(&((uint64_t *)ref->lost)[index], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&head_of(ref)->lost, 1, __ATOMIC_RELAXED);
}

/* Notes where the first event of each stretch of the ring begins; see struct ring_head. */
static void mark(struct ring_head *ring, uint64_t size, uint64_t head, uint64_t next)
{
	uint32_t stretch = ring_stretch(size);
	int shift = __builtin_ctz(stretch);

	if ((head ^ next) >> shift)
		ring->marks[(next >> shift) & ((size >> shift) - 1)] = next;
}

/*
 * A signal handler that interrupted this code may have forked, and its child executes this code, too. The event and
 * the lock are its parent's; only the scratch memory is the child's own. As long as the pid cell has the event's
 * pid there was no fork, since a fork wipes it. If it has another number (a vfork child or a bare clone never notes
 * its pid there, see event_slow.c), the kernel is asked, as for every event of such a thread.
 */
static bool is_known(const struct work *w)
{
	const volatile uint32_t *cell = (const volatile uint32_t *)w->desc->pid_cell;

	return cell && *cell == w->ctx->pid;
}

static bool was_forked(const struct work *w)
{
	return !is_known(w) && w->may_call && (uint32_t)call0(NR_GETPID) != w->ctx->pid;
}

static void read_fields(struct work *w)
{
	bool more;

	do {
		more = fields_pointers(w);
		pieces_read(w);
	} while (more);
	do {
		more = fields_bytes(w);
		pieces_read(w);
	} while (more);
	do {
		more = fields_rests(w);
		pieces_read(w);
	} while (more);
	fields_finish(w);
}

/* Makes the event at `e`. Returns its length. */
static uint32_t write_event(struct work *w, struct event_head *e)
{
	uint64_t *faults = (uint64_t *)(e + 1);

	e->id = w->desc->id;
	e->time = ticks();	/* after the lock was taken: otherwise times in a ring could run backwards */
	e->pid = w->ctx->pid;
	e->tid = w->ctx->tid;
	w->fields = w->place = (uint8_t *)(faults + 1);
	read_fields(w);
	if (w->trace)
		walk_stack(w);
	*faults = w->faults;
	return e->len = sizeof(*e) + sizeof(*faults) + fields_pack(w);
}

/*
 * Pairs with the acquire load in ring_peek_some(). A compare-and-exchange, not a store: a child forked after
 * was_forked() has written the same bytes once more, but must not set head back when its parent has added events
 * since.
 */
static void commit(struct ring_head *ring, uint64_t head, uint64_t next)
{
	__atomic_compare_exchange_n(&ring->head, &head, next, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/*
 * Releases the lock, unless this process is the child of its owner: see ring_lock_owner(). The lock is read before
 * was_forked() is asked. The exchange pairs with the exchange that takes the lock in the code of emit_event_slow().
 */
static void unlock(const struct work *w, struct ring_head *ring)
{
	uint64_t lock = __atomic_load_n(&ring->lock, __ATOMIC_ACQUIRE);

	if (!was_forked(w))
		__atomic_compare_exchange_n(&ring->lock, &lock, ring_lock_given_back(lock), false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED);
}

/* For a forked child no event is lost: its parent writes it. */
static void no_room(const struct work *w, const struct ring_ref *ref)
{
	if (!was_forked(w))
		count_lost(ref, w->desc->lost_index);
}

static void write_to(struct work *w, const struct ring_ref *ref, uint32_t flags)
{
	struct bulk_area *area = (struct bulk_area *)ref->scratch;
	struct ring_head *ring = head_of(ref);
	uint64_t size = w->desc->ring_size, head = ring->head;
	uint32_t len = write_event(w, (struct event_head *)area->event);

	if (was_forked(w))
		return;
	copy_words((uint8_t *)ring + RING_HEAD_SIZE + (head & (size - 8)), area->event, len / 8);
	if (flags & BULK_OVERWRITE)
		mark(ring, size, head, head + len);
	commit(ring, head, head + len);
}

void blob_record(const struct ring_ref *ref, const struct bulk_desc *desc, uint64_t sp)
{
	struct bulk_area *area = (struct bulk_area *)ref->scratch;
	struct ring_head *ring = head_of(ref);
	/* Relaxed: BULK_MAY_CALL may be cleared at any time; no other memory depends on it. */
	uint32_t flags = __atomic_load_n(&desc->flags, __ATOMIC_RELAXED);
	struct work w = {
		.ctx = &area->context, .desc = desc, .sp = sp, .may_call = flags & BULK_MAY_CALL && !is_quiet(desc->quiet),
		.walk_room = ref->scratch_size - sizeof(*area),
	};

	/* Pairs with the release store in set_tail() (ring/ring.c): the reader is done with the bytes before tail. */
	if (!(flags & BULK_OVERWRITE) &&
	    ring->head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) > desc->ring_size - desc->max_len)
		no_room(&w, ref);
	else
		write_to(&w, ref, flags);
	unlock(&w, ring);
}
