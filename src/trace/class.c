/* SPDX-License-Identifier: MIT */
/* Event classes: the layout of an event, and whether some bytes conform to it. */
#include "sym/types/types.h"
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

/* A value as number_value() gives it: debug info may have it with another sign, or none. */
static int64_t as_shown(const struct ctf_field *f, int64_t value)
{
	unsigned int unused = 64 - f->bits;
	uint64_t moved = (uint64_t)value << unused;

	return f->kind == CTF_SIGNED ? (int64_t)moved >> unused : (int64_t)(moved >> unused);
}

void field_take_values(struct ctf_field *f, const struct type_value *values, uint64_t n)
{
	struct type_value *copy;

	f->values = NULL;
	f->nvalues = 0;
	if (!n || n > CTF_MAX_VALUES || f->kind > CTF_UNSIGNED || f->count)
		return;
	copy = xcalloc(n, sizeof(*copy));
	for (uint64_t i = 0; i < n; i++)
		if (values[i].name)
			copy[f->nvalues++] = (struct type_value){ xstrdup(values[i].name), as_shown(f, values[i].value) };
	f->values = copy;
}

const char *field_value_name(const struct ctf_field *f, int64_t value)
{
	for (uint32_t i = 0; i < f->nvalues; i++)
		if (f->values[i].value == value)
			return f->values[i].name;
	return NULL;
}

static void field_free(struct ctf_field *f)
{
	for (uint32_t i = 0; i < f->nvalues; i++)
		free((char *)f->values[i].name);
	free((void *)f->values);
	free((char *)f->name);
}

void class_free(struct ctf_class *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++)
		field_free(&c->fields[i]);
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
