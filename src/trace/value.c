/* SPDX-License-Identifier: MIT */
/* The values of an event. It was already checked against its class, so no value can be outside of it. */
#include "trace/trace.h"

static uint64_t load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return v;
}

/* A number in the low bits of a word. */
static void number_value(const struct ctf_field *f, uint64_t raw, struct trace_value *v)
{
	unsigned int unused = 64 - f->bits;
	float narrow;

	if (f->kind == CTF_SIGNED) {
		v->i = (int64_t)(raw << unused) >> unused;
	} else if (f->kind == CTF_FLOAT && f->bits == 32) {
		memcpy(&narrow, &raw, 4);
		v->f = narrow;
	} else {
		v->u = raw << unused >> unused;	/* a double has the same bytes */
	}
}

static enum trace_fault fault_of(const struct trace_event *ev, size_t i)
{
	uint64_t faults;

	if (!ev->class->has_faults || !i || i > 32)
		return READ_WELL;
	faults = load64(ev->payload);
	if (faults >> (32 + i - 1) & 1)
		return READ_FORBIDDEN;
	return faults >> (i - 1) & 1 ? READ_FAULT : READ_WELL;
}

/* Reads the address that is in the place of a value that could not be read. */
static void fault_address(const struct ctf_field *f, const uint8_t *p, struct trace_value *v)
{
	uint32_t len, text;

	switch (f->kind) {
	case CTF_STRING:
		memcpy(&len, p, 4);
		text = strnlen((const char *)p + 4, len);
		p += 4 + text + 1;
		v->has_address = len - text == 9;
		break;
	case CTF_ADDRS:
		v->has_address = false;
		break;
	default:
		v->has_address = field_is_number(f) || field_used(f) >= 8;
	}
	v->address = v->has_address ? load64(p) : 0;
}

/* A string, or addresses, with the length before it. Returns the number of bytes. */
static size_t varying_value(const struct ctf_field *f, const uint8_t *p, struct trace_value *v)
{
	uint32_t len;

	memcpy(&len, p, 4);
	if (f->kind == CTF_ADDRS) {
		v->len = len;
		v->bytes = p + 8;
		return 8 + 8ull * len;
	}
	v->bytes = p + 4;
	v->len = strnlen((const char *)p + 4, len);
	v->cut = v->len == len;
	return align_up(4ull + len, 8);
}

bool trace_value(const struct trace_event *ev, size_t *i, size_t *pos, struct trace_value *ret_value)
{
	const uint8_t *p = ev->payload + *pos;
	const struct ctf_field *f;

	if (*i >= ev->class->n)
		return false;
	ret_value->field = f = &ev->class->fields[*i];
	ret_value->fault = fault_of(ev, (*i)++);
	if (ret_value->fault != READ_WELL)
		fault_address(f, p, ret_value);
	if (field_is_number(f)) {
		number_value(f, load64(p), ret_value);
		*pos += 8;
	} else if (field_varies(f)) {
		*pos += varying_value(f, p, ret_value);
	} else {
		ret_value->bytes = p;
		ret_value->len = f->is_text ? strnlen((const char *)p, f->size) : f->kind == CTF_BYTES ? f->size : f->count;
		ret_value->cut = false;
		*pos += field_room(f);
	}
	return true;
}

struct trace_value trace_element(const struct trace_value *v, uint32_t i)
{
	static const struct ctf_field pointer = { .kind = CTF_POINTER, .bits = 64, .base = 16 };
	struct trace_value e = { .field = v->field->kind == CTF_ADDRS ? &pointer : v->field };
	uint32_t size = e.field->bits / 8;
	uint64_t raw = 0;

	memcpy(&raw, v->bytes + (size_t)i * size, size);
	number_value(e.field, raw, &e);
	return e;
}
