/* SPDX-License-Identifier: MIT */
/*
 * `spin T`: T threads that never sleep. Each one calls noise() and looks at the clock; the longest
 * gap between two looks is the longest pause it saw. Other commands:
 *	reset		forget the gaps                      -> "reset"
 *	max		-> "max NS P50 P99 BUSY": the longest gap, two quantiles, gaps over 100 us
 *	sleep		the threads sleep instead of spinning ("wake" undoes it)   -> "sleep"
 * Gaps that the scheduler makes are in it too: compare with a run that nobody probes.
 */
#include <stdatomic.h>
#include "phases.h"

#define BUCKETS 64

static int threads;
static atomic_int quit, asleep;
static atomic_ulong epoch;

struct spinner {
	pthread_t id;
	atomic_long todo;		/* calls of work() that a phase still wants of it */
	atomic_ulong longest, hist[BUCKETS];
	unsigned long seen_epoch;
} __attribute__((aligned(64)));

static struct spinner spinners[256];

/* Powers of two of nanoseconds. */
static int bucket(unsigned long ns)
{
	return ns ? 63 - __builtin_clzl(ns) : 0;
}

static void forget(struct spinner *s, unsigned long e)
{
	int i;

	for (i = 0; i < BUCKETS; i++)
		s->hist[i] = 0;
	s->longest = 0;
	s->seen_epoch = e;
}

static void *spin(void *arg)
{
	struct spinner *s = arg;
	unsigned long last = now_ns(), now, e, x = (unsigned long)(s - spinners);

	while (!quit) {
		long todo = s->todo;

		make_noise(x++);
		if (todo) {
			work_times(todo);
			s->todo = 0;
		}
		if (asleep)
			usleep(10000);
		now = now_ns();
		e = epoch;
		if (e != s->seen_epoch || asleep) {
			forget(s, e);
		} else {
			s->hist[bucket(now - last)]++;
			if (now - last > s->longest)
				s->longest = now - last;
		}
		last = now;
	}
	return NULL;
}

static void run(long n)
{
	int i;

	for (i = 0; i < threads; i++)
		spinners[i].todo = share_of(n, i, threads);
	for (i = 0; i < threads; i++)
		while (spinners[i].todo)
			usleep(100);
}

static unsigned long quantile(const unsigned long *hist, unsigned long all, double q)
{
	unsigned long n = 0;
	int i;

	for (i = 0; i < BUCKETS; i++) {
		n += hist[i];
		if ((double)n >= q * (double)all)
			return 1ul << (i + 1);
	}
	return 0;
}

static void print_max(void)
{
	unsigned long hist[BUCKETS] = { 0 }, all = 0, longest = 0, busy = 0;
	int i, b;

	for (i = 0; i < threads; i++) {
		if (spinners[i].longest > longest)
			longest = spinners[i].longest;
		for (b = 0; b < BUCKETS; b++) {
			hist[b] += spinners[i].hist[b];
			all += spinners[i].hist[b];
			busy += b >= 17 ? spinners[i].hist[b] : 0;
		}
	}
	say("max %lu %lu %lu %lu", longest, quantile(hist, all, .5), quantile(hist, all, .99), busy);
}

static int other(const char *line)
{
	if (!strcmp(line, "max")) {
		print_max();
		return 0;
	}
	if (!strcmp(line, "reset")) {
		epoch++;
		usleep(2000);
	} else if (!strcmp(line, "sleep") || !strcmp(line, "wake")) {
		asleep = line[0] == 's';
	} else {
		return 1;
	}
	say("%s", line);
	return 0;
}

int main(int argc, char **argv)
{
	int i;

	threads = argc > 1 ? atoi(argv[1]) : 1;
	if (threads < 1 || threads > 256)
		return 2;
	for (i = 0; i < threads; i++)
		if (pthread_create(&spinners[i].id, NULL, spin, &spinners[i]))
			return 4;
	serve(run, other);
	quit = 1;
	for (i = 0; i < threads; i++)
		pthread_join(spinners[i].id, NULL);
	return verdict();
}
