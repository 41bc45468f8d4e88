/* SPDX-License-Identifier: MIT */
/* Is in the maps of a native program what the interpreter has put into its own? */
#ifndef JAB_TESTS_GEN_MAPS_H
#define JAB_TESTS_GEN_MAPS_H

#include "../unit/gen_run.h"

static inline bool same_agg(const struct ir_map *map, const struct agg *a, const struct agg *b)
{
	if (a->count != b->count)
		return false;
	if (map->kind >= IR_MAP_SUM && map->kind <= IR_MAP_STATS && (a->sum.u != b->sum.u || a->min.u != b->min.u || a->max.u != b->max.u))
		return false;
	for (uint32_t i = 0; i < agg_buckets(map); i++)
		if (a->buckets[i] != b->buckets[i])
			return false;
	return true;
}

/* NULL, or what is not the same. */
static inline const char *compare_maps(const struct ir_unit *u, struct maps_reader *r, struct store *store)
{
	for (uint32_t map = 0; map < u->maps.n; map++) {
		struct map_list list = { 0 };
		bool same;

		store_ops.list(store, map, &list);
		same = maps_reader_ops.len(r, map) == list.n;
		for (size_t i = 0; i < list.n && same; i++) {
			struct bytes key = { (uint8_t *)list.v[i].key, list.v[i].key_len, 0 };
			const struct map_entry *b = &list.v[i];
			struct map_entry a;

			same = maps_reader_ops.get(r, map, &key, &a) && a.value_len == b->value_len &&
			       (!a.value_len || !memcmp(a.value, b->value, a.value_len)) &&
			       (!a.agg || same_agg(&u->maps.v[map], a.agg, b->agg));
		}
		vec_free(&list);
		if (!same)
			return "a map";
	}
	return NULL;
}

#endif
