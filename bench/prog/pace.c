/* SPDX-License-Identifier: MIT */
/*
 * Calls step() at a given rate from several threads, and tells how often and how long it took.
 *
 *	pace THREADS CALLS_PER_SECOND SECONDS	-> calls, seconds; the rate 0 is as fast as it can
 *
 * Each thread stays on a CPU of its own, if there are as many. One that fell behind catches up.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCH 100

static double rate, seconds;
static struct thread { long calls; pthread_t id; char apart[112]; } threads[64];

__attribute__((noinline)) void step(long n, long twice)
{
	__asm__ volatile("" : : "r"(n), "r"(twice) : "memory");
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void sleep_until(double t)
{
	struct timespec at = { t, (t - (long)t) * 1e9 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* The one of that number among those that we may use. */
static void stay_on(long number)
{
	cpu_set_t set, one;

	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	number %= CPU_COUNT(&set);
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set) && number-- == 0)
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void *run(void *arg)
{
	struct thread *t = arg;
	double start = now();
	long *calls = &t->calls, due;

	stay_on(t - threads);
	for (;;) {
		double past = now() - start;

		if (past >= seconds)
			return NULL;
		due = rate ? rate * past : *calls + BATCH;
		for (; *calls < due; ++*calls)
			step(*calls, *calls * 2);
		if (rate)
			sleep_until(start + past + BATCH / rate);
	}
}

int main(int argc, char **argv)
{
	int n = argc > 3 ? atoi(argv[1]) : 1;
	double start = now();
	long sum = 0;

	rate = argc > 3 ? atof(argv[2]) : 1000;
	seconds = argc > 3 ? atof(argv[3]) : 1;
	for (int i = 0; i < n && i < 64; i++)
		if (pthread_create(&threads[i].id, NULL, run, &threads[i]))
			return 1;
	for (int i = 0; i < n && i < 64; i++) {
		pthread_join(threads[i].id, NULL);
		sum += threads[i].calls;
	}
	printf("%ld %.3f\n", sum, now() - start);
	return 0;
}
