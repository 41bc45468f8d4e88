/* SPDX-License-Identifier: MIT */
/*
 * One bulk event, from a ring whose lock we hold to the store that commits it. It is made in scratch memory
 * and goes to the ring as it is. How long it gets is known only then, but room is asked for first, and so
 * for the longest that it can be: reads are what costs.
 */
#include "blob/inside.h"

static uint64_t time_now(void)
{
	uint32_t low, high;

	/* Not before the lock was taken, or times in a ring could run backwards. */
	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

static struct ring_head *head_of(const struct ring_ref *ref)
{
	return (struct ring_head *)ref->ring;
}

static void count_lost(const struct ring_ref *ref, uint32_t index)
{
	__atomic_fetch_add(&((uint64_t *)ref->lost)[index], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&head_of(ref)->lost, 1, __ATOMIC_RELAXED);
}

/* The first event of each stretch of the ring; see struct ring_head. */
static void mark(struct ring_head *ring, uint64_t size, uint64_t head, uint64_t next)
{
	uint32_t stretch = ring_stretch(size);
	int shift = __builtin_ctz(stretch);

	if ((head ^ next) >> shift)
		ring->marks[(next >> shift) & ((size >> shift) - 1)] = next;
}

/*
 * A signal handler that interrupted us may have forked, and its child is here, too. The event and the lock
 * are its parent's, only the scratch memory is its own. The pid cell tells quickly that all is well: a
 * fork wipes it. Where it has another number (strangers), the kernel is asked, as for every event of theirs.
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

/* Returns the length of the event. */
static uint32_t write_event(struct work *w, struct event_head *e)
{
	uint64_t *faults = (uint64_t *)(e + 1);

	e->id = w->desc->id;
	e->time = time_now();
	e->pid = w->ctx->pid;
	e->tid = w->ctx->tid;
	w->fields = w->place = (uint8_t *)(faults + 1);
	read_fields(w);
	if (w->trace)
		walk_stack(w);
	*faults = w->faults;
	return e->len = sizeof(*e) + sizeof(*faults) + fields_pack(w);
}

static void copy_words(void *to, const void *from, uint32_t len)
{
	uint64_t n = len / 8;

	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

/*
 * Pairs with the load in ring_peek(). Not a plain store: a copy of ourselves made since was_forked() said
 * no has written the same bytes once more, but must not take back what its parent has added since.
 */
static void commit(struct ring_head *ring, uint64_t head, uint64_t next)
{
	__atomic_compare_exchange_n(&ring->head, &head, next, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* Unless it is that of a process of which we are the copy: see ring_lock_owner(). The lock is read first. */
static void unlock(const struct work *w, struct ring_head *ring)
{
	uint64_t lock = __atomic_load_n(&ring->lock, __ATOMIC_ACQUIRE);

	if (!was_forked(w))
		__atomic_compare_exchange_n(&ring->lock, &lock, ring_lock_given_back(lock), false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED);
}

/* What the copy of an owner can't make is no loss: its parent does. */
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
	copy_words((uint8_t *)ring + RING_HEAD_SIZE + (head & (size - 8)), area->event, len);
	if (flags & BULK_OVERWRITE)
		mark(ring, size, head, head + len);
	commit(ring, head, head + len);
}

void blob_record(const struct ring_ref *ref, const struct bulk_desc *desc, uint64_t rsp)
{
	struct bulk_area *area = (struct bulk_area *)ref->scratch;
	struct ring_head *ring = head_of(ref);
	uint32_t flags = __atomic_load_n(&desc->flags, __ATOMIC_RELAXED);
	struct work w = {
		.ctx = &area->context, .desc = desc, .rsp = rsp, .may_call = flags & BULK_MAY_CALL && !is_quiet(desc->quiet),
		.walk_room = ref->scratch_size - sizeof(*area),
	};

	if (!(flags & BULK_OVERWRITE) &&
	    ring->head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) > desc->ring_size - desc->max_len)
		no_room(&w, ref);
	else
		write_to(&w, ref, flags);
	unlock(&w, ring);
}
