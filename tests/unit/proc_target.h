/* SPDX-License-Identifier: MIT */
/* Small processes to be traced: forked from the test, sharing a page of results with it. */
#ifndef JAB_TEST_PROC_TARGET_H
#define JAB_TEST_PROC_TARGET_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/internal.h"
#include "proc/proc.h"
/* Last: it makes a macro of fail(). */
#include <cmocka.h>

struct shared {
	volatile uint64_t turns[256];	/* progress, one per thread */
	volatile uint64_t wrong;	/* line that found something wrong; 0: nothing */
	volatile uint64_t ready, stop, value, extra;
	volatile int64_t result, error;
	volatile uint64_t elapsed;
};

static struct shared *sh;

__attribute__((unused)) static void fresh_shared(void)
{
	if (!sh)
		sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(sh, 0, sizeof(*sh));
}

/* For a child: it may be so late that its parent is gone already. */
__attribute__((unused)) static void die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
}

/* Fork a target; it dies with the test. */
__attribute__((unused)) static pid_t start_target(void (*run)(void *), void *arg)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		die_with(parent);
		run(arg);
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

__attribute__((unused)) static void end_target(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
}

__attribute__((unused)) static char state_of(pid_t pid)
{
	struct task_stat s;

	return task_stat(pid, pid, &s) < 0 ? '-' : s.state;
}

#define PATIENCE_NS 60000000000ull	/* on a busy machine a thread may wait long for its turn */

__attribute__((unused)) static bool wait_until(volatile uint64_t *what, uint64_t value)
{
	uint64_t end = now_ns() + PATIENCE_NS;

	while (*what < value && now_ns() < end)
		sleep_ns(50000);
	return *what >= value;
}

__attribute__((unused)) static void wait_state(pid_t pid, char state)
{
	uint64_t end = now_ns() + PATIENCE_NS;

	while (state_of(pid) != state && now_ns() < end)
		sleep_ns(100000);
	assert_int_equal(state_of(pid), state);
}

__attribute__((unused)) static void *count_turns(void *arg)
{
	for (;;) {
		sh->turns[(long)arg]++;
		sleep_ns(1000000);
	}
	return NULL;
}

__attribute__((unused)) static void two_threads(void *arg)
{
	pthread_t t;

	pthread_create(&t, NULL, count_turns, (void *)1);
	count_turns(NULL);
}

/* Zero, or the sentence of the failure. */
#define assert_ok(call) do { \
	int r_ = (call); \
	if (r_ < 0) \
		fail_msg("%s: %d: %s", #call, r_, err_text()); \
} while (0)

__attribute__((unused)) static struct proc *opened(pid_t pid)
{
	struct proc *p = NULL;

	assert_ok(proc_open(pid, &p));
	return p;
}

__attribute__((unused)) static int64_t borrowed(struct proc *p, long nr, uint64_t a, uint64_t b)
{
	uint64_t args[6] = { a, b };
	int64_t value = -1;

	assert_ok(proc_syscall(p, nr, args, &value));
	return value;
}

/* Stop, let the target make a few calls, check their results, and let go. */
__attribute__((unused)) static void one_round(struct proc *p)
{
	size_t room;
	int64_t fd;
	taddr at;

	assert_ok(proc_stop(p));
	assert_ok(proc_scratch(p, &at, &room));
	assert_ok(proc_write(p, at, "test", 5));
	fd = borrowed(p, SYS_memfd_create, at.v, 1);
	assert_true(fd >= 0);
	assert_int_equal(borrowed(p, SYS_gettid, 0, 0), proc_borrowed_tid(p));
	assert_int_equal(borrowed(p, SYS_close, fd, 0), 0);
	assert_ok(proc_resume(p));
}

/*
 * A loop that fills general, flag and vector registers with values of its own, and looks whether they
 * are still there after a while: what a program in the middle of a computation is like.
 */
#define CHECK_AVX __builtin_cpu_supports("avx2")

__attribute__((unused, noinline)) static bool registers_hold(uint64_t n, bool avx)
{
	uint64_t in[4] __attribute__((aligned(16))) = { n, n * 3, ~n, n ^ 0x5555 }, out[4] = { 0 }, bad = 0;

	/* The stack is moved away from what the compiler keeps in its own red zone. */
	__asm__ volatile(
		"lea -256(%%rsp), %%rsp\n\t"
		"movdqu (%[in]), %%xmm3\n\tmovdqu 16(%[in]), %%xmm12\n\t"
		"test %[avx], %[avx]\n\tjz 1f\n\tvmovdqu (%[in]), %%ymm7\n1:\n\t"
		"mov %[n], %%r8\n\tmov %[n], %%r11\n\tmov %[n], %%r15\n\tmov %[n], %%rdx\n\t"
		"mov %[n], -64(%%rsp)\n\tmov %[n], -128(%%rsp)\n\t"
		"mov $3000, %%ecx\n2:\tstc\n\tjnc 9f\n\tdec %%ecx\n\tjnz 2b\n\t"
		"cmp %[n], %%r8\n\tjne 9f\n\tcmp %[n], %%r11\n\tjne 9f\n\tcmp %[n], %%r15\n\tjne 9f\n\t"
		"cmp %[n], %%rdx\n\tjne 9f\n\tcmp %[n], -64(%%rsp)\n\tjne 9f\n\t"
		"cmp %[n], -128(%%rsp)\n\tjne 9f\n\t"
		"movdqu %%xmm3, (%[out])\n\tmovdqu %%xmm12, 16(%[out])\n\t"
		"test %[avx], %[avx]\n\tjz 3f\n\t"
		"movdqu (%[out]), %%xmm3\n\tpcmpeqb (%[in]), %%xmm3\n\tpmovmskb %%xmm3, %%ecx\n\t"
		"cmp $0xffff, %%ecx\n\tjne 9f\n\tvmovdqu %%ymm7, (%[out])\n\t"
		"jmp 3f\n9:\tmovq $1, (%[bad])\n3:\n\t"
		"lea 256(%%rsp), %%rsp\n\t"
		:
		: [in] "r"(in), [out] "r"(out), [n] "r"(n), [avx] "r"((uint64_t)avx), [bad] "r"(&bad)
		: "rcx", "rdx", "r8", "r11", "r15", "xmm3", "xmm7", "xmm12", "cc", "memory");
	return !bad && memcmp(in, out, sizeof(in)) == 0;
}

__attribute__((unused)) static size_t stopped_threads(const struct proc *p)
{
	size_t i, n = 0;

	for (i = 0; i < p->threads.n; i++)
		n += p->threads.v[i].stopped;
	return n;
}

__attribute__((unused)) static uint64_t all_turns(void)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sh->turns); i++)
		sum += sh->turns[i];
	return sum;
}

__attribute__((unused)) static void wait_for_turns(uint64_t before)
{
	uint64_t end = now_ns() + PATIENCE_NS;

	while (all_turns() <= before && now_ns() < end)
		sleep_ns(100000);
	assert_true(all_turns() > before);
}

#endif
