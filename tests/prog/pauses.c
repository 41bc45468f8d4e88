/* SPDX-License-Identifier: MIT */
/*
 * `pauses`: a thread that measures how long it did not run, and one that only sleeps. `tid` says the number of
 * the second; `longest` the longest pause of the first since the last such question, in microseconds.
 */
#include <sys/syscall.h>
#include "prog.h"

static volatile int sleeper;
static volatile long calls;
static volatile uint64_t longest;

noinline unsigned long work(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3;
}

static void *sleep_on(void *arg)
{
	sleeper = (int)syscall(SYS_gettid);
	for (;;)
		usleep(1000);
	return NULL;
}

static void *measure(void *arg)
{
	uint64_t last = now_ns(), now;

	for (;; last = now) {
		work(1);
		calls++;
		now = now_ns();
		if (now - last > longest)
			longest = now - last;
	}
	return NULL;
}

static void run(long n)
{
	long end = calls + n;

	while (calls < end)
		usleep(100);
}

static int other(const char *line)
{
	if (!strcmp(line, "tid")) {
		say("%d", sleeper);
		return 0;
	}
	if (strcmp(line, "longest"))
		return 1;
	say("%lu", (unsigned long)(longest / 1000));
	longest = 0;
	return 0;
}

int main(void)
{
	pthread_t t;

	pthread_create(&t, NULL, sleep_on, NULL);
	while (!sleeper)
		usleep(100);
	pthread_create(&t, NULL, measure, NULL);
	serve(run, other);
	return verdict();
}
