/* SPDX-License-Identifier: MIT */
/*
 * Which memory is known (arch/known.h): private anonymous memory that can be read and written, as the kernel names it. A range is
 * added only while all threads are stopped and none is in our code or between a watch and its call:
 *
 *	first stop	the largest ranges go to hold[]: from now on calls that take them away cut them there
 *	running		are there guard pages, protection keys, pages that a fork loses? (this can take long)
 *	second stop	what is left of the good ones goes to load[], and readers find it
 *
 * All calls that take memory away must be seen, so nothing is added to a process that has code that nobody has looked through. New
 * code comes by calls that are watched: they cut all ranges, and at the next addition the code is looked through.
 */
#include "session/watches/known.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "arch/known.h"
#include "arch/page.h"
#include "arch/syscalls.h"
#include "base/clock.h"
#include "base/err.h"
#include "blob/blob.h"
#include "proc/threads/ids.h"
#include "proc/undo/undo.h"
#include "session/events/rings.h"
#include "session/scripts/units.h"
#include "session/watches/vet.h"

#define ASKS_LEAST 32			/* reads that found nothing, before a range is added, */
#define ASKS_SHARE 1000			/* and of so many at least one */
#define LOOK_NS 20000000ull
#define FIRST_WAIT 100000000ull		/* between two additions */
#define LONGEST_WAIT 30000000000ull
#define LARGEST_KB (8ull << 20)		/* of a process: the kernel takes too long to tell about more */
#define REGISTER_RSEQ (1 << 8)		/* of membarrier() */
#define CALL_LEN 2
#define PAD_MOST 4096			/* a longer pad of a watch and other probes at its place is not thought of */

void known_plan(struct jab *j, struct target *t)
{
	if (!t->proc || t->scout || !t->proc->arch->emit_unmap || !j->events || !units_read_memory(j))
		return;
	if (!t->known)
		t->known = xcalloc(1, sizeof(*t->known));
	t->known->ncpus = counters_ncpus();
	t->known->why = NULL;
}

uint8_t known_unmaps(const struct target *t, uint32_t nr)
{
	if (!t->known)
		return 0;
	switch (nr) {
	case SYS_munmap:
		return UNMAP_RANGE + 1;
	case SYS_mremap:
		return UNMAP_MOVE + 1;
	case SYS_mprotect:
		return UNMAP_PROTECT + 1;
	case SYS_mmap:
		return UNMAP_MAP + 1;
	case SYS_madvise:
		return UNMAP_ADVISE + 1;
	case SYS_brk:
		return UNMAP_BRK + 1;
	case SYS_shmat:
		return UNMAP_ATTACH + 1;
	case SYS_process_madvise:
		return UNMAP_ALWAYS + 1;
	case SYS_userfaultfd: case SYS_io_uring_setup: case SYS_pkey_mprotect:
		return UNMAP_OFF + 1;
	}
	return 0;
}

uint8_t known_forbids(const struct target *t, uint32_t nr)
{
	return !t->known ? 0 : nr == SYS_prctl ? UNMAP_FORBID + 1 : UNMAP_ALWAYS + 1;
}

void known_refuse(struct target *t, const char *why)
{
	if (t->known && !t->known->why)
		t->known->why = why;
}

size_t known_body(const struct target *t, uint8_t abi, uint8_t *out)
{
	struct unmap_spec spec = { .known = t->known->at, .routine = t->blob_at + blob_offset(BLOB_UNMAP), .ncpus = t->known->ncpus,
				   .quiet = t->state_at + offsetof(struct process_state, quiet), .abi = abi };

	return t->proc->arch->emit_unmap(out, &spec);
}

size_t known_size(const struct target *t)
{
	return t->known ? PAGE_UP(sizeof(struct known) + t->known->ncpus * sizeof(struct known_cpu)) : 0;
}

void known_take(struct target *t, uint64_t at)
{
	if (t->known)
		t->known->at = at;
}

uint64_t known_at(const struct target *t)
{
	return t->known ? t->known->at : 0;
}

uint32_t known_cpus(const struct target *t)
{
	return t->known ? t->known->ncpus : 0;
}

void known_init(struct target *t)
{
	if (!t->known)
		return;
	t->known->ready = proc_take_memory(t->proc, TADDR(t->known->at), known_size(t)) == 0;
	if (!t->known->ready)
		known_refuse(t, "there is no memory for it");
	if (!t->rings->may_read)
		known_refuse(t, proc_fills_pages(t->proc) ? "it fills pages itself (userfaultfd)" : "system calls of ours may be forbidden");
}

/* Only the lengths: a range whose start has changed and whose length has not would be another one. Calls of the program may cut them now. */
void known_drop(struct target *t, const char *why)
{
	uint64_t none = 0;

	if (!t->known || !t->known->ready)
		return;
	if (why)
		known_refuse(t, why);
	for (int i = 0; i < KNOWN_RANGES; i++)
		proc_write(t->proc, TADDR(t->known->at + offsetof(struct known, load[i].len)), &none, sizeof(none));
}

void known_free(struct target *t)
{
	free(t->known);
	t->known = NULL;
}

/* ---- whether all calls are seen ---- */

static bool is_watched(const struct target *t, const struct text_call *c)
{
	for (size_t i = 0; i < t->watches.n; i++)
		if (t->watches.v[i].at == c->at.v && t->watches.v[i].unmaps)
			return true;
	return false;
}

static bool matters(const struct target *t, uint32_t nr)
{
	return nr == ANY_CALL || nr == OPEN_CALL || nr == SYS_prctl || nr == SYS_seccomp || known_unmaps(t, nr);
}

/* One C library at least has been read, with the calls that each of them makes. */
static bool has_calls(const struct text_call *calls, size_t n)
{
	static const uint32_t wanted[] = { SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk };
	uint32_t found = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < sizeof(wanted) / sizeof(wanted[0]); k++)
			found |= (calls[i].nr == wanted[k]) << k;
	return found == (1u << sizeof(wanted) / sizeof(wanted[0])) - 1;
}

/* Its mappings are there even if its descriptor is closed. */
static bool has_ring(struct proc *p)
{
	for (size_t i = 0; i < p->maps.n; i++)
		if (strstr(p->maps.v[i].path, "[io_uring]"))
			return true;
	return vet_has_ring(p);
}

/* Code that may change, or that is in no file: a compiler at run time, and other tools. */
static bool has_new_code(const struct target *t)
{
	for (size_t i = 0; i < t->proc->maps.n; i++) {
		const struct map *m = &t->proc->maps.v[i];

		if (!(m->prot & PROT_EXEC) || m->path[0] == '[' || is_arena_path(m->path))
			continue;
		if (!m->inode || m->shared || m->prot & PROT_WRITE || !(m->prot & PROT_READ) || !strncmp(m->path, "/memfd:", strlen("/memfd:")))
			return true;
	}
	return false;
}

static const char *why_not_all_seen(struct target *t)
{
	const struct text_call *calls;
	size_t n;

	if (proc_text_calls(t->proc, &calls, &n) < 0 || !has_calls(calls, n))
		return "not all of its system calls can be found";
	for (size_t i = 0; i < n; i++)
		if (matters(t, calls[i].nr) && !is_watched(t, &calls[i])) {
			log_info("process %d: a system call at %#llx is not watched", t->proc->pid, (unsigned long long)calls[i].at.v);
			return calls[i].nr == OPEN_CALL ? "it has system calls whose number is not known" :
							  "it has calls that take memory away and are not watched";
		}
	return NULL;
}

/* ---- while stopped ---- */

/*
 * Behind the watch, and not yet behind the call; or in the code of the watch, which is in the middle of a pad of others if its module is
 * probed, too.
 */
static bool nobody_is_on_the_way(const struct target *t, const struct known *k)
{
	size_t len = t->proc->arch->jumps->len;
	gap_list ways = { 0 };
	bool nobody;

	for (size_t i = 0; i < t->watches.n; i++) {
		const struct watch *w = &t->watches.v[i];

		if (!w->unmaps)
			continue;
		*vec_add(&ways) = (struct gap){ w->at + 1, w->at + len + CALL_LEN };
		*vec_add(&ways) = (struct gap){ w->body - (w->pad ? 0 : PAD_MOST), w->body + PAD_MOST };
	}
	nobody = !k->busy && arena_nobody_in(t->arena, ways.v, ways.n);
	vec_free(&ways);
	return nobody;
}

static bool is_quiet(const struct target *t)
{
	uint32_t quiet = 1;

	return proc_read(t->proc, TADDR(t->state_at + offsetof(struct process_state, quiet)), &quiet, sizeof(quiet)) < 0 || quiet;
}

/* Readers must be interrupted by the kernel: it wants to know that beforehand. */
static bool is_registered(struct target *t)
{
	const uint64_t args[6] = { REGISTER_RSEQ };
	int64_t r = -1;

	if (!t->known->registered)
		t->known->registered = proc_syscall(t->proc, SYS_membarrier, args, &r) == 0 && r == 0;
	return t->known->registered;
}

static const char *why_not(struct target *t)
{
	const char *why = NULL;

	if (is_quiet(t) || proc_dispatches(t->proc))
		why = "system calls of ours may be forbidden";
	else if (proc_fills_pages(t->proc))
		why = "it fills pages itself (userfaultfd)";
	else if (proc_read_maps(t->proc) < 0)
		why = "its mappings can't be read";
	else if (has_ring(t->proc))
		why = "the kernel may work for it by itself (io_uring)";
	else if (has_new_code(t))
		why = "it has code that can change";
	else
		why = why_not_all_seen(t);
	if (!why && !is_registered(t))
		why = "the kernel has no membarrier() for restartable sequences";
	return why;
}

struct candidate { uint64_t lo, hi; uint32_t rank; };
typedef VEC(struct candidate) candidate_list;

static bool may_be_known(const struct map *m)
{
	bool is_heap = !strcmp(m->path, "[heap]");

	return !m->inode && !m->shared && m->prot == (PROT_READ | PROT_WRITE) &&
	       (is_heap || !m->path[0] || !strncmp(m->path, "[anon:", strlen("[anon:")));
}

/* Memory with a page before it that can't be used is mostly the stack of a thread. */
static uint32_t rank_of(const struct proc *p, size_t i)
{
	const struct map *m = &p->maps.v[i];

	if (!strcmp(m->path, "[heap]"))
		return 0;
	return i && p->maps.v[i - 1].end == m->start && !p->maps.v[i - 1].prot ? 2 : 1;
}

static int by_rank(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return (x->hi - x->lo < y->hi - y->lo) - (x->hi - x->lo > y->hi - y->lo);
}

static void find_candidates(const struct proc *p, candidate_list *list)
{
	for (size_t i = 0; i < p->maps.n; i++) {
		const struct map *m = &p->maps.v[i];

		if (!may_be_known(m))
			continue;
		if (list->n && list->v[list->n - 1].hi == m->start && list->v[list->n - 1].rank == rank_of(p, i))
			list->v[list->n - 1].hi = m->end;
		else
			*vec_add(list) = (struct candidate){ m->start, m->end, rank_of(p, i) };
	}
	if (list->n)
		qsort(list->v, list->n, sizeof(*list->v), by_rank);
}

static int read_known(const struct target *t, struct known *ret_known)
{
	return proc_read(t->proc, TADDR(t->known->at), ret_known, sizeof(*ret_known));
}

/* Ranges that readers use stay where they are; they grow, if they can. Returns whether the candidate is in one of them, from its start. */
static bool grow(struct known *k, const struct candidate *c)
{
	for (int i = 0; i < KNOWN_RANGES; i++)
		if (k->hold[i].len && k->hold[i].lo >= c->lo && k->hold[i].lo < c->hi) {
			k->hold[i].len = MAX(k->hold[i].len, c->hi - k->hold[i].lo);
			return k->hold[i].lo == c->lo;
		}
	return false;
}

static uint64_t free_end(const struct known *k, const struct candidate *c)
{
	uint64_t end = c->hi;

	for (int i = 0; i < KNOWN_RANGES; i++)
		if (k->hold[i].len && k->hold[i].lo >= c->lo && k->hold[i].lo < end)
			end = k->hold[i].lo;
	return end;
}

/* Readers find nothing in what is new until the second stop. */
static void put_holds(struct known *k, const candidate_list *list)
{
	for (int i = 0; i < KNOWN_RANGES; i++)
		if (!k->load[i].len || !k->hold[i].len)
			k->load[i] = k->hold[i] = (struct known_range){ 0 };
	for (size_t i = 0; i < list->n; i++) {
		const struct candidate *c = &list->v[i];

		for (int n = 0; !grow(k, c) && n < KNOWN_RANGES; n++)
			if (!k->hold[n].len) {
				k->hold[n] = (struct known_range){ c->lo, free_end(k, c) - c->lo };
				break;
			}
	}
}

/* Returns -EAGAIN if it may work out some other time. */
static int hold(struct target *t, struct known *ret_known)
{
	candidate_list list = { 0 };
	int r = -EAGAIN;

	if (proc_stop_now(t->proc) < 0)
		return -EAGAIN;
	if (!strangers_present(t) && read_known(t, ret_known) == 0 && nobody_is_on_the_way(t, ret_known)) {
		t->known->why = why_not(t);
		r = t->known->why ? -ENOTSUP : 0;
		if (!r) {
			find_candidates(t->proc, &list);
			put_holds(ret_known, &list);
			r = proc_write(t->proc, TADDR(t->known->at), ret_known, offsetof(struct known, phase));
		}
	}
	proc_resume(t->proc);
	vec_free(&list);
	return r;
}

static int add(struct target *t, const struct known *k, const bool *good)
{
	struct known now;
	int r = -EAGAIN;

	if (proc_stop_now(t->proc) < 0)
		return -EAGAIN;
	if (!strangers_present(t) && read_known(t, &now) == 0 && nobody_is_on_the_way(t, &now) && !now.off) {
		for (int i = 0; i < KNOWN_RANGES; i++)
			if (good[i] && now.hold[i].lo == k->hold[i].lo && now.hold[i].len && now.hold[i].len <= k->hold[i].len)
				now.load[i] = (struct known_range){ now.hold[i].lo, now.hold[i].len - KNOWN_SHORT };
		r = proc_write(t->proc, TADDR(t->known->at), now.load, sizeof(now.load));
	}
	proc_resume(t->proc);
	return r;
}

static int add_ranges(struct target *t)
{
	struct known k = { 0 };
	bool good[KNOWN_RANGES];
	uint64_t kb = 0;
	int r;

	if (proc_status_number(t->proc, "VmRSS", &kb) < 0 || kb > LARGEST_KB) {
		known_refuse(t, "it has too much memory");
		return -ENOTSUP;
	}
	r = hold(t, &k);
	if (r < 0)
		return r;
	vet_ranges(t->proc, k.hold, KNOWN_RANGES, good);
	r = add(t, &k, good);
	for (int i = 0; !r && i < KNOWN_RANGES; i++)
		if (k.hold[i].len)
			log_info("process %d: %#llx-%#llx %s", t->proc->pid, (unsigned long long)k.hold[i].lo,
				 (unsigned long long)(k.hold[i].lo + k.hold[i].len), good[i] ? "is read by plain loads" : "is read by asking");
	return r;
}

/* ---- now and then ---- */

static const char *why_off(uint32_t off)
{
	switch (off) {
	case KNOWN_OFF_READER:
		return "a thread that reads did not come back in time";
	case KNOWN_OFF_BARRIER:
		return "the kernel refused membarrier()";
	}
	return "it has made a call whose effect is not followed (userfaultfd, io_uring_setup or pkey_mprotect)";
}

void known_count(struct target *t)
{
	struct known_view *v = t->known;
	struct known_cpu *cpus;
	struct known k;

	if (!v || !v->ready || !proc_alive(t->proc))
		return;
	cpus = xcalloc(v->ncpus, sizeof(*cpus));
	if (read_known(t, &k) == 0 &&
	    proc_read(t->proc, TADDR(v->at + offsetof(struct known, cpu)), cpus, v->ncpus * sizeof(*cpus)) == 0) {
		v->loads = k.went[0] + k.went[1] - k.missed;
		for (uint32_t i = 0; i < v->ncpus; i++)
			v->loads += cpus[i].out[0] + cpus[i].out[1];
		v->others = k.left[0] + k.left[1] + k.missed;
		v->cuts = k.cuts;
		if (k.off && !v->why)
			v->why = why_off(k.off);
	}
	free(cpus);
}

static void say_why(struct known_view *v, const struct target *t)
{
	if (v->why && !v->said)
		log_info("process %d: memory that it may give back is read by asking the kernel: %s", t->proc->pid, v->why);
	v->said |= v->why != NULL;
}

/* A few always do: those that were interrupted. */
static bool asks_much(const struct known_view *v)
{
	uint64_t asked = v->others - v->asked;

	return asked >= ASKS_LEAST && asked * ASKS_SHARE > v->loads - v->loaded;
}

void known_look_after(struct target *t)
{
	struct known_view *v = t->known;
	uint64_t now = now_ns();
	int r;

	if (!v || !v->ready || now < v->next || !t->inserted || !proc_alive(t->proc))
		return;
	v->next = now + LOOK_NS;
	known_count(t);
	say_why(v, t);
	if (v->why || !asks_much(v) || (v->added_at && now - v->added_at < v->wait))
		return;
	r = add_ranges(t);
	say_why(v, t);
	if (r < 0)
		return;
	v->wait = v->added_at && now - v->added_at < 2 * v->wait ? MIN(2 * v->wait, LONGEST_WAIT) : FIRST_WAIT;
	v->added_at = now;
	v->asked = v->others;
	v->loaded = v->loads;
	v->added++;
}

void known_say(struct target *t)
{
	struct known_view *v = t->known;

	if (!v || !v->ready)
		return;
	say_why(v, t);
	log_info("process %d: %llu reads of its memory were plain loads, %llu were not; ranges were added %u times, and cut %u times",
		 t->proc->pid, (unsigned long long)v->loads, (unsigned long long)v->others, v->added, v->cuts);
}
