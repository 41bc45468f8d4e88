/* SPDX-License-Identifier: MIT */
/*
 * Radix sort, lowest digit first. Addresses of one module share their high bits, so two or three passes of eleven
 * bits suffice; digits that are equal in all keys are skipped.
 */
#include "sym/names/sort.h"

#include "base/mem.h"
#include <string.h>

#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)

static void one_pass(const struct sort_key *from, struct sort_key *to, size_t n, int shift)
{
	size_t count[DIGITS] = { 0 }, i, sum = 0;

	for (i = 0; i < n; i++)
		count[(from[i].addr >> shift) & (DIGITS - 1)]++;
	for (i = 0; i < DIGITS; i++) {
		size_t c = count[i];

		count[i] = sum;
		sum += c;
	}
	for (i = 0; i < n; i++)
		to[count[(from[i].addr >> shift) & (DIGITS - 1)]++] = from[i];
}

void sort_keys(struct sort_key *v, size_t n)
{
	struct sort_key *spare, *from = v, *to, *t;
	uint64_t differ = 0;
	size_t i, unsorted = 0;
	int shift;

	for (i = 1; i < n; i++) {
		differ |= v[i].addr ^ v[0].addr;
		unsorted += v[i].addr < v[i - 1].addr;
	}
	if (!unsorted)
		return;
	to = spare = xcalloc(n, sizeof(*v));
	for (shift = 0; shift < 64; shift += DIGIT_BITS) {
		if (!((differ >> shift) & (DIGITS - 1)))
			continue;
		one_pass(from, to, n, shift);
		t = from;
		from = to;
		to = t;
	}
	if (from != v)
		memcpy(v, from, n * sizeof(*v));
	free(spare);
}
