/* SPDX-License-Identifier: MIT */
/*
 * An event with an int, a long and a string of 16 bytes: none, one of <jab/tracepoint.h> (-DWITH_JAB), or the same of LTTng-UST
 * (-DWITH_LTTNG); with -DCHARS the text is an array of 16
 * chars, with -DWORDS two longs. Prints the median ns per call, of chunks with pauses between them.
 *
 *	tracepoint MILLISECONDS PAUSE
 */
#ifdef WITH_LTTNG
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "tracepoint_event.h"
#endif
#ifdef WITH_JAB
#include <jab/tracepoint.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CALLS 2000
#define MAX_CHUNKS 20000

long words[2] = { 1, 2 };
char chars[16] = "fifteen letters";

__attribute__((noinline)) int work(int i, long l, const char *s)
{
#if defined WITH_JAB && defined WORDS
	JAB_TRACEPOINT(jabbench, text, ("i", i), ("l", l), ("words", words));
#elif defined WITH_JAB && defined CHARS
	JAB_TRACEPOINT(jabbench, text, ("i", i), ("l", l), ("s", chars));
#elif defined WITH_JAB
	JAB_TRACEPOINT(jabbench, text, ("i", i), ("l", l), ("s", s));
#endif
#ifdef WITH_LTTNG
	lttng_ust_tracepoint(jabbench, text, i, l, s);
#endif
	__asm__ volatile("" : "+r"(i) : "r"(l), "r"(s) : "memory");
	return i;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static double one_chunk(const char *s)
{
	double start = now();

	for (int i = 0; i < CALLS; i++)
		work(i, 1000l * i, s);
	return (now() - start) / CALLS;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static double chunk[MAX_CHUNKS];
	char text[] = "fifteen letters";
	double end = now() + (argc > 2 ? atof(argv[1]) : 100) * 1e6;
	int pause = argc > 2 ? atoi(argv[2]) : 1000, n = 0;

	do {
		chunk[n++] = one_chunk(text);
		usleep(pause);
	} while (n < MAX_CHUNKS && now() < end);
	qsort(chunk, n, sizeof(*chunk), compare);
	fprintf(stderr, "%.4f\n", chunk[n / 2]);
	return 0;
}
