/* SPDX-License-Identifier: MIT */
/*
 * The event code, run in this process: that nothing of the caller's changes on any of its ways, what
 * stands in the events, and who takes which way. How it fares under threads, signals, forks and kills
 * is in test_event_storm.c.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <x86intrin.h>

#include "event_rings.h"
#include "machine.h"

/* ---- nothing changes ---------------------------------------------------------------------- */

#define STACK_SIZE 65536
#define KEPT 4096
#define IMM 0x1122334455667788ll
#define NFIELDS 29

static uint8_t stack[STACK_SIZE], stack_before[STACK_SIZE];
static struct event_field all_fields[NFIELDS];
static const int stack_at[] = { -128, 0, 8, EVENT_STACK_MAX };
static const int xmm_at[] = { 0, 7, 8, 15 };
static uint64_t absolute = 0x8899aabbccddeeff;

static void make_fields(void)
{
	for (int i = 0; i < 16; i++)
		all_fields[i] = (struct event_field){ EVENT_REG, i, 8, 0 };
	all_fields[16] = (struct event_field){ EVENT_IMM, 0, 4, IMM };
	for (int i = 0; i < 4; i++)
		all_fields[17 + i] = (struct event_field){ EVENT_STACK, 0, 8, stack_at[i] };
	for (int i = 0; i < 4; i++)
		all_fields[21 + i] = (struct event_field){ EVENT_VECTOR, xmm_at[i], 8, 0 };
	for (int i = 0; i < 4; i++)
		all_fields[25 + i] = (struct event_field){ EVENT_ABS, 0, 1 << i, (uint64_t)&absolute };
}

static int seen_ring;
static uint64_t time_before;

static void check_event(int ring, const struct event_head *e, const uint64_t *fields)
{
	const uint8_t *sp = stack_before + (machine_in.gpr[4] - (uint64_t)stack);
	uint64_t now = __rdtsc();

	seen_ring = ring;
	assert_int_equal(e->id, 42);
	assert_int_equal(e->len, 24 + 8 * NFIELDS);
	assert_int_equal(e->pid, getpid());
	assert_int_equal(e->tid, gettid());
	assert_true(e->time >= time_before && e->time <= now);
	for (int i = 0; i < 16; i++)
		assert_int_equal(fields[i], machine_in.gpr[i]);
	assert_int_equal(fields[16], IMM);
	for (int i = 0; i < 4; i++)
		assert_memory_equal(&fields[17 + i], sp + stack_at[i], 8);
	for (int i = 0; i < 4; i++)
		assert_memory_equal(&fields[21 + i], machine_in.fx + 160 + 16 * xmm_at[i], 8);
	for (int i = 0; i < 4; i++)
		assert_int_equal(fields[25 + i], absolute & ~0ull >> (64 - (8 << i)));
}

enum way { WAY_CPU, WAY_LOCKED, WAY_FULL, WAY_NO_RING };

static void check_way(enum way way, int round, uint64_t events)
{
	switch (way) {
	case WAY_CPU:		/* an interrupted one now and then */
		assert_int_equal(events, 1);
		return;
	case WAY_LOCKED:
		assert_int_equal(events, 1);
		assert_true(seen_ring >= ncpus);
		return;
	case WAY_FULL:
		assert_int_equal(events, 0);
		assert_int_equal(lost_of_rings(), round);
		assert_int_equal(lost_of_probe(), round);
		assert_int_equal(shared->lost_shared, 0);
		return;
	case WAY_NO_RING:
		assert_int_equal(events, 0);
		assert_int_equal(shared->lost_shared, round);
	}
}

static int run_all(const struct event_spec *spec, enum way way, void (*run)(void))
{
	static const int misalign[] = { 0, 8, 1, 13 };
	int round = 0, on_cpu = 0;

	for (int f = 0; f < 128; f++) {
		for (int m = 0; m < 4; m++) {
			round++;			/* every alignment of the code */
			machine_body = (uint64_t)emit_body(round % 64, spec, machine_back(), MACHINE_BACK);
			fill_random(stack, sizeof(stack));
			machine_fill(f, (uint64_t)stack + STACK_SIZE - KEPT - misalign[m]);
			memcpy(stack_before, stack, sizeof(stack));
			memset(&machine_out, 0, sizeof(machine_out));
			time_before = __rdtsc();
			run();
			machine_check(stack, stack_before, STACK_SIZE);
			check_way(way, round, drain(check_event));
			on_cpu += seen_ring < ncpus;
		}
	}
	for (int i = 0; i < nrings(); i++) {
		assert_int_equal(rings[i].damaged, 0);
		assert_int_equal(ring_owner(&rings[i]), 0);
	}
	return on_cpu;
}

#define RUNS (128 * 4)

static int start(void **state)
{
	struct event_slow_spec slow;

	reset_rings(RING_SIZE_MIN);
	slow = make_slow_spec();
	emit_slow(&slow);
	return 0;
}

static void keeps_everything_per_cpu(void **state)
{
	struct event_spec spec = make_spec(true, all_fields, NFIELDS);

	if (!__rseq_size)
		skip();
	assert_true(run_all(&spec, WAY_CPU, machine_run) > RUNS / 2);
}

static void keeps_everything_overwriting(void **state)
{
	struct event_spec spec = make_spec(true, all_fields, NFIELDS);

	if (!__rseq_size)
		skip();
	spec.overwrite = true;
	assert_true(run_all(&spec, WAY_CPU, machine_run) > RUNS / 2);
}

static void keeps_everything_locked(void **state)
{
	struct event_spec spec = make_spec(false, all_fields, NFIELDS);

	run_all(&spec, WAY_LOCKED, machine_run);
}

/* The table knows no CPU: the kernel is asked who we are. */
static void keeps_everything_as_stranger(void **state)
{
	struct event_spec spec = make_spec(true, all_fields, NFIELDS);

	set_fast(false);
	*pid_cell = 99;
	run_all(&spec, WAY_LOCKED, machine_run);
}

/* Likewise, but it must not be asked any more. */
static void keeps_everything_when_quiet(void **state)
{
	struct event_spec spec = make_spec(true, all_fields, NFIELDS);

	set_fast(false);
	shared->state.quiet = 1;
	run_all(&spec, WAY_NO_RING, machine_run);
}

static void keeps_everything_without_tid(void **state)
{
	struct event_slow_spec slow = make_slow_spec();
	struct event_spec spec = make_spec(true, all_fields, NFIELDS);

	spec.has_tid = slow.has_tid = false;
	emit_slow(&slow);
	run_all(&spec, WAY_LOCKED, machine_run);
}

/* Signals everywhere: the sequence is aborted each time. */
static void keeps_everything_when_aborted(void **state)
{
	struct event_spec spec = make_spec(true, all_fields, NFIELDS);

	if (!__rseq_size)
		skip();
	machine_steps = 0;
	run_all(&spec, WAY_LOCKED, machine_run_stepped);
	assert_true(machine_steps > 60 * RUNS);
}

static void keeps_everything_when_full(void **state)
{
	struct event_spec spec = make_spec(true, all_fields, NFIELDS);

	for (int i = 0; i < nrings(); i++)	/* not a byte free; drain() must not take it for damage */
		rings[i].head->tail = rings[i].head->head - ring_size;
	for (int i = 0; i < nrings(); i++)
		rings[i].tail = rings[i].head->head;
	run_all(&spec, WAY_FULL, machine_run);
}

static void keeps_everything_when_busy(void **state)
{
	struct event_spec spec = make_spec(false, all_fields, NFIELDS);

	memset(shared->slow_table, 0, sizeof(shared->slow_table));
	run_all(&spec, WAY_NO_RING, machine_run);
}

/* ---- who takes which way ------------------------------------------------------------------ */

typedef void hit_fn(uint64_t a, uint64_t b);

static const struct event_field two_args[] = {
	{ EVENT_REG, 7, 8, 0 },			/* rdi */
	{ EVENT_REG, 6, 8, 0 },			/* rsi */
};

static hit_fn *emit_function(const struct event_spec *spec)
{
	static const uint8_t ret[] = { 0xc3 };

	return (hit_fn *)emit_body(0, spec, ret, sizeof(ret));
}

static struct event_head last;
static uint64_t last_args[2];

static void keep_last(int ring, const struct event_head *e, const uint64_t *fields)
{
	seen_ring = ring;
	last = *e;
	memcpy(last_args, fields, sizeof(last_args));
}

/* Everybody holds a lock: lost, at once. Then one is free. */
static void busy_rings_are_passed_over(void **state)
{
	struct event_spec spec = make_spec(false, two_args, 2);
	hit_fn *hit = emit_function(&spec);

	for (int i = ncpus; i < nrings(); i++)
		rings[i].head->lock |= 1;
	hit(1, 2);
	assert_int_equal(shared->lost_shared, 1);
	assert_int_equal(drain(keep_last), 0);
	for (int i = ncpus; i < nrings(); i++) {
		assert_true(ring_free(&rings[i], 1));
		hit(3, i);
		assert_int_equal(drain(keep_last), 1);
		assert_int_equal(seen_ring, i);
		assert_int_equal(last_args[1], i);
		rings[i].head->lock |= 1;
	}
	assert_int_equal(shared->lost_shared, 1);
}

/* A copy of an owner must not find the lock as it was: no two times of holding it look the same. */
static void a_lock_changes_each_time(void **state)
{
	struct event_spec spec = make_spec(false, two_args, 2);
	hit_fn *hit = emit_function(&spec);
	uint64_t before = 0;

	for (int i = ncpus; i < nrings(); i++)
		rings[i].head->lock |= i > ncpus;
	for (int i = 1; i < 5; i++) {
		hit(1, i);
		assert_int_equal(drain(keep_last), 1);
		assert_int_equal(seen_ring, ncpus);
		assert_int_equal(rings[ncpus].head->lock, before += 1ull << 32);
	}
	rings[ncpus].head->tail = rings[ncpus].tail = rings[ncpus].head->head - ring_size;
	hit(1, 5);					/* full: it is given back without an event */
	assert_int_equal(lost_of_probe(), 1);
	assert_int_equal(rings[ncpus].head->lock, before + (1ull << 32));
}

static __thread volatile int32_t no_number;

/* A thread block that is not libc's has no number in that place: its CPU number is none either. */
static void block_without_a_number(void **state)
{
	int32_t off = (char *)&no_number - (char *)__builtin_thread_pointer();
	struct event_slow_spec slow = make_slow_spec();
	struct event_spec spec = make_spec(true, two_args, 2);
	hit_fn *hit;

	slow.tid_off = spec.tid_off = off;
	emit_slow(&slow);
	hit = emit_function(&spec);
	for (int i = 0; i < 100; i++) {
		hit(1, i);
		assert_int_equal(drain(keep_last), 1);
		assert_true(seen_ring >= ncpus);
		assert_int_equal(last.tid, gettid());
	}
}

/* Where a system call could be forbidden, an unknown pid loses the event; a known one needs none. */
static void no_calls_where_they_are_forbidden(void **state)
{
	struct event_slow_spec slow = make_slow_spec();
	struct event_spec spec = make_spec(true, two_args, 2);
	hit_fn *hit = emit_function(&spec);

	slow.may_call = false;
	emit_slow(&slow);
	*pid_cell = 0;
	hit(1, 2);
	assert_int_equal(shared->lost_shared, 1);
	*pid_cell = getpid();
	hit(1, 2);
	assert_int_equal(shared->lost_shared, 1);
	assert_int_equal(drain(keep_last), 1);
}

/* The cell is wiped: one event the slow way, which notes the pid; then as before. */
static int child_of_fork(hit_fn *hit)
{
	if (*pid_cell)
		return 1;
	hit(5, 0);
	if (drain(keep_last) != 1 || seen_ring < ncpus || last.pid != (uint32_t)getpid())
		return 2;
	if (*pid_cell != (uint32_t)getpid())
		return 3;
	for (int i = 0; i < 1000; i++) {
		hit(5, i);
		if (drain(keep_last) != 1 || last.pid != (uint32_t)getpid() || last.tid != last.pid)
			return 4;
		if (seen_ring < ncpus)
			return 0;
	}
	return __rseq_size ? 5 : 0;
}

static int wait_for(pid_t pid)
{
	int status;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void forked_child_has_its_own_pid(void **state)
{
	struct event_spec spec = make_spec(true, two_args, 2);
	hit_fn *hit = emit_function(&spec);
	pid_t pid = fork();

	if (pid == 0)
		_exit(child_of_fork(hit));
	assert_int_equal(wait_for(pid), 0);
}

/* A fork that libc knows nothing of: the tid in the thread block is the parent's. */
static int child_of_raw_fork(hit_fn *hit)
{
	uint32_t self = syscall(SYS_getpid);

	for (int i = 0; i < 100; i++) {
		hit(6, i);
		if (drain(keep_last) != 1 || last.pid != self || last.tid != self || *pid_cell)
			return 1;
	}
	return 0;
}

static void raw_fork_has_its_own_pid(void **state)
{
	struct event_spec spec = make_spec(true, two_args, 2);
	hit_fn *hit = emit_function(&spec);
	pid_t pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(child_of_raw_fork(hit));
	assert_int_equal(wait_for(pid), 0);
}

/* A child in our memory, on our thread block. The probe in front of vfork has cleared the table. */
static int child_of_vfork(void *arg)
{
	((hit_fn *)arg)(7, syscall(SYS_gettid));
	return 0;
}

static void vfork_child_is_told_apart(void **state)
{
	static uint8_t child_stack[65536] __attribute__((aligned(64)));
	struct event_spec spec = make_spec(true, two_args, 2);
	hit_fn *hit = emit_function(&spec);
	pid_t pid;

	set_fast(false);
	*pid_cell = 0;				/* and must not be filled by the child */
	pid = clone(child_of_vfork, child_stack + sizeof(child_stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
		    (void *)hit);
	assert_int_equal(wait_for(pid), 0);
	assert_int_equal(drain(keep_last), 1);
	assert_true(seen_ring >= ncpus);
	assert_int_equal(last.pid, pid);
	assert_int_equal(last.tid, pid);
	assert_int_equal(last_args[1], pid);
	assert_int_equal(*pid_cell, 0);
	set_fast(true);
	hit(1, 1);
	assert_int_equal(*pid_cell, getpid());
}

/* In a process that glibc has not registered; the exit code is the verdict. */
static int unregistered_main(void)
{
	struct event_spec spec;
	hit_fn *hit;

	make_areas();
	start(NULL);
	spec = make_spec(true, two_args, 2);
	hit = emit_function(&spec);
	for (int i = 0; i < 500; i++) {
		hit(8, i);
		if (drain(keep_last) != 1 || seen_ring < ncpus || last.tid != (uint32_t)gettid())
			return 1;
	}
	return __rseq_size ? 2 : 0;
}

static void unregistered_threads_take_the_slow_way(void **state)
{
	char *argv[] = { "test_event", "unregistered", NULL };
	char *envp[] = { "GLIBC_TUNABLES=glibc.pthread.rseq=0", NULL };
	pid_t pid = fork();

	if (pid == 0) {
		execve("/proc/self/exe", argv, envp);
		_exit(127);
	}
	assert_int_equal(wait_for(pid), 0);
}

/* ---- single-stepping ---------------------------------------------------------------------- */

static int step_through(pid_t pid)
{
	int inside = 0, status;

	for (int i = 0; i < 5000; i++) {
		uint64_t pc;

		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, 0, 0), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSTOPPED(status));
		if (WSTOPSIG(status) == SIGSTOP)
			return inside;
		pc = ptrace(PTRACE_PEEKUSER, pid, 16 * 8, 0);	/* rip in struct user */
		inside += pc >= (uint64_t)code_rx && pc < (uint64_t)code_rx + CODE_SIZE;
	}
	return -1;
}

static void single_steps_end(void **state)
{
	struct event_spec spec = make_spec(true, two_args, 2);
	hit_fn *hit = emit_function(&spec);
	int status, steps;
	pid_t pid = fork();

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		syscall(SYS_tgkill, getpid(), getpid(), SIGSTOP);
		hit(1, 2);
		syscall(SYS_tgkill, getpid(), getpid(), SIGSTOP);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	steps = step_through(pid);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	print_message("    %d steps\n", steps);
	assert_true(steps > 20 && steps < 200);
	assert_int_equal(drain(keep_last), 1);
	assert_int_equal(last.pid, pid);
}

/* ---- what is written ---------------------------------------------------------------------- */

static void descriptor_is_aligned(void **state)
{
	struct event_spec spec = make_spec(true, two_args, 2);
	uint8_t out[EVENT_CODE_MAX];

	for (uint64_t at = 0x7000; at < 0x7000 + 128; at++) {
		int len = arch_x86_64.emit_event(out, at, &spec);
		uint64_t d, word[4];
		int32_t rel;

		memcpy(&rel, out + 36, 4);		/* lea rel(%rip) at 33 */
		d = at + 40 + rel;
		assert_int_equal(d % 32, 0);
		assert_true(d >= at && d + 32 <= at + len);
		memcpy(word, out + (d - at), sizeof(word));
		assert_int_equal(word[1], at + 49);
		assert_true(word[1] + word[2] < d);
		assert_true(word[3] - 4 >= d + 32 && word[3] < at + len);
		assert_memory_equal(out + (word[3] - at) - 4, &spec.rseq_sig, 4);
	}
}

static void nonsense_is_refused(void **state)
{
	static const struct { struct event_field f; int want; } rows[] = {
		{ { EVENT_REG, 15, 8, 0 }, 0 },
		{ { EVENT_REG, 16, 8, 0 }, -EINVAL },
		{ { EVENT_REG, 0, 3, 0 }, -EINVAL },
		{ { EVENT_IMM, 0, 0, 0 }, -EINVAL },
		{ { EVENT_VECTOR, 15, 4, 0 }, 0 },
		{ { EVENT_VECTOR, 16, 8, 0 }, -EINVAL },
		{ { EVENT_ABS, 0, 1, 0x1000 }, 0 },
		{ { EVENT_ABS, 0, 5, 0x1000 }, -EINVAL },
		{ { EVENT_MEM, 0, 8, 0 }, -EINVAL },		/* these take the blob */
		{ { EVENT_STRING, 0, 8, 0 }, -EINVAL },
		{ { EVENT_STACK, 0, 8, EVENT_STACK_MIN }, 0 },
		{ { EVENT_STACK, 0, 8, EVENT_STACK_MIN - 1 }, -EINVAL },
		{ { EVENT_STACK, 0, 8, EVENT_STACK_MAX + 1 }, -EINVAL },
		{ { 9, 0, 8, 0 }, -EINVAL },
	};
	struct event_slow_spec slow = make_slow_spec();
	struct event_spec spec;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		spec = make_spec(true, &rows[i].f, 1);
		assert_int_equal(arch_x86_64.emit_event(NULL, 0, &spec) < 0 ? -EINVAL : 0, rows[i].want);
	}
	spec = make_spec(true, two_args, 2);
	spec.ring_size = 3 << 16;
	assert_int_equal(arch_x86_64.emit_event(NULL, 0, &spec), -EINVAL);
	spec = make_spec(true, two_args, EVENT_FIELDS_MAX + 1);
	assert_int_equal(arch_x86_64.emit_event(NULL, 0, &spec), -ERANGE);
	slow.nrings = 3;
	assert_int_equal(arch_x86_64.emit_event_slow(NULL, &slow), -EINVAL);
}

static void longest_body_fits(void **state)
{
	struct event_field fields[EVENT_FIELDS_MAX];
	struct event_spec spec = make_spec(true, fields, EVENT_FIELDS_MAX);
	uint8_t out[EVENT_CODE_MAX + 1] = { 0 };

	for (int mode = 0; mode < 6; mode++) {
		static const struct event_field longest[] = {
			{ EVENT_IMM, 0, 8, IMM }, { EVENT_ABS, 0, 2, IMM }, { EVENT_VECTOR, 15, 8, 0 },
		};

		for (int i = 0; i < EVENT_FIELDS_MAX; i++)
			fields[i] = longest[mode / 2];
		spec.overwrite = mode % 2;
		assert_true(arch_x86_64.emit_event(out, 0x1000, &spec) <= EVENT_CODE_MAX);
		assert_int_equal(out[EVENT_CODE_MAX], 0);
	}
}

static int set_up(void **state)
{
	make_areas();
	make_fields();
	return 0;
}

int main(int argc, char **argv)
{
#define test(f) cmocka_unit_test_setup(f, start)
	const struct CMUnitTest tests[] = {
		test(keeps_everything_per_cpu),
		test(keeps_everything_overwriting),
		test(keeps_everything_locked),
		test(keeps_everything_as_stranger),
		test(keeps_everything_when_quiet),
		test(keeps_everything_without_tid),
		test(keeps_everything_when_aborted),
		test(keeps_everything_when_full),
		test(keeps_everything_when_busy),
		test(busy_rings_are_passed_over),
		test(a_lock_changes_each_time),
		test(block_without_a_number),
		test(no_calls_where_they_are_forbidden),
		test(forked_child_has_its_own_pid),
		test(raw_fork_has_its_own_pid),
		test(vfork_child_is_told_apart),
		test(unregistered_threads_take_the_slow_way),
		test(single_steps_end),
		test(descriptor_is_aligned),
		test(nonsense_is_refused),
		test(longest_body_fits),
	};

	if (argc > 1 && !strcmp(argv[1], "unregistered"))
		return unregistered_main();
	return cmocka_run_group_tests_name("event", tests, set_up, NULL);
}
