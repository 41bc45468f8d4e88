/* SPDX-License-Identifier: MIT */
/* Showing what programs wrote: printf, print, maps and histograms, in bpftrace's shape. */
#ifndef JAB_LANG_FORMAT_H
#define JAB_LANG_FORMAT_H

#include <stdio.h>
#include "lang/diag.h"
#include "lang/ir.h"
#include "lang/store.h"

/* One conversion of a format: "%-10.3lld". kind: d u x X o c p s f e g a r, or '%'. */
struct conv {
	char flags[6];
	int width, precision;	/* -1: not given */
	char kind;
	char style;		/* of %r: 'x' (%rx), 'h' (%rh), 0 */
	uint8_t size;		/* hh 1, h 2, none 4, l ll z j t 8 */
};

/* s is on the '%'. Returns how many characters it has, 0 if it makes no sense. */
size_t format_conv(const char *s, struct conv *ret_conv);

#define FORMAT_FRAMES 1024	/* the most of a stack that are shown */

/* A field of an event. */
struct field_value { bool fault, refused, full; num n; const uint8_t *text; uint32_t len; };

/* What is not in the payload: names of addresses, stacks and sites, the clock. All may be NULL. */
struct format_names {
	void *data;
	char *(*symbol)(void *data, uint64_t addr);		/* caller frees; NULL: not known */
	/* the frames of a stack, innermost first; returns how many */
	uint32_t (*stack)(void *data, uint64_t id, uint64_t *frames, uint32_t most);
	const char *(*module)(void *data, uint64_t addr);	/* for the perf mode */
	const char *(*site)(void *data, uint64_t number, bool func);
	const char *(*enumerator)(void *data, const struct vtype *type, int64_t value);
	/* what is known of a field that has ir_field.known, in place of what the event says */
	void (*known)(void *data, enum ir_known what, struct field_value *v);
	int64_t wall_offset;	/* ns from CLOCK_MONOTONIC to wall time */
	bool safe;		/* for a terminal: values and names are escaped (base/text.h); the script's own text never is */
	const char *trailer;	/* behind strings that were cut at config's max_strlen */
	const struct diags *source;	/* of the script, for places in messages */
};

/* An event of a unit. Unknown or damaged payloads give -EBADMSG and print nothing. */
int format_event(FILE *f, const struct ir_unit *u, uint32_t record, const uint8_t *payload, size_t len,
		 const struct format_names *names);

/* A map, as print(@x, top, div) does; top 0: all, div 0: 1. */
void format_map(FILE *f, const struct ir_unit *u, uint32_t map, const struct map_ops *ops, void *store, uint64_t top,
		uint64_t div, const struct format_names *names);

/* Its entries in the order of printing, without those that top leaves out. Caller: vec_free(). */
void format_sorted(const struct ir_unit *u, uint32_t map, const struct map_ops *ops, void *store, uint64_t top,
		   struct map_list *ret_list);

/* For flame graphs: "a;b;c 42" a line, outermost first. Maps whose keys have no stack, or whose values are not one number, as above. */
void format_map_folded(FILE *f, const struct ir_unit *u, uint32_t map, const struct map_ops *ops, void *store, uint64_t top,
		       uint64_t div, const struct format_names *names);

/* format_json.c: the same as one JSON object a line, {"type":"printf","data":"text"} */
int format_event_json(FILE *f, const struct ir_unit *u, uint32_t record, const uint8_t *payload, size_t len,
		      const struct format_names *names);
void format_map_json(FILE *f, const struct ir_unit *u, uint32_t map, const struct map_ops *ops, void *store, uint64_t top,
		     uint64_t div, const struct format_names *names);

/* Fields of an event, one by one; for records. */
int format_fields(const struct ir_record *r, const uint8_t *payload, size_t len, struct field_value *ret_values);
void format_value(FILE *f, const struct ir_unit *u, uint8_t type, uint32_t show, const struct field_value *v,
		  const struct format_names *names);
/* The same; stacks are indented by so many blanks. */
void format_part(FILE *f, const struct ir_unit *u, uint8_t type, uint32_t show, const struct field_value *v,
		 const struct format_names *names, int indent);

/* format_object.c. By type number `show` of the unit: bytes, and what is in a register. */
void format_object(FILE *f, const struct ir_unit *u, uint32_t show, const uint8_t *p, size_t len);
void format_number(FILE *f, const struct ir_unit *u, uint32_t show, int64_t value);
const char *syscall_known(uint64_t number);	/* syscalls.c: "read"; "N/A": there is none */
void format_process(FILE *f, uint32_t as, uint64_t number);	/* format_process.c; as: enum v_shown_as, from SHOWN_CGROUP_ID on */
struct pool;
struct vmember;
void format_bits(FILE *f, const struct vmember *m, const uint8_t *p, size_t len);	/* a bit-field; it begins within len */
bool format_is_variant(const struct vtype *t);	/* Rust's enum with data: one of many structs */
void format_typed(FILE *f, struct pool *pool, const struct vtype *t, const uint8_t *p, size_t len);

#endif
