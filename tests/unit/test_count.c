/* SPDX-License-Identifier: MIT */
/*
 * The counting code, run in this process. First that nothing of the caller's changes, by filling
 * everything a program can see and comparing it afterwards. Then that no count is lost or made
 * up: threads, signals that count themselves, moves between CPUs, and threads that the kernel
 * does not know. Last that somebody may single-step through it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "arch/arch.h"
#include "session/session.h"
#include "machine.h"

#define MAX_CPUS 4096
#define CODE_SIZE 65536
#define INDEX 5
#define THREADS 8
#define HITS 10000000

/* Counters and code. The code is written through one mapping and run through another. */
struct counters {
	uint64_t table[CPU_TABLE_MANY];
	uint64_t cpu[MAX_CPUS][8];
	uint64_t shared;
	struct process_state state;
};

static struct counters *counters;
static uint8_t *code_rw, *code_rx;

static void make_areas(void)
{
	int fd = memfd_create("code", 0);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, CODE_SIZE), 0);
	code_rw = mmap(NULL, CODE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	code_rx = mmap(NULL, CODE_SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	counters = mmap(NULL, sizeof(*counters), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(code_rw != MAP_FAILED && code_rx != MAP_FAILED && counters != MAP_FAILED);
	close(fd);
}

static void reset_counters(bool cpus_known)
{
	memset(counters, 0, sizeof(*counters));
	for (int i = 0; i < MAX_CPUS; i++)
		counters->table[i] = (uint64_t)counters->cpu[i];
	counters->state.fast = cpus_known;
}

static uint64_t sum_of_cpus(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < MAX_CPUS; i++)
		sum += counters->cpu[i][INDEX];
	return sum;
}

static struct count_spec make_spec(bool has_rseq)
{
	return (struct count_spec){
		.rseq_off = __rseq_offset,
		.rseq_sig = RSEQ_SIG,
		.has_rseq = has_rseq,
		.cpu_table = (uint64_t)counters->table,
		.many_cpus = true,
		.fast = (uint64_t)&counters->state.fast,
		.shared = (uint64_t)&counters->shared,
		.index = INDEX,
	};
}

/* Emit at an offset, and something behind it to come back by. Returns the address to run. */
static uint8_t *emit_at(int off, bool has_rseq, const uint8_t *tail, size_t tail_len)
{
	struct count_spec spec = make_spec(has_rseq);
	int len = arch_x86_64.emit_count(code_rw + off, (uint64_t)code_rx + off, &spec);

	assert_true(len > 0 && len <= COUNT_MAX);
	assert_int_equal(len, arch_x86_64.emit_count(NULL, 0, &spec));
	memcpy(code_rw + off + len, tail, tail_len);
	return code_rx + off;
}

typedef void count_fn(void);

static count_fn *emit_function(bool has_rseq)
{
	static const uint8_t ret[] = { 0xc3 };

	return (count_fn *)emit_at(0, has_rseq, ret, sizeof(ret));
}

/* ---- nothing changes ---------------------------------------------------------------------- */

#define STACK_SIZE 65536	/* signal frames with all vector registers go there */
#define KEPT 1024		/* bytes above rsp that must stay as they are, too */

static uint8_t stack[STACK_SIZE], stack_before[STACK_SIZE];

static void fill_all(int flags, int misalign)
{
	fill_random(stack, sizeof(stack));
	machine_fill(flags, (uint64_t)stack + STACK_SIZE - KEPT - misalign);
	memcpy(stack_before, stack, sizeof(stack));
}

static void run_all_flags(bool has_rseq, void (*run)(void))
{
	static const int misalign[] = { 0, 8, 1, 13 };
	int off = 0;

	for (int f = 0; f < 128; f++) {
		for (int m = 0; m < 4; m++) {
			off = (off + 1) % 64;		/* every alignment of the code */
			machine_body = (uint64_t)emit_at(off, has_rseq, machine_back(), MACHINE_BACK);
			fill_all(f, misalign[m]);
			memset(&machine_out, 0, sizeof(machine_out));
			run();
			machine_check(stack, stack_before, STACK_SIZE);
		}
	}
}

#define RUNS (128 * 4)

static void keeps_everything_per_cpu(void **state)
{
	if (!__rseq_size)
		skip();
	reset_counters(true);
	run_all_flags(true, machine_run);
	assert_int_equal(sum_of_cpus() + counters->shared, RUNS);
	assert_true(sum_of_cpus() > RUNS / 2);
}

/* The table knows no CPU: each run goes the slow way. */
static void keeps_everything_slow_way(void **state)
{
	if (!__rseq_size)
		skip();
	reset_counters(false);
	run_all_flags(true, machine_run);
	assert_int_equal(counters->shared, RUNS);
}

static void keeps_everything_locked(void **state)
{
	reset_counters(true);
	run_all_flags(false, machine_run);
	assert_int_equal(counters->shared, RUNS);
	assert_int_equal(sum_of_cpus(), 0);
}

/* Signals everywhere: the sequence is aborted each time. */
static void keeps_everything_when_aborted(void **state)
{
	if (!__rseq_size)
		skip();
	reset_counters(true);
	machine_steps = 0;
	run_all_flags(true, machine_run_stepped);
	assert_int_equal(counters->shared, RUNS);
	assert_true(machine_steps > 20 * RUNS);
}

/* ---- what is written ---------------------------------------------------------------------- */

static void descriptor_is_aligned(void **state)
{
	struct count_spec spec = make_spec(true);
	uint8_t out[COUNT_MAX];

	for (uint64_t at = 0x7000; at < 0x7000 + 128; at++) {
		int len = arch_x86_64.emit_count(out, at, &spec);
		uint64_t d, abort_ip, start;
		int32_t rel;

		memcpy(&rel, out + 24, 4);		/* lea rel(%rip) at 21 */
		d = at + 28 + rel;
		assert_int_equal(d % 32, 0);
		assert_true(d >= at && d + 32 <= at + len);
		memcpy(&start, out + (d - at) + 8, 8);
		memcpy(&abort_ip, out + (d - at) + 24, 8);
		assert_int_equal(start, at + 37);
		assert_memory_equal(out + (abort_ip - at) - 4, &spec.rseq_sig, 4);
		assert_true(abort_ip + 23 <= at + len);
		assert_true(abort_ip + 23 <= d || abort_ip - 4 >= d + 32);
	}
}

static void index_out_of_range_is_refused(void **state)
{
	struct count_spec spec = make_spec(true);

	spec.index = 1u << 28;
	assert_int_equal(arch_x86_64.emit_count(NULL, 0, &spec), -ERANGE);
	spec.index--;
	assert_true(arch_x86_64.emit_count(NULL, 0, &spec) > 0);
}

/* ---- no count is lost --------------------------------------------------------------------- */

static count_fn *hit;
static atomic_ulong handler_hits;
static atomic_int threads_left;
static int storm_signal;

static void on_storm(int sig)
{
	for (int i = 0; i < 3; i++)
		hit();
	atomic_fetch_add(&handler_hits, 3);
}

static timer_t start_storm(long period_ns)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = storm_signal };
	struct itimerspec every = {
		.it_value.tv_nsec = period_ns, .it_interval.tv_nsec = period_ns,
	};
	timer_t timer;

	ev._sigev_un._tid = gettid();
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &ev, &timer), 0);
	assert_int_equal(timer_settime(timer, 0, &every, NULL), 0);
	return timer;
}

static void *hit_many(void *arg)
{
	timer_t timer = start_storm(30000 + 7000 * (long)arg);

	for (int i = 0; i < HITS; i++)
		hit();
	timer_delete(timer);
	atomic_fetch_sub(&threads_left, 1);
	return NULL;
}

/* Move the threads from one CPU to the next while they run. */
static void flip_cpus(const pthread_t *threads)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t one, all;
	int turn = 0;

	sched_getaffinity(0, sizeof(all), &all);
	while (atomic_load(&threads_left) > 0) {
		for (int i = 0; i < THREADS; i++) {
			CPU_ZERO(&one);
			CPU_SET((turn + i) % cpus, &one);
			pthread_setaffinity_np(threads[i], sizeof(one), &one);
		}
		turn++;
		usleep(200);
	}
}

static void run_threads(bool has_rseq)
{
	pthread_t threads[THREADS];
	struct sigaction sa = { .sa_handler = on_storm, .sa_flags = SA_RESTART };

	storm_signal = SIGRTMIN;
	sigaction(storm_signal, &sa, NULL);
	hit = emit_function(has_rseq);
	atomic_store(&handler_hits, 0);
	atomic_store(&threads_left, THREADS);
	for (long i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hit_many, (void *)i), 0);
	flip_cpus(threads);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static uint64_t hits_made(void)
{
	return (uint64_t)THREADS * HITS + atomic_load(&handler_hits);
}

static void counts_exactly_per_cpu(void **state)
{
	if (!__rseq_size)
		skip();
	reset_counters(true);
	run_threads(true);
	print_message("    %lu hits, %lu of them in signal handlers, %lu aborted\n", hits_made(),
		      atomic_load(&handler_hits), counters->shared);
	assert_int_equal(sum_of_cpus() + counters->shared, hits_made());
	assert_true(atomic_load(&handler_hits) > 0);
	assert_true(counters->shared > 0);		/* some signal came inside a sequence */
	assert_true(counters->shared < hits_made() / 100);
}

static void counts_exactly_locked(void **state)
{
	reset_counters(true);
	run_threads(false);
	assert_int_equal(counters->shared, hits_made());
}

/* ---- threads the kernel does not know ----------------------------------------------------- */

/* In a process that glibc has not registered; the exit code is the verdict. */
static int unregistered_main(void)
{
	make_areas();
	reset_counters(true);
	hit = emit_function(true);
	for (int i = 0; i < 1000; i++)
		hit();
	if (__rseq_size)
		return 2;
	return counters->shared == 1000 && sum_of_cpus() == 0 ? 0 : 1;
}

static int run_self(const char *arg, const char *env)
{
	char *argv[] = { "test_count", (char *)arg, NULL };
	char *envp[] = { (char *)env, NULL };
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execve("/proc/self/exe", argv, envp);
		_exit(127);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void unregistered_threads_take_the_slow_way(void **state)
{
	assert_int_equal(run_self("unregistered", "GLIBC_TUNABLES=glibc.pthread.rseq=0"), 0);
}

/* ---- single-stepping ---------------------------------------------------------------------- */

#define STEPS_MAX 5000

/* Steps until the child stops itself again. Returns how many were inside the counting code. */
static int step_through(pid_t pid)
{
	int inside = 0, status;

	for (int i = 0; i < STEPS_MAX; i++) {
		uint64_t pc;

		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, 0, 0), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSTOPPED(status));
		if (WSTOPSIG(status) == SIGSTOP)
			return inside;
		assert_int_equal(WSTOPSIG(status), SIGTRAP);
		pc = ptrace(PTRACE_PEEKUSER, pid, 16 * 8, 0);	/* rip in struct user */
		inside += pc >= (uint64_t)code_rx && pc < (uint64_t)code_rx + CODE_SIZE;
	}
	return -1;
}

static void single_steps_end(void **state)
{
	int status, steps;
	pid_t pid;

	reset_counters(true);
	hit = emit_function(__rseq_size > 0);
	pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		syscall(SYS_tgkill, getpid(), getpid(), SIGSTOP);
		hit();
		syscall(SYS_tgkill, getpid(), getpid(), SIGSTOP);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	steps = step_through(pid);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	print_message("    %d steps, aborted: %lu\n", steps, counters->shared);
	assert_true(steps > 10 && steps < 100);
	assert_int_equal(sum_of_cpus() + counters->shared, 1);
}

/* CPUs may have numbers beyond their count: the table must have a place for the highest. */
static void every_cpu_number_has_its_place(void **state)
{
	static const struct { const char *list; unsigned n; } rows[] = {
		{ "0\n", 1 }, { "0-1\n", 2 }, { "0-127\n", 128 }, { "0,2-5,9\n", 10 }, { "0-3,64-67", 68 },
		{ "\n", 0 }, { "", 0 }, { "all\n", 0 }, { "0-99999999\n", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(cpus_in_list(rows[i].list), rows[i].n);
	assert_true(counters_ncpus() >= (unsigned)sysconf(_SC_NPROCESSORS_CONF));
}

static int set_up(void **state)
{
	make_areas();
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_everything_per_cpu),
		cmocka_unit_test(keeps_everything_slow_way),
		cmocka_unit_test(keeps_everything_locked),
		cmocka_unit_test(keeps_everything_when_aborted),
		cmocka_unit_test(descriptor_is_aligned),
		cmocka_unit_test(index_out_of_range_is_refused),
		cmocka_unit_test(unregistered_threads_take_the_slow_way),
		cmocka_unit_test(single_steps_end),
		cmocka_unit_test(every_cpu_number_has_its_place),
		cmocka_unit_test(counts_exactly_per_cpu),
		cmocka_unit_test(counts_exactly_locked),
	};

	if (argc > 1 && !strcmp(argv[1], "unregistered"))
		return unregistered_main();
	return cmocka_run_group_tests_name("count", tests, set_up, NULL);
}
