/* SPDX-License-Identifier: MIT */
#include "arch/operand.h"

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

bool operand_number(const char **at, const char *end, int64_t *ret_value)
{
	const char *p = *at;
	bool negative = p < end && *p == '-', any = false;
	uint64_t v = 0;
	int base = 10;

	p += negative || (p < end && *p == '+');
	if (end - p > 2 && p[0] == '0' && (p[1] | 0x20) == 'x') {
		base = 16;
		p += 2;
	} else if (end - p > 1 && *p == '0') {
		base = 8;
	}
	for (; p < end && digit(*p) < base; p++, any = true)
		if (__builtin_mul_overflow(v, (uint64_t)base, &v) || __builtin_add_overflow(v, (uint64_t)digit(*p), &v))
			return false;
	if (!any || (negative && v > (uint64_t)INT64_MAX + 1))
		return false;
	*ret_value = (int64_t)(negative ? 0 - v : v);
	*at = p;
	return true;
}
