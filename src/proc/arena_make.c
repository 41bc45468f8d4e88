/* SPDX-License-Identifier: MIT */
/*
 * The stop in which an arena comes to be. A borrowed thread makes a memfd, which we take over; the
 * record of how to undo things is written into it before the first mapping is made, is mapped first
 * and unmapped last, so that a mapping without a record means that nothing was done yet. From
 * memfd_create to close no thread runs: a child forked in between would keep the descriptor.
 *
 * All threads of the target wait, so everything else is done before or after. Right behind the record
 * is the desk: a page or two from which a batch of calls makes all other mappings.
 */
#include "proc/arena.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
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

static struct gap private_memory(const struct arena *a)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->pieces[i].kind == PIECE_PRIVATE)
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

/* Size, record and desk. */
static int fill(struct arena *a, const struct undo_head *head, const struct batch *b)
{
	void *view;

	if (ftruncate(a->fd, a->size) < 0)
		return fail(-errno, "%zu bytes of shared memory: %s", a->size, strerror(errno));
	view = mmap(NULL, a->view_len, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
	if (view == MAP_FAILED)
		return fail(-errno, "mapping %zu bytes of shared memory here: %s", a->view_len, strerror(errno));
	a->head = view;
	batch_write(b, (uint8_t *)view + a->record_len);
	memcpy(view, head, sizeof(*head));
	return 0;
}

static void add_scratch(struct batch *b, const struct piece *c, int there)
{
	batch_add(b, "arena: scratch mapped", c->at.v, SYS_mmap, c->at.v, c->len, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_FIXED_NOREPLACE, there, c->offset);
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

static void add_private(struct batch *b, const struct piece *c)
{
	batch_add(b, "arena: private page mapped", c->at.v, SYS_mmap, c->at.v, c->len, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	batch_add(b, "arena: private page is wiped", 0, SYS_madvise, c->at.v, c->len, MADV_WIPEONFORK, 0, 0, 0);
}

static void add_piece(struct batch *b, const struct piece *c, int there)
{
	if (c->kind == PIECE_RING)
		add_ring(b, c, there);
	else if (c->kind == PIECE_PRIVATE)
		add_private(b, c);
	else if (c->kind == PIECE_SCRATCH)
		add_scratch(b, c, there);
	else
		add_map(b, "arena: piece mapped", c->at.v, c->len,
			PROT_READ | (c->kind == PIECE_CODE ? PROT_EXEC : PROT_WRITE), there, c->offset);
}

/* Failing to keep it out of core dumps is no reason to give up: that comes last. */
static void list_calls(const struct arena *a, int there, struct batch *b)
{
	struct gap *all = xcalloc(a->n, sizeof(*all));
	size_t i, n = arena_ranges(a, all);

	batch_add(b, "arena: record read-only", 0, SYS_mprotect, a->record_at.v, a->record_len, PROT_READ, 0, 0, 0);
	for (i = 0; i < a->n; i++)
		add_piece(b, &a->pieces[i], there);
	batch_add(b, "arena: memfd closed", 0, SYS_close, there, 0, 0, 0, 0, 0);
	b->need = b->calls.n;
	batch_add(b, "", 0, SYS_madvise, a->record_at.v, a->record_len + a->desk_len, MADV_DONTDUMP, 0, 0, 0);
	for (i = 0; i < n; i++)
		batch_add(b, "", 0, SYS_madvise, all[i].lo, all[i].hi - all[i].lo, MADV_DONTDUMP, 0, 0, 0);
	free(all);
}

size_t arena_calls(const struct arena *a)
{
	return 3 * a->n + 3;	/* two for a piece and one against dumps; record, close, and the dump of it */
}

/* The record goes last: as long as anything of ours is mapped, it can be found. */
static void unmap_ranges(struct arena *a, const struct gap *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		borrow(a->p, SYS_munmap, all[i].lo, all[i].hi - all[i].lo, 0, 0, 0, 0);
	borrow(a->p, SYS_munmap, a->record_at.v, a->record_len + a->desk_len, 0, 0, 0, 0);
}

void arena_unmap(struct arena *a)
{
	struct gap *all = xcalloc(a->n, sizeof(*all));

	unmap_ranges(a, all, arena_ranges(a, all));
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

/* The first n calls were made, the next one failed. */
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
	unmap_ranges(a, all, join(all, k));
	borrow(a->p, SYS_close, there, 0, 0, 0, 0, 0);
	free(all);
	if (bad->nr != SYS_mmap)
		return fail(got, "%s: the target can't: %s", b->steps.v[n], strerror(-got));
	return cant_map(bad->want, bad->args[1], got);
}

static int map_all(struct arena *a, int there, const struct batch *b)
{
	size_t len = a->record_len + a->desk_len, done = 0;
	int64_t got = borrow(a->p, SYS_mmap, a->record_at.v, len, PROT_READ | PROT_EXEC,
			     MAP_SHARED | MAP_FIXED_NOREPLACE, there, 0);
	struct desk desk;
	int r;

	got = check_place(a, got, a->record_at.v, len);
	if ((uint64_t)got != a->record_at.v) {
		borrow(a->p, SYS_close, there, 0, 0, 0, 0, 0);
		return cant_map(a->record_at.v, len, got);
	}
	proc_step("arena: record mapped");
	desk = (struct desk){ TADDR(a->record_at.v + a->record_len), (uint8_t *)a->head + a->record_len };
	r = batch_run(a->p, b, &desk, &done, &got);
	if (r < 0)
		return r;
	if (done < b->need)
		return take_back(a, b, done, got, there);
	a->undumped = done == b->calls.n;
	a->mapped = true;
	proc_step("arena: all mapped");
	return 0;
}

/* Whatever fails, the target is left without mapping and descriptor. */
static int make_there(struct arena *a, const char *name, const struct undo_head *head)
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
		r = fill(a, head, &b);
	proc_step("arena: record written");
	if (r < 0)
		borrow(a->p, SYS_close, there, 0, 0, 0, 0, 0);
	else
		r = map_all(a, there, &b);
	batch_free(&b);
	return r;
}

int arena_make(struct arena *a, size_t max_edits)
{
	char name[ARENA_NAME_MAX];
	struct undo_head head;
	struct tracer_id id;
	int r = tracer_self(&id), end;

	if (r < 0)
		return r;
	arena_name(&id, name);
	undo_init(&head, max_edits, &id, private_memory(a));
	a->pidfd = syscall(SYS_pidfd_open, a->p->pid, 0);
	r = proc_stop(a->p);
	if (r < 0)
		return r;
	proc_step("arena: stopped");
	tids_note(a->p, &a->tids);
	r = proc_rseq(a->p, &a->rseq);
	if (r == 0)
		r = make_there(a, name, &head);
	end = proc_resume(a->p);
	return r < 0 ? r : end;
}
