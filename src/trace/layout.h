/* SPDX-License-Identifier: MIT */
/* What writer and reader must agree on, beside ctf.h. */
#ifndef JAB_TRACE_LAYOUT_H
#define JAB_TRACE_LAYOUT_H

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "trace/ctf.h"

#define JAB_TRACE_FORMAT 1	/* env: trace_format */

/* Packet header and context. No hole, so that an empty packet's content ends where this does. */
struct packet_head {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_id;		/* the class: always 0 */
	uint64_t stream_instance_id;	/* the ring: joins the parts of a stream */
	uint64_t first, last;
	uint64_t content_bits, packet_bits;
	uint64_t lost, seq, cpu;
};
_Static_assert(sizeof(struct packet_head) == 88, "as written in the metadata");

struct ctf_class {
	uint32_t id;
	char *name;
	struct ctf_field *fields;	/* names are owned */
	size_t n;
	uint32_t fixed;			/* bytes of the event, or 0: it holds strings or addresses */
	uint32_t tail;			/* padding behind the last field, if that is of fixed size */
	bool has_faults;		/* its first field is CTF_FAULTS */
};

static inline uint64_t align_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) & ~(to - 1);
}

static inline bool field_varies(const struct ctf_field *f)
{
	return f->kind == CTF_STRING || f->kind == CTF_ADDRS;
}

/* One number, and no more. */
static inline bool field_is_number(const struct ctf_field *f)
{
	return f->kind <= CTF_FLOAT && !f->count;
}

/* The payload bytes of a field that has a fixed size: those that mean something, and all of them. */
static inline uint32_t field_used(const struct ctf_field *f)
{
	uint32_t each = f->kind == CTF_POINTER ? 8 : f->bits / 8;

	return f->kind == CTF_BYTES ? f->size : f->count ? f->count * each : each;
}

static inline uint32_t field_room(const struct ctf_field *f)
{
	return f->kind <= CTF_FLOAT && !f->count ? 8 : align_up(field_used(f), 8);
}

void class_measure(struct ctf_class *c);
void class_free(struct ctf_class *c);

/*
 * Is this one event that fits its class? Gives the padding at its end. The length comes from
 * whoever read it first: the memory may change meanwhile.
 */
bool class_fits(const struct ctf_class *c, const uint8_t *event, uint32_t len, uint32_t *ret_tail);

/* tsdl.c: words of the metadata */
char *tsdl_quote(const char *s);
char *tsdl_field_name(const struct ctf_field *fields, size_t i);
const char *tsdl_type(const struct ctf_field *f);
/* The type behind a word that tsdl_type() gave; false if there is none. */
bool tsdl_type_parse(const char *word, struct ctf_field *ret_field);
#define TSDL_PACKED "p"		/* in front of a type's word: as an element of an array */
char *tsdl_aliases(void);

#endif
