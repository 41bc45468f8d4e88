/* SPDX-License-Identifier: MIT */
/* Which row of a list has a key: a list of a million keys is searched as quickly as a short one. */
#ifndef JAB_LANG_KEY_INDEX_H
#define JAB_LANG_KEY_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct key_slot { const uint8_t *key; size_t len, row; };	/* row: number + 1; 0: free */

struct key_index {
	struct key_slot *slots;
	size_t size, n;		/* a power of two, or 0; how many are in use */
};

/* Keys are not copied. One that is there already stays as it was. */
void key_index_add(struct key_index *x, const uint8_t *key, size_t len, size_t row);
/* The row, or SIZE_MAX. */
size_t key_index_find(const struct key_index *x, const uint8_t *key, size_t len);
void key_index_clear(struct key_index *x);
void key_index_free(struct key_index *x);

/* Also for tables of other kinds. */
uint64_t key_hash(const uint8_t *key, size_t len);

#endif
