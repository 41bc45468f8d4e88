/* SPDX-License-Identifier: MIT */
#include "arch/written.h"
#include "arch/page.h"
#include "session/events/rings.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include "base/clock.h"
#include "base/err.h"
#include "blob/blob.h"
#include "proc/threads/ids.h"
#include "session/arrivals/follow.h"
#include "session/events/shapes.h"
#include "session/scripts/units.h"
#include "session/calls/walk.h"

#define DEFAULT_SIZE (4ull << 20)
#define BULK_SIZE (1ull << 20)		/* there are more of them */
#define FOLLOWED_SIZE (256ull << 10)
#define FIRST_PART (4ull << 10)	/* see rings_touch_rest() */
#define REST_AFTER 5000000ull
#define LOCKED_BESIDE 2u	/* beside rings per CPU; a power of two */
#define SCRATCH (32u << 10)	/* per locked ring, for bulky events; programs may want more */

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* Of programs that are executed one after the other there may be many, and each touches its rings. */
static uint64_t ring_size(const struct jab *j, const struct target *t)
{
	uint64_t want = j->events->o.buffer_size, size = RING_SIZE_MIN;

	if (!want)
		want = t->followed || t->newcomer ? FOLLOWED_SIZE : units_are_heavy(j) ? BULK_SIZE : DEFAULT_SIZE;

	while ((size < want || size < 4 * units_event_max(j)) && size < RING_SIZE_MAX)
		size *= 2;
	return size;
}

/*
 * Rings for those who can't use the one of their CPU. An owner may lose its CPU while it holds one, with
 * bulky events for a while, so there are many more than CPUs.
 */
static uint32_t locked_rings(uint32_t ncpu)
{
	uint32_t n = 16;

	while (n < 4 * ncpu && n < 64)
		n *= 2;
	return n;
}

/* How many of them are put to use. */
static uint32_t wanted_locked(const struct target *t)
{
	if (t->rings->bulk)
		return t->rings->nlocked;
	return t->spec.has_rseq ? LOCKED_BESIDE : t->rings->nlocked;
}

static uint32_t planned_locked(const struct rings *r)
{
	return locked_rings(r->ncpu) / (r->bulk ? 1 : 2);	/* see wanted_locked() */
}

/* Of a program that is held since its exec it is known already: rings that will not be used need no mappings. */
void rings_trim(struct target *t)
{
	struct rings *r = t->rings;
	struct rseq_conf conf;

	if (!r)
		return;
	r->nlocked = planned_locked(r);
	if (!r->bulk && !t->unwatched && proc_is_still(t->proc) && proc_rseq(t->proc, &conf) == 0 && conf.usable)
		r->nlocked = LOCKED_BESIDE;
}

static uint32_t nrings(const struct rings *r)
{
	return r->ncpu + r->nlocked;
}

int rings_plan(struct jab *j, struct target *t)
{
	struct rings *r = t->rings ? t->rings : xcalloc(1, sizeof(*r));
	static uint32_t ncpu;

	if (!ncpu)
		ncpu = get_nprocs_conf();	/* it reads a file */

	/* Strict mode forbids even the time stamp counter. */
	if (proc_seccomp(t->proc) == 1) {
		free(r);
		t->rings = NULL;
		return fail(-EPERM, "process %d, or a thread of it, runs in seccomp's strict mode, in which reading the clock would end it: "
			    "no events; `jab count` works", t->proc->pid);
	}

	t->rings = r;
	r->longest = units_event_max(j);
	if (r->longest > EVENT_LEN_MAX && j->events->o.overwrite)
		return fail(-E2BIG, "events of %u bytes can't be kept by a flight recorder; give str() and buf() a length", r->longest);
	r->size = ring_size(j, t);
	r->ncpu = ncpu;
	r->bulk = units_are_heavy(j);
	r->nlocked = planned_locked(r);
	r->cap = round_up(t->counter_cap, 8);
	if (!r->walk && units_want_stacks(j))
		r->walk = walk_prepare(j, t);
	r->private_size = PAGE + units_private_size(j);
	r->has_ids_table = follow_answers(j, t);
	r->private_size += r->has_ids_table ? ID_TABLE_BYTES : 0;
	r->scratch_size = round_up(MAX(SCRATCH, units_scratch(j)), PAGE);
	r->slow_at = room_alloc(t->room, EVENT_SLOW_MAX, 0, UINT64_MAX);
	return r->slow_at ? 0 : fail(-ENOSPC, "process %d has no room for code of ours", t->proc->pid);
}

/*
 *	u64 lost[nrings][cap]
 *	u64 lost_shared[cap]
 *	u64 calls_without_stack		entries of calls
 *	u64 no_stack[cap]
 *	u64 crowded			notes of tail calls that took the place of another one
 *	struct tail_asked[]		padding to 16 in front of it
 *
 * and in the piece that the target can only read:
 *
 *	u64 epoch			padding to 64
 *	struct ring_ref locked[nlocked]
 *	tables for backtraces
 */
#define OFF_LOCKED 64

static uint64_t off_shared(const struct rings *r)
{
	return 8ull * r->cap * nrings(r);
}

static uint64_t off_walk(const struct rings *r)
{
	return round_up(OFF_LOCKED + r->nlocked * sizeof(struct ring_ref), 64);
}

#define OFF_PAGES 2048		/* in the private page */
_Static_assert(OFF_PAGES >= sizeof(struct pid_page) && OFF_PAGES + 8 * STACK_PAGES <= PAGE, "both in one page");

static uint64_t off_no_stack(const struct rings *r)
{
	return off_shared(r) + 8ull * r->cap;
}

static uint64_t off_asked(const struct rings *r)
{
	return round_up(off_no_stack(r) + 8ull * (r->cap + 2), 16);
}

size_t rings_data_size(const struct target *t)
{
	return t->rings ? round_up(off_asked(t->rings) + TAIL_ASKED * sizeof(struct tail_asked), PAGE) : 0;
}

size_t rings_tables_size(const struct target *t)
{
	return t->rings ? off_walk(t->rings) + walk_size(t->rings->walk) : 0;
}

/* What a fork in the middle of an event must not share with its parent, and a page to spare: see blob/inside.h. */
size_t rings_scratch_size(const struct target *t)
{
	return t->rings ? (size_t)t->rings->scratch_size * t->rings->nlocked + PAGE : 0;
}

size_t rings_npieces(const struct target *t)
{
	return t->rings ? nrings(t->rings) + 1 : 0;
}

void rings_pieces(const struct target *t, struct piece *pieces)
{
	for (uint32_t i = 0; i < nrings(t->rings); i++)
		pieces[i] = (struct piece){ .kind = PIECE_RING, .len = RING_HEAD_SIZE + t->rings->size };
	pieces[nrings(t->rings)] = (struct piece){ .kind = PIECE_PRIVATE, .len = t->rings->private_size };
}

static int take_ring(struct jab *j, struct target *t, uint32_t i, const struct piece *p)
{
	struct rings *r = t->rings;
	struct own_ring *own = &r->v[i];
	int err;

	own->at = p->at.v;
	own->cpu = i < r->ncpu ? i : UINT32_MAX;
	own->stream = j->events->streams++;
	err = ring_attach(&own->r, p->here, p->here + RING_HEAD_SIZE, r->size);
	if (!err && i >= r->ncpu)
		ring_allow(&own->r, r->longest);
	return err;
}

void rings_take_tables(struct target *t, uint8_t *here, uint64_t at)
{
	struct rings *r = t->rings;

	r->epoch = (uint64_t *)here;
	r->epoch_at = at;
	r->locked = (struct ring_ref *)(here + OFF_LOCKED);
	r->locked_at = at + OFF_LOCKED;
	if (r->walk) {
		walk_write(r->walk, here + off_walk(r));
		r->unwind_at = at + off_walk(r);
	}
}

int rings_take(struct jab *j, struct target *t, const struct piece *pieces, uint8_t *data, uint64_t data_at)
{
	struct rings *r = t->rings;
	int err = 0;

	rings_accept(t, 0, RING_NO_EVENT);
	r->v = xcalloc(nrings(r), sizeof(*r->v));
	for (uint32_t i = 0; !err && i < nrings(r); i++) {
		err = take_ring(j, t, i, &pieces[i]);
		r->v[i].lost = (uint64_t *)data + (uint64_t)r->cap * i;
	}
	r->pid_cell = pieces[nrings(r)].at.v;
	r->pages_at = r->pid_cell + OFF_PAGES;
	r->ids_table = r->has_ids_table ? r->pid_cell + r->private_size - ID_TABLE_BYTES : 0;
	r->quiet_at = t->state_at + offsetof(struct process_state, quiet);
	r->timeless_at = t->state_at + offsetof(struct process_state, timeless);
	r->lost_at = data_at;
	r->lost_shared = (uint64_t *)(data + off_shared(r));
	r->lost_shared_at = data_at + off_shared(r);
	r->no_stack = (uint64_t *)(data + off_no_stack(r)) + 1;
	r->no_stack_at = data_at + off_no_stack(r) + 8;
	r->scratch_at = t->state_at + PAGE;
	return err;
}

void rings_accept(struct target *t, uint32_t id, uint32_t len)
{
	struct rings *r = t->rings;

	while (r->lens.n <= id)
		*vec_add(&r->lens) = RING_NO_EVENT;
	r->lens.v[id] = len;
}

static uint64_t lost_of_ring(const struct rings *r, uint32_t i)
{
	return r->lost_at + 8ull * r->cap * i;
}

static int touch_ring(struct target *t, struct own_ring *own, uint64_t bytes)
{
	int err = own->touched < bytes ? arena_touch(t->arena, TADDR(own->at + own->touched), bytes - own->touched) : 0;

	own->touched = MAX(own->touched, bytes);
	return err;
}

/* Where the target may have little memory, all of it is there before it can ask for it. */
bool rings_may_wait(const struct target *t)
{
	return (t->followed || t->newcomer) && !proc_memory_is_limited(t->proc);
}

/* Every page is touched by us before a pad can: it is charged to us then, and no pad waits for it. */
static int make_live(struct target *t, uint32_t i)
{
	struct rings *r = t->rings;
	struct own_ring *own = &r->v[i];
	uint64_t lost = lost_of_ring(r, i), all = RING_HEAD_SIZE + r->size;
	int err;

	if (own->live)
		return 0;
	err = touch_ring(t, own, r->in_parts ? MIN(all, RING_HEAD_SIZE + FIRST_PART) : all);
	if (!err)
		err = counters_touch_block(t, lost, 0);
	if (err < 0)
		return err;
	if (i >= r->ncpu) {
		r->locked[i - r->ncpu] = (struct ring_ref){ own->at, lost, r->scratch_at + (uint64_t)r->scratch_size * (i - r->ncpu),
							    r->scratch_size };
	} else {
		r->lost_table[i] = lost;
		__atomic_store_n(&r->ring_table[i], own->at, __ATOMIC_RELEASE);
	}
	own->live = true;
	return 0;
}

/* What tail calls report. */
static int touch_tails(struct target *t)
{
	uint64_t lo = rings_crowded_at(t) & ~(PAGE - 1), hi;

	rings_asked(t, &hi);
	hi = round_up(hi + TAIL_ASKED * sizeof(struct tail_asked), PAGE);
	return arena_touch(t->arena, TADDR(lo), hi - lo);
}

int rings_touch_lost(struct target *t, uint32_t from)
{
	struct rings *r = t->rings;
	int err = counters_touch_block(t, r->lost_shared_at, from);

	if (!err)
		err = counters_touch_block(t, r->no_stack_at, from);
	if (!err && !from)
		err = touch_tails(t);
	for (uint32_t i = 0; !err && r->v && i < nrings(r); i++)
		if (r->v[i].live)
			err = counters_touch_block(t, lost_of_ring(r, i), from);
	return err;
}

bool rings_touch_rest(struct target *t)
{
	struct rings *r = t->rings;

	if (!r->in_parts)
		return false;
	if (now_ns() - r->since < REST_AFTER)
		return true;
	r->in_parts = false;
	if (!proc_alive(t->proc))
		return false;
	arena_map_rest(t->arena);
	for (uint32_t i = 0; i < nrings(r); i++)
		if (r->v[i].live && touch_ring(t, &r->v[i], RING_HEAD_SIZE + r->size) < 0)
			log_info("process %d: %s", t->proc->pid, err_text());
	return false;
}

static void cpus_of_thread(pid_t tid, cpu_set_t *all)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	if (!sched_getaffinity(tid, sizeof(one), &one))
		CPU_OR(all, all, &one);
}

static void cpus_of_target(const struct target *t, cpu_set_t *ret_set)
{
	CPU_ZERO(ret_set);
	for (size_t i = 0; i < t->proc->threads.n; i++)
		cpus_of_thread(t->proc->threads.v[i].tid, ret_set);
	if (!CPU_COUNT(ret_set))
		cpus_of_thread(t->proc->pid, ret_set);
}

static bool may_use(const cpu_set_t *set, uint32_t cpu)
{
	return cpu >= CPU_SETSIZE || CPU_ISSET(cpu, set);
}

void rings_follow_cpus(struct target *t)
{
	struct rings *r = t->rings;
	uint32_t live = 0;
	cpu_set_t set;

	if (!t->spec.has_rseq || !r->ready)
		return;
	while (live < r->ncpu && r->v[live].live)
		live++;
	if (live == r->ncpu)
		return;
	cpus_of_target(t, &set);
	for (uint32_t i = 0; i < r->ncpu; i++)
		if (!r->v[i].live && may_use(&set, i))
			make_live(t, i);
}

static bool is_free_to_call(const struct target *t)
{
	return proc_seccomp(t->proc) == 0;
}

static void note_pid(struct target *t)
{
	if (proc_write(t->proc, TADDR(t->rings->pid_cell), &t->rings->ns_pid, sizeof(t->rings->ns_pid)) < 0)
		log_info("process %d: its number can't be noted; the first event will", t->proc->pid);
}

/* Threads that start later, and children, ask. */
static void note_ids(struct target *t)
{
	uint64_t *table = xcalloc(1, ID_TABLE_BYTES);

	proc_note_ids(t->proc, table);
	if (proc_write(t->proc, TADDR(t->rings->ids_table), table, ID_TABLE_BYTES) < 0)
		log_info("process %d: the numbers of its threads can't be noted; each will ask", t->proc->pid);
	free(table);
}

static int write_code(struct target *t)
{
	struct rings *r = t->rings;
	struct event_slow_spec slow = {
		.fast = r->spec.fast,
		.pid_cell = r->pid_cell,
		.tid_off = r->spec.tid_off,
		.has_tid = r->spec.has_tid,
		.may_call = r->may_call,
		.rings = r->locked_at,
		.nrings = r->nlocked,
		.ring_size = r->size,
		.pages = r->pages_at,
		.epoch = r->epoch_at,
		.quiet = r->quiet_at,
		.timeless = r->timeless_at,
	};
	uint8_t *here = arena_view(t->arena, TADDR(r->slow_at));

	if (!here)
		return fail(-EFAULT, "no view of our own code");
	if (t->proc->arch->emit_event_slow(here, &slow) < 0)
		return fail(-EINVAL, "the slow routine can't be made");
	code_written(here, EVENT_SLOW_MAX);
	return 0;
}

/* It is the target's own. Where that may have little memory it gets all of it now, or we leave. */
static int take_scratch(struct target *t)
{
	struct rings *r = t->rings;

	if (!r->bulk || !proc_memory_is_limited(t->proc))
		return 0;
	return proc_take_memory(t->proc, TADDR(r->scratch_at), (size_t)r->scratch_size * wanted_locked(t));
}

/* The rings that pads find. */
static int fill_tables(struct target *t)
{
	struct rings *r = t->rings;
	cpu_set_t set;
	int err = 0;

	r->in_parts = rings_may_wait(t);
	cpus_of_target(t, &set);
	for (uint32_t i = 0; !err && t->spec.has_rseq && i < r->ncpu; i++)
		if (may_use(&set, i))
			err = make_live(t, i);
	if (!err)
		err = take_scratch(t);
	for (uint32_t i = 0; !err && i < wanted_locked(t); i++)
		err = make_live(t, r->ncpu + i);
	return err;
}

int rings_init(struct target *t)
{
	struct rings *r = t->rings;
	int err;

	if (!r || r->ready)
		return 0;
	r->ready = true;
	r->since = now_ns();
	r->ring_table = counters_ring_table(t, &r->spec.ring_table);
	r->lost_table = counters_lost_table(t, &r->spec.lost_table);
	r->spec.many_cpus = t->spec.many_cpus;
	r->spec.fast = t->spec.fast;
	r->may_call = is_free_to_call(t);
	r->may_read = r->may_call && !(r->bulk && proc_fills_pages(t->proc));
	r->spec.has_tid = t->proc->arch->emit_raise && !arena_tid(t->arena, &r->spec.tid_off);
	r->spec.has_rseq = t->spec.has_rseq;
	r->spec.rseq_off = t->spec.rseq_off;
	r->spec.rseq_sig = t->spec.rseq_sig;
	r->spec.pid_cell = r->pid_cell;
	r->spec.slow = r->slow_at;
	r->spec.ring_size = r->size;
	err = proc_ns_pid(t->proc, &r->ns_pid, &r->foreign_ids);
	if (!err)
		err = fill_tables(t);
	if (!err)
		err = write_code(t);
	if (!err)
		note_pid(t);
	if (!err && r->ids_table)
		note_ids(t);
	if (!err && r->foreign_ids && !r->ids) {	/* its events may be taken out when it has ended */
		r->ids = id_map_new(t->proc);
		id_map_read(r->ids);
	}
	if (!r->may_call && r->bulk)
		log_warn("process %d has forbidden system calls (seccomp): what only the kernel could read is not read", t->proc->pid);
	if (r->may_call && !r->may_read)
		log_warn("process %d fills pages itself (userfaultfd), so that a read of ours might wait for ever: what may be in such "
			 "a page is not read", t->proc->pid);
	log_info("process %d records %s; thread numbers %s; system calls of ours %s", t->proc->pid,
		 r->spec.has_rseq && r->spec.has_tid ? "per CPU" : "into locked rings",
		 r->spec.has_tid ? "from the thread block" : "by asking the kernel",
		 r->may_call ? "allowed" : "forbidden by seccomp");
	return err;
}

static void say_timeless(struct target *t)
{
	if (t->rings->told_timeless || !__atomic_load_n(&counters_told(t)->timeless, __ATOMIC_RELAXED))
		return;
	t->rings->told_timeless = true;
	log_warn("process %d, or a child of it, has forbidden itself to read the time stamp counter (PR_SET_TSC, strict seccomp): from then on its "
		 "events are lost, and clauses that ask for the time do nothing", t->proc->pid);
}

bool rings_say_quiet(struct target *t)
{
	struct rings *r = t->rings;

	say_timeless(t);
	if (!r->may_call || r->told_quiet)
		return true;
	if (!r->bulk || !r->may_read || !__atomic_load_n(&counters_told(t)->quiet, __ATOMIC_RELAXED))
		return false;
	r->told_quiet = true;
	log_warn("process %d, or a child of it, has forbidden system calls (seccomp, or dispatch to itself): what only the kernel could read is not read "
		 "any more", t->proc->pid);
	return true;
}

void rings_forget_stacks(struct target *t)
{
	__atomic_fetch_add(t->rings->epoch, STACK_EPOCH, __ATOMIC_RELAXED);
}

#define LOST_NS 2	/* a full ring is found by no pad in less time */

/* The most that can be lost by now. */
static uint64_t lost_most(const struct rings *r)
{
	return (now_ns() - r->since) / LOST_NS * r->ncpu;
}

static uint64_t read_lost(const struct target *t, const uint64_t *counter, uint64_t most)
{
	uint64_t n = __atomic_load_n(counter, __ATOMIC_RELAXED);

	if (n <= most)
		return n;
	if (!t->rings->told_lost)
		log_warn("process %d: how many events it has lost is not known: it has written there itself", t->proc ? t->proc->pid : 0);
	t->rings->told_lost = true;
	return 0;
}

uint64_t rings_lost(const struct target *t, uint32_t index)
{
	const struct rings *r = t->rings;
	uint64_t sum = 0, most;

	if (!r || !r->v || index >= t->touched)
		return 0;
	most = lost_most(r);
	for (uint32_t i = 0; i < nrings(r); i++)
		if (r->v[i].live)
			sum += read_lost(t, &r->v[i].lost[index], most);
	return sum + read_lost(t, &r->lost_shared[index], most) + rings_no_stack(t, index);
}

uint64_t rings_no_stack(const struct target *t, uint32_t index)
{
	const struct rings *r = t->rings;

	return r && r->v && index < t->touched ? read_lost(t, &r->no_stack[index], lost_most(r)) : 0;
}

static bool is_first_locked(const struct target *t, const struct own_ring *own)
{
	return own == &t->rings->v[t->rings->ncpu];
}

uint64_t rings_lost_in(const struct target *t, const struct own_ring *own)
{
	const struct rings *r = t->rings;
	uint64_t sum = 0, most = lost_most(r);

	for (uint32_t i = 0; i < t->touched; i++) {
		sum += own->live ? read_lost(t, &own->lost[i], most) : 0;
		if (is_first_locked(t, own))
			sum += read_lost(t, &r->lost_shared[i], most) + read_lost(t, &r->no_stack[i], most);
	}
	return sum;
}

/* Numbers that are only compared: they may be anything, and wrap. */
uint64_t rings_lost_hint(const struct target *t, const struct own_ring *own)
{
	const struct rings *r = t->rings;
	uint64_t sum = ring_lost(&own->r) + own->r.damaged + own->cut;

	for (uint32_t i = 0; is_first_locked(t, own) && i < t->touched; i++)
		sum += __atomic_load_n(&r->lost_shared[i], __ATOMIC_RELAXED) + __atomic_load_n(&r->no_stack[i], __ATOMIC_RELAXED);
	return sum;
}

uint64_t rings_no_stack_at(const struct target *t, uint32_t index)
{
	return t->rings->no_stack_at + 8ull * index;
}

uint64_t rings_calls_without_stack(const struct target *t)
{
	return t->rings->no_stack_at - 8;	/* in the same page as the first of those */
}

uint64_t rings_crowded_at(const struct target *t)
{
	return rings_no_stack_at(t, t->rings->cap);
}

struct tail_asked *rings_asked(const struct target *t, uint64_t *ret_at)
{
	const struct rings *r = t->rings;
	uint64_t off = off_asked(r) - off_no_stack(r) - 8;

	*ret_at = r->no_stack_at + off;
	return (struct tail_asked *)((uint8_t *)r->no_stack + off);
}

uint64_t rings_crowded(const struct target *t)
{
	const struct rings *r = t->rings;

	return r && r->v ? read_lost(t, &r->no_stack[r->cap], lost_most(r)) : 0;
}

bool rings_hold(const struct target *t)
{
	const struct rings *r = t->rings;

	for (uint32_t i = 0; r && r->ready && i < nrings(r); i++)
		if (r->v[i].live && __atomic_load_n(&r->v[i].r.head->head, __ATOMIC_ACQUIRE) != r->v[i].r.tail)
			return true;
	return false;
}

void rings_free(struct rings *r)
{
	if (!r)
		return;
	id_map_free(r->ids);
	walk_free(r->walk);
	vec_free(&r->lens);
	free(r->v);
	free(r);
}
