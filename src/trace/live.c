/* SPDX-License-Identifier: MIT */
#include "trace/live.h"

#include "trace/writer.h"

bool live_event(struct ctf *ctf, const struct tsc_clock *clock, const void *p, uint32_t len,
		struct trace_event *ev)
{
	struct ctf_event_head h;
	uint32_t tail;

	if (len < sizeof(h) || len > CTF_MAX_EVENT)
		return false;
	if (!ctf->live)
		ctf->live = xcalloc(1, CTF_MAX_EVENT);
	memcpy(ctf->live, p, len);
	memcpy(&h, ctf->live, sizeof(h));
	ev->class = ctf_find_class(ctf, h.id);
	if (!ev->class || !class_fits(ev->class, ctf->live, len, &tail))
		return false;
	ev->ticks = h.time;
	ev->ns = clock_ns(clock, h.time);
	ev->pid = h.pid;
	ev->tid = h.tid;
	ev->payload = ctf->live + sizeof(h);
	ev->len = len - sizeof(h);
	return true;
}
