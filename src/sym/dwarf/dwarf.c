/* SPDX-License-Identifier: MIT */
/*
 * The basic data types of DWARF: integers of fixed and variable length and encoded pointers, for .eh_frame and
 * exception tables.
 */
#include "sym/priv.h"

enum {
	PE_ULEB = 1, PE_UDATA2, PE_UDATA4, PE_UDATA8,
	PE_SLEB = 9, PE_SDATA2, PE_SDATA4, PE_SDATA8,
	PE_PCREL = 0x10, PE_DATAREL = 0x30, PE_INDIRECT = 0x80, PE_OMIT = 0xff,
};

struct reader reader_of(struct bytes b)
{
	return (struct reader){ b.p, b.p, b.p ? b.p + b.n : b.p, b.addr, !b.p };
}

static const uint8_t *take(struct reader *r, uint64_t n)
{
	const uint8_t *p = r->p;

	if (r->bad || n > (uint64_t)(r->end - r->p)) {
		r->bad = true;
		return NULL;
	}
	r->p += n;
	return p;
}

uint8_t read_u8(struct reader *r)
{
	const uint8_t *p = take(r, 1);

	return p ? *p : 0;
}

uint16_t read_u16(struct reader *r)
{
	const uint8_t *p = take(r, 2);

	return p ? get16(p) : 0;
}

uint32_t read_u32(struct reader *r)
{
	const uint8_t *p = take(r, 4);

	return p ? get32(p) : 0;
}

uint64_t read_u64(struct reader *r)
{
	const uint8_t *p = take(r, 8);

	return p ? get64(p) : 0;
}

void read_skip(struct reader *r, uint64_t n)
{
	take(r, n);
}

/* Seven bits per byte, the low ones first; the last byte has its top bit clear. */
static uint64_t read_leb(struct reader *r, unsigned int *ret_bits, uint8_t *ret_last)
{
	uint64_t v = 0;
	unsigned int shift = 0;
	uint8_t b;

	do {
		b = read_u8(r);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
	} while ((b & 0x80) && !r->bad);
	*ret_bits = shift;
	*ret_last = b;
	return v;
}

uint64_t read_uleb(struct reader *r)
{
	unsigned int bits;
	uint8_t last;

	return read_leb(r, &bits, &last);
}

int64_t read_sleb(struct reader *r)
{
	unsigned int bits;
	uint8_t last;
	uint64_t v = read_leb(r, &bits, &last);

	if (bits < 64 && (last & 0x40))
		v |= ~0ull << bits;
	return v;
}

uint64_t read_encoded(struct reader *r, uint8_t encoding, uint64_t data)
{
	uint64_t here = r->addr + (r->p - r->start), v;

	if (encoding == PE_OMIT)
		return 0;
	switch (encoding & 0x0f) {
	case 0: case PE_UDATA8: case PE_SDATA8: v = read_u64(r); break;
	case PE_ULEB: v = read_uleb(r); break;
	case PE_SLEB: v = read_sleb(r); break;
	case PE_UDATA2: v = read_u16(r); break;
	case PE_SDATA2: v = (int64_t)(int16_t)read_u16(r); break;
	case PE_UDATA4: v = read_u32(r); break;
	case PE_SDATA4: v = (int64_t)(int32_t)read_u32(r); break;
	default: r->bad = true; return 0;
	}
	if (v == 0)
		return 0;
	switch (encoding & 0x70) {
	case 0: break;
	case PE_PCREL: v += here; break;
	case PE_DATAREL: v += data; break;
	default: r->bad = true;
	}
	/* What is read here (code and tables of the same file) is never encoded indirectly. */
	if (encoding & PE_INDIRECT)
		r->bad = true;
	return r->bad ? 0 : v;
}
