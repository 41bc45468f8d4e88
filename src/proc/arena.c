/* SPDX-License-Identifier: MIT */
/*
 * Memory that the target and we share: one memfd, made by a borrowed thread, opened by us through
 * /proc, mapped in the target in pieces. The record of how to undo things stands in it before the
 * first mapping is made, is mapped first and unmapped last, so that a mapping without a record
 * means that nothing was done yet. From memfd_create to close no thread runs: a child forked in
 * between would keep the descriptor.
 */
#include "proc/arena.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "base/err.h"
#include "proc/batch.h"
#include "proc/internal.h"

#define PAGE 4096ull

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

bool target_left(struct proc *p, int err)
{
	return err < 0 && (p->gone || err == -ESRCH || !proc_alive(p));
}

int64_t borrow(struct proc *p, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	const uint64_t args[6] = { a, b, c, d, e, f };
	int64_t value;
	int r = proc_syscall(p, nr, args, &value);

	return r < 0 ? r : value;
}

/*
 * The flag says that the file can't become executable as a program; mapping it PROT_EXEC is another
 * matter and stays allowed. Systems that insist on it (vm.memfd_noexec) have it; others don't know it.
 */
static int64_t make_memfd(struct arena *a, const struct tracer_id *id)
{
	char name[ARENA_NAME_MAX];
	size_t room;
	int64_t fd;
	taddr at;
	int r = proc_scratch(a->p, &at, &room);

	if (r < 0)
		return r;
	arena_name(id, name);
	if (room < strlen(name) + 1)
		return fail(-ENOSPC, "no room for a name on the target's stack");
	r = proc_write(a->p, at, name, strlen(name) + 1);
	if (r < 0)
		return r;
	proc_step("arena: name written");
	fd = borrow(a->p, SYS_memfd_create, at.v, MFD_CLOEXEC | MFD_NOEXEC_SEAL, 0, 0, 0, 0);
	if (fd == -EINVAL)
		fd = borrow(a->p, SYS_memfd_create, at.v, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0, 0, 0, 0);
	if (fd < 0)
		return fail(fd, "the target can't create shared memory: %s", strerror(-fd));
	return fd;
}

static uint64_t private_page(const struct arena *a)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->pieces[i].kind == PIECE_PRIVATE)
			return a->pieces[i].at.v;
	return 0;
}

/* Open what the target has just made, give it its size, and write the record's head. */
static int open_here(struct arena *a, int there, size_t max_edits, const struct tracer_id *id)
{
	const struct thread *t;
	char path[96];
	struct stat st;
	void *view;
	pid_t tid;

	/* The thread that made it may belong to a process that only shares the memory. */
	tid = proc_borrowed_tid(a->p);
	t = thread_find(a->p, tid);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", t ? t->pid : a->p->pid, tid, there);
	a->fd = open(path, O_RDWR | O_CLOEXEC);
	if (a->fd < 0 || fstat(a->fd, &st) < 0)
		return fail(-errno, "%s can't be opened: %s", path, strerror(errno));
	a->inode = st.st_ino;
	a->dev_major = major(st.st_dev);
	a->dev_minor = minor(st.st_dev);
	if (ftruncate(a->fd, a->size) < 0 || fcntl(a->fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		return fail(-errno, "%zu bytes of shared memory: %s", a->size, strerror(errno));
	view = mmap(NULL, a->view_len, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
	if (view == MAP_FAILED)
		return fail(-errno, "mapping %zu bytes of shared memory here: %s", a->view_len, strerror(errno));
	madvise(view, a->view_len, MADV_DONTFORK);	/* a child of ours would look like one of the target's */
	a->head = view;
	undo_init(a->head, max_edits, id, private_page(a));
	return 0;
}

static void add_call(batch *b, const char *step, uint64_t want, long nr, uint64_t x, uint64_t y, uint64_t z,
		     uint64_t u, uint64_t v, uint64_t w)
{
	*vec_add(b) = (struct batch_call){ nr, { x, y, z, u, v, w }, want, step };
}

static void add_map(batch *b, const char *step, uint64_t at, size_t len, int prot, int there, uint64_t offset)
{
	add_call(b, step, at, SYS_mmap, at, len, prot, MAP_SHARED | MAP_FIXED_NOREPLACE, there, offset);
}

static void add_ring(batch *b, const struct piece *c, int there)
{
	add_map(b, "arena: ring mapped", c->at.v, c->len, PROT_READ | PROT_WRITE, there, c->offset);
	add_map(b, "arena: ring mapped twice", c->at.v + c->len, c->len - RING_HEAD_SIZE, PROT_READ | PROT_WRITE,
		there, c->offset + RING_HEAD_SIZE);
}

static void add_private(batch *b, const struct piece *c)
{
	add_call(b, "arena: private page mapped", c->at.v, SYS_mmap, c->at.v, c->len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	add_call(b, "arena: private page is wiped on fork", 0, SYS_madvise, c->at.v, c->len, MADV_WIPEONFORK, 0, 0, 0);
}

/* The record first; the descriptor is closed when all is mapped. */
static void list_maps(const struct arena *a, int there, batch *b)
{
	add_map(b, "arena: record mapped", a->record_at.v, a->record_len, PROT_READ, there, 0);
	for (size_t i = 0; i < a->n; i++) {
		const struct piece *c = &a->pieces[i];

		if (c->kind == PIECE_RING)
			add_ring(b, c, there);
		else if (c->kind == PIECE_PRIVATE)
			add_private(b, c);
		else
			add_map(b, "arena: piece mapped", c->at.v, c->len,
				PROT_READ | (c->kind == PIECE_CODE ? PROT_EXEC : PROT_WRITE), there, c->offset);
	}
	add_call(b, "arena: memfd closed", 0, SYS_close, there, 0, 0, 0, 0, 0);
}

static int by_address(const void *x, const void *y)
{
	const struct gap *a = x, *b = y;

	return a->lo < b->lo ? -1 : a->lo > b->lo;
}

/* Neighbours become one. */
static size_t join(struct gap *all, size_t n)
{
	size_t i, k = 0;

	if (n)
		qsort(all, n, sizeof(*all), by_address);
	for (i = 0; i < n; i++) {
		if (k && all[k - 1].hi == all[i].lo)
			all[k - 1].hi = all[i].hi;
		else
			all[k++] = all[i];
	}
	return k;
}

/* The record goes last: as long as anything of ours is mapped, it can be found. */
static void unmap_ranges(struct arena *a, struct gap *all, size_t n)
{
	n = join(all, n);
	for (size_t i = 0; i < n; i++)
		borrow(a->p, SYS_munmap, all[i].lo, all[i].hi - all[i].lo, 0, 0, 0, 0);
	borrow(a->p, SYS_munmap, a->record_at.v, a->record_len, 0, 0, 0, 0);
}

static void unmap_all(struct arena *a)
{
	struct gap *all = xcalloc(a->n, sizeof(*all));

	for (size_t i = 0; i < a->n; i++)
		all[i] = (struct gap){ a->pieces[i].at.v, a->pieces[i].at.v + piece_span(&a->pieces[i]) };
	unmap_ranges(a, all, a->n);
	free(all);
}

/* The first n calls were made, the next one failed. Old kernels map elsewhere when a place is taken. */
static int take_back(struct arena *a, const batch *b, size_t n, int64_t got)
{
	const struct batch_call *bad = &b->v[n];
	struct gap *all = xcalloc(n, sizeof(*all));
	size_t k = 0;

	if (bad->nr == SYS_mmap && (got > 0 || got <= -4096)) {
		borrow(a->p, SYS_munmap, got, bad->args[1], 0, 0, 0, 0);
		got = -EEXIST;
	}
	for (size_t i = 1; i < n; i++)
		if (b->v[i].nr == SYS_mmap)
			all[k++] = (struct gap){ b->v[i].want, b->v[i].want + b->v[i].args[1] };
	if (n)
		unmap_ranges(a, all, k);
	free(all);
	if (bad->nr != SYS_mmap)
		return fail(got, "%s: failed in the target: %s", bad->step, strerror(-got));
	if (got == -EEXIST)
		return fail(got, "%#llx is in use in the target", (unsigned long long)bad->want);
	return fail(got, "the target can't map %llu bytes at %#llx: %s%s", (unsigned long long)bad->args[1],
		    (unsigned long long)bad->want, strerror(-got), got == -ENOMEM ?
		    " (a limit of its address space, ulimit -v, or of its mappings, "
		    "vm.max_map_count): choose fewer functions" : "");
}

static int map_there(struct arena *a, int there)
{
	batch b = { 0 };
	int64_t got;
	size_t done;
	int r = 0;

	list_maps(a, there, &b);
	done = batch_run(a->p, &b, &got);
	if (done < b.n - 1) {
		r = take_back(a, &b, done, got);
		borrow(a->p, SYS_close, there, 0, 0, 0, 0, 0);
	}
	vec_free(&b);
	return r;
}

/*
 * Keep our memory out of core dumps: one call for neighbours. Failing to is no reason to give up. Done
 * in a later stop than the one that makes the arena, so that neither gets long.
 */
void arena_dont_dump(struct arena *a)
{
	struct gap *all;
	size_t i, n;

	if (a->undumped)
		return;
	a->undumped = true;
	all = xcalloc(a->n + 1, sizeof(*all));
	for (i = 0; i < a->n; i++)
		all[i] = (struct gap){ a->pieces[i].at.v, a->pieces[i].at.v + piece_span(&a->pieces[i]) };
	all[i] = (struct gap){ a->record_at.v, a->record_at.v + a->record_len };
	n = join(all, a->n + 1);
	for (i = 0; i < n; i++)
		borrow(a->p, SYS_madvise, all[i].lo, all[i].hi - all[i].lo, MADV_DONTDUMP, 0, 0, 0);
	free(all);
}

/* All of it happens in one stop; whatever fails, the target is left without mapping and descriptor. */
static int make_there(struct arena *a, size_t max_edits, const struct tracer_id *id)
{
	int64_t there = make_memfd(a, id);
	int r;

	if (there < 0)
		return there;
	proc_step("arena: memfd made");
	r = open_here(a, there, max_edits, id);
	proc_step("arena: record written");
	if (r < 0)
		borrow(a->p, SYS_close, there, 0, 0, 0, 0, 0);
	else
		r = map_there(a, there);
	if (r < 0)
		return r;
	a->mapped = true;
	return 0;
}

/* Pages that the target touched first would be charged to it: touch them, while it runs. */
static int touch(uint8_t *at, size_t len)
{
	volatile uint8_t *page = at;

	if (!len || madvise(at, len, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL)
		return fail(-errno, "%zu bytes of shared memory: %s", len, strerror(errno));
	for (size_t i = 0; i < len; i += PAGE)
		page[i] = page[i];
	return 0;
}

/* Code and rings may be larger than what is used of them: arena_touch() is for those. */
static int touch_data(struct arena *a)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->n; i++)
		if (a->pieces[i].kind == PIECE_DATA)
			r = touch((uint8_t *)a->head + a->pieces[i].offset, a->pieces[i].len);
	return r;
}

int arena_touch(struct arena *a, taddr at, size_t len)
{
	uint8_t *here = arena_view(a, at);

	return here ? touch(here, len) : fail(-EINVAL, "%#llx is not shared memory", (unsigned long long)at.v);
}

static bool is_sound(const struct piece *c)
{
	if (!c->len || c->len % PAGE || c->at.v % PAGE)
		return false;
	if (c->kind == PIECE_CODE)
		return c->at.v != 0;
	if (c->kind == PIECE_RING)
		return c->len > RING_HEAD_SIZE;
	return c->kind != PIECE_PRIVATE || c->len == PAGE;
}

static void give_offsets(struct arena *a, bool rings)
{
	for (size_t i = 0; i < a->n; i++) {
		struct piece *c = &a->pieces[i];

		if ((c->kind == PIECE_RING) != rings || c->kind == PIECE_PRIVATE)
			continue;
		c->offset = a->size;
		a->size += c->len;
	}
}

/* Rings come last: everything before them is one mapping here. */
static int lay_out(struct arena *a, size_t max_edits)
{
	size_t privates = 0;

	if (max_edits > UNDO_MAX_EDITS)
		return fail(-E2BIG, "%zu edits are more than one arena can undo", max_edits);
	for (size_t i = 0; i < a->n; i++) {
		if (!is_sound(&a->pieces[i]))
			return fail(-EINVAL, "piece %zu of the arena is not made of pages", i);
		privates += a->pieces[i].kind == PIECE_PRIVATE;
	}
	if (privates > 1)
		return fail(-EINVAL, "an arena has one private page");
	a->record_len = undo_size(max_edits);
	a->size = a->record_len;
	give_offsets(a, false);
	a->view_len = a->size;
	give_offsets(a, true);
	return 0;
}

static int make_held(struct arena *a, size_t max_edits, const struct tracer_id *id)
{
	int r = proc_stop(a->p), end;

	if (r < 0)
		return r;
	proc_step("arena: stopped");
	tids_note(a->p, &a->tids);
	r = proc_rseq(a->p, &a->rseq);
	if (r == 0)
		r = make_there(a, max_edits, id);
	end = proc_resume(a->p);
	return r < 0 ? r : end;
}

static bool map_fixed(const struct arena *a, uint8_t *at, size_t len, uint64_t offset)
{
	return mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, a->fd, offset) != MAP_FAILED;
}

/* Head and data, and the data once more right behind: as in the target. */
static int view_ring(struct arena *a, struct piece *c)
{
	size_t span = piece_span(c);
	uint8_t *at = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return fail(-errno, "mapping %zu bytes of shared memory here: %s", span, strerror(errno));
	c->here = at;
	if (!map_fixed(a, at, c->len, c->offset) ||
	    !map_fixed(a, at + c->len, c->len - RING_HEAD_SIZE, c->offset + RING_HEAD_SIZE))
		return fail(-errno, "mapping %zu bytes of shared memory here: %s", span, strerror(errno));
	madvise(at, span, MADV_DONTFORK);
	return 0;
}

static int view_pieces(struct arena *a)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->n; i++) {
		struct piece *c = &a->pieces[i];

		if (c->kind == PIECE_RING)
			r = view_ring(a, c);
		else if (c->kind != PIECE_PRIVATE)
			c->here = (uint8_t *)a->head + c->offset;
	}
	return r;
}

/* Everything that can wait until the target runs again. */
static int finish(struct arena *a)
{
	int r = view_pieces(a);

	a->has_tid = tids_offset(a->p, &a->tids, &a->tid_off) == 0;
	vec_free(&a->tids);
	return r < 0 ? r : touch_data(a);
}

static int by_piece(const void *x, const void *y)
{
	const struct piece *a = x, *b = y;

	return a->at.v < b->at.v ? -1 : a->at.v > b->at.v;
}

int arena_create(struct proc *p, struct piece *pieces, size_t n, size_t max_edits, struct arena **ret_arena)
{
	struct arena *a = xcalloc(1, sizeof(*a));
	struct tracer_id id;
	int r;

	a->p = p;
	a->fd = -1;
	a->n = n;
	a->pieces = xcalloc(n, sizeof(*pieces));
	if (n)
		memcpy(a->pieces, pieces, n * sizeof(*pieces));
	r = lay_out(a, max_edits);
	if (r == 0)
		r = arena_place(a);
	if (r == 0)
		r = tracer_self(&id);
	if (r == 0)
		r = make_held(a, max_edits, &id);
	if (r == 0)
		r = finish(a);
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
			unmap_all(a);
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
	if (a->head)
		munmap(a->head, a->view_len);
	for (size_t i = 0; i < a->n; i++)
		if (a->pieces[i].kind == PIECE_RING && a->pieces[i].here)
			munmap(a->pieces[i].here, piece_span(&a->pieces[i]));
	vec_free(&a->tids);
	if (a->fd >= 0)
		close(a->fd);
	sigframes_free(&a->frames);
	free(a->pieces);
	free(a);
}
