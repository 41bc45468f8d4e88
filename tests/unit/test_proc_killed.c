/* SPDX-License-Identifier: MIT */
/*
 * The tracer is killed at every step, again and again; the target must go on with the right values.
 * The tracer is a child that counts the steps and kills itself at the one whose turn it is.
 */
#include "proc_target.h"

#include <poll.h>
#include <sys/epoll.h>
#include "arch/event.h"
#include "proc/arena/arena.h"
#include "proc/text/text.h"

#define REPEATS 3

static long step_now, step_last;

/*
 * Between the moment when a thread is woken out of its call and that when we have seen and rewound
 * it, nobody can help: killed there, epoll_wait does say EINTR, and nothing else happens.
 */
static bool is_woken_only(const char *step)
{
	return strcmp(step, "stop: interrupted") == 0 || strcmp(step, "stop: thread stopped") == 0;
}

static void die_at_step(const char *step)
{
	if (++step_now != step_last)
		return;
	sh->value = is_woken_only(step);
	raise(SIGKILL);
}

/* What the targets check about themselves in every turn, besides their registers. */
static stack_t altstack;
static sigset_t usual_mask;

static void set_up(void)
{
	altstack.ss_sp = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	altstack.ss_size = 65536;
	sigaltstack(&altstack, NULL);
	sigemptyset(&usual_mask);
	sigaddset(&usual_mask, SIGUSR2);
	sigprocmask(SIG_SETMASK, &usual_mask, NULL);
}

static void check(bool ok, int line)
{
	if (!ok)
		sh->wrong = line;
}

#define CHECK(cond) check(cond, __LINE__)

static void check_thread(bool main)
{
	sigset_t mask;
	stack_t ss;

	sigprocmask(SIG_SETMASK, NULL, &mask);
	CHECK(memcmp(&mask, &usual_mask, 8) == 0);
	sigaltstack(NULL, &ss);
	if (main)
		CHECK(ss.ss_sp == altstack.ss_sp && ss.ss_size == altstack.ss_size && ss.ss_flags == 0);
}

static void *compute(void *arg)
{
	long me = (long)arg;
	bool avx = CHECK_AVX;
	uint64_t n;

	for (n = 1;; n++) {
		CHECK(registers_hold(n, avx));
		check_thread(me == 0);
		sh->turns[me] = n;
	}
	return NULL;
}

static void one_thread(void *arg)
{
	set_up();
	compute(NULL);
}

static void four_threads(void *arg)
{
	pthread_t t;
	long i;

	set_up();
	for (i = 1; i < 4; i++)
		pthread_create(&t, NULL, compute, (void *)i);
	compute(NULL);
}

/* Calls of a millisecond, in turn; each must end by time and not before. */
static void in_calls(void *arg)
{
	const struct timespec ms = { 0, 1000000 };
	int fds[2], e = epoll_create1(0);
	struct pollfd f = { .events = POLLIN };
	struct epoll_event ev;
	uint64_t n, t;

	set_up();
	CHECK(pipe(fds) == 0);
	f.fd = fds[0];
	for (n = 1;; n++) {
		t = now_ns();
		switch (n % 5) {
		case 0: CHECK(nanosleep(&ms, NULL) == 0); break;
		case 1: CHECK(epoll_wait(e, &ev, 1, 1) == 0 || (sh->value && errno == EINTR)); break;
		case 2: CHECK(poll(&f, 1, 1) == 0); break;
		case 3: CHECK(ppoll(&f, 1, &ms, NULL) == 0); break;
		case 4: CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL) == 0); break;
		}
		CHECK(now_ns() - t >= 1000000 || sh->value);
		check_thread(true);
		sh->turns[0] = n;
	}
}

static void *in_read(void *arg)
{
	char b;

	CHECK(read(*(int *)arg, &b, 1) == 1);	/* never */
	return NULL;
}

/* The main thread computes; the others sleep, and one of them is borrowed. */
static void some_sleep(void *arg)
{
	static int fds[2];
	pthread_t t;
	int i;

	set_up();
	CHECK(pipe(fds) == 0);
	for (i = 0; i < 3; i++)
		pthread_create(&t, NULL, in_read, fds);
	compute(NULL);
}

/* Like Go: the stack lies in a heap at Go's address, with other people's data right below it. */
static uint8_t *heap;

static void compute_on_heap(void)
{
	bool avx = CHECK_AVX;
	uint64_t n, i;

	for (n = 1;; n++) {
		CHECK(registers_hold(n, avx));
		check_thread(true);
		for (i = 0; i < 60000; i += 64)
			CHECK(heap[i] == 0x5a);
		sh->turns[0] = n;
	}
}

static void like_go(void *arg)
{
	set_up();
	heap = mmap((void *)0xc000000000ull, 1 << 20, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memset(heap, 0x5a, 1 << 20);
	__asm__ volatile("mov %0, %%rsp\n\tcall *%1" :: "r"(heap + 65536), "r"(compute_on_heap) : "memory");
}

/* For programs without a restorer; the test has one, so it is told to use these. */
__asm__(".pushsection .text\ntest_pop:\tpop %rax\n\tret\ntest_call:\tsyscall\n\tud2\n.popsection");
extern char test_pop[], test_call[];
static bool no_restorer;

static void use_no_restorer(struct proc *p)
{
	priv(p)->gadget = (struct gadget){ .start = (uintptr_t)test_pop, .pop = (uintptr_t)test_pop,
					   .call = (uintptr_t)test_call };
}

/* What is done to the target between the steps: cmocka is not asked, for it can't report from here. */
static int trace(pid_t pid)
{
	static const struct piece pieces[] = {
		{ .len = 4096 }, { .len = 4096, .kind = PIECE_PRIVATE }, { .len = 4096, .kind = PIECE_SCRATCH },
		{ .len = RING_HEAD_SIZE + RING_SIZE_MIN, .kind = PIECE_RING },
	};
	struct piece fresh[ARRAY_SIZE(pieces)];
	uint64_t args[6] = { 0 };
	struct arena *a;
	int64_t value = -1;
	struct proc *p;
	size_t room;
	taddr at;

	if (proc_open(pid, &p) < 0)
		return 5;
	if (no_restorer)
		use_no_restorer(p);
	if (proc_stop(p) < 0 || proc_scratch(p, &at, &room) < 0 ||
	    proc_write(p, at, "test", 5) < 0)
		return 1;
	args[0] = at.v;
	if (proc_syscall(p, SYS_memfd_create, args, &value) < 0 || value < 0)
		return 2;
	args[0] = value;
	if (proc_syscall(p, SYS_close, args, &value) < 0 || value != 0)
		return 3;
	if (proc_resume(p) < 0)
		return 4;
	memcpy(fresh, pieces, sizeof(fresh));
	if (arena_create(p, fresh, ARRAY_SIZE(fresh), 1, &a) < 0)
		return 6;
	if (arena_destroy(a) < 0)
		return 7;
	proc_close(p);
	return 0;
}

/* Returns whether the tracer was killed: if not, all its steps are done. */
static bool kill_tracer_at(pid_t target, long step)
{
	pid_t tracer = fork();
	int status;

	if (tracer == 0) {
		step_now = 0;
		step_last = step;
		proc_step_hook = die_at_step;
		_exit(trace(target));
	}
	waitpid(tracer, &status, 0);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGKILL);
		return true;
	}
	assert_int_equal(status, 0);
	return false;
}

static void goes_on(pid_t target, int threads, long step)
{
	int i, status;

	for (i = 0; i < threads; i++) {
		uint64_t before = sh->turns[i];

		if (!wait_until(&sh->turns[i], before + 3))
			fail_msg("killed at step %ld: thread %d does not go on, state %c", step, i,
				 state_of(target));
	}
	if (waitpid(target, &status, WNOHANG) == target)
		fail_msg("killed at step %ld: the target ended, status %#x", step, status);
	if (sh->wrong)
		fail_msg("killed at step %ld: line %d of the target saw a wrong value", step, (int)sh->wrong);
}

/* What was left behind goes, by another process: later steps find the target as the first one did. */
static void take_out(pid_t target, long step)
{
	struct text_report report;
	int r = text_recover(target, &report);

	if (r != -ENOENT && (r < 0 || !report.verified))
		fail_msg("killed at step %ld: not recovered: %s", step, r < 0 ? err_text() : "not verified");
}

struct kind { void (*run)(void *); int threads; bool no_restorer; };

static void survives(void **state)
{
	const struct kind *kind = *state;
#if defined(__SANITIZE_ADDRESS__)
	if (kind->run == like_go)
		skip();		/* that address is not to be had there */
#endif
	long step, repeat, killed = 0;
	pid_t target;

	fresh_shared();
	no_restorer = kind->no_restorer;
	target = start_target(kind->run, NULL);
	goes_on(target, kind->threads, 0);
	for (repeat = 0; repeat < REPEATS; repeat++)
		for (step = 1; kill_tracer_at(target, step); step++) {
			goes_on(target, kind->threads, step);
			take_out(target, step);
			sh->value = 0;
			killed++;
		}
	assert_true(killed >= REPEATS * 40);
	goes_on(target, kind->threads, 0);
	end_target(target);
}

static struct kind kinds[] = {
	{ one_thread, 1, false }, { four_threads, 4, false }, { in_calls, 1, false },
	{ some_sleep, 1, false }, { like_go, 1, false }, { one_thread, 1, true },
};

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "one thread computes", survives, NULL, NULL, &kinds[0] },
		{ "four threads compute", survives, NULL, NULL, &kinds[1] },
		{ "one thread sleeps in calls", survives, NULL, NULL, &kinds[2] },
		{ "one computes, three sleep", survives, NULL, NULL, &kinds[3] },
		{ "stacks as in Go", survives, NULL, NULL, &kinds[4] },
		{ "without a restorer", survives, NULL, NULL, &kinds[5] },
	};

	return cmocka_run_group_tests_name("killed tracer", tests, NULL, NULL);
}
