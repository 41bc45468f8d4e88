/* SPDX-License-Identifier: MIT */
/* System calls in text: `svc #0` right after an instruction that loads their number into x8. */
#include "arch/aarch64/aarch64.h"

#include "arch/aarch64/encode.h"

void a64_find_calls(const uint8_t *bytes, size_t n, call_found found, void *arg)
{
	uint32_t before = 0;

	for (size_t i = 0; i + 4 <= n; i += 4) {
		uint32_t w = a64_word(bytes + i);

		if (w == A64_SVC && (before & 0xffe0001f) == a64_movz(8, 0, 0))
			found(arg, i - 4, 4, before >> 5 & 0xffff);
		before = w;
	}
}
