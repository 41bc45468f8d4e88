/* SPDX-License-Identifier: MIT */
/*
 * A fork behind each single instruction of the code that writes events behind a lock, as a signal handler there
 * could make it. The child goes on where its parent was, either at once, while its parent waits, or when its parent
 * has that event and the next one behind it. Whatever it does there: each event of the parent is recorded once, whole and
 * in its order, or lost and counted.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "blob_rings.h"

#define TRAP_FLAG 0x100
#define MARK(a, b) (((a) + 1) * 0x9e3779b97f4a7c15ull ^ (b))

enum when { AT_ONCE, LATE };

typedef void hit_fn(uint64_t a, uint64_t b, uint64_t mark);

static hit_fn *hit_code;
static pid_t self, child;
static int steps, fork_at;
static enum when when;
static volatile int *released;

static void hit(uint64_t a, uint64_t b)
{
	hit_code(a, b, MARK(a, b));
	if (syscall(SYS_getpid) != self)
		_exit(0);
}

static void fork_here(ucontext_t *uc)
{
	uc->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child < 0)
		abort();
	if (child && when == AT_ONCE)
		waitpid(child, NULL, 0);
	while (!child && when == LATE && !*released) {
		if (getppid() != self)
			_exit(1);
		usleep(50);
	}
}

/* Instructions of ours count, from the first one in the pad to the return. */
static void on_step(int sig, siginfo_t *info, void *ctx)
{
	ucontext_t *uc = ctx;
	uint64_t off = uc->uc_mcontext.gregs[REG_RIP] - (uint64_t)code_rx;

	if (off >= CODE_SIZE) {
		if (steps)
			uc->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
		return;
	}
	if (steps++ == fork_at)
		fork_here(uc);
}

/* False if there are not that many instructions. */
static bool hit_and_fork(int n, uint64_t a, uint64_t b)
{
	struct sigaction sa = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO }, before;

	sigaction(SIGTRAP, &sa, &before);
	steps = child = 0;
	fork_at = n;
	*released = 0;
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" : : : "memory", "cc");
	hit(a, b);
	sigaction(SIGTRAP, &before, NULL);
	return child;
}

static void let_go(void)
{
	if (when == AT_ONCE)
		return;
	*released = 1;
	waitpid(child, NULL, 0);
}

/* What both processes have made, as the reader finds it. */
static uint64_t of_self, of_child, wrong, last_time[MAX_RINGS];
static uint32_t seen;

static void look(int ring, const struct event_head *e, uint64_t a, uint64_t b, uint64_t mark)
{
	wrong += e->id != 42 || e->tid != e->pid || mark != MARK(a, b) || e->time < last_time[ring];
	last_time[ring] = e->time;
	if (e->pid == (uint32_t)self) {
		wrong += seen >> a & 1;
		seen |= 1u << a;
		of_self++;
	} else {
		wrong += e->pid != (uint32_t)child || a != 1;
		of_child++;
	}
}

static void forget(void)
{
	of_self = of_child = wrong = seen = 0;
	memset(last_time, 0, sizeof(last_time));
}

static void look_plain(int ring, const struct event_head *e, const uint64_t *f)
{
	look(ring, e, f[0], f[1], f[2]);
}

static void look_bulk(int ring, const struct event_head *e, const uint64_t *at)
{
	look(ring, e, bulk_number(at, 0), bulk_number(at, 1), bulk_number(at, 2));
	wrong += at[0] != 8;
}

/* The child may have taken a lock in its parent's name, and nobody else has one. Returns how many. */
static int free_locks(void)
{
	int freed = 0;

	for (int i = ncpus; i < nrings(); i++)
		freed += ring_owner(&rings[i]) && ring_free(&rings[i], self);
	for (int i = ncpus; i < nrings(); i++)
		assert_int_equal(ring_owner(&rings[i]), 0);
	return freed;
}

/* All rings have room for one event less than that. */
static void fill_rings(uint64_t len)
{
	for (int i = ncpus; i < nrings(); i++)
		rings[i].head->tail = rings[i].head->head - ring_size + len - 8;
}

static void empty_rings(void)
{
	for (int i = ncpus; i < nrings(); i++)
		rings[i].head->tail = rings[i].tail;
}

/* Events 0, 1 with the fork in it, 2, and 3 with the child gone. Returns whether there was a fork. */
static bool run_with_room(int n, event_fn *fn)
{
	uint64_t lost = lost_of_probe();
	bool there;

	forget();
	hit(0, n);
	there = hit_and_fork(n, 1, n);
	hit(2, n);
	if (there)
		let_go();
	assert_in_range(free_locks(), 0, there);
	hit(3, n);
	drain(fn);
	lost = lost_of_probe() - lost;		/* of a child that may not ask for its number */
	if (wrong || of_self != 4 || of_child + lost > 1)
		print_error("a fork behind instruction %d: %lu of 4 events, %lu of the child, %lu lost, %lu wrong\n", n,
			    of_self, of_child, lost, wrong);
	assert_int_equal(wrong, 0);
	assert_int_equal(of_self, 4);
	assert_int_equal(seen, 15);
	assert_in_range(of_child + lost, 0, 1);
	return there;
}

/*
 * The same while all rings are full. A child with an event of its own may have lost that, too; and one that was made
 * between two counters counts on.
 */
static bool run_without_room(int n, uint64_t len, event_fn *fn)
{
	uint64_t lost = lost_of_probe(), in_rings = lost_of_rings() + shared->lost_shared;
	bool there;

	forget();
	fill_rings(len);
	there = hit_and_fork(n, 1, n);
	hit(2, n);
	if (there)
		let_go();
	assert_in_range(lost_of_probe() - lost, 2, 3);
	assert_in_range(lost_of_rings() + shared->lost_shared - in_rings, 2, 3);
	assert_in_range(free_locks(), 0, there);
	empty_rings();
	hit(0, n);
	drain(fn);
	assert_int_equal(wrong, 0);
	assert_int_equal(of_self, 1);
	return there;
}

static void emit_plain(bool may_call, bool overwrite)
{
	static const struct event_field fields[] = {
		{ EVENT_REG, 7, 8, 0 }, { EVENT_REG, 6, 8, 0 }, { EVENT_REG, 2, 8, 0 },
	};
	static const uint8_t ret[] = { 0xc3 };
	struct event_slow_spec slow;
	struct event_spec spec;

	reset_rings(RING_SIZE_MIN);
	slow = make_slow_spec();
	slow.may_call = may_call;
	emit_slow(&slow);
	spec = make_spec(false, fields, 3);
	spec.overwrite = overwrite;
	hit_code = (hit_fn *)emit_body(0, &spec, ret, sizeof(ret));
}

static void emit_bulk(void)
{
	static const struct bulk_field fields[] = {
		{ .kind = EVENT_REG, .reg = 7, .size = 8 },
		{ .kind = EVENT_REG, .reg = 6, .size = 8 },
		{ .kind = EVENT_REG, .reg = 2, .size = 8 },
		{ .kind = EVENT_MEM, .reg = 7, .size = 8 },	/* never readable */
	};

	reset_bulk_rings(RING_SIZE_MIN, true);
	describe(fields, 4, BULK_MAY_CALL);
	hit_code = (hit_fn *)emit_bulk_function();
}

/* known: the numbers can be believed; otherwise the kernel is asked. */
static void plain_events(enum when w, bool known, bool may_call, bool overwrite)
{
	int n = 0;

	when = w;
	emit_plain(may_call, overwrite);
	set_fast(known);
	while (run_with_room(n, look_plain))
		n++;
	print_message("    %d instructions\n", n);
	assert_true(n > 40);
	if (overwrite || !may_call)
		return;
	for (n = 0; run_without_room(n, event_len(3), look_plain); n++)
		;
	assert_true(n > 40);
}

static void child_at_once(void **state) { plain_events(AT_ONCE, true, true, false); }
static void child_late(void **state) { plain_events(LATE, true, true, false); }
static void child_at_once_no_calls(void **state) { plain_events(AT_ONCE, true, false, false); }
static void child_late_no_calls(void **state) { plain_events(LATE, true, false, false); }
static void child_at_once_asked(void **state) { plain_events(AT_ONCE, false, true, false); }
static void child_late_asked(void **state) { plain_events(LATE, false, true, false); }
static void child_at_once_overwriting(void **state) { plain_events(AT_ONCE, true, true, true); }
static void child_late_overwriting(void **state) { plain_events(LATE, true, true, true); }

/* Many more instructions, so not each of them; the last ones, which commit, are all there. */
static void bulk_events(enum when w)
{
	int all = 0, n;

	when = w;
	emit_bulk();
	while (run_with_room(all, look_bulk))
		all += 41;
	assert_true(all > 160);
	for (n = all - 160; run_with_room(n, look_bulk); n++)
		;
	print_message("    %d instructions\n", n);
	for (n = 0; run_without_room(n, bulk_max_len(desc->fields, 4), look_bulk); n += 5)
		;
	assert_true(n > 40);
}

static void bulk_child_at_once(void **state) { bulk_events(AT_ONCE); }
static void bulk_child_late(void **state) { bulk_events(LATE); }

/* A ring that is of no use to a bulk event is given back. */
static void ring_without_scratch(void **state)
{
	int n = 0;

	for (when = AT_ONCE; when <= LATE; when++) {
		emit_bulk();
		for (int i = 0; i < NSLOW; i++)
			shared->slow_table[i].scratch = 0;
		for (n = 0; hit_and_fork(n, 1, n); n++) {
			hit(2, n);
			let_go();
			free_locks();
		}
		assert_in_range(lost_of_probe(), 2 * n + 1, 3 * n + 1);
		assert_int_equal(shared->lost_shared, lost_of_probe());
		assert_true(n > 40);
	}
}

static int set_up(void **state)
{
	make_blob_areas();
	self = getpid();
	released = map_or_die(4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(child_at_once),
		cmocka_unit_test(child_late),
		cmocka_unit_test(child_at_once_no_calls),
		cmocka_unit_test(child_late_no_calls),
		cmocka_unit_test(child_at_once_asked),
		cmocka_unit_test(child_late_asked),
		cmocka_unit_test(child_at_once_overwriting),
		cmocka_unit_test(child_late_overwriting),
		cmocka_unit_test(bulk_child_at_once),
		cmocka_unit_test(bulk_child_late),
		cmocka_unit_test(ring_without_scratch),
	};

	return cmocka_run_group_tests_name("event_fork", tests, set_up, NULL);
}
