/* SPDX-License-Identifier: MIT */
/*
 * A loop that measures what others add to it. Built with -pg it is uftrace's; with -DWITH_LTTNG it has a
 * static LTTng event of two numbers; with -DWITH_ROOM an instruction of five bytes first, which GDB's fast
 * tracepoints want. Prints the median ns per call.
 *
 *	peer MILLISECONDS PAUSE
 */
#ifdef WITH_LTTNG
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "peer_event.h"
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CALLS 2000
#define MAX_CHUNKS 20000
#define PLAIN __attribute__((no_instrument_function))

__attribute__((noinline)) uint64_t work(uint64_t a, uint64_t b)
{
#ifdef WITH_ROOM
	__asm__ volatile(".byte 0x0f, 0x1f, 0x44, 0, 0" : "+D"(a), "+S"(b));
#endif
#ifdef WITH_LTTNG
	lttng_ust_tracepoint(jabbench, hit, a, b);
#endif
	__asm__ volatile("" : "+r"(a) : "r"(b) : "memory");
	return a;
}

PLAIN static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

PLAIN static double one_chunk(void)
{
	double start = now();

	for (int i = 0; i < CALLS; i++)
		work(i, i);
	return (now() - start) / CALLS;
}

PLAIN static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

PLAIN int main(int argc, char **argv)
{
	static double chunk[MAX_CHUNKS];
	double end = now() + (argc > 2 ? atof(argv[1]) : 100) * 1e6;
	int pause = argc > 2 ? atoi(argv[2]) : 1000, n = 0;

	do {
		chunk[n++] = one_chunk();
		usleep(pause);
	} while (n < MAX_CHUNKS && now() < end);
	qsort(chunk, n, sizeof(*chunk), compare);
	fprintf(stderr, "%.4f\n", chunk[n / 2]);
	return 0;
}
