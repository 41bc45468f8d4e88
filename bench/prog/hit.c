/* SPDX-License-Identifier: MIT */
/*
 * A hot loop that measures itself. It obeys lines on its standard input:
 *
 *	measure FUNCTION THREADS MILLISECONDS [PAUSE]	-> median and best ns per call
 *	call FUNCTION TIMES			-> the sum of the results
 *	where FUNCTION				-> its address
 *	chain data|heap				-> the address of three pointers in a row, in its data or in its heap
 *
 * Time is taken over short chunks of calls, so that most chunks are not interrupted and the median
 * is that of an undisturbed one even on a busy machine. PAUSE: microseconds between chunks, for whoever
 * reads what a chunk writes.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t (*work_fn)(uint64_t);

uint64_t work_push(uint64_t), work_nop(uint64_t), work_step(uint64_t), work_other(uint64_t);
uint64_t ref_rdtsc(uint64_t), ref_lock(uint64_t);

static const struct { const char *name; work_fn fn; } table[] = {
	{ "work_push", work_push }, { "work_nop", work_nop }, { "work_step", work_step },
	{ "work_other", work_other }, { "ref_rdtsc", ref_rdtsc }, { "ref_lock", ref_lock },
};

#define CALLS 2000		/* in a chunk */
#define SLOW_CALLS 40		/* where one call takes microseconds */
#define MAX_CHUNKS 20000
#define MAX_THREADS 64

struct run {
	work_fn fn;
	double ms;
	int pause;
	pthread_t thread;
	int n;
	double chunk[MAX_CHUNKS];	/* ns per call */
};

static volatile uint64_t sink;

static work_fn find(const char *name)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (!strcmp(table[i].name, name))
			return table[i].fn;
	return NULL;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static double one_chunk(work_fn fn, int calls)
{
	double start = now();
	uint64_t sum = 0;

	for (int i = 0; i < calls; i++)
		sum += fn(i);
	sink = sum;
	return (now() - start) / calls;
}

static void *run_chunks(void *arg)
{
	struct run *r = arg;
	double end = now() + r->ms * 1e6;
	int calls = one_chunk(r->fn, SLOW_CALLS) > 3000 ? SLOW_CALLS : CALLS;

	r->n = 0;
	do {
		r->chunk[r->n++] = one_chunk(r->fn, calls);
		if (r->pause)
			usleep(r->pause);
	} while (r->n < MAX_CHUNKS && now() < end);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* All chunks of all threads together. */
static void report(struct run *runs, int threads)
{
	double *all;
	int n = 0;

	for (int i = 0; i < threads; i++)
		n += runs[i].n;
	all = malloc(n * sizeof(*all));
	if (!all)
		exit(1);
	n = 0;
	for (int i = 0; i < threads; i++) {
		memcpy(all + n, runs[i].chunk, runs[i].n * sizeof(*all));
		n += runs[i].n;
	}
	qsort(all, n, sizeof(*all), compare);
	printf("%.4f %.4f\n", all[n / 2], all[0]);
	free(all);
}

static void measure(work_fn fn, int threads, double ms, int pause)
{
	static struct run runs[MAX_THREADS];

	for (int i = 0; i < threads; i++) {
		runs[i].fn = fn;
		runs[i].ms = ms;
		runs[i].pause = pause;
		if (i && pthread_create(&runs[i].thread, NULL, run_chunks, &runs[i]))
			exit(1);
	}
	run_chunks(&runs[0]);
	for (int i = 1; i < threads; i++)
		pthread_join(runs[i].thread, NULL);
	report(runs, threads);
}

static void call(work_fn fn, long times)
{
	uint64_t sum = 0;

	for (long i = 0; i < times; i++)
		sum += fn(i);
	printf("%llu\n", (unsigned long long)sum);
}

/* The last one leads to a number. */
static void chain(bool heap)
{
	static uint64_t data[4];
	uint64_t *at = heap ? malloc(sizeof(data)) : data;

	if (!at)
		exit(1);
	for (int i = 0; i < 3; i++)
		at[i] = (uintptr_t)&at[i + 1];
	at[3] = 6;
	printf("%llu\n", (unsigned long long)(uintptr_t)at);
}

int main(void)
{
	char line[128], word[16], name[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		double a = 0, b = 0, c = 0;
		work_fn fn;

		if (sscanf(line, "%15s %31s %lf %lf %lf", word, name, &a, &b, &c) == 2 && !strcmp(word, "chain"))
			chain(!strcmp(name, "heap"));
		else if (sscanf(line, "%15s %31s %lf %lf %lf", word, name, &a, &b, &c) < 2 || !(fn = find(name)))
			puts("what?");
		else if (!strcmp(word, "measure") && a >= 1 && a <= MAX_THREADS)
			measure(fn, a, b, c);
		else if (!strcmp(word, "call"))
			call(fn, a);
		else if (!strcmp(word, "where"))
			printf("%p\n", (void *)fn);
		else
			puts("what?");
	}
	return 0;
}
