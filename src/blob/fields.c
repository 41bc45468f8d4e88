/* SPDX-License-Identifier: MIT */
/*
 * The fields of a bulk event. Each is first put where it would be if all fields had their greatest length, so that
 * all reads can be made at once; then the gaps are closed. Up to three system calls are made, each for all fields
 * that need it:
 *
 *	pointers	that have to be read before what they point to
 *	bytes		numbers, arrays, and strings up to the end of a page
 *	rests		of strings without a NUL up to there
 */
#include "blob/inside.h"

static uint64_t load(const void *at, uint32_t size)
{
	switch (size) {
	case 1:
		return *(const volatile uint8_t *)at;
	case 2:
		return *(const volatile uint16_t *)at;
	case 4:
		return *(const volatile uint32_t *)at;
	default:
		return *(const volatile uint64_t *)at;
	}
}

/*
 * Whether 8 bytes at this offset from the stack pointer reach into the next page: at the top of a coroutine's stack
 * that page may not be mapped.
 */
static bool is_in_next_page(const struct work *w, int64_t off)
{
	return off > 0 && ((w->sp + off + 7) ^ w->sp) >= PAGE;
}

static bool is_read(const struct work *w, const struct bulk_field *f)
{
	if (f->kind == EVENT_STACK)
		return is_in_next_page(w, f->value);
	return f->kind == EVENT_MEM || f->kind == EVENT_BYTES || f->kind == EVENT_STRING;
}

static bool pointer_is_good(const struct work *w, const struct bulk_field *f)
{
	return f->flags & BULK_GOOD_PTR && !(f->reg == REG_SP && is_in_next_page(w, f->value));
}

static uint32_t bytes_of(const struct bulk_field *f)
{
	return f->kind == EVENT_STACK ? 8 : f->kind == EVENT_MEM ? f->size : f->limit;
}

static uint64_t base_of(const struct work *w, const struct bulk_field *f)
{
	if (f->reg == REG_SP || f->kind == EVENT_STACK)
		return w->sp + f->value;
	return (f->reg < NREGS ? w->ctx->regs[f->reg] : 0) + f->value;
}

static uint64_t plain_value(const struct work *w, const struct bulk_field *f)
{
	switch (f->kind) {
	case EVENT_REG:
		return w->ctx->regs[f->reg % BULK_REGS];
	case EVENT_IMM:
		return f->value;
	case EVENT_STACK:
		return load((const void *)(w->sp + f->value), 8);
	case EVENT_VECTOR:
		return w->ctx->vectors[f->reg % CPU_VECTORS];
	default:
		return load((const void *)f->value, f->size);
	}
}

/*
 * A pass goes through all fields:
 *	while ((f = next_field(w))) { ...; go_on(w, f); }
 * It ends early while there might be no room for the pieces of one more field.
 */
static const struct bulk_field *next_field(const struct work *w)
{
	if (w->next == w->desc->nfields || w->npieces + PIECES_OF_FIELD > BULK_PIECES)
		return NULL;
	return &w->desc->fields[w->next];
}

static void go_on(struct work *w, const struct bulk_field *f)
{
	w->place += bulk_field_max(f);
	w->next++;
}

/* Returns whether the pass has fields left. If not, prepares the next pass. */
static bool is_open(struct work *w)
{
	if (w->next < w->desc->nfields)
		return true;
	w->place = w->fields;
	w->next = 0;
	return false;
}

/* Gets the pointers that lead to fields: by a plain load, or with the next system call. */
bool fields_pointers(struct work *w)
{
	const struct bulk_field *f;

	for (; (f = next_field(w)); go_on(w, f)) {
		uint64_t at = base_of(w, f);
		uint32_t i = w->next;

		if (!is_read(w, f))
			continue;
		w->ctx->from[i] = at;
		if (!(f->flags & BULK_DEREF))
			continue;
		if (pointer_is_good(w, f))
			w->ctx->pointer[i] = load((const void *)at, 8);
		else
			pieces_add(w, i, &w->ctx->pointer[i], at, 8);
	}
	return is_open(w);
}

static void load_good(const struct bulk_field *f, const void *from, uint8_t *place)
{
	if (f->kind == EVENT_STRING)
		string_copy(place, from, f->limit);
	else if (f->kind == EVENT_BYTES)
		memcpy(place, from, f->limit);
	else
		*(uint64_t *)place = load(from, f->size);
}

static void ask_for(struct work *w, const struct bulk_field *f)
{
	uint32_t i = w->next;
	uint8_t *place = w->place;
	uint64_t from = w->ctx->from[i];

	if (f->flags & BULK_DEREF)
		from = w->ctx->from[i] = w->ctx->pointer[i] + f->offset;
	if (f->kind == EVENT_STRING)
		pieces_add(w, i, place + 4, from, string_first_part(from, f->limit));
	else
		pieces_add(w, i, place, from, bytes_of(f));
}

/* Clears the bytes that no read will write to. */
static void clear(const struct bulk_field *f, uint8_t *place)
{
	uint32_t room = bulk_field_max(f);

	if (f->flags & BULK_PARTIAL)
		memset(place, 0, room);
	else if (f->kind != EVENT_STRING)
		*(uint64_t *)(place + room - 8) = 0;
}

bool fields_bytes(struct work *w)
{
	const struct bulk_field *f;

	for (; (f = next_field(w)); go_on(w, f)) {
		if (f->kind == EVENT_BACKTRACE) {
			w->trace = w->place;
			w->trace_field = w->next;
		} else if (!is_read(w, f)) {
			*(uint64_t *)w->place = plain_value(w, f);
		} else if (!is_faulted(w, w->next)) {
			clear(f, w->place);
			if (f->flags & BULK_GOOD)
				load_good(f, (const void *)base_of(w, f), w->place);
			else
				ask_for(w, f);
		}
	}
	return is_open(w);
}

/* Requests the rest of strings that have no NUL in their first part. */
bool fields_rests(struct work *w)
{
	const struct bulk_field *f;

	for (; (f = next_field(w)); go_on(w, f)) {
		uint64_t from = w->ctx->from[w->next];
		uint32_t part = string_first_part(from, f->limit);

		if (f->kind != EVENT_STRING || f->flags & BULK_GOOD || is_faulted(w, w->next))
			continue;
		if (!string_close(w->place, part, f->limit))
			pieces_add(w, w->next, w->place + 4 + part, from + part, f->limit - part);
	}
	return is_open(w);
}

static void show_fault(const struct work *w, const struct bulk_field *f)
{
	uint64_t addr = w->ctx->from[w->next];

	if (f->kind == EVENT_STRING) {
		string_fault(w->place, addr, w->faults >> (32 + w->next) & 1);
	} else if (!(f->flags & BULK_PARTIAL)) {
		memset(w->place, 0, bulk_field_max(f));
		if (f->kind == EVENT_MEM || f->kind == EVENT_STACK || f->limit >= 8)
			*(uint64_t *)w->place = addr;
	}
}

/* Completes the fields when everything has been read. */
void fields_finish(struct work *w)
{
	const struct bulk_field *f;

	for (; (f = next_field(w)); go_on(w, f)) {
		if (f->kind == EVENT_BACKTRACE)
			continue;
		if (is_faulted(w, w->next))
			show_fault(w, f);
		else if (f->kind == EVENT_STRING && string_is_open(w->place))
			string_close(w->place, f->limit, f->limit);
	}
}

/* How many bytes of its room a field takes in the end: never more than the room, whatever the length says. */
static uint32_t used(const struct bulk_field *f, uint8_t *place)
{
	uint32_t room = bulk_field_max(f), n = *(const volatile uint32_t *)place;	/* read once: see inside.h */

	if (f->kind == EVENT_BACKTRACE)
		return n < f->limit ? 8 + 8 * n : room;
	if (f->kind != EVENT_STRING || n > room - 4)
		return room;
	for (n += 4; n & 7; n++)
		place[n] = 0;
	return n;
}

/* Closes the gaps between fields. Returns their total length. */
uint32_t fields_pack(struct work *w)
{
	const struct bulk_field *f = w->desc->fields;
	uint8_t *from = w->fields, *to = w->fields;

	for (uint32_t i = 0; i < w->desc->nfields; from += bulk_field_max(f), i++, f++) {
		uint32_t len = used(f, from);

		for (uint32_t at = 0; to != from && at < len; at += 8)
			*(uint64_t *)(to + at) = *(const uint64_t *)(from + at);
		to += len;
	}
	return to - w->fields;
}
