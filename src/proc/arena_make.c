/* SPDX-License-Identifier: MIT */
/*
 * The stop in which an arena comes to be, by the calls of a borrowed thread. The record of how to undo
 * things is written before the first mapping is made, is mapped first and unmapped last, so that a
 * mapping without a record means that nothing was done yet. Right behind the record is the desk: a page or two
 * from which a batch of calls makes all other mappings. Somebody waits, so everything else is done before or
 * after.
 *
 * As a rule it is a segment (segment.c). The borrowed thread maps it as a whole, once to be executed and once to be
 * written, and then shows parts of these in their places: each place is claimed first, because the other threads run
 * meanwhile. What is for code can't be made writable any more, by nobody. If there can be no segment, it
 * makes a memfd, which we take over. From memfd_create to close no thread runs: a child forked in
 * between would keep the descriptor.
 */
#include "proc/clean.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/err.h"
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
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

int64_t borrow(struct proc *p, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	const uint64_t args[6] = { a, b, c, d, e, f };
	int64_t value;
	int r = proc_syscall(p, nr, args, &value);

	return r < 0 ? r : value;
}

static int by_address(const void *x, const void *y)
{
	const struct gap *a = x, *b = y;

	return a->lo < b->lo ? -1 : a->lo > b->lo;
}

/* Sorted, and neighbours become one. */
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

size_t arena_ranges(const struct arena *a, struct gap *ret_all)
{
	for (size_t i = 0; i < a->n; i++)
		ret_all[i] = (struct gap){ a->pieces[i].at.v, a->pieces[i].at.v + piece_span(&a->pieces[i]) };
	return join(ret_all, a->n);
}

static struct gap own_memory(const struct arena *a, enum piece_kind kind)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->pieces[i].kind == kind)
			return (struct gap){ a->pieces[i].at.v, a->pieces[i].at.v + a->pieces[i].len };
	return (struct gap){ 0 };
}

/*
 * The flag says that the file can't become executable as a program; mapping it PROT_EXEC is another
 * matter and stays allowed. Systems that insist on it (vm.memfd_noexec) have it; others don't know it.
 */
static int64_t make_memfd(struct arena *a, const char *name)
{
	size_t room;
	int64_t fd;
	taddr at;
	int r = proc_scratch(a->p, &at, &room);

	if (r < 0)
		return r;
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

/*
 * The thread that made it may have a table of descriptors of its own, or belong to a process that only
 * shares the memory. The short way is only right for the main thread's.
 */
static int take_descriptor(struct arena *a, int there)
{
	pid_t tid = proc_borrowed_tid(a->p);
	const struct thread *t = thread_find(a->p, tid);
	char path[96];

	if (tid == a->p->pid && a->pidfd >= 0)
		a->fd = syscall(SYS_pidfd_getfd, a->pidfd, there, 0);
	if (a->fd >= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", t ? t->pid : a->p->pid, tid, there);
	a->fd = open(path, O_RDWR | O_CLOEXEC);
	return a->fd < 0 ? fail(-errno, "%s can't be opened: %s", path, strerror(errno)) : 0;
}

/* Desk and record. */
static void fill(struct arena *a, const struct undo_head *head, const struct batch *b)
{
	batch_write(b, (uint8_t *)a->head + a->record_len);
	memcpy(a->head, head, sizeof(*head));
}

static int size_and_view(struct arena *a)
{
	void *view;

	if (ftruncate(a->fd, a->size) < 0)
		return fail(-errno, "%zu bytes of shared memory: %s", a->size, strerror(errno));
	view = mmap(NULL, a->view_len, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
	if (view == MAP_FAILED)
		return fail(-errno, "mapping %zu bytes of shared memory here: %s", a->view_len, strerror(errno));
	a->head = view;
	return 0;
}

static void add_map(struct batch *b, const char *step, uint64_t at, size_t len, int prot, int there, uint64_t offset)
{
	batch_add(b, step, at, SYS_mmap, at, len, prot, MAP_SHARED | MAP_FIXED_NOREPLACE, there, offset);
}

static void add_ring(struct batch *b, const struct piece *c, int there)
{
	add_map(b, "arena: ring mapped", c->at.v, c->len, PROT_READ | PROT_WRITE, there, c->offset);
	add_map(b, "arena: ring mapped twice", c->at.v + c->len, c->len - RING_HEAD_SIZE, PROT_READ | PROT_WRITE,
		there, c->offset + RING_HEAD_SIZE);
}

static void add_anonymous(struct batch *b, const char *step, uint64_t at, size_t len, int prot)
{
	batch_add(b, step, at, SYS_mmap, at, len, prot,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

static void add_own(struct batch *b, const struct piece *c)
{
	add_anonymous(b, "arena: memory of its own mapped", c->at.v, c->len, PROT_READ | PROT_WRITE);
	if (c->kind == PIECE_PRIVATE)
		batch_add(b, "arena: which a fork wipes", 0, SYS_madvise, c->at.v, c->len, MADV_WIPEONFORK, 0, 0, 0);
}

/* Once more what stands there, in a place that was claimed: the old length 0 says so. */
static void add_part(struct batch *b, uint64_t from, uint64_t at, size_t len)
{
	batch_add(b, "arena: part mapped", at, SYS_mremap, from, 0, len, MREMAP_MAYMOVE | MREMAP_FIXED, at, 0);
}

static void add_parts(const struct arena *a, struct batch *b, const struct piece *c)
{
	bool fixed = c->kind == PIECE_CODE || c->kind == PIECE_TABLE;	/* the target can't make it writable */
	uint64_t from = (fixed ? a->record_at.v : a->stage_at.v) + c->offset;

	add_anonymous(b, "arena: place claimed", c->at.v, piece_span(c), PROT_NONE);
	add_part(b, from, c->at.v, c->len);
	if (c->kind == PIECE_TABLE)
		batch_add(b, "arena: table read-only", 0, SYS_mprotect, c->at.v, c->len, PROT_READ, 0, 0, 0);
	if (c->kind == PIECE_RING)
		add_part(b, from + RING_HEAD_SIZE, c->at.v + c->len, c->len - RING_HEAD_SIZE);
}

static int piece_prot(enum piece_kind kind)
{
	switch (kind) {
	case PIECE_CODE:
		return PROT_READ | PROT_EXEC;
	case PIECE_TABLE:
		return PROT_READ;
	default:
		return PROT_READ | PROT_WRITE;
	}
}

static void add_piece(const struct arena *a, struct batch *b, const struct piece *c, int there)
{
	if (c->kind == PIECE_PRIVATE || c->kind == PIECE_SCRATCH)
		add_own(b, c);
	else if (a->shm >= 0)
		add_parts(a, b, c);
	else if (c->kind == PIECE_RING)
		add_ring(b, c, there);
	else
		add_map(b, "arena: piece mapped", c->at.v, c->len, piece_prot(c->kind), there, c->offset);
}

/* The thread still stands on the desk, and the record stays where it is. */
static void add_rest_unmapped(const struct arena *a, struct batch *b)
{
	size_t stays = a->record_len + a->desk_len;

	batch_add(b, "arena: stage unmapped", 0, SYS_munmap, a->stage_at.v, a->size, 0, 0, 0, 0);
	if (a->size > stays)
		batch_add(b, "arena: rest unmapped", 0, SYS_munmap, a->record_at.v + stays, a->size - stays, 0, 0, 0, 0);
}

/* Failing to keep it out of core dumps is no reason to give up: that comes last. */
static void list_calls(const struct arena *a, int there, struct batch *b)
{
	struct gap *all = xcalloc(a->n, sizeof(*all));
	size_t i, n = arena_ranges(a, all);

	batch_add(b, "arena: record read-only", 0, SYS_mprotect, a->record_at.v, a->record_len, PROT_READ, 0, 0, 0);
	if (a->shm >= 0)
		batch_add(b, "arena: stage mapped", a->stage_at.v, SYS_shmat, a->shm, a->stage_at.v, 0, 0, 0, 0);
	for (i = 0; i < a->n; i++)
		add_piece(a, b, &a->pieces[i], there);
	if (a->shm >= 0)
		add_rest_unmapped(a, b);
	else
		batch_add(b, "arena: memfd closed", 0, SYS_close, there, 0, 0, 0, 0, 0);
	b->need = b->calls.n;
	batch_add(b, "", 0, SYS_madvise, a->record_at.v, a->record_len + a->desk_len, MADV_DONTDUMP, 0, 0, 0);
	for (i = 0; i < n; i++)
		batch_add(b, "", 0, SYS_madvise, all[i].lo, all[i].hi - all[i].lo, MADV_DONTDUMP, 0, 0, 0);
	free(all);
}

size_t arena_calls(const struct arena *a)
{
	return 4 * a->n + 5;	/* three for a piece and one against dumps; record, stage, the rest, and the dump of it */
}

/* The record goes last: as long as anything of ours is mapped, it can be found. */
static void unmap_ranges(struct arena *a, const struct gap *all, size_t n, size_t record)
{
	for (size_t i = 0; i < n; i++)
		borrow(a->p, SYS_munmap, all[i].lo, all[i].hi - all[i].lo, 0, 0, 0, 0);
	borrow(a->p, SYS_munmap, a->record_at.v, record, 0, 0, 0, 0);
}

void arena_unmap(struct arena *a)
{
	struct gap *all = xcalloc(a->n, sizeof(*all));

	unmap_ranges(a, all, arena_ranges(a, all), a->record_len + a->desk_len);
	free(all);
}

static int cant_map(uint64_t at, size_t len, int64_t got)
{
	if (got == -EEXIST)
		return fail(got, "the target keeps mapping memory where our code was planned (%#llx): try again, "
			    "or with fewer functions", (unsigned long long)at);
	return fail(got, "the target can't map %zu bytes at %#llx: %s%s", len, (unsigned long long)at,
		    strerror(-got), got == -ENOMEM ?
		    " (a limit of its address space, ulimit -v, or of its mappings, "
		    "vm.max_map_count): choose fewer functions" : "");
}

/* An old kernel maps elsewhere when a place is taken: take that back. */
static int64_t check_place(struct arena *a, int64_t got, uint64_t want, size_t len)
{
	if ((uint64_t)got == want || (got < 0 && got > -4096))
		return got;
	borrow(a->p, SYS_munmap, got, len, 0, 0, 0, 0);
	return -EEXIST;
}

/* The first n calls were made, the next one failed. -ENOTSUP: a memfd may do it. */
static int take_back(struct arena *a, const struct batch *b, size_t n, int64_t got, int there)
{
	const struct batch_call *bad = &b->calls.v[n];
	struct gap *all = xcalloc(n, sizeof(*all));
	size_t k = 0;

	if (bad->nr == SYS_mmap)
		got = check_place(a, got, bad->want, bad->args[1]);
	for (size_t i = 0; i < n; i++)
		if (b->calls.v[i].nr == SYS_mmap)
			all[k++] = (struct gap){ b->calls.v[i].want, b->calls.v[i].want + b->calls.v[i].args[1] };
		else if (b->calls.v[i].nr == SYS_shmat)
			all[k++] = (struct gap){ a->stage_at.v, a->stage_at.v + a->size };
	unmap_ranges(a, all, join(all, k), record_span(a));
	if (there >= 0)
		borrow(a->p, SYS_close, there, 0, 0, 0, 0, 0);
	free(all);
	if (bad->nr != SYS_mmap && a->shm >= 0)
		return -ENOTSUP;
	if (bad->nr != SYS_mmap)
		return fail(got, "%s: the target can't: %s", b->steps.v[n], strerror(-got));
	return cant_map(bad->want, bad->args[1], got);
}

/* Record and desk are mapped: everything else from there. */
static int map_pieces(struct arena *a, int there, const struct batch *b)
{
	struct desk desk = { TADDR(a->record_at.v + a->record_len), (uint8_t *)a->head + a->record_len };
	int64_t got;
	size_t done = 0;
	int r;

	proc_step("arena: record mapped");
	r = batch_run(a->p, b, &desk, &done, &got);
	if (r == -ENOTSUP)
		unmap_ranges(a, NULL, 0, record_span(a));
	if (r < 0)
		return r;
	if (done < b->need)
		return take_back(a, b, done, got, there);
	a->undumped = done == b->calls.n;
	a->mapped = true;
	proc_step("arena: all mapped");
	return 0;
}

static int map_memfd(struct arena *a, int there, const struct batch *b)
{
	size_t len = a->record_len + a->desk_len;
	int64_t got = borrow(a->p, SYS_mmap, a->record_at.v, len, PROT_READ | PROT_EXEC,
			     MAP_SHARED | MAP_FIXED_NOREPLACE, there, 0);

	got = check_place(a, got, a->record_at.v, len);
	if ((uint64_t)got == a->record_at.v)
		return map_pieces(a, there, b);
	borrow(a->p, SYS_close, there, 0, 0, 0, 0, 0);
	return cant_map(a->record_at.v, len, got);
}

/* Whatever fails, the target is left without mapping and descriptor. */
static int by_memfd(struct arena *a, const char *name, const struct undo_head *head)
{
	int64_t there = make_memfd(a, name);
	struct batch b = { 0 };
	int r;

	if (there < 0)
		return there;
	proc_step("arena: memfd made");
	list_calls(a, there, &b);
	r = take_descriptor(a, there);
	if (r == 0)
		r = size_and_view(a);
	if (r == 0)
		fill(a, head, &b);
	proc_step("arena: record written");
	if (r < 0)
		borrow(a->p, SYS_close, there, 0, 0, 0, 0, 0);
	else
		r = map_memfd(a, there, &b);
	batch_free(&b);
	return r;
}

/*
 * -ENOTSUP: not here, try the memfd. The reasons may be many: another user's rights, a filter, limits.
 */
static int by_segment(struct arena *a, const struct batch *b)
{
	int64_t got = borrow(a->p, SYS_shmat, a->shm, a->record_at.v, SHM_RDONLY | SHM_EXEC, 0, 0, 0);

	if ((uint64_t)got != a->record_at.v)
		return -ENOTSUP;
	proc_step("arena: segment mapped");
	return map_pieces(a, -1, b);
}

/* b: the calls that make a segment's pieces; NULL: it will be a memfd. */
static int make_once(struct arena *a, const char *name, const struct undo_head *head, const struct batch *b)
{
	int awake = awake_begin(), r = proc_stop(a->p), end;

	if (r < 0) {
		awake_end(awake);
		return r;
	}
	proc_step("arena: stopped");
	vec_free(&a->tids);
	tids_note(a->p, &a->tids);
	r = proc_rseq(a->p, &a->rseq);
	if (r == 0 && b)
		threads_let_others_go(a->p);
	if (r == 0)
		r = b ? by_segment(a, b) : by_memfd(a, name, head);
	end = proc_resume(a->p);
	awake_end(awake);
	return r < 0 ? r : end;
}

/* It could not be made. A child that was forked meanwhile has what was there by then. */
static void clean_children(struct arena *a, int err)
{
	struct undo u = {
		.inode = a->shm, .private = own_memory(a, PIECE_PRIVATE), .scratch = own_memory(a, PIECE_SCRATCH),
	};
	struct text_report report = { 0 };
	char *why;

	if (sharers_none_born(a->p))
		return;
	why = xstrdup(err_text());
	clean_forks(a->p->pid, &u, &report);
	fail(err, "%s", why);
	free(why);
}

static int make_segment(struct arena *a, const struct undo_head *head)
{
	struct batch b = { .at_once = true };
	int r;

	list_calls(a, -1, &b);
	fill(a, head, &b);
	r = make_once(a, NULL, head, &b);
	batch_free(&b);
	if (r < 0)
		clean_children(a, r);
	return r;
}

int arena_make(struct arena *a, size_t max_edits)
{
	char name[ARENA_NAME_MAX];
	struct undo_head head;
	struct tracer_id id;
	int r = tracer_self(&id);

	if (r < 0)
		return r;
	arena_name(&id, name);
	undo_init(&head, max_edits, &id, own_memory(a, PIECE_PRIVATE), own_memory(a, PIECE_SCRATCH));
	a->pidfd = syscall(SYS_pidfd_open, a->p->pid, 0);
	r = a->shm >= 0 ? make_segment(a, &head) : -ENOTSUP;
	if (r == -ENOTSUP) {
		segment_drop(a);
		r = make_once(a, name, &head, NULL);
	}
	return target_left(a->p, r) ? fail(-ESRCH, "process %d is gone", a->p->pid) : r;
}
