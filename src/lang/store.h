/* SPDX-License-Identifier: MIT */
/*
 * The maps of a script, as the interpreter and the printer see them. A key is its parts one behind
 * the other: 8 bytes a number (floats: their bits), u32 length and bytes a string; a value likewise,
 * or an aggregation. `struct map_ops` lets them live elsewhere (in memory shared with the target);
 * store_new() gives hash tables of our own.
 */
#ifndef JAB_LANG_STORE_H
#define JAB_LANG_STORE_H

#include "lang/agg.h"

struct bytes { uint8_t *p; size_t n, cap; };

void bytes_add(struct bytes *b, const void *p, size_t n);
static inline void bytes_u64(struct bytes *b, uint64_t v) { bytes_add(b, &v, 8); }
static inline void bytes_free(struct bytes *b) { free(b->p); *b = (struct bytes){ 0 }; }

/* One line of a map that is printed or walked. Lent: valid until the map changes or is asked again. */
struct map_entry {
	const uint8_t *key;
	size_t key_len;
	const uint8_t *value;		/* IR_MAP_VALUE */
	size_t value_len;
	const struct agg *agg;		/* all others */
};

struct map_list { struct map_entry *v; size_t n, cap; };

struct map_ops {
	/* true: it is there; the value is lent until the next change. */
	bool (*get)(void *store, uint32_t map, const struct bytes *key, struct map_entry *ret_entry);
	/* false: the map is full */
	bool (*set)(void *store, uint32_t map, const struct bytes *key, const struct bytes *value);
	bool (*add)(void *store, uint32_t map, const struct bytes *key, int64_t n, int64_t *ret_old);
	bool (*agg)(void *store, uint32_t map, const struct bytes *key, num v);
	bool (*del)(void *store, uint32_t map, const struct bytes *key);	/* true: it was there */
	uint64_t (*len)(void *store, uint32_t map);
	void (*clear)(void *store, uint32_t map);	/* forget all keys */
	void (*zero)(void *store, uint32_t map);	/* keep the keys */
	/* All entries as they are now, in no order; VEC as caller's. */
	void (*list)(void *store, uint32_t map, struct map_list *ret_list);
};

extern const struct map_ops store_ops;
struct store;
struct store *store_new(const struct ir_unit *u);
void store_free(struct store *s);

/* An entry from elsewhere: an aggregation is merged with what is there, a value replaces it or is added to it. No limit. */
void store_merge(struct store *s, uint32_t map, const struct map_entry *e, bool is_sum);

#endif
