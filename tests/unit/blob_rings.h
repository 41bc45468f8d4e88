/* SPDX-License-Identifier: MIT */
/*
 * event_rings.h for bulk events: the blob in this process, a description, scratch memory, and a look at
 * the events field by field.
 */
#ifndef JAB_TESTS_BLOB_RINGS_H
#define JAB_TESTS_BLOB_RINGS_H

#include "blob/blob.h"
#include "event_rings.h"

#define BLOB_OFF 32768
#define BULK_OFF 16384		/* bodies of bulk events */
#define SITE 0x123456789abcull

static struct bulk_desc *desc;
static uint8_t *scratch[NSLOW];

static inline void make_blob_areas(void)
{
	make_areas();
	if (blob_size > CODE_SIZE - BLOB_OFF)
		abort();
	memcpy(code_rw + BLOB_OFF, blob_image, blob_size);
	desc = map_or_die(sizeof(*desc) + BULK_FIELDS_MAX * sizeof(struct bulk_field),
			  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	for (int i = 0; i < NSLOW; i++)
		scratch[i] = map_or_die(BULK_SCRATCH_MIN, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* New, empty rings, and the routine that gives them out. */
static inline void reset_bulk_rings(uint64_t size, bool may_call)
{
	struct event_slow_spec slow;

	reset_rings(size);
	slow = make_slow_spec();
	slow.may_call = may_call;
	emit_slow(&slow);
	for (int i = 0; i < NSLOW; i++) {
		shared->slow_table[i].scratch = (uint64_t)scratch[i];
		shared->slow_table[i].scratch_size = BULK_SCRATCH_MIN;
	}
}

static inline void describe(const struct bulk_field *fields, uint32_t n, uint32_t flags)
{
	if (blob_check(fields, n) < 0)
		abort();
	*desc = (struct bulk_desc){
		.id = 42,
		.nfields = n,
		.max_len = bulk_max_len(fields, n),
		.ring_size = ring_size,
		.lost_index = LOST_INDEX,
		.flags = flags,
		.pid_cell = (uint64_t)pid_cell,
	};
	if (n)
		memcpy(desc->fields, fields, n * sizeof(*fields));
}

/* The body for the description, and something behind it to come back by. */
static inline uint8_t *emit_bulk_body(int off, const uint8_t *tail, size_t tail_len)
{
	struct bulk_spec spec = {
		.slow = (uint64_t)code_rx,
		.record = (uint64_t)code_rx + BLOB_OFF + blob_offset(BLOB_RECORD),
		.desc = (uint64_t)desc,
		.lost_shared = (uint64_t)&shared->lost_shared,
		.no_stack = (uint64_t)&shared->no_stack,
		.site = SITE,
		.vectors = 0xffff,
	};
	int len = arch_x86_64.emit_bulk(code_rw + BULK_OFF + off, &spec);

	if (len <= 0 || len > BULK_CODE_MAX || arch_x86_64.emit_bulk(NULL, &spec) != len)
		abort();
	memcpy(code_rw + BULK_OFF + off + len, tail, tail_len);
	return code_rx + BULK_OFF + off;
}

typedef void bulk_fn(uint64_t a, uint64_t b, uint64_t c);

static inline bulk_fn *emit_bulk_function(void)
{
	static const uint8_t ret[] = { 0xc3 };

	return (bulk_fn *)emit_bulk_body(0, ret, sizeof(ret));
}

/* Field i of an event, whose fields begin at `at`: its bytes, and how many (strings: without len). */
static inline const uint8_t *bulk_at(const uint64_t *at, uint32_t i, uint32_t *ret_len)
{
	const uint8_t *p = (const uint8_t *)(at + 1);	/* behind _faults */
	uint32_t len = 0;

	for (uint32_t n = 0;; n++) {
		const struct bulk_field *f = &desc->fields[n];
		uint32_t word, head = 0;

		memcpy(&word, p, 4);
		len = f->kind == EVENT_BYTES ? f->limit : 8;
		if (f->kind == EVENT_STRING) {
			head = 4;
			len = word;
		} else if (f->kind == EVENT_BACKTRACE) {
			head = 8;
			len = 8 * word;
		}
		if (n == i) {
			*ret_len = len;
			return p + head;
		}
		p += (head + len + 7) & ~7u;
	}
}

static inline uint64_t bulk_number(const uint64_t *at, uint32_t i)
{
	uint64_t v = 0;
	uint32_t len;
	const uint8_t *p = bulk_at(at, i, &len);

	memcpy(&v, p, len < 8 ? len : 8);
	return v;
}

/* Where the last of n fields ends: the length of the event without its head. */
static inline uint32_t bulk_end(const uint64_t *at, uint32_t n)
{
	uint32_t len;
	const uint8_t *p;

	if (!n)
		return 8;
	p = bulk_at(at, n - 1, &len);
	return ((p - (const uint8_t *)at) + len + 7) & ~7u;
}

#endif
