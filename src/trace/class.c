/* SPDX-License-Identifier: MIT */
/* Event classes: the layout of an event, and whether some bytes conform to it. */
#include "trace/layout.h"

/* Computes what follows from the fields alone. */
void class_measure(struct ctf_class *c)
{
	uint64_t len = sizeof(struct ctf_event_head);
	bool fixed = true;

	c->tail = 0;
	for (size_t i = 0; i < c->n; i++) {
		const struct ctf_field *f = &c->fields[i];

		if (field_varies(f)) {
			fixed = false;
			c->tail = 0;
			continue;
		}
		len += field_room(f);
		c->tail = field_room(f) - field_used(f);
	}
	c->fixed = fixed ? len : 0;
	c->has_faults = c->n && c->fields[0].kind == CTF_UNSIGNED && c->fields[0].bits == 64 &&
			!c->fields[0].count && strcmp(c->fields[0].name, CTF_FAULTS) == 0;
}

void class_free(struct ctf_class *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++)
		free((char *)c->fields[i].name);
	free(c->fields);
	free(c->name);
	free(c);
}

static bool fits_slowly(const struct ctf_class *c, const uint8_t *event, uint32_t len, uint32_t *ret_tail)
{
	uint64_t at = sizeof(struct ctf_event_head);
	uint32_t tail = 0, size;

	for (size_t i = 0; i < c->n; i++) {
		const struct ctf_field *f = &c->fields[i];

		if (field_varies(f)) {
			if (at + 4 > len)
				return false;
			memcpy(&size, event + at, 4);
			tail = f->kind == CTF_STRING ? -(4 + size) & 7 : 0;
			at += f->kind == CTF_STRING ? align_up(4ull + size, 8) : 8 + 8ull * size;
		} else {
			tail = field_room(f) - field_used(f);
			at += field_room(f);
		}
		if (at > len)
			return false;
	}
	*ret_tail = tail;
	return at == len;
}

bool class_fits(const struct ctf_class *c, const uint8_t *event, uint32_t len, uint32_t *ret_tail)
{
	if (!c->fixed)
		return fits_slowly(c, event, len, ret_tail);
	*ret_tail = c->tail;
	return len == c->fixed;
}
