/* SPDX-License-Identifier: MIT */
/*
 * One bulk event, from a ring whose lock we hold to the store that commits it. How long the event gets is
 * known only at its end, so room is asked for the longest that it can be.
 */
#include "blob/inside.h"
#include "blob/unwind.h"

static uint64_t time_now(void)
{
	uint32_t low, high;

	/* Not before the lock was taken, or times in a ring could run backwards. */
	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

static void count_lost(struct ring_head *ring, uint32_t index)
{
	uint64_t *lost_at = (uint64_t *)ring->lost_at;

	__atomic_fetch_add(&ring->lost, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&lost_at[index], 1, __ATOMIC_RELAXED);
}

/* The first event of each stretch of the ring; see struct ring_head. */
static void mark(struct ring_head *ring, uint64_t size, uint64_t head, uint64_t next)
{
	uint32_t stretch = ring_stretch(size);
	int shift = __builtin_ctz(stretch);

	if ((head ^ next) >> shift)
		ring->marks[(next >> shift) & ((size >> shift) - 1)] = next;
}

static uint32_t cell(const struct bulk_desc *desc)
{
	return desc->pid_cell ? *(const volatile uint32_t *)desc->pid_cell : 0;
}

/*
 * A signal handler that interrupted us may have forked, and its child is here, too: the pid cell was
 * wiped. The event and the lock are the parent's.
 */
static bool was_forked(const struct work *w, uint32_t pid)
{
	return pid && cell(w->desc) != pid && w->may_call && (uint32_t)call0(NR_GETPID) != pid;
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

static void walk_stack(struct work *w)
{
	struct unwind_walk *walk = walk_start(w);
	enum unwind_end end = UNWIND_LOST;
	uint32_t n = 1;

	if (walk)
		n = unwind_walk(walk, (uint64_t *)(w->trace + 8), w->desc->fields[w->trace_field].limit, &end);
	walk_end(w, n, end);
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

/* Returns the ring if its lock is still ours to give back. */
struct ring_head *blob_record(struct ring_head *ring, const struct bulk_desc *desc, uint64_t rsp)
{
	uint32_t flags = __atomic_load_n(&desc->flags, __ATOMIC_RELAXED), pid = cell(desc), len;
	uint64_t size = desc->ring_size, head = ring->head;
	struct work w = {
		.ctx = &ring->bulk, .desc = desc, .rsp = rsp, .may_call = flags & BULK_MAY_CALL,
	};

	if (!(flags & BULK_OVERWRITE) &&
	    head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) > size - desc->max_len) {
		count_lost(ring, desc->lost_index);
		return ring;
	}
	len = write_event(&w, (void *)((uint8_t *)ring + RING_HEAD_SIZE + (head & (size - 1))));
	if (was_forked(&w, pid))
		return NULL;
	if (flags & BULK_OVERWRITE)
		mark(ring, size, head, head + len);
	/* Pairs with the load in ring_peek(). */
	__atomic_store_n(&ring->head, head + len, __ATOMIC_RELEASE);
	return ring;
}
