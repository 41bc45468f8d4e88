/* SPDX-License-Identifier: MIT */
/*
 * The event code under everything at once: threads that are moved between CPUs, signal handlers that
 * hit the same probe inside of it, forks, kills, full rings, a reader beside them. What was made is
 * what was recorded plus what was lost, each event once, whole, and in order within its ring.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "event_rings.h"
#include "storm.h"

#define HITS 2000000	/* of each thread, at most */
#define FEW_HITS 300000
#define CHECK(a, b) (((a) + 1) * 0x9e3779b97f4a7c15ull ^ (b))

typedef void hit_fn(uint64_t a, uint64_t b, uint64_t check);

static const struct event_field three[] = {
	{ EVENT_REG, 7, 8, 0 },			/* rdi */
	{ EVENT_REG, 6, 8, 0 },			/* rsi */
	{ EVENT_REG, 2, 8, 0 },			/* rdx */
};

static hit_fn *hit_code;
static uint64_t bad, torn, recorded, recorded_locked, last_time[MAX_RINGS];
static uint8_t seen[THREADS][HITS];
static uint32_t want_pid;

static void hit(uint64_t a, uint64_t b)
{
	hit_code(a, b, CHECK(a, b));
}

static void start(uint64_t size, bool has_rseq, bool overwrite)
{
	static const uint8_t ret[] = { 0xc3 };
	struct event_slow_spec slow;
	struct event_spec spec;

	reset_rings(size);
	slow = make_slow_spec();
	emit_slow(&slow);
	spec = make_spec(has_rseq, three, 3);
	spec.overwrite = overwrite;
	hit_code = (hit_fn *)emit_body(0, &spec, ret, sizeof(ret));
	torn = bad = recorded = recorded_locked = 0;
	memset(last_time, 0, sizeof(last_time));
	memset(seen, 0, sizeof(seen));
	want_pid = getpid();
	storm = (struct storm){ .hits = HITS, .in_handler = 3, .period_ns = 40000 };
}

/* One more look at each event: whole, in order, new, from the right process. */
static void look(int ring, const struct event_head *e, const uint64_t *f)
{
	torn += e->id != 42 || e->len != 48 || f[2] != CHECK(f[0], f[1]);
	bad += e->time < last_time[ring];
	bad += (want_pid && e->pid != want_pid) || !e->tid;
	last_time[ring] = e->time;
	if (want_pid && f[0] < THREADS)
		bad += f[1] >= HITS || seen[f[0]][f[1]]++;
	recorded++;
	recorded_locked += ring >= ncpus;
}

static uint64_t damage(void)
{
	uint64_t n = 0;

	for (int i = 0; i < nrings(); i++)
		n += rings[i].damaged;
	return n;
}

/* Whoever took a lock gave it back. */
static void check_unlocked(void)
{
	for (int i = 0; i < nrings(); i++)
		assert_int_equal(ring_owner(&rings[i]), 0);
}

static void check_sum(uint64_t hits)
{
	drain(look);
	print_message("    %lu hits, %lu recorded (%lu behind locks), %lu lost\n", hits, recorded,
		      recorded_locked, lost_of_probe());
	assert_int_equal(recorded + lost_of_probe(), hits);
	assert_int_equal(lost_of_rings() + shared->lost_shared, lost_of_probe());
	assert_int_equal(bad + torn, 0);
	assert_int_equal(damage(), 0);
	check_unlocked();
}

/* ---- threads, signals, moves -------------------------------------------------------------- */

static void *flip_cpus(void *arg)
{
	const pthread_t *threads = arg;
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t one;

	for (int turn = 0; atomic_load(&threads_left) > 0; turn++) {
		for (int i = 0; i < THREADS; i++) {
			CPU_ZERO(&one);
			CPU_SET((turn + i) % cpus, &one);
			pthread_setaffinity_np(threads[i], sizeof(one), &one);
		}
		usleep(300);
	}
	return NULL;
}

static void threads_large_rings(void **state)
{
	if (!__rseq_size)
		skip();
	start(256 << 20, true, false);
	storm.hits = FEW_HITS;			/* there is room for all of them */
	check_sum(run_threads(100, look, flip_cpus));
	assert_int_equal(lost_of_probe(), 0);
	assert_true(recorded_locked > 0 && recorded_locked < recorded / 100);
}

static void threads_full_rings(void **state)
{
	if (!__rseq_size)
		skip();
	start(RING_SIZE_MIN, true, false);
	check_sum(run_threads(1000, look, flip_cpus));
	assert_true(lost_of_probe() > 0);
}

static void threads_behind_locks(void **state)
{
	start(4 << 20, false, false);
	check_sum(run_threads(200, look, flip_cpus));
	assert_int_equal(recorded_locked, recorded);
	assert_true(recorded > 0);
}

/* Strangers come and go: the table is cleared and filled while everybody is at it. */
static void *come_and_go(void *arg)
{
	for (int turn = 0; atomic_load(&threads_left) > 0; turn++) {
		set_fast(turn % 2);
		usleep(50);
	}
	return NULL;
}

static void threads_while_strangers_come_and_go(void **state)
{
	pthread_t thread;
	uint64_t hits;

	if (!__rseq_size)
		skip();
	start(1 << 20, true, false);
	atomic_store(&threads_left, 1);
	assert_int_equal(pthread_create(&thread, NULL, come_and_go, NULL), 0);
	hits = run_threads(200, look, flip_cpus);
	pthread_join(thread, NULL);
	check_sum(hits);
	assert_true(recorded_locked > 0 && recorded_locked < recorded);
}

/* ---- forks and kills ---------------------------------------------------------------------- */

#define CHILDREN 60
#define CHILD_HITS 5000

struct progress {
	uint64_t done[CHILDREN];	/* hits that a child has behind it */
	uint64_t seen[CHILDREN];
	uint32_t pid[CHILDREN];
	uint64_t wrong_pid;
};

static struct progress *progress;

static void child_main(int n, bool for_ever)
{
	for (uint64_t i = 0; for_ever || i < CHILD_HITS; i++) {
		hit(n, i);
		__atomic_store_n(&progress->done[n], i + 1, __ATOMIC_RELAXED);
	}
	_exit(0);
}

static void look_at_child(int ring, const struct event_head *e, const uint64_t *f)
{
	look(ring, e, f);
	if (f[0] >= CHILDREN)
		return;
	progress->seen[f[0]]++;
	progress->wrong_pid += e->pid != progress->pid[f[0]] || e->tid != e->pid;
}

static void start_children(uint64_t size)
{
	start(size, __rseq_size > 0, false);
	want_pid = 0;
	memset(progress, 0, sizeof(*progress));
}

static pid_t start_child(int n, bool for_ever)
{
	pid_t pid = fork();

	if (pid == 0)
		child_main(n, for_ever);
	assert_true(pid > 0);
	progress->pid[n] = pid;
	return pid;
}

static void forked_children_add_up(void **state)
{
	start_children(1 << 20);
	for (int n = 0; n < CHILDREN; n += 4) {
		for (int i = 0; i < 4; i++)
			start_child(n + i, false);
		for (int i = 0; i < 4; ) {
			drain(look_at_child);
			i += waitpid(-1, NULL, WNOHANG) > 0;
		}
	}
	drain(look_at_child);
	check_sum((uint64_t)CHILDREN * CHILD_HITS);
	assert_int_equal(progress->wrong_pid, 0);
}

/* What the reader does about locks whose owner is gone. */
static int free_the_dead(void)
{
	int freed = 0;

	for (int i = ncpus; i < nrings(); i++) {
		uint32_t owner = ring_owner(&rings[i]);

		if (owner && kill(owner, 0) < 0)
			freed += ring_free(&rings[i], owner);
	}
	return freed;
}

/* has_rseq or behind locks: what was committed is there, one in flight at most is not known. */
static void kill_children(bool has_rseq)
{
	uint64_t done = 0, made;
	int freed = 0;

	start_children(16 << 20);
	start(16 << 20, has_rseq, false);
	want_pid = 0;
	for (int n = 0; n < CHILDREN; n++) {
		pid_t pid = start_child(n, true);

		while (!__atomic_load_n(&progress->done[n], __ATOMIC_RELAXED))	/* on a busy machine it may not have begun yet */
			usleep(20);
		usleep(500 + n * 37 % 1000);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		freed += free_the_dead();
		drain(look_at_child);
		done += progress->done[n];
		assert_true(progress->seen[n] <= progress->done[n] + 1);
	}
	made = recorded + lost_of_probe();
	print_message("    %d killed, %lu hits done, %lu accounted for, %d locks freed\n", CHILDREN, done,
		      made, freed);
	assert_true(done > 0 && made >= done && made <= done + CHILDREN);
	assert_int_equal(progress->wrong_pid, 0);
	assert_int_equal(bad + torn, 0);
	assert_int_equal(damage(), 0);
	check_unlocked();
}

static void killed_writers_leave_whole_events(void **state)
{
	if (!__rseq_size)
		skip();
	kill_children(true);
}

static void killed_owners_are_freed(void **state)
{
	kill_children(false);
}

/* ---- overwrite mode ----------------------------------------------------------------------- */

static uint64_t snap_events, snap_bad;

static void look_at_snapshot(int ring, const uint8_t *span, uint64_t len)
{
	uint64_t off = 0, at = 0, before = 0, next = 0;
	struct event_head e;

	while (ring_next(&rings[ring], span, len, &off, &e)) {
		const uint64_t *f = (const uint64_t *)(span + at + sizeof(e));

		snap_bad += f[2] != CHECK(f[0], f[1]) || e.time < before || f[1] < next;
		before = e.time;
		next = f[1] + 1;
		at = off;
		snap_events++;
	}
	snap_bad += off != len;
}

static void snapshots_are_whole(void **state)
{
	uint8_t *buf = malloc(RING_SIZE_MIN);
	int taken = 0, late = 0, broken = 0;
	const uint8_t *span;
	pid_t pid;

	start(RING_SIZE_MIN, __rseq_size > 0, true);
	want_pid = 0;
	snap_events = snap_bad = 0;
	pid = start_child(0, true);
	for (int i = 0; i < 2000; i++) {
		for (int n = 0; n < nrings(); n++) {
			int64_t len = ring_snapshot(&rings[n], buf, &span);

			late += len == -EAGAIN;
			broken += len == -EBADMSG;
			if (len > 0)
				look_at_snapshot(n, span, len);
			taken += len > 0;
		}
		if (i % 2)
			usleep(200);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	print_message("    %d snapshots of %lu events, %d too late\n", taken, snap_events, late);
	free(buf);
	assert_int_equal(broken, 0);
	assert_int_equal(snap_bad, 0);
	assert_true(taken > 100);
	assert_int_equal(lost_of_probe(), 0);
}

/* ---- a handler that forks in the middle of an event --------------------------------------- */

static uint64_t of_children;

/* A child that was forked before a ring was its parent's makes an event of its own, and no second one. */
static void look_at_forker(int ring, const struct event_head *e, const uint64_t *f)
{
	if (e->pid == want_pid) {
		look(ring, e, f);
		return;
	}
	of_children++;
	recorded++;
	torn += e->id != 42 || e->len != 48 || f[2] != CHECK(f[0], f[1]);
	bad += e->time < last_time[ring];
	last_time[ring] = e->time;
	bad += !is_first_of(e->pid);
}

static void fork_in_handlers(bool has_rseq)
{
	uint64_t hits = 0, extra;
	timer_t timer;
	int freed = 0;

	start(128 << 20, has_rseq, false);	/* nobody goes round: event_slow.c says what a child could do then */
	of_children = 0;
	timer = start_forks(1500000);
	while (atomic_load(&forks) < FORKS && hits + 5000 < HITS) {
		for (int i = 0; i < 5000; i++) {
			hit(0, hits++);
			if (!*pid_cell)		/* the rest of that one hit, and no more */
				_exit(0);
		}
		freed += free_locks_of_nobody();
		drain(look_at_forker);
	}
	timer_delete(timer);
	wait_for_forked();
	freed += free_locks_of_nobody();
	drain(look_at_forker);
	print_message("    %d forks, %lu of them made an event, %d locks freed\n", atomic_load(&forks), of_children, freed);
	extra = recorded + lost_of_probe() - hits;
	assert_in_range(extra, of_children, lost_of_probe() ? (uint64_t)atomic_load(&forks) : of_children);
	check_sum(hits + extra);
}

static void handlers_that_fork(void **state)
{
	fork_in_handlers(true);
}

static void handlers_that_fork_behind_locks(void **state)
{
	fork_in_handlers(false);
}

static int set_up(void **state)
{
	make_areas();
	progress = map_or_die(sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_large_rings),
		cmocka_unit_test(threads_full_rings),
		cmocka_unit_test(threads_behind_locks),
		cmocka_unit_test(threads_while_strangers_come_and_go),
		cmocka_unit_test(forked_children_add_up),
		cmocka_unit_test(killed_writers_leave_whole_events),
		cmocka_unit_test(killed_owners_are_freed),
		cmocka_unit_test(snapshots_are_whole),
		cmocka_unit_test(handlers_that_fork),
		cmocka_unit_test(handlers_that_fork_behind_locks),
	};

	return cmocka_run_group_tests_name("event_storm", tests, set_up, NULL);
}
