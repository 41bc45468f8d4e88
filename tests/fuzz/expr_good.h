/* SPDX-License-Identifier: MIT */
/* Some parts of the memory of random programs are good ones for a while: what is there is loaded without asking. */
#ifndef JAB_FUZZ_EXPR_GOOD_H
#define JAB_FUZZ_EXPR_GOOD_H

#include "../unit/gen_run.h"
#include "expr_make.h"

static inline void make_good(const void *memory, uint32_t size)
{
	memset(&gen_good, 0, sizeof(gen_good));
	if (below(3) == 0)
		return;
	for (uint32_t k = 0, from, len; k < GEN_GOOD; k++) {
		from = below(size);
		len = below(4) ? below(size - from) + 1 : size - from;
		if (k && below(6))
			continue;
		gen_good.range[k].lo = (uint64_t)memory + from;
		gen_good.range[k].len = MAX(len, GEN_GOOD_SHORT) - GEN_GOOD_SHORT;
	}
}

#endif
