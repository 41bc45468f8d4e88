/* SPDX-License-Identifier: MIT */
/* Code before a system call that may forbid others: notes that in the process, before events make a call there. Keeps all registers and the flags. */
#include "arch/aarch64/aarch64.h"

#include <assert.h>

#include "arch/aarch64/encode.h"

#define MOST_CHECKS 4

static void put_word(uint8_t **p, uint64_t at, int w)
{
	a64_put_address(p, 16, at);
	a64_put(p, a64_str32(w, 16, 0));
}

int a64_emit_hush(uint8_t *out, const struct hush_spec *spec)
{
	uint8_t *p = out, *checks[MOST_CHECKS];
	int n = 0;

	assert(spec->n == 1 || spec->n == 2);
	a64_put(&p, a64_stp_pre(16, 17, A64_SP, -16));
	a64_put(&p, 0x51000000u | (uint32_t)spec->first << 10 | 0 << 5 | 17);	/* sub w17, w0, #first */
	if (spec->n == 2)
		a64_put(&p, 0x53017e31u);	/* lsr w17, w17, #1 */
	checks[n++] = p;
	a64_put(&p, 0);
	if (spec->second) {
		a64_put(&p, 0x51000000u | (uint32_t)spec->second << 10 | 1 << 5 | 17);	/* sub w17, w1, #second */
		checks[n++] = p;
		a64_put(&p, 0);
	}
	if (spec->number) {
		a64_put(&p, 0x51000000u | (spec->number & 0xfff) << 10 | 8 << 5 | 17);	/* sub w17, w8, #number */
		checks[n++] = p;
		a64_put(&p, 0);
	}
	a64_put(&p, a64_movz(17, 1, 0));
	put_word(&p, spec->word, 17);
	put_word(&p, spec->told, 17);
	if (spec->clears)
		put_word(&p, spec->clears, A64_ZR);
	for (int i = 0; i < n; i++) {
		uint8_t *at = checks[i];

		a64_put(&at, a64_cbz32(17, true, p - checks[i]));
	}
	a64_put(&p, a64_ldp_post(16, 17, A64_SP, 16));
	return p - out;
}
