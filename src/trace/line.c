/* SPDX-License-Identifier: MIT */
#include "trace/line.h"

#include <stdio.h>

static const char pairs[] =
	"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
	"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
	"8081828384858687888990919293949596979899";

void put_decimal(struct line *l, uint64_t v)
{
	char digits[20], *p = digits + sizeof(digits);

	for (; v >= 100; v /= 100)
		memcpy(p -= 2, pairs + v % 100 * 2, 2);
	if (v >= 10)
		memcpy(p -= 2, pairs + v * 2, 2);
	else
		*--p = '0' + v;
	put_bytes(l, p, digits + sizeof(digits) - p);
}

void put_signed(struct line *l, int64_t v)
{
	if (v < 0)
		put_char(l, '-');
	put_decimal(l, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void put_padded(struct line *l, uint32_t v, unsigned int width)
{
	char digits[9];

	for (unsigned int i = width; i-- > 0; v /= 10)
		digits[i] = '0' + v % 10;
	put_bytes(l, digits, width);
}

void put_power(struct line *l, uint64_t v, unsigned int shift)
{
	char digits[26], *p = digits + sizeof(digits);

	do {
		*--p = "0123456789abcdef"[v & ((1u << shift) - 1)];
		v >>= shift;
	} while (v);
	if (shift == 4)
		*--p = 'x';
	if (shift == 4 || *p != '0')
		*--p = '0';
	put_bytes(l, p, digits + sizeof(digits) - p);
}

void put_hex(struct line *l, const uint8_t *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		put_char(l, "0123456789abcdef"[s[i] >> 4]);
		put_char(l, "0123456789abcdef"[s[i] & 15]);
	}
}

void put_float(struct line *l, double f, unsigned int bits)
{
	char text[40];
	int n = snprintf(text, sizeof(text), "%.*g", bits == 32 ? 9 : 17, f);

	put_bytes(l, text, n);
}
