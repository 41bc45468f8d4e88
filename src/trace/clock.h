/* SPDX-License-Identifier: MIT */
/*
 * Events carry raw TSC ticks: one instruction, no memory access. The length of a tick is measured here, once per
 * trace, against CLOCK_MONOTONIC, and kept as whole numbers in the form that CTF uses:
 *
 *	ns of CLOCK_REALTIME = offset_s * 10^9 + (offset + ticks) * 10^9 / hz
 *
 * and CLOCK_MONOTONIC is realtime_ns less. Both clocks run at the same rate; when the system's clock is set, the trace goes
 * on with the time that it began with, as a CTF trace has one offset.
 *
 * The offset is chosen to be right at the time of the measurement, so that rounding hz to a whole number costs 0.2
 * ns per second of distance from that time, not per second of uptime.
 */
#ifndef JAB_TRACE_CLOCK_H
#define JAB_TRACE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/clock.h"

#define NS_PER_S 1000000000ll

struct tsc_clock {
	uint64_t hz;
	int64_t offset_s;		/* often negative: the TSC may be older than the kernel */
	uint64_t offset;		/* ticks, below hz */
	int64_t realtime_ns;		/* CLOCK_REALTIME - CLOCK_MONOTONIC when measured */
	bool is_monotonic;		/* the offset gives CLOCK_MONOTONIC, as in traces of format 1 */
};

/* One reading of both clocks: a tick, the time at it, and the greatest error between the two. */
struct clock_pair {
	uint64_t ticks, ns, width;
};

/* Reads both clocks several times and returns the most precise pair; takes about 10 us. */
void clock_look(struct clock_pair *ret_pair);

/*
 * Computes a clock from two readings, `first` and one made now. The longer ago the first one, the better: this
 * waits until it is 50 ms old, which keeps the error well below 1 us per second. So read first, do other work, then
 * measure.
 */
int clock_measure(const struct clock_pair *first, struct tsc_clock *ret_clock);

/* CLOCK_MONOTONIC. Both saturate instead of overflowing: times in a trace may be damaged. */
int64_t clock_ns(const struct tsc_clock *c, uint64_t ticks);
uint64_t clock_ticks(const struct tsc_clock *c, int64_t ns);

static inline uint64_t clock_now(void)
{
	return cpu_ticks();
}

#endif
