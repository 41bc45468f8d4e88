/* SPDX-License-Identifier: MIT */
/*
 * Bulk events under everything at once: threads, signal handlers that make events inside of one, children
 * by fork and vfork, a handler that forks, kills, a reader beside them. What was made is what was recorded
 * plus what was lost, each event once, whole, with its own thread's fields.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "blob_rings.h"
#include "storm.h"

#define HITS 40000		/* of each thread */

/* rdi: who, rsi: which, rdx: a text about both */
static const struct bulk_field fields[] = {
	{ .kind = EVENT_REG, .reg = 7, .size = 8 },
	{ .kind = EVENT_STRING, .reg = 2, .limit = 200 },
	{ .kind = EVENT_REG, .reg = 6, .size = 8 },
	{ .kind = EVENT_MEM, .reg = 2, .size = 8 },
	{ .kind = EVENT_MEM, .reg = 7, .size = 8 },	/* a small number: never readable */
};

#define NFIELDS 5
#define FAULTS 0x10

static bulk_fn *fn;
static uint64_t bad, recorded, last_time[MAX_RINGS];
static uint8_t seen[THREADS][HITS];
static uint32_t want_pid;

/* Its length differs from hit to hit; words of the text so that what is mixed up shows. */
static int make_text(char *text, uint64_t who, uint64_t which)
{
	int n = 8 + which % 90;

	for (int i = 0; i < n; i++)
		text[i] = 'a' + (who * 7 + which + i) % 26;
	text[n] = 0;
	return n + 1;
}

static void hit(uint64_t who, uint64_t which)
{
	char text[128];

	make_text(text, who, which);
	fn(who, which, (uint64_t)text);
}

static void start(uint64_t size, uint32_t flags)
{
	reset_bulk_rings(size, true);
	describe(fields, NFIELDS, flags | BULK_MAY_CALL);
	fn = emit_bulk_function();
	bad = recorded = 0;
	memset(last_time, 0, sizeof(last_time));
	memset(seen, 0, sizeof(seen));
	want_pid = getpid();
	storm = (struct storm){ .hits = HITS, .in_handler = 2, .period_ns = 60000 };
}

static bool is_whole(const struct event_head *e, const uint64_t *at)
{
	uint64_t who = bulk_number(at, 0), which;
	char text[128];
	uint32_t len;
	const uint8_t *p = bulk_at(at, 1, &len);

	if (e->id != 42 || len > 128 || at[0] != FAULTS)
		return false;
	which = bulk_number(at, 2);
	return len == (uint32_t)make_text(text, who, which) && !memcmp(p, text, len) &&
	       !memcmp(text, &(uint64_t){ bulk_number(at, 3) }, 8) && bulk_number(at, 4) == who &&
	       e->len == sizeof(*e) + bulk_end(at, NFIELDS);
}

static void look(int ring, const struct event_head *e, const uint64_t *at)
{
	uint64_t who = bulk_number(at, 0);

	recorded++;
	if (!is_whole(e, at)) {
		bad++;
		return;
	}
	bad += e->time < last_time[ring] || (want_pid && e->pid != want_pid);
	last_time[ring] = e->time;
	if (want_pid && who < THREADS)
		bad += bulk_number(at, 2) >= HITS || seen[who][bulk_number(at, 2)]++;
}

static void check_sum(uint64_t hits)
{
	drain(look);
	print_message("    %lu hits, %lu recorded, %lu lost\n", hits, recorded, lost_of_probe());
	assert_int_equal(recorded + lost_of_probe(), hits);
	assert_int_equal(lost_of_rings() + shared->lost_shared, lost_of_probe());
	assert_int_equal(bad, 0);
	for (int i = 0; i < nrings(); i++) {
		assert_int_equal(rings[i].damaged, 0);
		assert_int_equal(ring_owner(&rings[i]), 0);
	}
}

/* ---- threads and signals ------------------------------------------------------------------ */

static void threads_and_signals(void **state)
{
	start(16 << 20, 0);
	check_sum(run_threads(200, look, NULL));
}

static void threads_full_rings(void **state)
{
	start(RING_SIZE_MIN, 0);
	check_sum(run_threads(2000, look, NULL));
	assert_true(lost_of_rings() > 0);
}

/* ---- children ----------------------------------------------------------------------------- */

#define CHILD_HITS 3000

static void look_at_child(int ring, const struct event_head *e, const uint64_t *at)
{
	look(ring, e, at);
	bad += bulk_number(at, 0) != e->pid || e->tid != e->pid;
}

static void forked_children(void **state)
{
	int left = 12;

	start(4 << 20, 0);
	want_pid = 0;
	for (int i = 0; i < left; i++) {
		if (fork() == 0) {
			for (int n = 0; n < CHILD_HITS; n++)
				hit(getpid(), n);
			_exit(0);
		}
	}
	while (left) {
		drain(look_at_child);
		left -= waitpid(-1, NULL, WNOHANG) > 0;
		usleep(100);
	}
	drain(look_at_child);
	check_sum(12 * CHILD_HITS);
}

/* In our memory, on our thread block; the probe in front of vfork has cleared the table. */
static int child_of_vfork(void *arg)
{
	for (int n = 0; n < 100; n++)
		hit(syscall(SYS_getpid), n);
	return 0;
}

static void vfork_children(void **state)
{
	static uint8_t child_stack[65536] __attribute__((aligned(64)));

	start(1 << 20, 0);
	want_pid = 0;
	set_fast(false);
	for (int i = 0; i < 20; i++) {
		pid_t pid = clone(child_of_vfork, child_stack + sizeof(child_stack),
				  CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);

		assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
	assert_int_equal(drain(look_at_child), 20 * 100);
	check_sum(20 * 100);
}

/*
 * A handler that forks, most of the time in the middle of an event. Its child goes on there as the copy
 * of a lock's owner: nothing that its parent makes may be spoilt. It may leave a lock in its parent's name; the
 * reader frees it while its parent is in no event.
 */
static uint64_t of_children;

/* A child that was forked before the lock was taken makes an event of its own. */
static void look_at_forker(int ring, const struct event_head *e, const uint64_t *at)
{
	if (e->pid == (uint32_t)forker) {
		look(ring, e, at);
		return;
	}
	of_children++;
	bad += !is_whole(e, at);
	bad += !is_first_of(e->pid);
}

static void handlers_that_fork(void **state)
{
	uint64_t hits = 0;
	int freed = 0, n;
	timer_t timer;

	start(16 << 20, 0);
	of_children = 0;
	timer = start_forks(300000);
	while (atomic_load(&forks) < FORKS) {
		hit(0, hits++);
		freed += free_locks_of_nobody();	/* children: the rest of that one hit, and no more */
		if (hits == HITS)
			break;
	}
	timer_delete(timer);
	n = atomic_load(&forks);
	wait_for_forked();
	freed += free_locks_of_nobody();
	drain(look_at_forker);
	print_message("    %d forks, %lu of them made an event, %d locks freed\n", n, of_children, freed);
	recorded += of_children;
	of_children += recorded + lost_of_probe() - (hits + of_children);	/* those who found all rings taken */
	assert_in_range(of_children, 0, n);
	assert_true(lost_of_probe() || recorded == hits + of_children);
	check_sum(hits + of_children);
}

/* Killed in the middle: what was committed is whole, and the lock can be freed. */
static void killed_writers(void **state)
{
	uint64_t *done = map_or_die(4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	int freed = 0;

	start(16 << 20, 0);
	want_pid = 0;
	for (int i = 0; i < 40; i++) {
		uint64_t before = recorded + lost_of_probe();
		pid_t pid = fork();

		*done = 0;
		if (pid == 0) {
			for (int n = 0;; n++) {
				hit(i, n);
				__atomic_store_n(done, n + 1, __ATOMIC_RELAXED);
			}
		}
		while (!__atomic_load_n(done, __ATOMIC_RELAXED))
			usleep(50);
		usleep(i * 37 % 500);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		for (int k = ncpus; k < nrings(); k++)
			freed += ring_owner(&rings[k]) && ring_free(&rings[k], pid);
		drain(look);
		assert_in_range(recorded + lost_of_probe() - before, *done, *done + 1);
	}
	print_message("    %d locks freed\n", freed);
	check_sum(recorded + lost_of_probe());
	munmap(done, 4096);
}

/* ---- overwrite mode ----------------------------------------------------------------------- */

static void snapshots_are_whole(void **state)
{
	uint8_t *buf = malloc(RING_SIZE_MIN);
	int taken = 0, broken = 0;
	uint64_t events = 0;
	pid_t pid;

	start(RING_SIZE_MIN, BULK_OVERWRITE);
	pid = fork();
	if (pid == 0)
		for (int n = 0;; n++)
			hit(5, n);
	for (int i = 0; i < 1500; i++) {
		for (int n = ncpus; n < nrings(); n++) {
			const uint8_t *span;
			int64_t len = ring_snapshot(&rings[n], buf, &span);
			uint64_t off = 0, at = 0;
			struct event_head e;

			broken += len == -EBADMSG;
			taken += len > 0;
			while (len > 0 && ring_next(&rings[n], span, len, &off, &e)) {
				bad += !is_whole(&e, (const uint64_t *)(span + at + sizeof(e)));
				at = off;
				events++;
			}
			bad += len > 0 && off != (uint64_t)len;
		}
		usleep(100);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	free(buf);
	print_message("    %d snapshots of %lu events\n", taken, events);
	assert_int_equal(broken + bad, 0);
	assert_true(taken > 100);
	assert_int_equal(lost_of_probe(), 0);
}

static int set_up(void **state)
{
	make_blob_areas();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_and_signals),
		cmocka_unit_test(threads_full_rings),
		cmocka_unit_test(forked_children),
		cmocka_unit_test(vfork_children),
		cmocka_unit_test(handlers_that_fork),
		cmocka_unit_test(killed_writers),
		cmocka_unit_test(snapshots_are_whole),
	};

	return cmocka_run_group_tests_name("blob_storm", tests, set_up, NULL);
}
