/* SPDX-License-Identifier: MIT */
/* Events straight from a ring, for who shows them at once. */
#include "trace/live.h"
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

bool live_event(const struct ctf *ctf, const struct tsc_clock *clock, const uint8_t *bytes, uint32_t len,
		struct trace_event *ev)
{
	struct ctf_event_head head;
	const struct ctf_class *class;
	uint32_t tail;

	if (len < sizeof(head))
		return false;
	memcpy(&head, bytes, sizeof(head));
	class = ctf_find_class(ctf, head.id);
	if (!class || !class_fits(class, bytes, len, &tail))
		return false;
	ev->class = class;
	ev->ticks = head.time;
	ev->ns = clock_ns(clock, head.time);
	ev->pid = head.pid;
	ev->tid = head.tid;
	ev->payload = bytes + sizeof(head);
	ev->len = len - sizeof(head);
	return true;
}
