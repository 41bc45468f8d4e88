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
#include "proc/internal.h"

#define PAGE 4096ull

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
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
	view = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
	if (view == MAP_FAILED)
		return fail(-errno, "mapping %zu bytes of shared memory here: %s", a->size, strerror(errno));
	madvise(view, a->size, MADV_DONTFORK);	/* a child of ours would look like one of the target's */
	a->head = view;
	undo_init(a->head, max_edits, id);
	return 0;
}

static int map_range(struct arena *a, int there, taddr *at, size_t len, int prot, uint64_t offset)
{
	int flags = MAP_SHARED | (at->v ? MAP_FIXED_NOREPLACE : 0);
	int64_t got = borrow(a->p, SYS_mmap, at->v, len, prot, flags, there, offset);

	if (got < 0 && got > -4096)
		return fail(got, "the target can't map %zu bytes at %#llx: %s%s", len,
			    (unsigned long long)at->v, strerror(-got), got == -ENOMEM ?
			    " (a limit of its address space, ulimit -v, or of its mappings, "
			    "vm.max_map_count): choose fewer functions" : "");
	if (at->v && (uint64_t)got != at->v) {
		borrow(a->p, SYS_munmap, got, len, 0, 0, 0, 0);
		return fail(-EEXIST, "%#llx is in use in the target", (unsigned long long)at->v);
	}
	at->v = got;
	return 0;
}

static void unmap_range(struct arena *a, taddr at, size_t len)
{
	if (at.v)
		borrow(a->p, SYS_munmap, at.v, len, 0, 0, 0, 0);
}

/* The record goes last: as long as anything of ours is mapped, it can be found. */
static void unmap_first(struct arena *a, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		unmap_range(a, a->pieces[i].at, a->pieces[i].len);
	unmap_range(a, a->record_at, a->record_len);
	a->record_at.v = 0;
}

static int map_there(struct arena *a, int there)
{
	size_t i;
	int r = map_range(a, there, &a->record_at, a->record_len, PROT_READ, 0);

	if (r < 0)
		return r;
	proc_step("arena: record mapped");
	for (i = 0; i < a->n; i++) {
		struct piece *c = &a->pieces[i];
		int prot = PROT_READ | (c->code ? PROT_EXEC : PROT_WRITE);

		r = map_range(a, there, &c->at, c->len, prot, c->offset);
		if (r < 0) {
			unmap_first(a, i);
			return r;
		}
		proc_step("arena: piece mapped");
	}
	return 0;
}

static int by_address(const void *x, const void *y)
{
	const struct gap *a = x, *b = y;

	return a->lo < b->lo ? -1 : a->lo > b->lo;
}

/*
 * Keep our memory out of core dumps: one call for neighbours. Failing to is no reason to give up. Done
 * in a later stop than the one that makes the arena, so that neither gets long.
 */
void arena_dont_dump(struct arena *a)
{
	struct gap *all;
	size_t i, n = 0;

	if (a->undumped)
		return;
	a->undumped = true;
	all = xcalloc(a->n + 1, sizeof(*all));
	all[n++] = (struct gap){ a->record_at.v, a->record_at.v + a->record_len };
	for (i = 0; i < a->n; i++)
		all[n++] = (struct gap){ a->pieces[i].at.v, a->pieces[i].at.v + a->pieces[i].len };
	qsort(all, n, sizeof(*all), by_address);
	for (i = 0; i < n; i++) {
		struct gap g = all[i];

		while (i + 1 < n && all[i + 1].lo == g.hi)
			g.hi = all[++i].hi;
		borrow(a->p, SYS_madvise, g.lo, g.hi - g.lo, MADV_DONTDUMP, 0, 0, 0);
	}
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
	if (r == 0)
		r = map_there(a, there);
	borrow(a->p, SYS_close, there, 0, 0, 0, 0, 0);
	proc_step("arena: memfd closed");
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

/* Code pieces may be larger than what is used of them: arena_touch() is for those. */
static int touch_data(struct arena *a)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->n; i++)
		if (!a->pieces[i].code)
			r = touch((uint8_t *)a->head + a->pieces[i].offset, a->pieces[i].len);
	return r;
}

int arena_touch(struct arena *a, taddr at, size_t len)
{
	return touch(arena_view(a, at), len);
}

static int lay_out(struct arena *a, size_t max_edits)
{
	size_t i;

	if (max_edits > UNDO_MAX_EDITS)
		return fail(-E2BIG, "%zu edits are more than one arena can undo", max_edits);
	a->record_len = undo_size(max_edits);
	a->size = a->record_len;
	for (i = 0; i < a->n; i++) {
		struct piece *c = &a->pieces[i];

		if (!c->len || c->len % PAGE || c->at.v % PAGE || (c->code && !c->at.v))
			return fail(-EINVAL, "piece %zu of the arena is not made of pages", i);
		c->offset = a->size;
		a->size += c->len;
	}
	return 0;
}

static int make_held(struct arena *a, size_t max_edits, const struct tracer_id *id)
{
	int r = proc_stop(a->p), end;

	if (r < 0)
		return r;
	proc_step("arena: stopped");
	r = proc_rseq(a->p, &a->rseq);
	if (r == 0)
		r = make_there(a, max_edits, id);
	end = proc_resume(a->p);
	return r < 0 ? r : end;
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
	size_t i;
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
		r = touch_data(a);
	if (r < 0) {
		arena_destroy(a);
		return r;
	}
	for (i = 0; i < n; i++) {
		a->pieces[i].here = (uint8_t *)a->head + a->pieces[i].offset;
		pieces[i] = a->pieces[i];
	}
	if (n)
		qsort(a->pieces, n, sizeof(*a->pieces), by_piece);	/* for arena_view() */
	*ret_arena = a;
	return 0;
}

const struct rseq_conf *arena_rseq(const struct arena *a)
{
	return &a->rseq;
}

uint8_t *arena_view(struct arena *a, taddr at)
{
	size_t lo = 0, hi = a->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		struct piece *c = &a->pieces[mid];

		if (at.v - c->at.v < c->len)
			return c->here + (at.v - c->at.v);
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
			unmap_first(a, a->n);
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
		munmap(a->head, a->size);
	if (a->fd >= 0)
		close(a->fd);
	sigframes_free(&a->frames);
	free(a->pieces);
	free(a);
}
