/* SPDX-License-Identifier: MIT */
/*
 * Measuring the TSC. The kernel's own figure (perf's page, the boot log) is no use here: it does not follow the
 * slewing by NTP, which CLOCK_MONOTONIC does, and ten parts in a million would be ten microseconds a second. So the
 * rate is computed from two readings of both clocks.
 */
#include "trace/clock.h"

#include "arch/arch.h"
#include "base/clock.h"
#include "base/err.h"

#define LOOKS 256
#define MIN_AGE_NS 50000000ull

/* The reading with the shortest time between the two readings of the counter was not interrupted. */
void clock_look(struct clock_pair *ret_pair)
{
	struct clock_pair best = { .width = UINT64_MAX };

	for (int i = 0; i < LOOKS; i++) {
		uint64_t before = cpu_ticks();
		uint64_t ns = now_ns();
		uint64_t after = cpu_ticks();

		if (after - before < best.width)
			best = (struct clock_pair){ before + (after - before) / 2, ns, after - before };
	}
	*ret_pair = best;
}

/* Sets the offset so that `at` is exactly right with the rounded rate. */
static void set_offset(struct tsc_clock *c, const struct clock_pair *at)
{
	__int128 wanted = ((__int128)at->ns + c->realtime_ns) * c->hz / NS_PER_S - at->ticks;
	__int128 s = wanted / (int64_t)c->hz;

	if (s * (int64_t)c->hz > wanted)
		s--;
	c->offset_s = s;
	c->offset = wanted - s * (int64_t)c->hz;
}

int clock_measure(const struct clock_pair *first, struct tsc_clock *ret_clock)
{
	struct tsc_clock c = { 0 };
	struct clock_pair last;
	uint64_t now = now_ns();

	if (!arch_host()->clock->is_steady())
		return fail(-ENOTSUP, "this CPU's time stamp counter does not run at a constant rate");
	if (now - first->ns < MIN_AGE_NS)
		sleep_ns(MIN_AGE_NS - (now - first->ns));
	clock_look(&last);
	if (last.ticks <= first->ticks || last.ns <= first->ns)
		return fail(-EIO, "the time stamp counter does not advance");
	c.hz = ((__int128)(last.ticks - first->ticks) * NS_PER_S + (last.ns - first->ns) / 2) / (last.ns - first->ns);
	if (c.hz < 1000000)
		return fail(-EIO, "the time stamp counter is too slow: %llu Hz", (unsigned long long)c.hz);
	c.realtime_ns = realtime_offset_ns();
	set_offset(&c, &last);
	*ret_clock = c;
	return 0;
}

static int64_t beyond_monotonic(const struct tsc_clock *c)
{
	return c->is_monotonic ? 0 : c->realtime_ns;
}

int64_t clock_ns(const struct tsc_clock *c, uint64_t ticks)
{
	__int128 sum = (__int128)ticks + c->offset;
	__int128 ns = sum / c->hz * NS_PER_S + (uint64_t)(sum % c->hz) * (__int128)NS_PER_S / c->hz +
		      (__int128)c->offset_s * NS_PER_S - beyond_monotonic(c);

	return ns > INT64_MAX ? INT64_MAX : ns < INT64_MIN ? INT64_MIN : ns;
}

uint64_t clock_ticks(const struct tsc_clock *c, int64_t ns)
{
	__int128 since = (__int128)ns + beyond_monotonic(c) - (__int128)c->offset_s * NS_PER_S;
	__int128 ticks = since * c->hz / NS_PER_S - c->offset;

	return ticks < 0 ? 0 : ticks > UINT64_MAX ? UINT64_MAX : ticks;
}
