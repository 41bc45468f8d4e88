/* SPDX-License-Identifier: MIT */
/*
 * Memory that the target and the tracer share, mapped in both in pieces: what is prepared before the stop in which
 * the target maps it (arena_make.c), and what is done afterwards.
 */
#include "arch/page.h"
#include "proc/undo/clean.h"
#include "proc/undo/kin.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/err.h"
#include "proc/internal.h"

#define AROUND (64ull << 10)	/* the kernel maps so much around a page that is read (fault-around) */
#define READS 64		/* bytes read with one system call */
#define LARGE (256u << 10)	/* from this size on, check how much memory is free */
#define TABLES (64u << 20)	/* from this size on, check the memory for the target's page tables, too */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

bool target_left(struct proc *p, int err)
{
	return err < 0 && (p->gone || err == -ESRCH || !proc_alive(p));
}

/*
 * Exclude the arena from core dumps, if the batch that mapped it had to leave that out: in a later
 * stop, so that no stop gets long. A failure is ignored.
 */
void arena_dont_dump(struct arena *a)
{
	struct gap *all;
	size_t i, n;

	if (a->undumped)
		return;
	a->undumped = true;
	all = xcalloc(a->n, sizeof(*all));
	n = arena_ranges(a, all);
	for (i = 0; i < n; i++)
		borrow(a->p, SYS_madvise, all[i].lo, all[i].hi - all[i].lo, MADV_DONTDUMP, 0, 0, 0);
	borrow(a->p, SYS_madvise, a->record_at.v, a->record_len + a->desk_len, MADV_DONTDUMP, 0, 0, 0);
	free(all);
}

/* A page is charged to the process that touches it first: the tracer touches it before the target does, while that runs. */
static int touch(uint8_t *at, size_t len)
{
	volatile uint8_t *page = at;
	int r = len >= LARGE ? own_memory_check(len) : 0;

	if (r < 0)
		return r;
	if (!len || madvise(at, len, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL)
		return fail(-errno, "%zu bytes of shared memory: %s", len, strerror(errno));
	for (size_t i = 0; i < len; i += PAGE)
		page[i] = page[i];
	return 0;
}

/* How much of a piece is touched when it is made. Code and rings may be larger than what is used of them: see arena_touch(). */
static size_t used_at_once(const struct piece *c)
{
	return c->kind == PIECE_DATA || c->kind == PIECE_TABLE ? c->len - c->spare : 0;
}

static int touch_data(struct arena *a)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->n; i++)
		r = touch(a->pieces[i].here, used_at_once(&a->pieces[i]));
	return r;
}

/*
 * The pages are allocated, but the target would take a page fault of two microseconds for each, in the middle of
 * some event. If the tracer reads a byte by process_vm_readv(), the kernel maps the pages around it in the target, for
 * writing, too, as the mapping is shared. Only an optimisation: a failure is ignored.
 */
static void map_there(const struct arena *a, uint64_t at, size_t len)
{
	struct iovec there[READS], here[READS];
	uint64_t end = at + len;
	uint8_t byte[READS];
	size_t n;

	while (at < end) {
		for (n = 0; n < READS && at < end; n++, at = (at / AROUND + 1) * AROUND) {
			there[n] = (struct iovec){ (void *)at, 1 };
			here[n] = (struct iovec){ &byte[n], 1 };
		}
		if (process_vm_readv(a->p->pid, here, n, there, n, 0) != (ssize_t)n)
			return;
	}
}

int arena_touch(struct arena *a, taddr at, size_t len)
{
	uint8_t *here = arena_view(a, at);
	int r = here ? touch(here, len) : fail(-EINVAL, "%#llx is not shared memory", (unsigned long long)at.v);

	if (r == 0 && a->maps_later)
		*vec_add(&a->unread) = (struct gap){ at.v, at.v + len };
	else if (r == 0)
		map_there(a, at.v, len);
	return r;
}

void arena_map_later(struct arena *a)
{
	a->maps_later = true;
}

void arena_map_rest(struct arena *a)
{
	a->maps_later = false;
	for (size_t i = 0; i < a->unread.n; i++)
		map_there(a, a->unread.v[i].lo, a->unread.v[i].hi - a->unread.v[i].lo);
	vec_free(&a->unread);
}

static bool is_sound(const struct piece *c)
{
	if (!c->len || c->len % PAGE || c->at.v % PAGE || c->spare > c->len)
		return false;
	if (c->kind == PIECE_CODE)
		return c->at.v != 0;
	if (c->kind == PIECE_RING)
		return c->len > RING_HEAD_SIZE;
	return true;
}

static bool is_shared(const struct piece *c)
{
	return c->kind != PIECE_PRIVATE && c->kind != PIECE_SCRATCH;
}

static size_t give_offsets(struct arena *a, size_t size, bool data, bool rings)
{
	for (size_t i = 0; i < a->n; i++) {
		struct piece *c = &a->pieces[i];

		if (!is_shared(c) || is_data(c) != data || (c->kind == PIECE_RING) != rings)
			continue;
		c->offset = size;
		size += c->len;
	}
	return size;
}

/* Rings come last: everything before them is one mapping in the tracer. */
static int lay_out(struct arena *a, size_t max_edits)
{
	size_t privates = 0, scratches = 0;

	if (max_edits > UNDO_MAX_EDITS)
		return fail(-E2BIG, "%zu edits are more than one arena can undo", max_edits);
	for (size_t i = 0; i < a->n; i++) {
		if (!is_sound(&a->pieces[i]))
			return fail(-EINVAL, "piece %zu of the arena: its address or size is not a multiple of a page", i);
		privates += a->pieces[i].kind == PIECE_PRIVATE;
		scratches += a->pieces[i].kind == PIECE_SCRATCH;
	}
	if (privates > 1 || scratches > 1)
		return fail(-EINVAL, "an arena has at most one private and one scratch piece");
	a->record_len = undo_size(max_edits);
	a->desk_len = (batch_size(arena_calls(a)) + PAGE - 1) & ~(PAGE - 1);
	a->size = give_offsets(a, a->record_len + a->desk_len, false, false);
	a->data_view_len = give_offsets(a, 0, true, false);
	a->data_size = give_offsets(a, a->data_view_len, true, true);
	return 0;
}

/* Before anything is done to the target: room for the pages that are touched at once, charged to us, and for its page tables. */
static int check_room(const struct arena *a)
{
	uint64_t need = 0;
	int r;

	for (size_t i = 0; i < a->n; i++)
		need += used_at_once(&a->pieces[i]);
	r = need >= TABLES ? proc_memory_check(a->p, need / 512) : 0;
	return r == 0 && need >= LARGE ? own_memory_check(need) : r;
}

static bool map_fixed(const struct arena *a, uint8_t *at, size_t len, uint64_t offset)
{
	return mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, a->data_fd, offset) != MAP_FAILED;
}

/* One range of our addresses for all rings. */
static int reserve_rings(struct arena *a)
{
	uint8_t *at;

	for (size_t i = 0; i < a->n; i++)
		if (a->pieces[i].kind == PIECE_RING)
			a->rings_len += piece_span(&a->pieces[i]);
	if (!a->rings_len)
		return 0;
	at = mmap(NULL, a->rings_len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return fail(-errno, "mapping %zu bytes of shared memory here: %s", a->rings_len, strerror(errno));
	a->rings_view = at;
	return 0;
}

/* Head and data, and a second mapping of the data right after it: as in the target. */
static int view_ring(struct arena *a, struct piece *c, uint8_t *at)
{
	c->here = at;
	if (!map_fixed(a, at, c->len, c->offset) ||
	    !map_fixed(a, at + c->len, c->len - RING_HEAD_SIZE, c->offset + RING_HEAD_SIZE))
		return fail(-errno, "mapping %zu bytes of shared memory here: %s", piece_span(c), strerror(errno));
	return 0;
}

static int view_pieces(struct arena *a)
{
	int r = reserve_rings(a);
	uint8_t *ring = a->rings_view;

	for (size_t i = 0; r == 0 && i < a->n; i++) {
		struct piece *c = &a->pieces[i];

		if (c->kind == PIECE_RING) {
			r = view_ring(a, c, ring);
			ring += piece_span(c);
		} else if (is_shared(c)) {
			c->here = (is_data(c) ? a->data_view : a->view) + c->offset;
		}
	}
	if (a->rings_view)
		madvise(a->rings_view, a->rings_len, MADV_DONTFORK);
	return r;
}

/* Sealed against shrinking: if the target made the file shorter, our accesses would raise SIGBUS. */
static int view_data(struct arena *a)
{
	if (!a->data_size)
		return 0;
	if (fcntl(a->data_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return fail(-errno, "%zu bytes of shared memory: %s", a->data_size, strerror(errno));
	if (!a->data_view_len)
		return 0;
	a->data_view = mmap(NULL, a->data_view_len, PROT_READ | PROT_WRITE, MAP_SHARED, a->data_fd, 0);
	if (a->data_view == MAP_FAILED) {
		a->data_view = NULL;
		return fail(-errno, "mapping %zu bytes of shared memory here: %s", a->data_view_len, strerror(errno));
	}
	madvise(a->data_view, a->data_view_len, MADV_DONTFORK);
	return 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Everything that can be done while the target runs again. Afterwards the descriptors are not needed any more. */
static int finish(struct arena *a)
{
	struct stat st = { 0 };
	int r = fstat(a->fd, &st) < 0 ? fail(-errno, "shared memory: %s", strerror(errno)) : view_data(a);

	a->inode = st.st_ino;
	if (r == 0)
		r = view_pieces(a);
	close_fd(&a->fd);
	close_fd(&a->data_fd);
	a->has_tid = tids_offset(a->p, &a->tids, &a->tid_off) == 0;
	vec_free(&a->tids);
	return r < 0 ? r : touch_data(a);
}

/*
 * Two tracers that check a target at the same time both find it untraced. They can't stop it at the same time: the
 * second finds the arena of the first, and gives up before it changes any text. If the target is held since its exec,
 * there can't be another tracer. If the first one was killed meanwhile, our plan was made for text with its jumps.
 */
static int give_way(struct arena *a)
{
	holder_list list = { 0 };
	int r = 0;

	if (priv(a->p)->born_in == priv(a->p)->stops && proc_is_still(a->p))
		return 0;
	holders_in(a->p, &list);
	for (size_t i = 0; r == 0 && i < list.n; i++) {
		const struct holder *h = &list.v[i];

		if (same_tracer(&h->label.tracer, &a->label.tracer) || !holder_is_older(h, a))
			continue;
		r = refuse_living(h);
		if (r == 0 && holder_is_late(h, a->p))
			r = fail(-EBUSY, "process %d was traced by jab %d, which was killed a moment ago; try again", a->p->pid,
				 h->label.tracer.pid);
	}
	vec_free(&list);
	return r;
}

static struct gap own_memory(const struct arena *a, enum piece_kind kind)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->pieces[i].kind == kind)
			return (struct gap){ a->pieces[i].at.v, a->pieces[i].at.v + a->pieces[i].len };
	return (struct gap){ 0 };
}

static int write_book(struct arena *a, size_t max_edits)
{
	int r = tracer_self(&a->label.tracer);

	if (r == 0)
		r = undo_init(&a->book, max_edits, own_memory(a, PIECE_PRIVATE), own_memory(a, PIECE_SCRATCH));
	a->label.serial = a->book.nonce[0];
	return r;
}

static int by_piece(const void *x, const void *y)
{
	const struct piece *a = x, *b = y;

	return a->at.v < b->at.v ? -1 : a->at.v > b->at.v;
}

int arena_create(struct proc *p, struct piece *pieces, size_t n, size_t max_edits, struct arena **ret_arena)
{
	struct arena *a = xcalloc(1, sizeof(*a));
	int r;

	a->p = p;
	a->fd = a->data_fd = a->pidfd = -1;
	a->n = n;
	a->pieces = xcalloc(n, sizeof(*pieces));
	if (n)
		memcpy(a->pieces, pieces, n * sizeof(*pieces));
	r = lay_out(a, max_edits);
	if (r == 0)
		r = check_room(a);
	if (r == 0)
		r = arena_place(a);
	if (r == 0)
		r = write_book(a, max_edits);
	kin_begin(a);
	if (r == 0)
		r = arena_make(a);
	if (r == 0)
		kin_note_sharers(a);
	if (r == 0)
		r = finish(a);
	if (r == 0)
		r = give_way(a);
	if (r < 0) {
		arena_destroy(a);
		return r;
	}
	if (n) {
		memcpy(pieces, a->pieces, n * sizeof(*pieces));
		qsort(a->pieces, n, sizeof(*a->pieces), by_piece);	/* for arena_view() */
	}
	*ret_arena = a;
	return 0;
}

const struct rseq_conf *arena_rseq(const struct arena *a)
{
	return &a->rseq;
}

bool arena_is_timeless(struct arena *a, taddr word)
{
	if (a->clock && a->made_in == priv(a->p)->stops)
		return a->clock == PR_TSC_SIGSEGV;
	return proc_is_timeless(a->p, word);
}

int arena_tid(const struct arena *a, int32_t *ret_off)
{
	if (!a->has_tid)
		return -ENOENT;
	*ret_off = a->tid_off;
	return 0;
}

uint8_t *arena_view(struct arena *a, taddr at)
{
	size_t lo = 0, hi = a->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		struct piece *c = &a->pieces[mid];

		if (at.v - c->at.v < piece_span(c))
			return c->here ? c->here + (at.v - c->at.v) : NULL;
		if (at.v < c->at.v)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

int arena_destroy(struct arena *a)
{
	int r = 0;

	if (a && a->mapped && !a->p->gone) {
		r = proc_stop(a->p);
		if (r == 0) {
			arena_unmap(a);
			r = proc_resume(a->p);
		}
		if (target_left(a->p, r))
			r = 0;
	}
	arena_forget(a);
	return r;
}

void arena_forget(struct arena *a)
{
	if (!a)
		return;
	if (a->view)
		munmap(a->view, a->size);
	if (a->data_view)
		munmap(a->data_view, a->data_view_len);
	if (a->rings_view)
		munmap(a->rings_view, a->rings_len);
	vec_free(&a->tids);
	vec_free(&a->unread);
	vec_free(&a->kin.sharers);
	close_fd(&a->fd);
	close_fd(&a->data_fd);
	close_fd(&a->pidfd);
	undo_close(&a->book);
	sigframes_free(&a->frames);
	free(a->pieces);
	free(a);
}
