/* SPDX-License-Identifier: MIT */
/*
 * The number of the user stack. The stack is walked as for an event, into the memory of the operation, and looked
 * up among those recorded before (struct prog_stacks). Its number is its position in the pool plus 1.
 */
#include "blob/program_inside.h"
#include "blob/walk.h"

struct area {
	uint64_t frames[PROG_STACKS_FRAMES];
	uint8_t walk[];
};

/*
 * Where the index and the pool are, and their lengths. These come from the clause code; the words in them can be
 * overwritten by the target and its children.
 */
struct pool {
	struct prog_stacks *s;
	uint64_t *pool;
	uint32_t words, mask;
};

static struct pool pool_of(const struct prog_op *op)
{
	struct prog_stacks *s = (struct prog_stacks *)op->table;
	uint32_t index = op->shape;

	return (struct pool){ s, s->index + index, op->shape >> 32, index - 1 };
}

static uint64_t hash_of(const uint64_t *frames, uint32_t n)
{
	return prog_hash(frames, n) | 1ull << 63;	/* so that a used word of the index is never 0 */
}

/* Compares a stack with one in the pool. Whatever the words say, nothing outside of the pool is read. */
static bool is_same(const struct pool *p, uint32_t number, const uint64_t *frames, uint32_t n)
{
	const uint64_t *have = p->pool + number;

	if (number >= p->words || p->words - number <= n || have[0] != n)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (have[1 + i] != frames[i])
			return false;
	return true;
}

static bool has_room(const struct pool *p, uint64_t at, uint32_t n)
{
	return at < p->words && p->words - at > n;
}

/*
 * Writes the stack to new words of the pool. Returns its position; -1: the pool is full. Relaxed: the counter only
 * reserves words; the exchange in find_stack() makes them visible.
 */
static __attribute__((noinline)) int64_t write_stack(const struct pool *p, const uint64_t *frames, uint32_t n)
{
	uint64_t at, *to;

	if (!has_room(p, __atomic_load_n(&p->s->used, __ATOMIC_RELAXED), n))
		return -1;
	at = __atomic_fetch_add(&p->s->used, n + 1, __ATOMIC_RELAXED);
	if (!has_room(p, at, n))
		return -1;
	to = p->pool + at;
	to[0] = n;
	for (uint32_t i = 0; i < n; i++)
		to[1 + i] = frames[i];
	return at;
}

/*
 * Finds the stack's number, recording it if it is new; 0: there is no room. The acquire load of an index word pairs
 * with the release exchange that sets it: the frames are in the pool before.
 */
static __attribute__((noinline)) uint64_t find_stack(const struct prog_op *op, const uint64_t *frames, uint32_t n)
{
	struct pool p = pool_of(op);
	uint64_t hash = hash_of(frames, n), tag = hash & ~0ull << 32, old;
	int64_t own = -1;
	int lost = 0;

	for (uint32_t d = 0; d < PROG_STACKS_WINDOW && lost < PROG_STACKS_WINDOW; ) {
		uint64_t *at = &p.s->index[(hash + d) & p.mask];

		old = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		if (!old) {
			if (own < 0)
				own = write_stack(&p, frames, n);
			if (own < 0)
				return 0;
			if (__atomic_compare_exchange_n(at, &old, tag | (own + 1), false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
				return own + 1;
			lost++;
			continue;		/* another thread was first: compare with what it has entered */
		}
		if ((old & ~0ull << 32) == tag && is_same(&p, (uint32_t)old - 1, frames, n))
			return (uint32_t)old;
		d++;
	}
	return 0;
}

/* Notes the registers that the pad has saved in its frame. */
static void note_registers(uint64_t *regs, const uint8_t *frame, const struct prog_op *op)
{
	note_saved(regs, frame, (const uint64_t *)(frame + op->a));
	regs[REG_SP] = (uint64_t)frame + op->b;
	regs[REG_PC] = op->imm;
}

/* The addresses themselves, for an event. */
static void take_frames(const struct prog_op *op, const struct ring_ref *ring, const uint64_t *frames, uint32_t n)
{
	struct text *t = text_at(ring, op->slot);

	memcpy(t->bytes, frames, 8 * n);
	t->len = 8 * n;
}

/* Both operations in one function: its depth of stack counts for every clause that has either. */
ONE stack_walk(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring)
{
	struct area *area = (struct area *)area_of(ring, op);
	bool frames = op->op == PROG_FRAMES;
	uint32_t most = frames ? op->cap / 8 : op->cap, n;
	enum unwind_end end;
	struct walk k;

	note_registers(context(ring)->regs, frame, op);
	k.may_call = may_call(op);
	walk_set(&k, context(ring), area->walk, op->cap2 - sizeof(*area), frames ? op->table : op->slot, op->flags & PROG_AT_ENTRY);
	unwind_copy_page(&k.walk, (uint64_t)frame + op->b, (uint64_t)frame);
	n = unwind_walk(&k.walk, area->frames, most, &end);
	n = n < most ? n : most;
	if (!frames) {
		*word(frame, op->dst) = find_stack(op, area->frames, n);
		return *word(frame, op->dst) ? PROG_OK : PROG_FULL;
	}
	take_frames(op, ring, area->frames, n);
	if (end == UNWIND_FAULT)
		note_fault(ring, op, n ? area->frames[n - 1] : 0, k.refused);
	return PROG_OK;
}
