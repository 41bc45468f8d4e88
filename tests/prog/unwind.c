/* SPDX-License-Identifier: MIT */
/*
 * Stacks of all kinds, for ever: callbacks out of libc, calls through the PLT, frames without a fixed
 * size and realigned ones, handlers on the same stack and on another, threads. `unwind` prints "ready"
 * and goes on until it is killed.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#ifdef __clang__
#define noinline __attribute__((noinline, optnone))
#else
#define noinline __attribute__((noinline, noclone, optimize("no-optimize-sibling-calls")))
#endif

static volatile uint64_t sink;

static noinline uint64_t spin(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		sink = sink * 3 + i;
	return sink;
}

static int compare(const void *a, const void *b)
{
	spin(20);
	return *(const int *)a - *(const int *)b;
}

static noinline void sort_some(void)
{
	int v[200];

	for (int i = 0; i < 200; i++)
		v[i] = (i * 7919) % 211;
	qsort(v, 200, sizeof(v[0]), compare);
	sink += v[3];
}

static noinline uint64_t dynamic(size_t n, int depth)
{
	char *p = __builtin_alloca(n);
	uint64_t r;

	memset(p, depth, n);
	r = depth ? dynamic(n + 16, depth - 1) : spin(300);
	return r + p[n / 2];
}

/* 32-byte alignment of a local: the stack pointer is moved by an unknown distance. */
static noinline uint64_t realigned(int depth, int a, int b, int c, int d, int e, int f, int g)
{
	uint64_t v[16] __attribute__((aligned(64)));

	for (int i = 0; i < 16; i++)
		v[i] = sink + i * a + g;
	__asm__ volatile("" : : "r"(v) : "memory");
	return (depth ? realigned(depth - 1, b, c, d, e, f, g, a) : dynamic(64, 3)) + v[depth & 15];
}

static noinline uint64_t big(int depth)
{
	volatile char room[9000];

	room[depth] = depth;
	return (depth ? big(depth - 1) : spin(300)) + room[depth];
}

static noinline void print_some(void)
{
	char text[200];

	snprintf(text, sizeof(text), "%f %s %d %g", sink / 3.0, "some", 7, 1e300);
	sink += strlen(text) + strtol(text, NULL, 10) + atoi(text + 1);
}

static noinline void jump(void)
{
	static __thread jmp_buf env;

	if (setjmp(env) == 0) {
		spin(50);
		longjmp(env, 1);
	}
}

static noinline uint64_t recurse(int n)
{
	uint64_t r = n ? recurse(n - 1) : spin(500);

	sink += n;	/* or the compiler makes a loop of it */
	return r + sink;
}

static void on_signal(int sig)
{
	recurse(3);
	if (sig == SIGUSR1)
		sort_some();
}

static void *work(void *arg)
{
	for (;;) {
		sort_some();
		realigned(4, 1, 2, 3, 4, 5, 6, 7);
		big(3);
		print_some();
		jump();
		recurse(40);
		raise(SIGUSR1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction same = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct sigaction other = { .sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK };
	struct itimerval often = { { 0, 500 }, { 0, 500 } };
	stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };
	pthread_t t;

	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &other, NULL);
	sigaction(SIGUSR1, &same, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	pthread_create(&t, NULL, work, NULL);
	puts("ready");
	fflush(stdout);
	work(NULL);
}
