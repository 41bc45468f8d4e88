/* SPDX-License-Identifier: MIT */
#ifndef JAB_BASE_CLOCK_H
#define JAB_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_REALTIME, which is the same in all namespaces, and is the clock of file times. */
static inline uint64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static inline void sleep_ns(uint64_t ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&t, NULL);
}

/* CLOCK_REALTIME - CLOCK_MONOTONIC now: another value than before if the system's clock was set meanwhile. */
static inline int64_t realtime_offset_ns(void)
{
	uint64_t before = now_ns(), wall = wall_ns(), after = now_ns();

	return wall - (before + (after - before) / 2);
}

#endif
