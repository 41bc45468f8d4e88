/* SPDX-License-Identifier: MIT */
/* One program with its maps, run natively and by the interpreter; for the tests of src/gen. */
#ifndef JAB_TESTS_GEN_WORLD_H
#define JAB_TESTS_GEN_WORLD_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>

#pragma push_macro("fail")
#undef fail
#include "base/err.h"
#pragma pop_macro("fail")
#include "gen_run.h"

#define RDI 7
#define RSI 6

struct world {
	struct ir_unit u;
	struct ir_prog *p;
	struct maps_layout *l;
	struct maps_reader *r;
	struct store *store;
	struct interp in;
};

static inline struct world *world_new(void)
{
	struct world *w = xcalloc(1, sizeof(*w));

	w->p = ir_prog_new(&w->u, IR_WHERE_SITE, 0);
	return w;
}

static inline uint32_t reg_of(struct world *w, int number)
{
	struct ir_ins *i = gen_ins(w->p, IR_REG);

	i->imm = number;
	return i->dst = gen_reg(w->p, IR_I);
}

/* Its programs are complete. */
static inline void world_start(struct world *w, bool has_rseq)
{
	struct gen_env env;

	gen_ins(w->p, IR_RET);
	if (ir_verify(&w->u, w->p))
		fail_msg("%s", ir_verify(&w->u, w->p));
	assert_int_equal(maps_layout_new(&w->u, ncpus, &w->l), 0);
	assert_true(w->l->size <= GEN_MAPS);
	memset(gen_maps_memory, 0, w->l->size);
	memset(gen_errors, 0, sizeof(gen_errors));
	memset(gen_cells, 0, sizeof(gen_cells));
	maps_init(&w->u, w->l, gen_maps_memory);
	w->r = maps_reader_new(&w->u, w->l, gen_maps_memory);
	w->store = store_new(&w->u);
	w->in = (struct interp){ .unit = &w->u, .ops = &store_ops, .store = w->store, .cells = xcalloc(256, 8) };
	env = gen_make_env(has_rseq, w->l);
	if (gen_place(&w->u, w->p, &env, 16) < 0)
		fail_msg("%s", err_text());
}

static inline void world_free(struct world *w)
{
	maps_reader_free(w->r);
	store_free(w->store);
	free(w->l);
	free(w->in.cells);
	ir_unit_free(&w->u);
	free(w);
}

/* Both ways once, with these values of rdi and rsi. */
static inline void hit(struct world *w, uint64_t rdi, uint64_t rsi, void (*run)(void))
{
	const char *what;

	gen_machine(random_word(), random_word() % 16);
	machine_in.gpr[RDI] = rdi;
	machine_in.gpr[RSI] = rsi;
	what = gen_run(run);
	if (what)
		fail_msg("%s has changed", what);
	gen_stack_number = *(uint64_t *)gen_native.payload;
	gen_judge(&w->in, w->p);
	assert_int_equal(gen_native.n, gen_judged.n);
	assert_int_equal(gen_native.len, gen_judged.len);
	assert_memory_equal(gen_native.payload, gen_judged.payload, gen_judged.len);
	assert_memory_equal(gen_errors[0], w->in.errors, sizeof(w->in.errors));
}

static inline void same_entry(const struct ir_map *m, const struct map_entry *a, const struct map_entry *b)
{
	uint32_t n = agg_buckets(m);

	assert_int_equal(a->value_len, b->value_len);
	if (a->value_len)
		assert_memory_equal(a->value, b->value, a->value_len);
	if (!a->agg)
		return;
	assert_int_equal(a->agg->count, b->agg->count);
	if (m->kind >= IR_MAP_SUM && m->kind <= IR_MAP_STATS) {
		assert_int_equal(a->agg->sum.u, b->agg->sum.u);
		assert_int_equal(a->agg->min.u, b->agg->min.u);
		assert_int_equal(a->agg->max.u, b->agg->max.u);
	}
	for (uint32_t i = 0; i < n; i++)
		if (a->agg->buckets[i] != b->agg->buckets[i])
			fail_msg("kind %d, %d bits, bucket %u: %d, not %d", m->kind, m->bits, i, (int)a->agg->buckets[i],
				 (int)b->agg->buckets[i]);
}

static inline void same_maps(struct world *w)
{
	for (uint32_t map = 0; map < w->u.maps.n; map++) {
		struct map_list list = { 0 };

		store_ops.list(w->store, map, &list);
		assert_int_equal(maps_reader_ops.len(w->r, map), list.n);
		for (size_t i = 0; i < list.n; i++) {
			struct bytes key = { (uint8_t *)list.v[i].key, list.v[i].key_len, 0 };
			struct map_entry e;

			assert_true(maps_reader_ops.get(w->r, map, &key, &e));
			same_entry(&w->u.maps.v[map], &e, &list.v[i]);
		}
		vec_free(&list);
	}
}

/* ---- instructions ---- */

static inline void agg_ins(struct world *w, uint32_t map, uint32_t value, uint32_t nkeys, const uint32_t *keys)
{
	struct ir_ins *i = gen_ins(w->p, IR_MAP_AGG);

	i->map = map;
	i->a = w->u.maps.v[map].kind == IR_MAP_COUNT ? IR_NONE : value;
	for (uint32_t k = 0; k < nkeys; k++)
		gen_arg(w->p, i, IR_U64, keys[k], 0);
	i->nkeys = nkeys;
}

static inline struct ir_ins *map_ins(struct world *w, enum ir_op op, uint32_t map, uint32_t key)
{
	struct ir_ins *i = gen_ins(w->p, op);

	i->map = map;
	if (w->u.maps.v[map].nkeys && op != IR_MAP_LEN) {
		gen_arg(w->p, i, IR_U64, key, 0);
		i->nkeys = 1;
	}
	return i;
}

static inline void emit_numbers(struct world *w, const uint32_t *regs, uint32_t n)
{
	uint32_t record = gen_record(&w->u, n, UINT32_MAX, false);
	struct ir_ins *i = gen_ins(w->p, IR_EMIT);

	i->record = record;
	for (uint32_t k = 0; k < n; k++)
		gen_arg(w->p, i, IR_U64, regs[k], 0);
}

static inline uint32_t slot(struct world *w, uint32_t cap, const char *text)
{
	struct ir_slot *s = vec_add(&w->p->slots);

	*s = (struct ir_slot){ text ? strlen(text) : cap, text ? xstrdup(text) : NULL };
	return w->p->slots.n - 1;
}

static inline uint64_t any_value(void)
{
	static const uint64_t odd[] = { 0, 1, -1ull, 2, 3, 4, 7, 8, 9, 99, 100, -10ull, -11ull, 1ull << 63, (1ull << 63) - 1, 1ull << 62 };

	return random_word() % 2 ? odd[random_word() % ARRAY_SIZE(odd)] : random_word() >> random_word() % 64;
}

static inline int start(void **state)
{
	gen_set_up();
	return 0;
}

#define test(f) cmocka_unit_test_setup(f, start)

#endif
