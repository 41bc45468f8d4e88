/* SPDX-License-Identifier: MIT */
/* Events straight from a ring, for who shows them at once. */
#include "trace/trace.h"
#include "trace/writer.h"

bool trace_from_span(const struct ctf *ctf, const struct ctf_span *span, size_t *at, struct trace_event *ret_event)
{
	const uint8_t *p = (const uint8_t *)span->data + *at;
	struct ctf_event_head h;

	if (*at >= span->len)
		return false;
	memcpy(&h, p, sizeof(h));
	*ret_event = (struct trace_event){
		.class = ctf_find_class(ctf, h.id),
		.ticks = h.time,
		.ns = clock_ns(&ctf->options.clock, h.time),
		.pid = h.pid,
		.tid = h.tid,
		.payload = p + sizeof(h),
		.len = h.len - sizeof(h),
	};
	*at += h.len;
	return true;
}
