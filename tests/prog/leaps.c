/* SPDX-License-Identifier: MIT */
/*
 * Calls that are left by longjmp. `leaps THREADS ROUNDS` prints for each function how often it was called, has returned and was
 * left; and a sum. Jumps are nested, come from signal handlers (on the same stack and, in the first thread, on another one) and
 * go by way of siglongjmp; coroutines on stacks of their own switch by longjmp, and nothing of theirs is left.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef PLAIN
#include <ucontext.h>
#endif
#include <unistd.h>

#define noinline __attribute__((noinline, noclone))
#define COUNT(which, what) __atomic_fetch_add(&(what)[which], 1, __ATOMIC_RELAXED)

enum { INNER, MIDDLE, OUTER, HANDLED, WAITS,
#ifndef PLAIN
	YIELDS, ESCAPES,
#endif
	FUNCTIONS };
static const char *const names[] = { "inner", "middle", "outer", "handled", "waits", "yields", "escapes" };
static long called[FUNCTIONS], returned[FUNCTIONS], sum, turns;
static __thread jmp_buf near, far;
static __thread sigjmp_buf handled_env;

noinline long inner(long i)
{
	COUNT(INNER, called);
	if (i % 4 == 1)
		longjmp(near, 1);
	if (i % 4 == 2)
		longjmp(far, 1);
	COUNT(INNER, returned);
	return i;
}

noinline long middle(long i)
{
	long r;

	COUNT(MIDDLE, called);
	if (setjmp(near)) {
		COUNT(MIDDLE, returned);
		return -1;
	}
	r = inner(i) + 1;
	COUNT(MIDDLE, returned);
	return r;
}

noinline long outer(long i)
{
	long r;

	COUNT(OUTER, called);
	r = setjmp(far) ? -2 : middle(i) + 1;
	COUNT(OUTER, returned);
	return r;
}

static void on_signal(int sig)
{
	siglongjmp(handled_env, sig);
}

noinline void waits(int sig)
{
	COUNT(WAITS, called);
	raise(sig);
	COUNT(WAITS, returned);
}

noinline long handled(int sig)
{
	long r = 0;

	COUNT(HANDLED, called);
	if (!sigsetjmp(handled_env, 1))
		waits(sig);
	else
		r = sig;
	COUNT(HANDLED, returned);
	return r;
}

#ifndef PLAIN	/* a checked longjmp() does not let one switch stacks; musl has no contexts */

/* Coroutines: their frames live on when they are jumped away from. */
static jmp_buf there[2], back;
static ucontext_t contexts[2], start;
static char stacks[2][64 << 10];

noinline void yields(int who)
{
	COUNT(YIELDS, called);
	if (!setjmp(there[who]))
		longjmp(back, 1);
	turns++;
	COUNT(YIELDS, returned);
}

static void coroutine(int who)
{
	for (;;)
		yields(who);
}

static void resume(int who, int first)
{
	if (setjmp(back))
		return;
	if (first)
		setcontext(&contexts[who]);
	longjmp(there[who], 1);
}

/* By no way that is watched. */
noinline void escapes(ucontext_t *to)
{
	COUNT(ESCAPES, called);
	if (to)
		setcontext(to);
	COUNT(ESCAPES, returned);
}

static void escape(void)
{
	volatile int times = 0;
	ucontext_t here;

	getcontext(&here);
	if (times++ < 5)
		escapes(&here);
}

static void coroutines(long rounds)
{
	for (int i = 0; i < 2; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = stacks[i];
		contexts[i].uc_stack.ss_size = sizeof(stacks[i]);
		contexts[i].uc_link = &start;
		makecontext(&contexts[i], (void (*)(void))coroutine, 1, i);
		resume(i, 1);
	}
	for (volatile long i = 0; i < rounds; i++)
		resume(i % 2, 0);
}
#endif

static void *run(void *arg)
{
	long rounds = (long)arg, s = 0;

	for (long i = 0; i < rounds; i++) {
		s += outer(i);
		if (i % 4 == 0)
			s += handled(SIGUSR1);
	}
	__atomic_fetch_add(&sum, s, __ATOMIC_RELAXED);
	return NULL;
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 1, rounds = argc > 2 ? atol(argv[2]) : 8;
	struct sigaction sa = { .sa_handler = on_signal };
	stack_t alt = { .ss_sp = malloc(64 << 10), .ss_size = 64 << 10 };
	pthread_t *threads = calloc(n, sizeof(*threads));

	sigaction(SIGUSR1, &sa, NULL);
	sa.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &sa, NULL);
	sigaltstack(&alt, NULL);
	for (long i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, run, (void *)rounds);
	for (long i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	run((void *)rounds);
	sum += handled(SIGUSR2);
#ifndef PLAIN
	coroutines(rounds);
	escape();
#endif
	for (int i = 0; i < FUNCTIONS; i++)
		printf("%s %ld %ld %ld\n", names[i], called[i], returned[i], called[i] - returned[i]);
	printf("sum %ld turns %ld\n", sum, turns);
	return 0;
}
