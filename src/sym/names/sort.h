/* SPDX-License-Identifier: MIT */
/* Sorting a hundred thousand addresses in about a millisecond. Stable. */
#ifndef JAB_SYM_SORT_H
#define JAB_SYM_SORT_H

#include <stddef.h>
#include <stdint.h>

struct sort_key { uint64_t addr; uint32_t index; };

void sort_keys(struct sort_key *v, size_t n);

#endif
