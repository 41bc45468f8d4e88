/* SPDX-License-Identifier: MIT */
/* Open addressing in a table that is at most half full. */
#include "lang/key_index.h"

#include <string.h>
#include "base/mem.h"

/* FNV-1a */
uint64_t key_hash(const uint8_t *key, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < len; i++)
		h = (h ^ key[i]) * 0x100000001b3ull;
	return h ^ h >> 32;
}

static struct key_slot *place(const struct key_index *x, const uint8_t *key, size_t len)
{
	for (size_t i = key_hash(key, len);; i++) {
		struct key_slot *s = &x->slots[i & (x->size - 1)];

		if (!s->row || (s->len == len && (!len || !memcmp(s->key, key, len))))
			return s;
	}
}

static void grow(struct key_index *x)
{
	struct key_index old = *x;

	x->size = old.size ? 4 * old.size : 64;
	x->slots = xcalloc(x->size, sizeof(*x->slots));
	for (size_t i = 0; i < old.size; i++)
		if (old.slots[i].row)
			*place(x, old.slots[i].key, old.slots[i].len) = old.slots[i];
	free(old.slots);
}

void key_index_add(struct key_index *x, const uint8_t *key, size_t len, size_t row)
{
	struct key_slot *s;

	if (2 * (x->n + 1) > x->size)
		grow(x);
	s = place(x, key, len);
	if (s->row)
		return;
	*s = (struct key_slot){ key, len, row + 1 };
	x->n++;
}

size_t key_index_find(const struct key_index *x, const uint8_t *key, size_t len)
{
	const struct key_slot *s = x->size ? place(x, key, len) : NULL;

	return s && s->row ? s->row - 1 : SIZE_MAX;
}

void key_index_clear(struct key_index *x)
{
	if (x->n)
		memset(x->slots, 0, x->size * sizeof(*x->slots));
	x->n = 0;
}

void key_index_free(struct key_index *x)
{
	free(x->slots);
	*x = (struct key_index){ 0 };
}
