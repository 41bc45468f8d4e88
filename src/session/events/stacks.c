/* SPDX-License-Identifier: MIT */
#include "session/stacks.h"

#include <string.h>
#include "session/events/shapes.h"
#include "session/scripts/units.h"

#define MOST_FRAMES 128

bool record_has_stacks(const struct ir_record *r)
{
	for (uint32_t i = 0; i < r->nfields; i++)
		if (r->fields[i].type == IR_USTACK)
			return true;
	return false;
}

static void add_frames(const struct jab *j, uint32_t unit, uint32_t target, uint64_t number, size_t room, struct bytes *to)
{
	uint64_t frames[MOST_FRAMES];
	uint32_t head[2] = { unit_event_stack(j, unit, target, number, frames, MOST_FRAMES), 0 };

	if (8ull * head[0] > room)
		head[0] = 0;
	bytes_add(to, head, sizeof(head));
	bytes_add(to, frames, 8ull * head[0]);
}

/* Bytes of a field that stands there; 0: it can't be. */
static uint64_t field_size(const struct ir_field *f, const uint8_t *p, uint32_t left)
{
	uint64_t size = 8;
	uint32_t n;

	if (left < 8)
		return 0;
	if (f->type == IR_ARRAY) {
		size = (f->cap + 7) & ~7ull;
	} else if (f->type == IR_ADDRS) {
		memcpy(&n, p, sizeof(n));
		size = 8 + 8 * (uint64_t)n;
	} else if (ir_in_slot(f->type)) {
		memcpy(&n, p, sizeof(n));
		size = (4 + (uint64_t)n + 7) & ~7ull;
	}
	return size <= left ? size : 0;
}

/* The target may have written anything there. What does not fit its record stays as it is, and is found to be damaged later. */
void stacks_add_event(const struct jab *j, uint32_t unit, uint32_t target, const struct ir_record *r, const uint8_t *event, uint32_t len,
		      struct bytes *to)
{
	uint32_t at = sizeof(struct event_head) + (r->faulty ? 8 : 0), done = 0, new_len;
	size_t start = to->n;
	uint64_t size, number;

	for (uint32_t i = 0; i < r->nfields; i++, at += size) {
		size = at <= len ? field_size(&r->fields[i], event + at, len - at) : 0;
		if (!size) {
			to->n = start;
			done = 0;
			break;
		}
		if (r->fields[i].type != IR_USTACK)
			continue;
		bytes_add(to, event + done, at - done);
		memcpy(&number, event + at, sizeof(number));
		add_frames(j, unit, target, number, CTF_MAX_EVENT - MIN(CTF_MAX_EVENT, to->n - start + len - at), to);
		done = at + 8;
	}
	bytes_add(to, event + done, len - done);
	new_len = to->n - start;
	memcpy(to->p + start + offsetof(struct event_head, len), &new_len, sizeof(new_len));
}

/* The record of a row's events if there are stacks in it. */
static const struct ir_record *stacked(const struct jab *j, uint32_t row, uint32_t *ret_unit)
{
	const struct events *e = j->events;

	if (row >= e->stacked.n || !e->stacked.v[row])
		return NULL;
	*ret_unit = j->probes.v[j->rows.v[row].probe].unit - 1;
	return &lang_unit(j->units.v[*ret_unit].lang)->records.v[e->stacked.v[row] - 1];
}

const uint8_t *stacks_widen(const struct jab *j, const struct target *t, const uint8_t *span, uint64_t len, uint64_t *ret_len)
{
	struct bytes *to = &j->events->wide;
	struct event_head head;
	uint64_t at;

	*ret_len = len;
	if (!j->events->any_stacks)
		return span;
	to->n = 0;
	for (at = 0; len - at >= sizeof(head); at += head.len) {
		const struct ir_record *r;
		uint32_t unit;

		memcpy(&head, span + at, sizeof(head));
		if (head.len < sizeof(head) || head.len > len - at)
			break;
		r = stacked(j, head.id, &unit);
		if (r)
			stacks_add_event(j, unit, t->main, r, span + at, head.len, to);
		else
			bytes_add(to, span + at, head.len);
	}
	bytes_add(to, span + at, len - at);	/* nonsense stays what it is */
	*ret_len = to->n;
	return to->p;
}
