/* SPDX-License-Identifier: MIT */
#include "gen/maps.h"

#include <string.h>

#include "base/err.h"
#include "gen/agg_words.h"

#define PERCPU_MOST (16ull << 20)	/* bytes of one map's parts for all CPUs; a larger map is only in the last part */
#define MAP_MOST (512ull << 20)
#define ALL_MOST (2048ull << 20)
#define ENTRIES_MOST (1u << 24)
#define STACKS_INDEX (1u << 14)
#define STACKS_SIZE (4u << 20)		/* with the index; enough for about 15,000 stacks of thirty frames */

static uint64_t up(uint64_t n)
{
	return (n + 63) & ~63ull;
}

uint32_t maps_part_words(const struct ir_part *p)
{
	return ir_in_slot(p->type) ? (4 + p->cap + 7) / 8 : 1;
}

static uint32_t words_of(const struct ir_part *p, uint32_t n)
{
	uint32_t words = 0;

	for (uint32_t i = 0; i < n; i++)
		words += maps_part_words(&p[i]);
	return words;
}

static struct prog_shape make_shape(const struct ir_map *m, uint32_t entries)
{
	struct prog_shape t = {
		.max_keys = m->nkeys ? m->max_keys : 1, .mask = entries - 1, .key_words = words_of(m->keys, m->nkeys),
		.value_words = maps_is_simple(m) ? 0 : words_of(m->values, m->nvalues), .reuse = m->kind == IR_MAP_VALUE,
	};

	t.text = m->nkeys && ir_in_slot(m->keys[m->nkeys - 1].type) ? words_of(m->keys, m->nkeys - 1u) + 1 : 0;
	t.stride = (sizeof(struct prog_entry) + 8 * (t.key_words + t.value_words) + 15) & ~15u;
	return t;
}

struct prog_shape maps_shape(const struct ir_map *m, const struct map_place *p)
{
	return make_shape(m, p->entries);
}

static uint32_t entries_of(const struct ir_map *m)
{
	uint32_t n = 1;

	while (m->nkeys && n < 2 * m->max_keys && n < ENTRIES_MOST)
		n *= 2;
	return n;
}

/* Places the values of an aggregation. If it is not per CPU, the offset is counted from the end of a CPU's part, for now. */
static uint64_t place_values(const struct ir_map *m, struct maps_layout *l, struct map_place *p, uint64_t *shared)
{
	uint64_t size, *end;

	p->value_size = m->kind == IR_MAP_COUNT ? 8 : (agg_has_flip(m) ? AGG_SIZE : 0) + 8 * agg_buckets(m);
	size = up((uint64_t)p->value_size * p->entries);
	p->percpu = size * l->ncpus <= PERCPU_MOST;
	end = p->percpu ? &l->part_size : shared;
	p->values = *end;
	*end += size;
	return size;
}

static int place_map(const struct ir_map *m, struct maps_layout *l, struct map_place *p, uint64_t *shared)
{
	struct prog_shape t;
	uint64_t size = 0, values = 0;

	p->entries = entries_of(m);
	t = make_shape(m, p->entries);
	if (m->nkeys && 2 * (uint64_t)m->max_keys > ENTRIES_MOST)
		return fail(-E2BIG, "map %s has room for %u keys, but at most %u are possible", m->name, m->max_keys, ENTRIES_MOST / 2);
	if (8 * t.key_words > PROG_KEY_MAX)
		return fail(-E2BIG, "map %s: a key of up to %u bytes; %u are possible (str(x, n) is shorter)", m->name,
			    8 * t.key_words, PROG_KEY_MAX);
	if (8 * t.value_words > PROG_VALUE_MAX)
		return fail(-E2BIG, "map %s: a value of up to %u bytes; %u are possible", m->name, 8 * t.value_words, PROG_VALUE_MAX);
	if (maps_has_table(m)) {
		p->table = l->size;
		size = up(sizeof(struct prog_table) + (uint64_t)t.stride * p->entries);
	}
	if (m->kind != IR_MAP_VALUE) {
		p->base = l->size + size;
		size += 64;
		p->cleared = l->size + size;
		size += up(8ull * p->entries);
		if (!m->nkeys) {
			p->before = l->size + size;
			size += up(8ull * agg_counters(m) * (l->ncpus + 1));
		}
		values = place_values(m, l, p, shared);
	}
	l->size += size;
	size += values;
	if (size > MAP_MOST)
		return fail(-E2BIG, "map %s with room for %u keys would take %llu MB, %llu at most; fewer keys are `let %s = hash(n);`",
			    m->name, t.max_keys, (unsigned long long)size >> 20, MAP_MOST >> 20, m->name);
	return 0;
}

static bool has_stacks(const struct ir_unit *u)
{
	for (size_t i = 0; i < u->progs.n; i++)
		for (size_t k = 0; k < u->progs.v[i]->ins.n; k++)
			if (u->progs.v[i]->ins.v[k].op == IR_STACK)
				return true;
	return false;
}

int maps_layout_new(const struct ir_unit *u, uint32_t ncpus, struct maps_layout **ret_layout)
{
	struct maps_layout *l = xcalloc(1, sizeof(*l) + u->maps.n * sizeof(l->maps[0]));
	uint64_t shared = 0;
	int r = 0;

	l->ncpus = ncpus;
	l->nmaps = u->maps.n;
	if (has_stacks(u)) {
		l->size = 64;			/* offset 0 means "no stacks" */
		l->stacks = l->size;
		l->size += STACKS_SIZE;
		l->stack_index = STACKS_INDEX;
		l->stack_words = (STACKS_SIZE - sizeof(struct prog_stacks)) / 8 - STACKS_INDEX;
	}
	for (uint32_t i = 0; !r && i < l->nmaps; i++)
		r = place_map(&u->maps.v[i], l, &l->maps[i], &shared);
	for (uint32_t i = 0; i < l->nmaps; i++)
		l->maps[i].values += l->maps[i].value_size && !l->maps[i].percpu ? l->part_size : 0;
	l->parts = l->size;
	l->size += l->part_size * (ncpus + 1ull) + shared;
	if (!r && l->size > ALL_MOST)
		r = fail(-E2BIG, "the maps of this script would take %llu MB together, %llu at most; fewer keys are `let @map = hash(n);`",
			 (unsigned long long)l->size >> 20, ALL_MOST >> 20);
	if (r < 0) {
		free(l);
		return r;
	}
	*ret_layout = l;
	return 0;
}

/* An empty aggregation: least is the greatest possible value, greatest the least possible. */
static void fill_empty(const struct ir_map *m, uint8_t *block)
{
	num least = { .i = INT64_MAX }, most = { .i = INT64_MIN };

	if (m->num == IR_U64) {
		least.u = UINT64_MAX;
		most.u = 0;
	} else if (m->num == IR_F64) {
		least.f = __builtin_inf();
		most.f = -__builtin_inf();
	}
	memcpy(block + AGG_MIN, &least, 8);
	memcpy(block + AGG_MAX, &most, 8);
}

void maps_init(const struct ir_unit *u, const struct maps_layout *l, uint8_t *memory)
{
	for (uint32_t i = 0; i < l->nmaps; i++) {
		const struct ir_map *m = &u->maps.v[i];
		const struct map_place *p = &l->maps[i];

		if (!agg_has_flip(m))
			continue;
		*(uint64_t *)(memory + p->base) = 1;	/* the epoch; copies have 0, so they are empty */
		fill_empty(m, memory + p->base);
		for (uint32_t k = 0; k < p->entries; k++)
			fill_empty(m, memory + l->parts + l->part_size * l->ncpus + p->values +
				   (uint64_t)p->value_size * k);
	}
}
