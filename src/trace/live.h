/* SPDX-License-Identifier: MIT */
/* Events directly from a ring, to be shown at once. */
#ifndef JAB_TRACE_LIVE_H
#define JAB_TRACE_LIVE_H

#include "trace/trace.h"

/*
 * Makes an event of `len` bytes in a ring. The ring may change meanwhile, so they are copied first and then
 * checked: false if they are not an event of a known class. The payload is valid until the next call for this
 * trace. Does not set stream, cpu and lost.
 */
bool live_event(struct ctf *ctf, const struct tsc_clock *clock, const void *p, uint32_t len,
		struct trace_event *ev);

#endif
