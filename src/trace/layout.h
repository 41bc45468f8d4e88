/* SPDX-License-Identifier: MIT */
/* The layout that writer and reader share, in addition to ctf.h. */
#ifndef JAB_TRACE_LAYOUT_H
#define JAB_TRACE_LAYOUT_H

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "trace/ctf.h"

#define JAB_TRACE_FORMAT 2	/* env: trace_format */

/* Packet header and context. Without padding, so that the content of an empty packet ends with this struct. */
struct packet_head {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_id;		/* stream class: always 0 */
	uint64_t stream_instance_id;	/* number of the ring: identifies the parts of a stream */
	uint64_t first, last;
	uint64_t content_bits, packet_bits;
	uint64_t lost, seq, cpu;
};
_Static_assert(sizeof(struct packet_head) == 88, "as written in the metadata");

struct ctf_class {
	uint32_t id;
	char *name;
	struct ctf_field *fields;	/* the names belong to the class */
	size_t n;
	uint32_t fixed;			/* length of the event; 0: it has strings or addresses */
	uint32_t tail;			/* padding after the last field, if that is of fixed size */
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

/* Whether the field is a single number. */
static inline bool field_is_number(const struct ctf_field *f)
{
	return f->kind <= CTF_FLOAT && !f->count;
}

/* The payload of a field of fixed size: the significant bytes (field_used()), and with padding (field_room()). */
static inline uint32_t field_used(const struct ctf_field *f)
{
	uint32_t each = f->kind == CTF_POINTER ? 8 : f->bits / 8;

	return f->kind == CTF_BYTES ? f->size : f->count ? f->count * each : each;
}

static inline uint32_t field_room(const struct ctf_field *f)
{
	return f->kind <= CTF_FLOAT && !f->count ? 8 : align_up(field_used(f), 8);
}

/* An enum has names for an integer's values: copied by the class, as the integer shows them. */
void field_take_values(struct ctf_field *f, const struct type_value *values, uint64_t n);
const char *field_value_name(const struct ctf_field *f, int64_t value);	/* NULL: it has none */

void class_measure(struct ctf_class *c);
void class_free(struct ctf_class *c);

/*
 * Whether these bytes are one event that conforms to its class. *ret_tail: the padding at its end. len is given by
 * the caller that has read it once: the memory may change meanwhile.
 */
bool class_fits(const struct ctf_class *c, const uint8_t *event, uint32_t len, uint32_t *ret_tail);

/* tsdl.c: parts of the metadata text */
char *tsdl_quote(const char *s);
char *tsdl_field_name(const struct ctf_field *fields, size_t i);
const char *tsdl_type(const struct ctf_field *f);
/* Finds the type whose word tsdl_type() returned; false if there is none. */
bool tsdl_type_parse(const char *word, struct ctf_field *ret_field);
#define TSDL_PACKED "p"		/* prefix of a type's word: as an element of an array */
char *tsdl_aliases(void);

#endif
