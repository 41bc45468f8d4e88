/* SPDX-License-Identifier: MIT */
/*
 * Calls hit() from all kinds of threads and processes and tells at the end who called it how often:
 * "PID TID CALLS" lines. In each of them seq counts from 0.
 *
 *	told MODE N [COUNT]
 *	threads	COUNT threads	forks	COUNT children	vforks	COUNT vfork children, one after the other,
 *	clones	COUNT bare clone() threads on their parent's thread block, beside a thread that goes on
 *	blocks	the same with thread blocks of their own that libc knows nothing of
 *	copies	the same with copies of their parent's
 *	called	as copies, but made by syscall(); called-bare: as clones
 *	visits	a vfork child, then calls at leisure until 4 s have passed
 *	nested	a signal handler that calls it, too, COUNT times
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct teller { int pid, tid; long calls; };
static struct board { atomic_int n; struct teller v[4096]; } *board;
static long rounds;
static const char *const words[] = { "", "a", "hello", "a longer piece of text that has some length" };

__attribute__((noinline)) void hit(long seq, int kind, const char *text, double half)
{
	__asm__ volatile("" : : "r"(seq), "r"(kind), "r"(text), "x"(half) : "memory");
}

__attribute__((noinline)) static int run(int kind, long n)
{
	struct teller *t = &board->v[board->n++];

	t->pid = syscall(SYS_getpid);
	t->tid = syscall(SYS_gettid);
	for (long i = 0; i < n; i++) {
		hit(i, kind, words[i & 3], i / 2.0);
		t->calls++;
	}
	return 0;
}

static void *thread(void *arg)
{
	run((long)arg, rounds);
	return NULL;
}

static void with_threads(int count)
{
	pthread_t t[256];

	for (long i = 0; i < count; i++)
		pthread_create(&t[i], NULL, thread, (void *)i);
	for (int i = 0; i < count; i++)
		pthread_join(t[i], NULL);
}

static void with_forks(int count)
{
	for (int i = 0; i < count; i++)
		if (fork() == 0) {
			run(i, rounds);
			_exit(0);
		}
	run(-1, rounds);
	while (wait(NULL) > 0)
		;
}

static void with_vforks(int count)
{
	pthread_t beside;

	pthread_create(&beside, NULL, thread, (void *)-1l);
	for (int i = 0; i < count; i++) {
		if (vfork() == 0) {
			run(i, rounds / 10);
			_exit(0);
		}
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	pthread_join(beside, NULL);
}

static atomic_int bare_done;

static int bare(void *arg)
{
	run((long)arg, rounds / 10);
	bare_done++;
	syscall(SYS_exit, 0);
	return 0;
}

#ifdef __GLIBC__
#define BLOCK_SIZE 2368		/* with the place where the kernel keeps the CPU's number */
#else
#define BLOCK_SIZE 160
#endif

#define STACK_SIZE 16384

/* Where a thread goes that syscall() has made: it returns there on a stack on which nobody ever called. */
__attribute__((noreturn)) static void landed(void)
{
	uintptr_t base = (uintptr_t)__builtin_frame_address(0) & -(uintptr_t)STACK_SIZE;

	bare(*(void **)base);
	__builtin_unreachable();
}

/* As clone(), but through the function that makes all calls, with a number that is known only now. */
static void call_clone(char *stack, int flags, void *arg, void *block)
{
	static volatile long number = SYS_clone;
	void **top = (void **)(stack + STACK_SIZE);

	*(void **)stack = arg;
	top[-2] = landed;
	syscall(number, flags, top - 2, NULL, NULL, block);
}

static void with_bare(int count, bool own_blocks, bool copied, bool called)
{
	static char stacks[64][STACK_SIZE] __attribute__((aligned(STACK_SIZE))), blocks[64][8192] __attribute__((aligned(64)));
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	pthread_t beside;

	pthread_create(&beside, NULL, thread, (void *)-1l);
	for (long i = 0; i < count; i++) {
		char *block = blocks[i % 64] + 4096;

		if (copied)
			memcpy(block, __builtin_thread_pointer(), BLOCK_SIZE);
		*(void **)block = ((void **)block)[2] = block;	/* all that code with TLS may ask for */
		if (called)
			call_clone(stacks[i % 64], flags | (own_blocks ? CLONE_SETTLS : 0), (void *)i, block);
		else
			clone(bare, stacks[i % 64] + STACK_SIZE, flags | (own_blocks ? CLONE_SETTLS : 0), (void *)i, NULL,
			      block, NULL);
	}
	pthread_join(beside, NULL);
	while (bare_done < count)
		usleep(1000);
}

static void with_clones(int count)
{
	with_bare(count, false, false, false);
}

static void with_blocks(int count)
{
	with_bare(count, true, false, false);
}

static void with_copies(int count)
{
	with_bare(count, true, true, false);
}

static void with_called(int count)
{
	with_bare(count, true, true, true);
}

static void with_called_bare(int count)
{
	with_bare(count, false, false, true);
}

/* The stranger has the kind 0, what comes later 1. */
static void with_visits(int count)
{
	struct teller *t;

	if (vfork() == 0) {
		run(0, rounds);
		_exit(0);
	}
	wait(NULL);
	t = &board->v[board->n++];
	t->pid = t->tid = getpid();
	for (int i = 0; i < 4000; i++) {
		hit(t->calls, 1, words[i & 3], t->calls / 2.0);
		t->calls++;
		usleep(1000);
	}
}

static long nested;

static void on_signal(int sig)
{
	hit(-1 - nested++, 77, "nested", 0.5);
}

static void with_signals(int count)
{
	struct sigaction sa = { .sa_handler = on_signal };
	pid_t me = getpid();

	sigaction(SIGUSR1, &sa, NULL);
	if (fork() == 0) {
		for (int i = 0; i < count; i++) {
			kill(me, SIGUSR1);
			usleep(50);
		}
		_exit(0);
	}
	run(0, rounds);
	while (wait(NULL) < 0)
		;
	printf("%d %d %ld\n", me, me, nested);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "threads";
	int count = argc > 3 ? atoi(argv[3]) : 4;

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	rounds = argc > 2 ? atol(argv[2]) : 1000;
	if (!strcmp(mode, "threads"))
		with_threads(count);
	else if (!strcmp(mode, "forks"))
		with_forks(count);
	else if (!strcmp(mode, "vforks"))
		with_vforks(count);
	else if (!strcmp(mode, "visits"))
		with_visits(count);
	else if (!strcmp(mode, "clones"))
		with_clones(count);
	else if (!strcmp(mode, "blocks"))
		with_blocks(count);
	else if (!strcmp(mode, "copies"))
		with_copies(count);
	else if (!strcmp(mode, "called"))
		with_called(count);
	else if (!strcmp(mode, "called-bare"))
		with_called_bare(count);
	else
		with_signals(count);
	for (int i = 0; i < board->n; i++)
		printf("%d %d %ld\n", board->v[i].pid, board->v[i].tid, board->v[i].calls);
	return 0;
}
