/* SPDX-License-Identifier: MIT */
/*
 * The operations of clause programs that are done in C. Maps of numbers need no memory but the frame and the map;
 * all other operations work in the scratch memory of the ring that the clause program has locked.
 */
#include "arch/known.h"
#include "arch/park.h"
#include "blob/program_inside.h"

#define PR_GET_NAME 16

prog_do blob_program;

/* ---- reads ---- */

void note_fault(const struct ring_ref *ring, const struct prog_op *op, uint64_t addr, bool refused)
{
	struct prog_run *run = run_of(ring);
	uint64_t bit = 1ull << (op->bit & 63);

	run->faults |= bit;
	run->refused = refused ? run->refused | bit : run->refused & ~bit;
	run->address[op->bit & 63] = addr;
}

static bool was_refused(const struct prog_run *run, uint64_t met)
{
	return met && run->refused >> __builtin_ctzll(met) & 1;
}

/* If the operation depends on one that has failed, it fails, too, with the same address. Returns whether. */
static bool inherits(const struct ring_ref *ring, const struct prog_op *op)
{
	uint64_t met = run_of(ring)->faults & op->mask;

	if (met)
		note_fault(ring, op, run_of(ring)->address[__builtin_ctzll(met)], was_refused(run_of(ring), met));
	return met;
}

/* By plain loads, if it is known memory. */
static __attribute__((noinline)) bool copy_known(const struct prog_op *op, void *to, uint64_t from, uint64_t len)
{
	struct known *k = (struct known *)op->table;
	int64_t off = (int32_t)op->max_len;
	uint64_t phase;
	bool done;

	if (!(op->flags & PROG_KNOWN) || !__atomic_load_n((const uint32_t *)op->shape, __ATOMIC_RELAXED) || !is_registered(off))
		return false;
	phase = __atomic_load_n(&k->phase, __ATOMIC_RELAXED) / sizeof(k->came[0]) % KNOWN_PHASES;
	__atomic_add_fetch(&k->came[phase], 1, __ATOMIC_SEQ_CST);
	done = copy_if_in(k->load, KNOWN_RANGES, off, to, from, len);
	__atomic_add_fetch(&k->went[phase], 1, __ATOMIC_SEQ_CST);
	if (!done)
		__atomic_add_fetch(&k->missed, 1, __ATOMIC_RELAXED);
	return done;
}

/* If it can't be read, the operation fails. */
static bool can_read(const struct ring_ref *ring, const struct prog_op *op, void *to, uint64_t from, uint64_t len)
{
	int64_t r;

	if (copy_known(op, to, from, len))
		return true;
	r = may_call(op) ? blob_read(context(ring), to, from, len) : -1;
	if (r != (int64_t)len)
		note_fault(ring, op, from, r < 0);
	return r == (int64_t)len;
}

static uint64_t *guess_of(struct prog_run *run, const struct prog_op *op, uint32_t number, bool make)
{
	uint32_t k = ((op->slot >> 4) * 13 + number) % PROG_GUESSES;

	if (make)
		run->guess[k].prog = op->slot + number;
	return run->guess[k].prog == op->slot + number ? &run->guess[k].from : 0;
}

static bool take_ahead(struct prog_run *run, const struct prog_op *op, uint64_t addr)
{
	if (op->cap >= PROG_LOADS || !(run->ahead >> op->cap & 1) || run->ahead_from[op->cap] != addr)
		return false;
	run->ahead &= ~(1ull << op->cap);
	run->loaded = run->ahead_value[op->cap];
	return true;
}

/* The address from which a load that follows will read, if it is known or was read before. */
static bool look_ahead(struct prog_run *run, const struct prog_op *op, const struct prog_ahead *a, uint64_t base, uint64_t *ret_from)
{
	const uint64_t *guess = a->sure ? 0 : guess_of(run, op, a->number, false);

	*ret_from = a->sure ? base + a->imm : guess ? *guess : 0;
	return *ret_from;
}

/*
 * Reads the load's bytes, and with the same system call those of the loads that follow. The kernel copies pieces in
 * order up to one that fails, so the number of bytes copied says which pieces were read. If the load's are not, it fails.
 */
static __attribute__((noinline)) bool read_ahead(const struct ring_ref *ring, const struct prog_op *op, uint64_t addr)
{
	const struct prog_ahead *list = (const struct prog_ahead *)op->args;
	struct prog_run *run = run_of(ring);
	uint32_t n = pieces_put(context(ring), 0, (uint64_t)&run->loaded, addr, op->size);
	uint64_t from, asked = 0;
	int64_t got, r;

	for (uint32_t k = 0; k < op->n; k++) {
		if (!look_ahead(run, op, &list[k], addr - op->imm, &from))
			continue;
		run->ahead_from[list[k].number] = from;
		run->ahead_value[list[k].number] = 0;
		n = pieces_put(context(ring), n, (uint64_t)&run->ahead_value[list[k].number], from, list[k].size);
		asked |= 1ull << k;
	}
	r = call_read(context(ring)->tid, context(ring)->local, context(ring)->remote, n);
	got = r - op->size;
	for (uint32_t k = 0; k < op->n; k++) {
		run->ahead &= ~(1ull << list[k].number);
		if (asked >> k & 1 && (got -= list[k].size) >= 0)
			run->ahead |= 1ull << list[k].number;
		else if (asked >> k & 1)
			asked = 0, got += list[k].size;
	}
	if (op->cap < PROG_LOADS)
		*guess_of(run, op, op->cap, true) = addr;
	if (r < op->size)
		note_fault(ring, op, addr, r < 0 && r != -EFAULT);
	return r >= op->size;
}

static uint64_t extended(const struct prog_op *op, uint64_t v)
{
	int shift = 64 - 8 * op->size;

	v <<= shift;
	return op->flags & PROG_SIGNED ? (uint64_t)((int64_t)v >> shift) : v >> shift;
}

static ONE load(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	uint64_t addr = *word(frame, op->a) + op->imm, *to = word(frame, op->dst);

	*to = 0;
	if (inherits(ring, op))
		return PROG_OK;
	if (take_ahead(run_of(ring), op, addr))
		*to = extended(op, run_of(ring)->loaded);
	else if (!may_call(op))
		note_fault(ring, op, addr, true);
	else if (read_ahead(ring, op, addr))
		*to = extended(op, run_of(ring)->loaded);
	return PROG_OK;
}

static uint64_t most_bytes(uint8_t *frame, const struct prog_op *op)
{
	uint64_t most = (uint64_t)op->imm < op->cap ? (uint64_t)op->imm : op->cap;

	if (op->b != PROG_NONE && *word(frame, op->b) < most)
		most = *word(frame, op->b);
	return most;
}

/* Reads page by page: the page after the end of a string need not be mapped. */
static ONE read_string(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	struct text *t = text_at(ring, op->slot);
	uint64_t most = most_bytes(frame, op), from = *word(frame, op->a);
	uint32_t len = 0;

	t->len = 0;
	if (inherits(ring, op))
		return PROG_OK;
	while (len < most) {
		uint32_t part = PAGE - ((from + len) & (PAGE - 1));

		part = part < most - len ? part : most - len;
		if (!can_read(ring, op, t->bytes + len, from + len, part))
			return PROG_OK;
		for (; part && t->bytes[len]; part--)
			len++;
		if (part)
			break;
	}
	t->len = len;
	return PROG_OK;
}

/* As much as there is. It fails only if no read is allowed. */
static uint32_t read_part(const struct ring_ref *ring, const struct prog_op *op, void *to, uint64_t from, uint64_t len)
{
	int64_t r;

	if (copy_known(op, to, from, len))
		return len;
	r = may_call(op) ? blob_read(context(ring), to, from, len) : -1;
	if (r < 0)
		note_fault(ring, op, from, true);
	return r < 0 ? 0 : r;
}

static ONE read_bytes(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	struct text *t = text_at(ring, op->slot);
	uint64_t most = most_bytes(frame, op), from = *word(frame, op->a);

	t->len = 0;
	if (inherits(ring, op))
		return PROG_OK;
	if (op->flags & PROG_PARTIAL)
		t->len = read_part(ring, op, t->bytes, from, most);
	else if (!most || can_read(ring, op, t->bytes, from, most))
		t->len = most;
	return PROG_OK;
}

/* ---- text ---- */

static ONE comm(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	struct text *t = text_at(ring, op->slot);
	char name[16] = "";
	uint32_t len = 0;

	if (may_call(op))
		call2(NR_PRCTL, PR_GET_NAME, name);
	for (; len < sizeof(name) && len < op->cap && name[len]; len++)
		t->bytes[len] = name[len];
	t->len = len;
	return PROG_OK;
}

static ONE slot_copy(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	struct text *to = text_at(ring, op->slot);
	const struct text *from = text_at(ring, op->slot2);
	uint32_t len = text_len(from, op->cap2 < op->cap ? op->cap2 : op->cap);

	memmove(to->bytes, from->bytes, len);
	to->len = len;
	return PROG_OK;
}

static ONE slot_and(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	struct text *to = text_at(ring, op->slot);
	const struct text *mask = text_at(ring, op->slot2);
	uint32_t na = text_len(to, op->cap), nb = text_len(mask, op->cap2);

	for (uint32_t i = 0; i < na && i < nb; i++)
		to->bytes[i] &= mask->bytes[i];
	return PROG_OK;
}

static ONE slot_load(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	const struct text *t = text_at(ring, op->slot);
	uint64_t off = op->imm + (op->a != PROG_NONE ? *word(frame, op->a) : 0), *to = word(frame, op->dst);
	uint32_t len = text_len(t, op->cap);

	*to = 0;
	if (off > len || len - off < op->size)
		return PROG_RANGE;
	memcpy(to, t->bytes + off, op->size);
	*to = extended(op, *to);
	return PROG_OK;
}

static ONE compare(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	const struct text *a = text_at(ring, op->slot), *b = text_at(ring, op->slot2);
	uint32_t na = text_len(a, op->cap), nb = text_len(b, op->cap2), most = op->imm ? op->imm : ~0u;
	int c;

	na = na < most ? na : most;
	nb = nb < most ? nb : most;
	c = memcmp(a->bytes, b->bytes, na < nb ? na : nb);
	*word(frame, op->dst) = c ? (c < 0 ? -1 : 1) : na == nb ? 0 : na < nb ? -1 : 1;
	return PROG_OK;
}

static ONE find(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	const struct text *a = text_at(ring, op->slot), *b = text_at(ring, op->slot2);
	uint32_t na = text_len(a, op->cap), nb = text_len(b, op->cap2);

	*word(frame, op->dst) = -1;
	for (uint32_t at = 0; at + nb <= na; at++)
		if (!memcmp(a->bytes + at, b->bytes, nb)) {
			*word(frame, op->dst) = at;
			break;
		}
	return PROG_OK;
}

/* ---- events ---- */

/* Relaxed: statistics. */
static void count_lost(const struct ring_ref *ring, uint32_t index)
{
	__atomic_fetch_add(&((uint64_t *)ring->lost)[index], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&head_of(ring)->lost, 1, __ATOMIC_RELAXED);
}

/* See was_forked() in record.c. */
static bool was_forked(const struct prog_op *op, const struct bulk_context *ctx)
{
	if ((op->pid_cell && *(const volatile uint32_t *)op->pid_cell == ctx->pid) || !may_call(op))
		return false;
	return (uint32_t)call0(NR_GETPID) != ctx->pid;
}

/* Of a length that the reader knows, or counted in words. t is NULL: it could not be read, and `failed` has the address. */
static uint8_t *put_fixed(const struct prog_arg *a, const struct text *t, const uint64_t *failed, uint8_t *to)
{
	uint32_t cap = a->cap < a->slot_cap ? a->cap : a->slot_cap, len = t ? text_len(t, cap) : 0, all = (a->cap + 7) & ~7u;

	if (a->form == PROG_ADDRS) {
		*(uint64_t *)to = len / 8;
		to += 8;
		all = len & ~7u;
	} else if (!t) {
		len = a->cap < 8 ? a->cap : 8;
	}
	memcpy(to, t ? (const void *)t->bytes : failed, len);
	for (; len < all; len++)
		to[len] = 0;
	return to + all;
}

/* Writes one field at `to`; returns its end. */
static uint8_t *put_field(uint8_t *frame, const struct prog_arg *a, const struct ring_ref *ring, uint8_t *to)
{
	uint64_t met = run_of(ring)->faults & a->mask;
	const uint64_t *failed = met ? &run_of(ring)->address[__builtin_ctzll(met)] : 0;
	const struct text *t;
	uint32_t len, all;

	if (!a->slot) {
		*(uint64_t *)to = failed ? *failed : *word(frame, a->word);
		return to + 8;
	}
	if (a->form >= PROG_FIXED)
		return put_fixed(a, failed && a->form == PROG_FIXED ? 0 : text_at(ring, a->slot), failed, to);
	if (failed) {
		string_fault(to, *failed, was_refused(run_of(ring), met));
		len = 4 + *(uint32_t *)to;
		for (; len & 7; len++)
			to[len] = 0;
		return to + len;
	}
	t = text_at(ring, a->slot);
	len = text_len(t, a->cap < a->slot_cap ? a->cap : a->slot_cap);
	*(uint32_t *)to = all = len + (a->form == PROG_TEXT && len < a->cap);
	memcpy(to + 4, t->bytes, len);
	for (len += 4; len < all + 4 || len & 7; len++)
		to[len] = 0;
	return to + len;
}

/* Which bit of the event says that field k could not be read; with at most 32 fields there is another one if it was refused. */
static uint32_t fault_bit(const struct prog_run *run, const struct prog_op *op, uint32_t k)
{
	if (op->n <= 32 && was_refused(run, run->faults & op->args[k].mask))
		return 32 + k;
	return k < 63 ? k : 63;
}

static uint32_t make_event(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring, uint8_t *event)
{
	struct event_head *e = (struct event_head *)event;
	uint8_t *to = (uint8_t *)(e + 1);
	uint64_t bad = 0;

	e->id = op->imm;
	e->time = ticks();
	e->pid = context(ring)->pid;
	e->tid = context(ring)->tid;
	if (op->flags & PROG_FAULTY) {
		for (uint32_t k = 0; k < op->n; k++)
			if (run_of(ring)->faults & op->args[k].mask)
				bad |= 1ull << fault_bit(run_of(ring), op, k);
		*(uint64_t *)to = bad;
		to += 8;
	}
	for (uint32_t k = 0; k < op->n; k++)
		to = put_field(frame, &op->args[k], ring, to);
	return e->len = to - event;
}

static ONE emit(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	struct ring_head *h = head_of(ring);
	uint64_t size = op->ring_size, head = h->head, next;
	uint8_t *event = area_of(ring, op), *to;

	next = head + make_event(frame, op, ring, event);
	if (was_forked(op, context(ring)))
		return PROG_STOP;
	/* Pairs with the release store in set_tail() (ring/ring.c): the reader is done with the bytes before tail. */
	if (!(op->flags & PROG_OVERWRITE) && next - __atomic_load_n(&h->tail, __ATOMIC_ACQUIRE) > size) {
		count_lost(ring, op->lost_index);
		return PROG_OK;
	}
	to = (uint8_t *)h + RING_HEAD_SIZE + (head & (size - 8));
	copy_words(to, event, (next - head) / 8);
	if (op->flags & PROG_OVERWRITE) {
		int shift = __builtin_ctz(ring_stretch(size));

		if ((head ^ next) >> shift)
			h->marks[(next >> shift) & ((size >> shift) - 1)] = next;
	}
	/* Pairs with the acquire load in ring_peek_some(). Why it is no plain store: see commit() in record.c. */
	__atomic_compare_exchange_n(&h->head, &head, next, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	return was_forked(op, context(ring)) ? PROG_STOP : PROG_OK;
}

/* Adds the faults met at the entry of the call: they count for all operations that depend on them. */
static ONE take_faults(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	run_of(ring)->faults |= *word(frame, op->a);
	run_of(ring)->refused = may_call(op) ? 0 : *word(frame, op->a);	/* what is forbidden stays forbidden */
	memset(run_of(ring)->address, 0, sizeof(run_of(ring)->address));
	return PROG_OK;
}

/* ---- numbers of the process and the thread ---- */

#define ID_ABSENT (~0ull)

static uint64_t id_find(const uint64_t *table, uint32_t theirs)
{
	uint64_t e = __atomic_load_n(&table[theirs % ID_TABLE], __ATOMIC_RELAXED);

	if ((uint32_t)e != theirs)
		e = __atomic_load_n(&table[(theirs % ID_TABLE) ^ ID_OTHER], __ATOMIC_RELAXED);
	return (uint32_t)e == theirs ? e >> 32 : ID_ABSENT;
}

/* What was there gets its other place. Threads that do so at a time may lose an entry, and ask again. */
static void id_note(uint64_t *table, uint32_t theirs, uint32_t ours)
{
	uint64_t *at = &table[theirs % ID_TABLE], had = __atomic_load_n(at, __ATOMIC_RELAXED);

	if ((uint32_t)had != theirs)
		__atomic_store_n(&table[(theirs % ID_TABLE) ^ ID_OTHER], had, __ATOMIC_RELAXED);
	__atomic_store_n(at, id_entry(theirs, ours), __ATOMIC_RELAXED);
}

static ONE ids(const struct prog_op *op)
{
	uint64_t *table = (uint64_t *)op->table, pid, tid, our_pid, our_tid, answer;

	if (!may_call(op))
		return 0;
	tid = call0(NR_GETTID);
	pid = call0(NR_GETPID);
	if (!table)
		return pid << 32 | tid;
	our_tid = id_find(table, tid);
	our_pid = id_find(table, pid);
	if (our_tid != ID_ABSENT && our_pid != ID_ABSENT)
		return our_pid << 32 | our_tid;
	/* Without an answer 0 is noted: one that waits in vain does so once. */
	answer = op->shape ? park_ask((const struct park_keeper *)op->shape, PARK_IDS) : PARK_NO_ANSWER;
	id_note(table, pid, answer >> 32);
	id_note(table, tid, answer);
	return answer;
}

static ONE thread_pointer(const struct prog_op *op)
{
	return may_call(op) ? thread_pointer_by_call() : 0;
}

/* ring: NULL for operations that need no scratch memory. */
int64_t blob_program(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	switch (op->op) {
	case PROG_KEY: return map_key(frame, op, ring);
	case PROG_ADD: return map_add(frame, op, ring);
	case PROG_SET: return map_set(frame, op, ring);
	case PROG_GET: return map_get(frame, op, ring);
	case PROG_DEL: return map_delete(frame, op, ring);
	case PROG_HAS: return map_has(frame, op, ring);
	case PROG_LEN: return map_len(frame, op, ring);
	case PROG_AGG_GET: return agg_get(frame, op, ring);
	case PROG_AGG_HAS: return agg_has(frame, op, ring);
	case PROG_AGG_LEN: return agg_len(frame, op, ring);
	case PROG_AGG_DEL: return agg_delete(frame, op, ring);
	case PROG_THREAD: return thread_pointer(op);
	case PROG_STACK: case PROG_FRAMES: return stack_walk(frame, op, ring);
	case PROG_FAULTS: return take_faults(frame, op, ring);
	case PROG_LOAD: return load(frame, op, ring);
	case PROG_READ_STR: return read_string(frame, op, ring);
	case PROG_READ_BUF: return read_bytes(frame, op, ring);
	case PROG_COMM: return comm(frame, op, ring);
	case PROG_SLOT_COPY: return slot_copy(frame, op, ring);
	case PROG_SLOT_AND: return slot_and(frame, op, ring);
	case PROG_SLOT_LOAD: return slot_load(frame, op, ring);
	case PROG_STR_CMP: return compare(frame, op, ring);
	case PROG_STR_LEN: *word(frame, op->dst) = text_len(text_at(ring, op->slot), op->cap); return PROG_OK;
	case PROG_STR_FIND: return find(frame, op, ring);
	case PROG_EMIT: return emit(frame, op, ring);
	default: return ids(op);
	}
}
