/* SPDX-License-Identifier: MIT */
#include "session/watches/parks.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/threads/ids.h"
#include "proc/threads/near.h"

#define ROUND_NS 8000000ull	/* of all targets together; a slot that was begun is finished */
#define SHARE_NS 2000000ull	/* of one target */
#define RETRY_NS 100000ull
#define EXEC_NS 50000ull	/* how often those in an exec are looked at */
#define RESTS 9			/* a target without a good slot rests for so many times what it took */
#define IN_TIME_NS 2000000000ull	/* then a thread that has a slot must be asleep there */
#define MOST_BAD 16
#define LET_GO_NS 200000000ull
#define MOST_EXECS 512		/* on the way through an exec at a time; the others stay in their slots */
#define MOST_EXECS_EACH 256	/* of these, of one target */

enum result { SERVED, NOT_YET, DROPPED };

static void let_go(struct park_slot *s)
{
	uint32_t waiting = PARK_WAITING;

	if (__atomic_compare_exchange_n(&s->state, &waiting, PARK_GO, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		syscall(SYS_futex, &s->state, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void forget(struct park_view *v, uint32_t slot)
{
	sleeper_close(&v->asks[slot].sleeper);
	memset(&v->asks[slot], 0, sizeof(v->asks[slot]));
}

/* A thread that has left its slot by itself may have made room for another one, which still waits. */
static void finish(struct park_view *v, uint32_t slot)
{
	struct park_slot *s = &v->here->slots[slot];

	if (__atomic_load_n(&s->tid, __ATOMIC_RELAXED) == v->asks[slot].sleeper.their_tid)
		let_go(s);
	forget(v, slot);
}

static uint32_t take_new(uint32_t *word, uint32_t *seen)
{
	uint32_t now = __atomic_load_n(word, __ATOMIC_RELAXED), n = now - *seen;

	*seen = now;
	return n;
}

void park_count_missed(struct jab *j, struct park_view *v)
{
	if (!v || !v->here)
		return;
	j->unfollowed.missed += take_new(&v->here->missed, &v->missed);
	j->unfollowed.libraries += take_new(&v->here->missed_loads, &v->missed_loads);
}

static void close_park(struct park_view *v)
{
	v->closed = true;
	__atomic_store_n(&v->by->open, 0, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < PARK_SLOTS; i++)
		let_go(&v->here->slots[i]);
}

static void note(struct target *t, bool good)
{
	struct park_view *v = t->park;

	v->bad = good ? 0 : v->bad + 1;
	if (v->bad < MOST_BAD || v->closed)
		return;
	close_park(v);
	log_warn("process %d: %u requests in a row came from no thread that waits: programs that it starts and libraries that it "
		 "loads are no longer followed", t->proc->pid, v->bad);
}

/* ---- through an exec ---- */

bool parks_follow(const struct jab *j, pid_t pid)
{
	for (size_t i = 0; i < j->execs.n; i++)
		if (j->execs.v[i].pid == pid)
			return true;
	return false;
}

static struct park_view *view_of(struct jab *j, const struct exec_guest *g)
{
	struct park_view *v = j->targets.v[g->target].park;

	return v && v->here ? v : NULL;
}

static bool has_slot(const struct park_view *v, const struct exec_guest *g)
{
	return v && v->asks[g->slot].follows && v->asks[g->slot].number == g->number;
}

struct going { struct jab *j; const struct exec_guest *g; };

static void guest_goes(void *arg)
{
	const struct going *x = arg;
	struct park_view *v = view_of(x->j, x->g);

	if (has_slot(v, x->g))
		finish(v, x->g->slot);
}

/* Ended processes keep descriptors until they are put away. */
static bool are_too_many(struct jab *j)
{
	size_t most = targets_most(), n = j->execs.n;

	for (size_t i = 0; i < j->targets.n; i++)
		n += j->targets.v[i].proc && j->targets.v[i].main == i;
	if (n < most)
		return false;
	if (!j->unfollowed.crowded++)
		log_warn("%zu programs are traced at a time, which is the most: those that are executed now are not probed", most);
	return true;
}

static bool must_wait(const struct jab *j, uint32_t target)
{
	size_t n = 0;

	for (size_t i = 0; i < j->execs.n; i++)
		n += j->execs.v[i].target == target;
	return j->execs.n >= MOST_EXECS || n >= MOST_EXECS_EACH;
}

static enum result begin_exec(struct jab *j, uint32_t target, uint32_t slot)
{
	struct target *t = &j->targets.v[target];
	struct ask *a = &t->park->asks[slot];
	bool at = a->kind == PARK_EXECAT;
	struct exec_guest g = { .target = target, .slot = slot, .number = a->number };
	char path[4096] = "";
	int r;

	thread_read_text(a->sleeper.tid, TADDR(a->arg[at]), path, sizeof(path));	/* a fork has a memory of its own */
	r = proc_may_follow(t->proc, a->sleeper.tid, at ? (int)a->arg[0] : AT_FDCWD, path);
	if (!r && are_too_many(j))
		return SERVED;
	if (!r)
		r = exec_begin(a->sleeper.pid, a->sleeper.tid, !j->execs.n, &g.way);
	if (r == -EAGAIN && now_ns() - a->since < IN_TIME_NS)
		return NOT_YET;		/* jab was late: the machine is busy */
	if (r < 0 && r != -ENOENT) {
		log_warn("%s", err_text());
		j->unfollowed.failed++;
	}
	if (r < 0)
		return SERVED;
	a->follows = true;
	g.pid = a->sleeper.pid;
	g.path = xstrdup(path);
	*vec_add(&j->execs) = g;
	return NOT_YET;
}

/* The oldest first. */
static struct exec_guest take_guest(struct jab *j, size_t i)
{
	struct exec_guest g = j->execs.v[i];

	j->execs.n--;
	memmove(&j->execs.v[i], &j->execs.v[i + 1], (j->execs.n - i) * sizeof(g));
	return g;
}

static void end_exec(struct jab *j, struct exec_guest *g, int r)
{
	struct park_view *v = view_of(j, g);

	if (r == -ENOENT)
		log_info("an exec of %s has failed", g->path);
	else if (r == -ETIME && v && !v->closed)
		j->unfollowed.missed++;
	if (has_slot(v, g))
		finish(v, g->slot);
	if (v)
		note(&j->targets.v[g->target], r != -ETIME);
	exec_free(g->way);
	free(g->path);
}

/* Each thread goes on by some steps. Those that are ready wait until the others are as far. */
static int move_execs(struct jab *j, uint64_t until)
{
	size_t looked = 0, n = j->execs.n;
	int ended = 0;

	for (; looked < n && j->execs.n && now_ns() < until; looked++) {
		size_t i = j->exec_next % j->execs.n;
		struct exec_guest g = j->execs.v[i];
		struct going going = { j, &g };
		int r = exec_poll(g.way, guest_goes, &going);

		j->exec_next = i + (r >= 0);
		if (r >= 0)
			continue;
		g = take_guest(j, i);
		end_exec(j, &g, r);
		ended++;
	}
	return ended;
}

/* Targets take turns, as their parked threads do; of one target the oldest. j->execs.n: none is ready */
static size_t next_ready(const struct jab *j)
{
	size_t best = j->execs.n;
	uint32_t least = UINT32_MAX;

	for (size_t i = 0; i < j->execs.n; i++) {
		uint32_t turn = j->execs.v[i].target - j->exec_last - 1;

		if (exec_is_ready(j->execs.v[i].way) && (turn < least || best == j->execs.n)) {
			best = i;
			least = turn;
		}
	}
	return best;
}

static int attach_ready(struct jab *j, uint64_t until)
{
	int n = 0;

	do {
		size_t i = next_ready(j);
		struct proc *p = NULL;
		struct exec_guest g;
		bool loaded;
		int r;

		if (i == j->execs.n)
			break;
		g = take_guest(j, i);
		j->exec_last = g.target;
		r = exec_take(g.way, &p, &loaded);
		if (r < 0 && r != -ESRCH) {
			log_warn("%s: not followed: %s", g.path, err_text());
			j->unfollowed.failed++;
		}
		end_exec(j, &g, 0);
		if (!r)
			follow_executed(j, p, loaded);
		n++;
	} while (now_ns() < until);
	return n;
}

static bool any_moves(const struct jab *j)
{
	for (size_t i = 0; i < j->execs.n; i++)
		if (exec_moves(j->execs.v[i].way))
			return true;
	return false;
}

/* A loader makes some fifty stops, each a few microseconds after the one before: between them we only yield. */
static int poll_execs(struct jab *j, uint64_t until)
{
	int n = move_execs(j, until);
	uint64_t soon = MIN(until, now_ns() + SHARE_NS);

	while (any_moves(j) && now_ns() < soon) {
		sched_yield();
		n += move_execs(j, soon);
	}
	n += attach_ready(j, until);
	near_leave();
	return n;
}

/* ---- slots ---- */

static void take_ask(struct target *t, uint32_t slot, uint64_t now)
{
	const struct park_slot *s = &t->park->here->slots[slot];
	struct ask *a = &t->park->asks[slot];
	uint32_t pid = __atomic_load_n(&s->pid, __ATOMIC_RELAXED), tid = __atomic_load_n(&s->tid, __ATOMIC_RELAXED);

	forget(t->park, slot);
	a->since = now;
	a->number = ++t->park->asked;
	a->kind = __atomic_load_n(&s->kind, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		a->arg[i] = __atomic_load_n(&s->arg[i], __ATOMIC_RELAXED);
	a->sleeper.their_pid = a->sleeper.pid = pid;
	a->sleeper.their_tid = a->sleeper.tid = tid;
	if (t->park->ids && a->kind != PARK_LOADED)
		id_map_translate(t->park->ids, &a->sleeper.pid, &a->sleeper.tid);
}

static enum result serve(struct jab *j, uint32_t target, uint32_t slot, uint64_t until)
{
	struct target *t = &j->targets.v[target];
	struct park_view *v = t->park;
	struct ask *a = &v->asks[slot];
	uint64_t word = v->at + offsetof(struct park, slots) + slot * sizeof(struct park_slot);
	int r;

	if (a->kind == PARK_LOADED && !v->follows)
		return DROPPED;
	if (a->kind == PARK_LOADED && parks_follow(j, t->proc->pid))
		return NOT_YET;		/* a thread of it is seized, and the process can't be stopped as a whole */
	if (a->kind == PARK_LOADED) {
		follow_loaded(j, target);
		return SERVED;
	}
	if (a->kind > PARK_IDS || (a->kind != PARK_IDS && !v->follows))
		return DROPPED;
	if (must_wait(j, target)) {
		a->since = now_ns();
		return NOT_YET;
	}
	r = sleeper_find(&a->sleeper, t->arena, TADDR(word), until);
	if (!r && now_ns() - a->since > IN_TIME_NS)
		r = fail(-ETIME, "no thread that calls itself %u has fallen asleep in its slot", a->sleeper.their_tid);
	if (r < 0)	/* one may be a thread that was killed; more of them get a message of their own */
		(v->bad ? log_info : log_warn)(a->kind == PARK_IDS ? "process %d: pid and tid of a thread are not known: %s" :
					       "what process %d executes is not followed: %s", t->proc->pid, err_text());
	j->unfollowed.missed += r < 0 && a->kind != PARK_IDS;
	if (r <= 0)
		return r < 0 ? DROPPED : NOT_YET;
	if (a->kind != PARK_IDS)
		return begin_exec(j, target, slot);
	__atomic_store_n(&v->here->slots[slot].arg[0], (uint64_t)a->sleeper.pid << 32 | a->sleeper.tid, __ATOMIC_RELAXED);
	return SERVED;
}

/* True if the slot needs service. A slot that another thread has taken since is a new request. */
static bool is_asking(struct target *t, uint32_t slot, uint64_t now)
{
	struct ask *a = &t->park->asks[slot];
	const struct park_slot *s = &t->park->here->slots[slot];

	if (a->follows)
		return false;
	/* Pairs with the release store of blob_park(). */
	if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != PARK_WAITING) {
		if (a->since)
			forget(t->park, slot);
		return false;
	}
	if (!a->since || a->sleeper.their_tid != __atomic_load_n(&s->tid, __ATOMIC_RELAXED))
		take_ask(t, slot, now);
	return true;
}

/* One try for each slot. Returns how many were served. */
static int serve_slots(struct jab *j, uint32_t target, uint64_t now, uint64_t until)
{
	struct park_view *v = j->targets.v[target].park;
	uint32_t first = v->next;
	int served = 0;

	v->more = false;
	for (uint32_t i = 0; i < PARK_SLOTS && !v->closed; i++) {
		uint32_t slot = (first + i) % PARK_SLOTS;
		enum result r;

		if (!is_asking(&j->targets.v[target], slot, now))
			continue;
		if (now_ns() > until) {
			v->next = slot;
			v->more = true;
			break;
		}
		r = serve(j, target, slot, until);
		v->more |= r == NOT_YET && !v->asks[slot].follows;
		served += r == SERVED || v->asks[slot].follows;
		if (r != NOT_YET)
			finish(v, slot);
		if (r == DROPPED)
			note(&j->targets.v[target], false);
	}
	return served;
}

static int poll_target(struct jab *j, uint32_t target, uint64_t until)
{
	struct park_view *v = j->targets.v[target].park;
	uint64_t now = now_ns(), took;
	uint32_t bell;
	int n;

	if (!v || !v->here || v->closed || now < v->rests)
		return 0;
	bell = __atomic_load_n(&v->here->bell, __ATOMIC_ACQUIRE);
	if (v->heard == bell && !v->more)
		return 0;
	v->heard = bell;
	n = serve_slots(j, target, now, MIN(until, now + SHARE_NS));
	took = now_ns() - now;
	v->rests = n ? 0 : now + took + (v->bad || took > SHARE_NS / 2 ? RESTS * took : RETRY_NS);
	return n;
}

int parks_poll(struct jab *j)
{
	uint64_t until = now_ns() + ROUND_NS;
	uint32_t n = j->targets.n, first = n ? j->park_next % n : 0;
	int served = move_execs(j, until);

	for (uint32_t i = 0; i < n; i++) {
		if (now_ns() > until)
			break;
		j->park_next = (first + i + 1) % n;
		served += poll_target(j, (first + i) % n, until);
	}
	return served + poll_execs(j, until);
}

bool park_listens(const struct park_view *v)
{
	return v && v->here && !v->closed && !v->more && v->rests <= now_ns();
}

uint64_t parks_wait(struct jab *j, uint64_t ns)
{
	uint64_t now = now_ns();

	if (j->execs.n)
		ns = MIN(ns, EXEC_NS);
	for (size_t i = 0; i < j->targets.n; i++) {
		const struct park_view *v = j->targets.v[i].park;

		if (v && v->here && !v->closed && (v->more || v->rests > now))
			ns = MIN(ns, v->rests > now ? v->rests - now : 0);
	}
	return ns;
}

void parks_stop(struct jab *j)
{
	uint64_t until = now_ns() + LET_GO_NS;

	for (size_t i = 0; i < j->targets.n; i++)
		if (j->targets.v[i].park && j->targets.v[i].park->here) {
			park_count_missed(j, j->targets.v[i].park);
			close_park(j->targets.v[i].park);
		}
	for (size_t i = 0; i < j->execs.n; i++)
		exec_leave(j->execs.v[i].way);
	/* The kernel releases those that don't stop in time when jab ends. */
	while (j->execs.n && now_ns() < until)
		if (!move_execs(j, until))
			sleep_ns(50000);
	for (size_t i = 0; i < j->execs.n; i++) {
		exec_free(j->execs.v[i].way);
		free(j->execs.v[i].path);
	}
	vec_free(&j->execs);
}
