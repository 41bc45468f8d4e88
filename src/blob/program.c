/* SPDX-License-Identifier: MIT */
/*
 * What programs of the language have done for them in C. Maps of numbers need no memory but the frame and the
 * map; everything else works in the scratch memory of the ring that the program holds.
 */
#include "blob/inside.h"
#include "blob/program.h"
#include "blob/table.h"

#define ONE static __attribute__((noinline)) int64_t

#define NR_GETTID 186
#define NR_PRCTL 157
#define PR_GET_NAME 16

int64_t blob_program(uint8_t *frame, const struct prog_op *op, struct ring_head *ring);

struct text { uint32_t len; uint8_t bytes[]; };

static uint64_t *word(uint8_t *frame, int32_t off)
{
	return (uint64_t *)(frame + off);
}

static struct bulk_context *context(const struct ring_head *ring)
{
	return (struct bulk_context *)ring->bulk.scratch;
}

static struct prog_run *run_of(const struct ring_head *ring)
{
	return (struct prog_run *)(ring->bulk.scratch + PROG_RUN);
}

static struct text *text_at(const struct ring_head *ring, uint64_t slot)
{
	return (struct text *)(slot < PROG_SLOT_LIMIT ? ring->bulk.scratch + slot : slot);
}

/* Never more than there is room for, whatever stands there. */
static uint32_t text_len(const struct text *t, uint32_t cap)
{
	return t->len < cap ? t->len : cap;
}

/* ---- reads ---- */

static void fault(const struct ring_head *ring, const struct prog_op *op, uint64_t addr)
{
	run_of(ring)->faults |= 1ull << (op->bit & 63);
	run_of(ring)->address[op->bit & 63] = addr;
}

/* Does it hang on something that has failed? Then it has failed, too. */
static bool inherits(const struct ring_head *ring, const struct prog_op *op)
{
	uint64_t met = run_of(ring)->faults & op->mask;

	if (met)
		fault(ring, op, run_of(ring)->address[__builtin_ctzll(met)]);
	return met;
}

static bool can_read(const struct ring_head *ring, const struct prog_op *op, void *to, uint64_t from, uint64_t len)
{
	return op->flags & PROG_MAY_CALL && blob_read(context(ring), to, from, len) == (int64_t)len;
}

static uint64_t extended(const struct prog_op *op, uint64_t v)
{
	int shift = 64 - 8 * op->size;

	v <<= shift;
	return op->flags & PROG_SIGNED ? (uint64_t)((int64_t)v >> shift) : v >> shift;
}

ONE load(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
{
	uint64_t addr = *word(frame, op->a) + op->imm, *to = word(frame, op->dst);

	*to = 0;
	if (inherits(ring, op))
		return PROG_OK;
	if (can_read(ring, op, to, addr, op->size)) {
		*to = extended(op, *to);
	} else {
		*to = 0;
		fault(ring, op, addr);
	}
	return PROG_OK;
}

static uint64_t most_bytes(uint8_t *frame, const struct prog_op *op)
{
	uint64_t most = (uint64_t)op->imm < op->cap ? (uint64_t)op->imm : op->cap;

	if (op->b != PROG_NONE && *word(frame, op->b) < most)
		most = *word(frame, op->b);
	return most;
}

/* Page by page: what is behind the end of a string need not be there. */
ONE read_string(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
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
		if (!can_read(ring, op, t->bytes + len, from + len, part)) {
			fault(ring, op, from + len);
			return PROG_OK;
		}
		for (; part && t->bytes[len]; part--)
			len++;
		if (part)
			break;
	}
	t->len = len;
	return PROG_OK;
}

ONE read_bytes(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
{
	struct text *t = text_at(ring, op->slot);
	uint64_t most = most_bytes(frame, op), from = *word(frame, op->a);

	t->len = 0;
	if (inherits(ring, op))
		return PROG_OK;
	if (!most || can_read(ring, op, t->bytes, from, most))
		t->len = most;
	else
		fault(ring, op, from);
	return PROG_OK;
}

/* ---- text ---- */

ONE comm(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
{
	struct text *t = text_at(ring, op->slot);
	char name[16] = "";
	uint32_t len = 0;
	int64_t r;

	if (op->flags & PROG_MAY_CALL)
		__asm__ volatile("syscall" : "=a"(r) : "0"((long)NR_PRCTL), "D"((long)PR_GET_NAME), "S"(name)
				 : "rcx", "r11", "memory");
	for (; len < sizeof(name) && len < op->cap && name[len]; len++)
		t->bytes[len] = name[len];
	t->len = len;
	return PROG_OK;
}

ONE slot_copy(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
{
	struct text *to = text_at(ring, op->slot);
	const struct text *from = text_at(ring, op->slot2);
	uint32_t len = text_len(from, op->cap2 < op->cap ? op->cap2 : op->cap);

	memmove(to->bytes, from->bytes, len);
	to->len = len;
	return PROG_OK;
}

ONE slot_load(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
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

ONE compare(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
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

ONE find(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
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

static void count_lost(struct ring_head *ring, uint32_t index)
{
	__atomic_fetch_add(&ring->lost, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&((uint64_t *)ring->lost_at)[index], 1, __ATOMIC_RELAXED);
}

/* See record.c. */
static bool was_forked(const struct prog_op *op, const struct bulk_context *ctx)
{
	if ((op->pid_cell && *(const volatile uint32_t *)op->pid_cell == ctx->pid) || !(op->flags & PROG_MAY_CALL))
		return false;
	return (uint32_t)call0(NR_GETPID) != ctx->pid;
}

/* One field at `to`; returns what is behind it. */
static uint8_t *put_field(uint8_t *frame, const struct prog_arg *a, struct ring_head *ring, uint8_t *to)
{
	uint64_t met = run_of(ring)->faults & a->mask;
	const uint64_t *failed = met ? &run_of(ring)->address[__builtin_ctzll(met)] : 0;
	const struct text *t;
	uint32_t len, all;

	if (!a->slot) {
		*(uint64_t *)to = failed ? *failed : *word(frame, a->word);
		return to + 8;
	}
	if (failed) {		/* "<fault>", NUL, the address */
		*(uint32_t *)to = 16;
		*(uint64_t *)(to + 4) = 0x3e746c7561663c;
		*(uint64_t *)(to + 12) = *failed;
		*(uint32_t *)(to + 20) = 0;
		return to + 24;
	}
	t = text_at(ring, a->slot);
	len = text_len(t, a->cap < a->slot_cap ? a->cap : a->slot_cap);
	*(uint32_t *)to = all = len + (a->nul && len < a->cap);
	memcpy(to + 4, t->bytes, len);
	for (len += 4; len < all + 4 || len & 7; len++)
		to[len] = 0;
	return to + len;
}

static uint32_t make_event(uint8_t *frame, const struct prog_op *op, struct ring_head *ring, uint8_t *event)
{
	struct event_head *e = (struct event_head *)event;
	uint8_t *to = (uint8_t *)(e + 1);
	uint64_t bad = 0;
	uint32_t low, high;

	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	e->id = op->imm;
	e->time = (uint64_t)high << 32 | low;
	e->pid = context(ring)->pid;
	e->tid = context(ring)->tid;
	if (op->flags & PROG_FAULTY) {
		for (uint32_t k = 0; k < op->n; k++)
			if (run_of(ring)->faults & op->args[k].mask)
				bad |= 1ull << (k < 63 ? k : 63);
		*(uint64_t *)to = bad;
		to += 8;
	}
	for (uint32_t k = 0; k < op->n; k++)
		to = put_field(frame, &op->args[k], ring, to);
	return e->len = to - event;
}

ONE emit(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
{
	uint64_t size = op->ring_size, head = ring->head, next, words;
	uint8_t *event = run_of(ring)->event, *to;

	if (!(op->flags & PROG_OVERWRITE) &&
	    head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) > size - op->max_len) {
		count_lost(ring, op->lost_index);
		return PROG_OK;
	}
	next = head + make_event(frame, op, ring, event);
	if (was_forked(op, context(ring)))
		return PROG_STOP;
	to = (uint8_t *)ring + RING_HEAD_SIZE + (head & (size - 1));
	words = (next - head) / 8;
	__asm__ volatile("rep movsq" : "+D"(to), "+S"(event), "+c"(words) : : "memory");
	if (op->flags & PROG_OVERWRITE) {
		int shift = __builtin_ctz(ring_stretch(size));

		if ((head ^ next) >> shift)
			ring->marks[(next >> shift) & ((size >> shift) - 1)] = next;
	}
	__atomic_compare_exchange_n(&ring->head, &head, next, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	return was_forked(op, context(ring)) ? PROG_STOP : PROG_OK;
}

ONE ids(const struct prog_op *op)
{
	uint64_t pid, tid;

	if (!(op->flags & PROG_MAY_CALL))
		return 0;
	tid = call0(NR_GETTID);
	pid = call0(NR_GETPID);
	return pid << 32 | tid;
}

/* ---- maps ---- */

static uint64_t *pack(uint8_t *frame, const struct prog_arg *a, const struct ring_head *ring, uint64_t *to)
{
	uint32_t len, words;
	const struct text *t;

	if (!a->slot) {
		*to = *word(frame, a->word);
		return to + 1;
	}
	t = text_at(ring, a->slot);
	len = text_len(t, a->cap < a->slot_cap ? a->cap : a->slot_cap);
	words = (4 + a->cap + 7) / 8;
	memset(to, 0, 8 * words);
	*(uint32_t *)to = len;
	memcpy((uint8_t *)to + 4, t->bytes, len);
	return to + words;
}

static __attribute__((noinline)) const uint64_t *pack_key(uint8_t *frame, const struct prog_op *op,
							   const struct ring_head *ring)
{
	uint64_t *to = run_of(ring)->key;

	for (uint32_t k = 0; k < op->nkeys; k++)
		to = pack(frame, &op->args[k], ring, to);
	return run_of(ring)->key;
}

/* Numbers alone stand in the frame as they are wanted. */
static inline const uint64_t *key_of(uint8_t *frame, const struct prog_op *op, const struct ring_head *ring)
{
	if (!ring)
		return op->nkeys ? word(frame, op->args[0].word) : (const uint64_t *)frame;
	return pack_key(frame, op, ring);
}

static struct prog_table *table_of(const struct prog_op *op)
{
	return (struct prog_table *)op->table;
}

/* Of a map whose values are more than a number. */
static bool lock_value(struct prog_entry *e, uint64_t state, uint32_t tid)
{
	for (int i = 0; i < TABLE_SPINS; i++) {
		uint64_t none = 0;

		if (!table_still(e, state))
			return false;
		if (__atomic_compare_exchange_n(&e->value, &none, tid, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return table_still(e, state) || (__atomic_store_n(&e->value, 0, __ATOMIC_RELEASE), false);
		table_pause();
	}
	return false;
}

ONE key_entry(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
{
	uint64_t state;
	bool made;
	int64_t at = table_make(table_of(op), key_of(frame, op, ring), 0, 0, &state, &made);

	return at < 0 ? PROG_FULL : at + PROG_KEY_BIAS;
}

static void unpack(uint8_t *frame, const struct prog_op *op, const struct ring_head *ring, const uint64_t *from)
{
	for (uint32_t k = op->nkeys; k < op->n; k++) {
		const struct prog_arg *a = &op->args[k];
		const struct text *have = (const struct text *)from;
		uint32_t len;
		struct text *t;

		if (!a->slot) {
			*word(frame, a->word) = from ? *from++ : 0;
			continue;
		}
		t = text_at(ring, a->slot);
		len = from ? text_len(have, a->cap < a->slot_cap ? a->cap : a->slot_cap) : 0;
		memcpy(t->bytes, have->bytes, len);
		t->len = len;
		from += from ? (4 + a->cap + 7) / 8 : 0;
	}
}

ONE get(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
{
	struct prog_table *t = table_of(op);
	const uint64_t *key = key_of(frame, op, ring);
	uint64_t state, value, hash = prog_hash(key, t->key_words);
	bool there = false;

	for (int tries = 0; tries < TABLE_TRIES && !there; tries++) {
		int64_t at = table_find(t, key, hash, table_window(t), &state);
		struct prog_entry *e = prog_entry(t, at);

		if (at < 0)
			break;
		if (!t->value_words) {
			value = __atomic_load_n(&e->value, __ATOMIC_ACQUIRE);
			there = table_still(e, state);
		} else if (lock_value(e, state, context(ring)->tid)) {
			unpack(frame, op, ring, e->key + t->key_words);
			__atomic_store_n(&e->value, 0, __ATOMIC_RELEASE);
			there = true;
		}
	}
	if (!there)
		unpack(frame, op, ring, 0);
	else if (!t->value_words)
		unpack(frame, op, ring, &value);
	if (op->dst != PROG_NONE)
		*word(frame, op->dst) = there;
	return PROG_OK;
}

ONE set(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
{
	struct prog_table *t = table_of(op);
	const uint64_t *key = key_of(frame, op, ring);
	uint64_t state, old, *values = 0, value = 0;
	bool made;

	if (t->value_words) {
		uint64_t *to = values = (uint64_t *)run_of(ring)->event;

		for (uint32_t k = op->nkeys; k < op->n; k++)
			to = pack(frame, &op->args[k], ring, to);
	} else {
		value = *word(frame, op->args[op->nkeys].word);
	}
	for (int tries = 0; tries < TABLE_TRIES; tries++) {
		int64_t at = table_make(t, key, value, values, &state, &made);
		struct prog_entry *e = prog_entry(t, at);

		if (at < 0)
			return PROG_FULL;
		if (made)
			return PROG_OK;
		if (!values) {
			old = e->value;
			for (int i = 0; i < TABLE_SPINS && table_still(e, state); i++)
				if (table_exchange(e, state, &old, value))
					return PROG_OK;
		} else if (lock_value(e, state, context(ring)->tid)) {
			for (uint32_t i = 0; i < t->value_words; i++)
				e->key[t->key_words + i] = values[i];
			__atomic_store_n(&e->value, 0, __ATOMIC_RELEASE);
			return PROG_OK;
		}
	}
	return PROG_FULL;
}

ONE add(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
{
	struct prog_table *t = table_of(op);
	const uint64_t *key = key_of(frame, op, ring);
	uint64_t state, old = 0, by = *word(frame, op->a);
	bool made, done = false;

	for (int tries = 0; tries < TABLE_TRIES && !done; tries++) {
		int64_t at = table_make(t, key, by, 0, &state, &made);
		struct prog_entry *e = prog_entry(t, at);

		if (at < 0)
			break;
		old = made ? 0 : e->value;
		done = made;
		for (int i = 0; i < TABLE_SPINS * TABLE_SPINS && !done && table_still(e, state); i++)
			done = table_exchange(e, state, &old, old + by);
	}
	if (op->dst != PROG_NONE)
		*word(frame, op->dst) = done ? old : 0;
	return done ? PROG_OK : PROG_FULL;
}

ONE delete(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
{
	struct prog_table *t = table_of(op);
	const uint64_t *key = key_of(frame, op, ring);
	uint64_t state;
	int64_t at = table_find(t, key, prog_hash(key, t->key_words), table_window(t), &state);
	bool there = at >= 0 && table_delete_at(t, at, state);

	if (op->dst != PROG_NONE)
		*word(frame, op->dst) = there;
	return there ? PROG_OK : PROG_ABSENT;
}

ONE has(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
{
	struct prog_table *t = table_of(op);
	const uint64_t *key = key_of(frame, op, ring);
	uint64_t state;

	*word(frame, op->dst) = table_find(t, key, prog_hash(key, t->key_words), table_window(t), &state) >= 0;
	return PROG_OK;
}

/* ring: NULL for what needs no scratch memory. */
int64_t blob_program(uint8_t *frame, const struct prog_op *op, struct ring_head *ring)
{
	switch (op->op) {
	case PROG_KEY: return key_entry(frame, op, ring);
	case PROG_ADD: return add(frame, op, ring);
	case PROG_SET: return set(frame, op, ring);
	case PROG_GET: return get(frame, op, ring);
	case PROG_DEL: return delete(frame, op, ring);
	case PROG_HAS: return has(frame, op, ring);
	case PROG_LEN: *word(frame, op->dst) = table_of(op)->count; return PROG_OK;
	case PROG_LOAD: return load(frame, op, ring);
	case PROG_READ_STR: return read_string(frame, op, ring);
	case PROG_READ_BUF: return read_bytes(frame, op, ring);
	case PROG_COMM: return comm(frame, op, ring);
	case PROG_SLOT_COPY: return slot_copy(frame, op, ring);
	case PROG_SLOT_LOAD: return slot_load(frame, op, ring);
	case PROG_STR_CMP: return compare(frame, op, ring);
	case PROG_STR_LEN: *word(frame, op->dst) = text_len(text_at(ring, op->slot), op->cap); return PROG_OK;
	case PROG_STR_FIND: return find(frame, op, ring);
	case PROG_EMIT: return emit(frame, op, ring);
	default: return ids(op);
	}
}
