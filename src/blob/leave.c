/* SPDX-License-Identifier: MIT */
/*
 * Frames go away: control goes on at a stack pointer further up. All calls that are open between here and there are
 * over, the innermost first; each has code that ends it as an exit would.
 *
 * It must be the same stack. An unwinder has come from here to there frame by frame; it may have begun on the stack of a
 * signal handler, so the pages between must all be there. longjmp() is also used to switch between coroutines, whose
 * frames live on: it counts only on the stack that the thread was given by the system or by the C library, with nothing between
 * here and its top that could be the end of another one. Whatever is not sure stays open.
 */
#include "blob/inside.h"
#include "blob/leave.h"

#define MOST_THROWN (64ull << 20)	/* bytes of stack */
#define MOST_JUMPED (16ull << 20)
#define MAIN_REACH (64ull << 20)	/* below the top of the first thread's stack the kernel maps nothing else */
#define FROM_ELSEWHERE (256ull << 10)	/* from another stack to that one: calls so far below are over */
#define PAGES 8

struct gone { uint64_t sp, slot; };

static uint64_t thread_pointer(const struct leave_desc *d)
{
	if (d->has_thread_insn)
		return thread_pointer_by_insn();
	return d->may_call && !is_quiet(d->quiet) ? thread_pointer_by_call() : 0;
}

/* Can all pages between those of lo and hi be read? Ends of stacks can't. */
static __attribute__((noinline)) bool is_whole(const struct leave_desc *d, uint64_t lo, uint64_t hi)
{
	struct bulk_piece far[PAGES], here;
	uint64_t page = (lo | (PAGE - 1)) + 1, end = hi & -(uint64_t)PAGE;
	uint8_t bytes[PAGES];
	uint32_t tid, n;

	if (page >= end)
		return true;
	if (!d->may_call || is_quiet(d->quiet))
		return false;
	tid = call0(NR_GETTID);
	while (page < end) {
		for (n = 0; n < PAGES && page < end; n++, page += PAGE)
			far[n] = (struct bulk_piece){ page, 1 };
		here = (struct bulk_piece){ (uint64_t)bytes, n };
		if (call6(NR_PROCESS_VM_READV, tid, &here, 1, far, n, 0) != (int64_t)n)
			return false;
	}
	return true;
}

static bool is_main(const struct leave_desc *d, uint64_t sp)
{
	return d->stack_top - sp < MAIN_REACH && sp < d->stack_top;
}

static bool is_threads(uint64_t thread, uint64_t sp)
{
	return thread > sp && thread - sp < MOST_JUMPED;
}

/* The stack pointer in a jmp_buf: musl's has it as it is, glibc's has it mixed with a secret of the thread's. */
static uint64_t jump_target(const struct leave_desc *d, uint64_t thread, uint64_t buf)
{
	uint64_t sp = jmp_buf_sp((const uint64_t *)buf);

	if (is_main(d, sp) || is_threads(thread, sp) || !thread)
		return sp;
	return jmp_buf_sp_clear(sp, (const uint64_t *)thread);
}

/* From where on calls below `to` are over; `to` itself if it is not known. */
static uint64_t find_thrown(const struct leave_desc *d, uint64_t sp, uint64_t to)
{
	if (to <= sp || to - sp > MOST_THROWN)
		return to;
	return (is_main(d, sp) && is_main(d, to)) || is_whole(d, sp, to) ? sp : to;
}

static uint64_t find_jumped(const struct leave_desc *d, uint64_t thread, uint64_t sp, uint64_t to)
{
	if (is_main(d, to))
		return !is_main(d, sp) ? to - FROM_ELSEWHERE : sp < to ? sp : to;
	return sp < to && is_threads(thread, to) && is_threads(thread, sp) && is_whole(d, sp, thread) ? sp : to;
}

/* Is the call of this slot one that began in [lo, hi)? */
static bool is_open(const struct leave_desc *d, uint64_t slot, uint64_t lo, uint64_t hi, uint64_t *ret_sp)
{
	const volatile struct pair_mark *m = (const volatile struct pair_mark *)(slot + d->marks);
	uint64_t key = *(const volatile uint64_t *)slot;

	*ret_sp = m->sp;
	return *ret_sp >= lo && *ret_sp < hi && key && (uint32_t)key == m->key &&
	       *(const volatile uint32_t *)(slot + PAIR_HIGH) != PAIR_FREE;
}

/* The better one of what was found in a page of the stack and the slots of one word of its map: what is next behind `from`. */
static void look_at_word(const struct leave_desc *d, uint32_t word, uint64_t bits, const struct gone *from, uint64_t hi, struct gone *best)
{
	uint64_t sp, slot;

	for (; bits; bits &= bits - 1) {
		slot = d->pairs + (((uint64_t)word * 64 + __builtin_ctzll(bits)) << PAIR_UNIT_SHIFT);
		if (is_open(d, slot, from->sp, hi, &sp) && (sp > from->sp || slot > from->slot) &&
		    (sp < best->sp || (sp == best->sp && slot < best->slot)))
			*best = (struct gone){ sp, slot };
	}
}

static bool find_next(const struct leave_desc *d, uint64_t hi, struct gone *g)
{
	uint32_t n = leave_map_of(g->sp), words = d->map_words;
	const uint64_t *map = (const uint64_t *)d->maps + (uint64_t)n * words, *sums = (const uint64_t *)d->sums + n * (words / 64);
	struct gone best = { ~0ull, 0 };

	for (uint32_t i = 0; i < words / 64; i++)
		for (uint64_t bits = sums[i]; bits; bits &= bits - 1) {
			uint32_t word = i * 64 + __builtin_ctzll(bits);

			look_at_word(d, word, map[word], g, hi, &best);
		}
	if (best.slot)
		*g = best;
	return best.slot;
}

static void end_call(const struct leave_desc *d, const struct gone *g, uint64_t left)
{
	uint32_t n = ((const volatile struct pair_mark *)(g->slot + d->marks))->leaver;
	uint64_t code = n < d->nleavers ? ((const volatile uint64_t *)d->leavers)[n] : 0;

	if (!code)
		return;
	call_with_words(code, g->sp, left);
}

/* A thread that is cancelled is unwound; the last step of that, in glibc, is a longjmp() of its own. */
static uint64_t how_left(const struct leave_desc *d, uint64_t sp, uint32_t how)
{
	return how == LEAVE_JMP_BUF && *(const uint64_t *)sp - d->end >= d->end_size ? LEFT_LONGJMP : LEFT_THROWN;
}

void blob_leave(const struct leave_desc *d, uint64_t sp, uint64_t where, uint32_t how)
{
	uint64_t thread, to, lo, hi, left = how_left(d, sp, how);

	if (how == LEAVE_JMP_BUF) {
		thread = thread_pointer(d);
		to = jump_target(d, thread, where);
		lo = find_jumped(d, thread, sp, to);
	} else {
		to = how == LEAVE_LLVM ? ((const uint64_t *)where)[LLVM_CONTEXT_SP] : where + CALL_PUSHES;
		lo = find_thrown(d, sp, to);
	}
	for (; lo < to; lo = hi) {
		struct gone g = { lo, 0 };

		hi = (lo | (PAGE - 1)) + 1;
		hi = hi < to ? hi : to;
		while (find_next(d, hi, &g))
			end_call(d, &g, left);
	}
}
