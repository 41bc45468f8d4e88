/* SPDX-License-Identifier: MIT */
/*
 * Signal frames on stacks that no thread uses now. A program that preempts its own user-level threads
 * switches stacks inside a signal handler: the frame of the interrupted thread, perhaps with a PC in
 * a pad or inside a window, stays on the old stack until that user-level thread is scheduled again. No
 * walk from a thread's stack pointer leads there, so private writable memory is searched for it.
 *
 * Two things are looked for. A frame as the kernel wrote it is known by its own pointer to the floating
 * point state, which is at a fixed distance, and by the two magic words there. A copy of the
 * registers (a handler may save its ucontext_t elsewhere) is known by three words in a row: a PC in the
 * given ranges, flags as user code has them, and the user code segment.
 *
 * The search runs while the target runs. Why that is enough for a removal: once the text is restored,
 * no thread enters a pad, so the number of saved PCs in the arena can only fall, unless the program copies one. A
 * saved PC can move during the search, from memory not yet read to memory already read, only if its
 * user-level thread is resumed, is interrupted again within the same pad, and that on
 * another stack or by a copying handler. The memory around each frame found is read again under
 * the stop, and the arena is unmapped only after a complete pass that found nothing.
 *
 * Not searched: memory that is shared (a stack there is possible, and rare), pages of files that the
 * program has not written to, pages that are neither present nor swapped out (reading them could
 * wait for a userfaultfd), and Go's heap: Go does not switch in a handler whose PC it does not know.
 */
#include "arch/page.h"
#include "proc/frames/sigframes.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "arch/asm.h"
#include "base/err.h"
#include "proc/internal.h"
#include "proc/undo/undo.h"

#define CHUNK (1024 * 1024ull)
#define ENTRIES 4096			/* of the pagemap, read at once */
#define AROUND (16 * 1024ull)		/* memory before and after a frame that is searched again in the stop, */
#define MOST_AROUND (4 * 1024 * 1024ull)	/* and its limit in all, so that no stop gets long */
#define GO_HEAP 0xc000000000ull
#define GO_HEAP_END (GO_HEAP + (1ull << 40))

#define PRESENT (1ull << 63)
#define SWAPPED (1ull << 62)
#define OF_FILE (1ull << 61)		/* a page of a file, or shared */



#define BIT(sig) (1ull << ((sig) - 1))
#define OF_LIBC (BIT(32) | BIT(33))	/* used by glibc for cancellation and setuid: these handlers never switch stacks */

/*
 * Signals that programs send themselves again and again, as preemption does. The others end a program,
 * report a fault of its own or a change of its terminal or children.
 */
#define RECURRENT (BIT(SIGALRM) | BIT(SIGVTALRM) | BIT(SIGPROF) | BIT(SIGUSR1) | BIT(SIGUSR2) | \
		   BIT(SIGURG) | BIT(SIGIO) | ~(BIT(34) - 1))

#define SMALL_KB (32 * 1024)		/* a program with any handler and at most so much memory is searched */

enum hidden_risk hidden_risk(struct proc *p)
{
	char status[STATUS_MAX];
	uint64_t caught = 0, rss = 0, swap = 0;

	if (proc_read_status(p, status) < 0 || status_field(status, "SigCgt", 16, &caught) < 0)
		return HIDDEN_LIKELY;
	caught &= ~OF_LIBC;
	if (!caught)
		return HIDDEN_NEVER;
	if (caught & RECURRENT)
		return HIDDEN_LIKELY;
	status_field(status, "RssAnon", 10, &rss);
	status_field(status, "VmSwap", 10, &swap);
	return rss + swap <= SMALL_KB ? HIDDEN_UNLIKELY : HIDDEN_NEVER;
}

static uint64_t word_at(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Three words of registers in the kernel's layout: see the head of this file. */
static bool is_context(const struct signal_abi *abi, const uint8_t *pc)
{
	uint64_t words[3];

	memcpy(words, pc, sizeof(words));
	return abi->is_context(words);
}

static bool is_wanted(const struct sigframes *s, uint64_t pc)
{
	for (size_t i = 0; i < s->n_ranges; i++)
		if (pc - s->ranges[i].lo < s->ranges[i].hi - s->ranges[i].lo)
			return true;
	return !s->ranges;
}

/* One range around all given ranges, as a quick check: most words are outside. */
static struct gap around_all(const struct sigframes *s)
{
	struct gap all = { UINT64_MAX, 0 };

	for (size_t i = 0; i < s->n_ranges; i++) {
		all.lo = MIN(all.lo, s->ranges[i].lo);
		all.hi = MAX(all.hi, s->ranges[i].hi);
	}
	return all;
}

typedef void (*found_fn)(struct sigframes *s, struct proc *p, uint64_t at, const struct hidden_frame *f);

/* Call found() for each frame and copy of registers in n bytes that were read at address lo. */
static void look_through(struct sigframes *s, struct proc *p, const uint8_t *buf, uint64_t lo, size_t n,
			 found_fn found)
{
	const struct signal_abi *abi = p->arch->signal;
	const uint64_t pc_at = abi->pc * 8, vectors_at = abi->vectors_at * 8;
	struct gap all = around_all(s);
	struct hidden_frame f;

	for (size_t i = 0; i + 8 <= n; i += 8) {
		uint64_t v = word_at(buf + i), at = lo + i;

		if (v == sigframe_mark(abi, at - vectors_at) && sigframe_at(p, at - vectors_at, &f) == 0) {
			if (is_wanted(s, f.pc))
				found(s, p, at - vectors_at + pc_at, &f);
		} else if (v >= all.lo && v < all.hi && i + 24 <= n && is_context(abi, buf + i) && is_wanted(s, v) &&
			   sigframe_at(p, at - pc_at, &f) < 0) {
			f = (struct hidden_frame){ .pc = v };
			found(s, p, at, &f);
		}
	}
}

static uint64_t suspect_bytes(const struct sigframes *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->suspects.n; i++)
		n += s->suspects.v[i].hi - s->suspects.v[i].lo;
	return n;
}

/* Addresses only grow during a search: only the last range can overlap. */
static void note_suspect(struct sigframes *s, struct proc *p, uint64_t slot, const struct hidden_frame *f)
{
	struct gap *last = s->suspects.n ? &s->suspects.v[s->suspects.n - 1] : NULL;
	uint64_t lo = (slot - AROUND) & ~(PAGE - 1), hi = (slot + AROUND) & ~(PAGE - 1);

	(void)p;
	(void)f;
	s->hits++;
	if (last && lo <= last->hi) {
		last->hi = MAX(last->hi, hi);
		return;
	}
	if (suspect_bytes(s) >= MOST_AROUND) {	/* only the page itself */
		lo = slot & ~(PAGE - 1);
		hi = lo + PAGE;
	}
	*vec_add(&s->suspects) = (struct gap){ lo, hi };
}

static ssize_t read_some(pid_t tid, uint64_t at, void *to, size_t n)
{
	struct iovec here = { to, n }, there = { (void *)(uintptr_t)at, n };

	return process_vm_readv(tid, &here, 1, &there, 1, 0);
}

/* The tracer's CPU time: so how much memory is searched does not depend on how busy the machine is. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

struct search {
	struct sigframes *s;
	struct proc *p;
	int pagemap;
	uint64_t deadline;	/* in cpu_ns() */
	uint8_t *buf;
	uint64_t *entries;
};

/* Search a run of pages that are present or swapped out. -ETIME: not all of it. */
static int search_run(struct search *h, uint64_t lo, uint64_t hi)
{
	while (lo < hi) {
		size_t n = MIN(hi - lo, CHUNK);
		ssize_t got;

		if (cpu_ns() > h->deadline)
			return -ETIME;
		got = read_some(priv(h->p)->via, lo, h->buf, n);
		if (got > 0)
			look_through(h->s, h->p, h->buf, lo, got, note_suspect);
		/* A context of three words may lie across two chunks. */
		lo += n < CHUNK ? n : n - 16;
	}
	return 0;
}

static bool holds_data(uint64_t entry)
{
	return entry & SWAPPED || (entry & PRESENT && !(entry & OF_FILE));
}

static int search_map(struct search *h, const struct map *m)
{
	uint64_t at = m->start, run = 0;
	int r = 0;

	while (r == 0 && at < m->end) {
		size_t want = MIN((m->end - at) / PAGE, (uint64_t)ENTRIES);
		ssize_t n = pread(h->pagemap, h->entries, want * 8, at / PAGE * 8);

		if (n < 8)
			break;		/* unmapped meanwhile */
		if (cpu_ns() > h->deadline)
			return -ETIME;
		for (size_t i = 0; r == 0 && i < (size_t)n / 8; i++, at += PAGE) {
			if (holds_data(h->entries[i])) {
				run = run ? run : at;
			} else if (run) {
				r = search_run(h, run, at);
				run = 0;
			}
		}
	}
	return r == 0 && run ? search_run(h, run, at) : r;
}

static bool may_hold_stacks(const struct map *m)
{
	return (m->prot & PROT_WRITE) && (m->prot & PROT_READ) && !m->shared && !is_arena_path(m->path) &&
	       !(m->start >= GO_HEAP && m->end <= GO_HEAP_END);
}

static int search_all(struct search *h)
{
	map_list maps = { 0 };
	int r = maps_load(h->p, &maps);

	for (size_t i = 0; r == 0 && i < maps.n; i++)
		if (may_hold_stacks(&maps.v[i]))
			r = search_map(h, &maps.v[i]);
	maps_free(&maps);
	return r;
}

int hidden_search(struct sigframes *s, struct proc *p, const struct gap *ranges, size_t n, uint64_t budget_ns)
{
	struct search h = { .s = s, .p = p, .deadline = cpu_ns() + budget_ns };
	char path[64];
	int r = proc_path(p, "pagemap", path, sizeof(path));

	s->suspects.n = 0;
	s->hits = 0;
	s->ranges = ranges;
	s->n_ranges = n;
	if (r < 0)
		return r;
	h.pagemap = open(path, O_RDONLY | O_CLOEXEC);
	if (h.pagemap < 0)
		return -errno;
	h.buf = xrealloc(NULL, CHUNK);
	h.entries = xcalloc(ENTRIES, sizeof(*h.entries));
	r = search_all(&h);
	free(h.entries);
	explicit_bzero(h.buf, CHUNK);	/* a child that the tracer forks and traces later must not contain copies of frames */
	free(h.buf);
	close(h.pagemap);
	return r;
}

static bool is_listed(const struct sigframes *s, uint64_t slot)
{
	for (size_t i = 0; i < s->saved.n; i++)
		if (s->saved.v[i].slot.v == slot)
			return true;
	return false;
}

static bool any_thread_in(const struct proc *p, uint64_t lo, uint64_t len)
{
	for (size_t i = 0; i < p->threads.n; i++)
		if (!p->threads.v[i].gone && thread_sp(p, &p->threads.v[i]) - lo < len)
			return true;
	return false;
}

/* Whether an address is below the stack pointer of a thread that is on the stack which the C library gave it. */
static bool is_below_a_thread(struct proc *p, uint64_t at)
{
	const struct map *m = proc_map_at(p, at);

	for (size_t i = 0; m && i < p->threads.n; i++) {
		const struct thread *t = &p->threads.v[i];

		if (t->stopped && !t->gone && thread_sp(p, t) >= m->start && thread_sp(p, t) < m->end &&
		    at < thread_sp(p, t) - p->arch->assembler->red_zone && borrow_has_own_stack(p, t))
			return true;
	}
	return false;
}

/*
 * Most frames found by the search are left over from a handler that returned long ago: below a stack
 * pointer, or at the top of an alternate stack on which no handler runs. (If a handler left an alternate stack by
 * switching, the next signal overwrites its frame, unless the kernel disables that stack
 * first.) The PC of such a frame is moved out of the arena as well, in case this is wrong, but no hit is
 * counted for it.
 */
static bool is_remains(struct proc *p, uint64_t slot, const struct hidden_frame *f)
{
	uint64_t at = slot - p->arch->signal->pc * 8;

	if (!f->exact)
		return is_below_a_thread(p, slot);
	if (at - f->alt < f->alt_len)
		return !f->disarms && !any_thread_in(p, f->alt, f->alt_len);
	return is_below_a_thread(p, at);
}

static void note_saved(struct sigframes *s, struct proc *p, uint64_t slot, const struct hidden_frame *f)
{
	if (!is_listed(s, slot))
		*vec_add(&s->saved) = (struct saved_pc){ TADDR(slot), f->pc, 0, f->exact, is_remains(p, slot, f) };
}

/* Memory that can't be read any more has been unmapped, and the frame with it. */
void hidden_find(struct sigframes *s, struct proc *p)
{
	for (size_t i = 0; i < s->suspects.n; i++)
		for (uint64_t at = s->suspects.v[i].lo; at < s->suspects.v[i].hi; at += PAGE) {
			size_t n = MIN(s->suspects.v[i].hi - at, PAGE + 16);
			ssize_t got;

			if (!pages_are_there(p, at, n))
				n = PAGE;
			got = pages_are_there(p, at, n) ? read_some(priv(p)->via, at, s->buf, n) : 0;

			s->used = MAX(s->used, (size_t)MAX(got, 0));
			if (got > 0)
				look_through(s, p, s->buf, at, got, note_saved);
		}
}
