/* SPDX-License-Identifier: MIT */
/*
 * The stop in which an arena is made, by system calls of a borrowed thread. The undo record
 * is written before the first mapping is made, is mapped first and unmapped last, so that a
 * mapping without a record means that nothing was changed yet. Right after the record is the desk: a page or two
 * from which a batch of calls makes all other mappings. Everything else is done before or after the stop, because the
 * target's threads wait meanwhile.
 *
 * The borrowed thread makes two memfds, and the tracer gets descriptors of both. The memfd with record, desk, code and tables
 * gets the seal F_SEAL_FUTURE_WRITE as soon as the tracer has its own writable mapping: neither the target nor a child
 * that inherits its mappings can make one writable. From memfd_create to close no other thread runs: a child forked in
 * between would keep the descriptors. As soon as they are closed, the other threads go on, if the borrowed one can stay
 * borrowed while they run.
 */
#include "arch/page.h"
#include "proc/undo/clean.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/err.h"
#include "proc/internal.h"


#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
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

/* Sort the ranges and join neighbours. Returns how many are left. */
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

/* The memfds' descriptors in the target. -1: not made. */
struct there { int code, data; };

#define CODE_THERE 0xc0deull	/* stands for the descriptor in the table of calls, until fill_in() */
#define DATA_THERE 0xda7aull
#define CLOCK_THERE 0xc10cull	/* stands for the address of PR_GET_TSC's result, until fill_in() */
#define CLOCK_AT (SCRATCH_LEN - 8)	/* in the scratch memory, after the names and the answer of a batch */
#define NAME_ROOM 128

_Static_assert(NAME_ROOM >= ARENA_NAME_MAX && 2 * NAME_ROOM <= CLOCK_AT, "room for two names");

/*
 * MFD_NOEXEC_SEAL: execve() of the file is forbidden; mapping it with PROT_EXEC stays allowed. Kernels that
 * require the flag (vm.memfd_noexec) know it; older ones return EINVAL.
 */
static int64_t call_memfd(struct arena *a, uint64_t name)
{
	int64_t fd = borrow(a->p, SYS_memfd_create, name, MFD_CLOEXEC | MFD_NOEXEC_SEAL, 0, 0, 0, 0);

	if (fd == -EINVAL)
		fd = borrow(a->p, SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0, 0, 0, 0);
	return fd;
}

/* If the program has used up its descriptors, its limit is raised for the time of the call. */
static int64_t make_memfd(struct arena *a, uint64_t name)
{
	int64_t fd = call_memfd(a, name);
	const struct thread *t = thread_find(a->p, proc_borrowed_tid(a->p));
	pid_t pid = t ? t->pid : a->p->pid;
	struct rlimit old;

	if (fd == -EMFILE && limit_descriptors(pid, &old)) {
		fd = call_memfd(a, name);
		limit_restore(pid, RLIMIT_NOFILE, &old);
	}
	if (fd == -EMFILE)
		return fail(fd, "process %d has used up its file descriptors (ulimit -n), and one is needed for a moment: raise its "
			    "limit with prlimit(1)", a->p->pid);
	if (fd == -ETIMEDOUT)
		return fd;	/* the thread does not run: wait_failed() has set the message */
	if (fd < 0)
		return fail(fd, "the target can't create shared memory: %s", strerror(-fd));
	proc_step("arena: memfd made");
	return fd;
}

static void close_there(struct arena *a, const struct there *there)
{
	if (there->code >= 0)
		borrow(a->p, SYS_close, there->code, 0, 0, 0, 0, 0);
	if (there->data >= 0)
		borrow(a->p, SYS_close, there->data, 0, 0, 0, 0, 0);
}

static int make_memfds(struct arena *a, const char names[2 * NAME_ROOM], struct there *there)
{
	int64_t fd;
	size_t room;
	taddr at;
	int r = proc_scratch(a->p, &at, &room);

	if (r < 0)
		return r;
	if (room < 2 * NAME_ROOM)
		return fail(-ENOSPC, "no room for a name on the target's stack");
	r = proc_write(a->p, at, names, 2 * NAME_ROOM);
	if (r < 0)
		return r;
	proc_step("arena: names written");
	fd = make_memfd(a, at.v);
	if (fd < 0)
		return fd;
	there->code = fd;
	fd = a->data_size ? make_memfd(a, at.v + NAME_ROOM) : -1;
	if (a->data_size && fd < 0)
		return fd;
	there->data = fd;
	return 0;
}

/*
 * The thread that made the memfd may have a descriptor table of its own, or belong to another process that
 * shares the memory. pidfd_getfd() is quicker, but uses the main thread's table.
 */
static int take_descriptor(struct arena *a, int there, int *ret_fd)
{
	pid_t tid = proc_borrowed_tid(a->p);
	const struct thread *t = thread_find(a->p, tid);
	char path[96];

	if (tid == a->p->pid && a->pidfd >= 0)
		*ret_fd = syscall(SYS_pidfd_getfd, a->pidfd, there, 0);
	if (*ret_fd >= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", t ? t->pid : a->p->pid, tid, there);
	*ret_fd = open(path, O_RDWR | O_CLOEXEC);
	return *ret_fd < 0 ? fail(-errno, "%s can't be opened: %s", path, strerror(errno)) : 0;
}

static int take_descriptors(struct arena *a, const struct there *there)
{
	int r = take_descriptor(a, there->code, &a->fd);

	return r < 0 || there->data < 0 ? r : take_descriptor(a, there->data, &a->data_fd);
}

static int set_size(int fd, size_t size)
{
	if (ftruncate(fd, size) < 0)
		return fail(-errno, "%zu bytes of shared memory: %s%s", size, strerror(errno),
			    errno == EFBIG ? " (our own limit, ulimit -f)" : "");
	return 0;
}

/* Our own mapping first: after the seal no process can make another writable mapping. */
static int size_and_seal(struct arena *a)
{
	void *view;
	int r = set_size(a->fd, a->size);

	if (r < 0)
		return r;
	view = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
	if (view == MAP_FAILED)
		return fail(-errno, "mapping %zu bytes of shared memory here: %s", a->size, strerror(errno));
	a->view = view;
	madvise(view, a->size, MADV_DONTFORK);	/* a child of the tracer would be taken for a fork of the target */
	if (fcntl(a->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return fail(-errno, "shared memory can't be sealed (Linux 5.1 or later can): %s", strerror(errno));
	return 0;
}

/* The table of calls was made before the stop, when descriptors and the scratch address were not known. */
static void fill_in(struct batch *b, const struct there *there, taddr scratch)
{
	for (size_t i = 0; i < b->calls.n; i++) {
		struct batch_call *c = &b->calls.v[i];
		uint64_t *fd = c->nr == SYS_mmap ? &c->args[4] : &c->args[0];

		if (c->nr == SYS_prctl && c->args[1] == CLOCK_THERE)
			c->args[1] = scratch.v + CLOCK_AT;
		if (c->nr != SYS_mmap && c->nr != SYS_close)
			continue;
		if (*fd == CODE_THERE)
			*fd = there->code;
		else if (*fd == DATA_THERE)
			*fd = there->data;
	}
}

static void add_map(struct batch *b, const char *step, uint64_t at, size_t len, int prot, uint64_t there, uint64_t offset)
{
	batch_add(b, step, at, SYS_mmap, at, len, prot, MAP_SHARED | MAP_FIXED_NOREPLACE, there, offset);
}

static void add_ring(struct batch *b, const struct piece *c)
{
	add_map(b, "arena: ring mapped", c->at.v, c->len, PROT_READ | PROT_WRITE, DATA_THERE, c->offset);
	add_map(b, "arena: ring mapped twice", c->at.v + c->len, c->len - RING_HEAD_SIZE, PROT_READ | PROT_WRITE,
		DATA_THERE, c->offset + RING_HEAD_SIZE);
}

static void add_own(struct batch *b, const struct piece *c)
{
	batch_add(b, "arena: memory of its own mapped", c->at.v, SYS_mmap, c->at.v, c->len, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (c->kind == PIECE_PRIVATE)
		batch_add(b, "arena: which a fork wipes", 0, SYS_madvise, c->at.v, c->len, MADV_WIPEONFORK, 0, 0, 0);
}

static void add_piece(struct batch *b, const struct piece *c)
{
	if (c->kind == PIECE_PRIVATE || c->kind == PIECE_SCRATCH)
		add_own(b, c);
	else if (c->kind == PIECE_RING)
		add_ring(b, c);
	else if (is_data(c))
		add_map(b, "arena: piece mapped", c->at.v, c->len, PROT_READ | PROT_WRITE, DATA_THERE, c->offset);
	else
		add_map(b, "arena: piece mapped", c->at.v, c->len, PROT_READ | (c->kind == PIECE_CODE ? PROT_EXEC : 0),
			CODE_THERE, c->offset);
}

/* The calls against core dumps and PR_GET_TSC may fail without harm: they come after those that are needed. */
static void list_calls(const struct arena *a, struct batch *b)
{
	struct gap *all = xcalloc(a->n, sizeof(*all));
	size_t i, n = arena_ranges(a, all);

	batch_add(b, "arena: record read-only", 0, SYS_mprotect, a->record_at.v, a->record_len, PROT_READ, 0, 0, 0);
	for (i = 0; i < a->n; i++)
		add_piece(b, &a->pieces[i]);
	if (a->data_size)
		batch_add(b, "arena: data memfd closed", 0, SYS_close, DATA_THERE, 0, 0, 0, 0, 0);
	batch_add(b, "arena: memfd closed", 0, SYS_close, CODE_THERE, 0, 0, 0, 0, 0);
	b->need = b->calls.n;
	batch_add(b, "", 0, SYS_madvise, a->record_at.v, a->record_len + a->desk_len, MADV_DONTDUMP, 0, 0, 0);
	for (i = 0; i < n; i++)
		batch_add(b, "", 0, SYS_madvise, all[i].lo, all[i].hi - all[i].lo, MADV_DONTDUMP, 0, 0, 0);
	batch_add(b, "", 0, SYS_prctl, PR_GET_TSC, CLOCK_THERE, 0, 0, 0, 0);
	free(all);
}

size_t arena_calls(const struct arena *a)
{
	return 3 * a->n + 5;	/* a piece: mmap twice, madvise; the record: mprotect, madvise; close twice; prctl */
}

/* The record is unmapped last: a reader finds it as long as any piece is mapped. */
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
		return fail(got, "the target keeps mapping memory where code of jab was planned (%#llx): try again, "
			    "or with fewer functions", (unsigned long long)at);
	return fail(got, "the target can't map %zu bytes at %#llx: %s%s", len, (unsigned long long)at,
		    strerror(-got), got == -ENOMEM ?
		    " (a limit of its address space, ulimit -v, or of its mappings, "
		    "vm.max_map_count): choose fewer functions" : "");
}

/* A kernel without MAP_FIXED_NOREPLACE maps elsewhere if the address is taken: unmap that. */
static int64_t check_place(struct arena *a, int64_t got, uint64_t want, size_t len)
{
	if ((uint64_t)got == want || (got < 0 && got > -4096))
		return got;
	borrow(a->p, SYS_munmap, got, len, 0, 0, 0, 0);
	return -EEXIST;
}

static bool is_closed(const struct batch *b, size_t n, int fd)
{
	for (size_t i = 0; i < n; i++)
		if (b->calls.v[i].nr == SYS_close && b->calls.v[i].args[0] == (uint64_t)fd)
			return true;
	return false;
}

/*
 * The first n calls were made, the next one failed: undo them. Its result was read from the target's stack, where anything may
 * be: if it is not an errno, -EIO is used.
 */
static int take_back(struct arena *a, const struct batch *b, size_t n, int64_t got, struct there there)
{
	const struct batch_call *bad = &b->calls.v[n];
	struct gap *all = xcalloc(n, sizeof(*all));
	size_t k = 0;

	if (bad->nr == SYS_mmap)
		got = check_place(a, got, bad->want, bad->args[1]);
	if (got >= 0 || got <= -4096)
		got = -EIO;
	for (size_t i = 0; i < n; i++)
		if (b->calls.v[i].nr == SYS_mmap)
			all[k++] = (struct gap){ b->calls.v[i].want, b->calls.v[i].want + b->calls.v[i].args[1] };
	unmap_ranges(a, all, join(all, k));
	if (is_closed(b, n, there.data))
		there.data = -1;
	close_there(a, &there);
	free(all);
	if (bad->nr != SYS_mmap)
		return fail(got, "a system call in the target failed (%s): %s", b->steps.v[n], strerror(-got));
	return cant_map(bad->want, bad->args[1], got);
}

static void read_clock(struct arena *a)
{
	uint32_t how;
	size_t room;
	taddr at;

	if (proc_scratch(a->p, &at, &room) == 0 && proc_read(a->p, TADDR(at.v + CLOCK_AT), &how, sizeof(how)) == 0)
		a->clock = how;
}

/*
 * Both descriptors are closed, the second one after the first: no other thread runs, so nobody has put another one in its place. Only
 * where the borrowed thread's table of descriptors is the main thread's, which is the one that is asked.
 */
struct closing { int pidfd, fd; };

static bool are_closed(const void *arg)
{
	const struct closing *c = arg;
	int fd = syscall(SYS_pidfd_getfd, c->pidfd, c->fd, 0);

	if (fd >= 0)
		close(fd);
	return fd < 0 && errno == EBADF;
}

/* Record and desk are mapped: everything else from there. */
static int map_pieces(struct arena *a, const struct there *there, struct batch *b)
{
	struct desk desk = { TADDR(a->record_at.v + a->record_len), a->view + a->record_len };
	struct closing closing = { a->pidfd, there->code };
	int64_t got;
	size_t done = 0;
	int r;

	proc_step("arena: record mapped");
	if (threads_can_let_others_go(a->p))
		b->made = threads_let_others_go;
	if (a->pidfd >= 0 && proc_borrowed_tid(a->p) == a->p->pid) {
		b->look = are_closed;
		b->arg = &closing;
	}
	r = batch_run(a->p, b, &desk, &done, &got);
	if (r < 0)
		return r;
	if (done < b->need)
		return take_back(a, b, done, got, *there);
	a->undumped = done + 1 >= b->calls.n;
	a->mapped = true;
	if (done == b->calls.n)
		read_clock(a);
	proc_step("arena: all mapped");
	return 0;
}

static int map_record(struct arena *a, const struct there *there, struct batch *b)
{
	size_t len = a->record_len + a->desk_len;
	int64_t got = borrow(a->p, SYS_mmap, a->record_at.v, len, PROT_READ | PROT_EXEC,
			     MAP_SHARED | MAP_FIXED_NOREPLACE, there->code, 0);

	got = check_place(a, got, a->record_at.v, len);
	if ((uint64_t)got == a->record_at.v)
		return map_pieces(a, there, b);
	close_there(a, there);
	return cant_map(a->record_at.v, len, got);
}

/* On any error the target is left without mappings and descriptors of the arena. */
static int make_held(struct arena *a, const char names[2 * NAME_ROOM], struct batch *b)
{
	struct there there = { -1, -1 };
	size_t room;
	taddr scratch;
	int r = make_memfds(a, names, &there);

	if (r == 0)
		r = take_descriptors(a, &there);
	if (r == 0)
		r = size_and_seal(a);
	if (r == 0)
		r = proc_scratch(a->p, &scratch, &room);
	if (r < 0) {
		close_there(a, &there);
		return r;
	}
	fill_in(b, &there, scratch);
	batch_write(b, a->view + a->record_len);
	undo_start(&a->book, (struct undo_head *)a->view, &a->label.tracer);
	proc_step("arena: record written");
	return map_record(a, &there, b);
}

static int make_once(struct arena *a, const char names[2 * NAME_ROOM], struct batch *b)
{
	int awake = proc_is_still(a->p) ? -1 : awake_begin();	/* a target that is held anyway need not be served as fast */
	int r = proc_stop_to_borrow(a->p), end;

	if (r < 0) {
		awake_end(awake);
		return r;
	}
	proc_step("arena: stopped");
	a->made_in = priv(a->p)->stops;
	tids_note(a->p, &a->tids);
	r = proc_rseq(a->p, &a->rseq);
	if (r == 0)
		r = make_held(a, names, b);
	end = proc_resume(a->p);
	awake_end(awake);
	return r < 0 ? r : end;
}

int arena_make(struct arena *a)
{
	struct arena_label data = a->label;
	char names[2 * NAME_ROOM] = "";
	struct batch b = { 0 };
	struct rlimit old;
	bool lifted;
	int r;

	data.data = true;
	arena_name(&a->label, names);
	arena_name(&data, names + NAME_ROOM);
	a->pidfd = syscall(SYS_pidfd_open, a->p->pid, 0);
	list_calls(a, &b);
	lifted = limit_lift(0, RLIMIT_FSIZE, MAX(a->size, a->data_size), &old);
	r = make_once(a, names, &b);
	if (r == 0 && a->data_size)
		r = set_size(a->data_fd, a->data_size);
	if (lifted)
		limit_restore(0, RLIMIT_FSIZE, &old);
	batch_free(&b);
	return target_left(a->p, r) ? fail(-ESRCH, "process %d is gone", a->p->pid) : r;
}
