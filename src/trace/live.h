/* SPDX-License-Identifier: MIT */
/* Events straight from a ring, for who shows them at once. */
#ifndef JAB_TRACE_LIVE_H
#define JAB_TRACE_LIVE_H

#include "trace/trace.h"

/*
 * Make an event of `len` bytes that stand in a ring. The ring may change meanwhile, so they are copied
 * first and checked then: false if they are no event of a known class. The payload is good until the next
 * call for this trace. Leaves stream, cpu and lost as they are.
 */
bool live_event(struct ctf *ctf, const struct tsc_clock *clock, const void *p, uint32_t len,
		struct trace_event *ev);

#endif
