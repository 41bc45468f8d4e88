/* SPDX-License-Identifier: MIT */
/* Programs by hand: which are refused, and what the interpreter makes of the others. Aggregations. */
#include "base/err.h"	/* before cmocka.h, which makes fail() a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "lang/agg.h"
#include "lang/interp.h"

static struct ir_unit unit;
static struct ir_prog *prog;

static struct ir_ins *ins(uint8_t op)
{
	struct ir_ins *i = vec_add(&prog->ins);

	i->op = op;
	i->type = IR_I64;
	i->dst = i->a = i->b = i->slot = i->slot2 = IR_NONE;
	return i;
}

static uint32_t reg(uint8_t class)
{
	*vec_add(&prog->regs) = class;
	return prog->regs.n - 1;
}

static uint32_t constant(int64_t v)
{
	struct ir_ins *i = ins(IR_CONST);

	i->imm = v;
	return i->dst = reg(IR_I);
}

static void math(uint8_t op, uint8_t type, uint32_t dst, uint32_t a, uint32_t b)
{
	struct ir_ins *i = ins(op);

	i->type = type;
	i->dst = dst;
	i->a = a;
	i->b = b;
}

static void jump(uint8_t op, uint32_t a, uint32_t label)
{
	struct ir_ins *i = ins(op);

	i->a = a;
	i->label = label;
}

static void begin(void)
{
	prog = ir_prog_new(&unit, IR_WHERE_SITE, 0);
}

/* Verdict on what was written since begin(). */
static const char *verdict(void)
{
	const char *v = ir_verify(&unit, prog);

	return v ? v : "fine";
}

static void test_refused(void **state)
{
	uint32_t a, f;

	begin();
	assert_string_not_equal(verdict(), "fine");	/* empty */
	ins(IR_RET);
	assert_string_equal(verdict(), "fine");

	begin();			/* read before it is written */
	a = reg(IR_I);
	math(IR_ADD, IR_I64, reg(IR_I), a, a);
	ins(IR_RET);
	assert_string_not_equal(verdict(), "fine");

	begin();			/* the wrong class */
	a = constant(1);
	f = reg(IR_F);
	math(IR_ADD, IR_F64, f, a, a);
	ins(IR_RET);
	assert_string_not_equal(verdict(), "fine");

	begin();			/* up */
	prog->nlabels = 1;
	ins(IR_LABEL)->label = 0;
	jump(IR_JMP, IR_NONE, 0);
	ins(IR_RET);
	assert_string_not_equal(verdict(), "fine");

	begin();			/* to a label that is not there */
	prog->nlabels = 1;
	a = constant(1);
	jump(IR_JZ, a, 0);
	ins(IR_RET);
	assert_string_not_equal(verdict(), "fine");

	begin();			/* written on one path only */
	prog->nlabels = 1;
	a = constant(1);
	jump(IR_JZ, a, 0);
	f = constant(2);
	ins(IR_LABEL)->label = 0;
	math(IR_ADD, IR_I64, reg(IR_I), f, a);
	ins(IR_RET);
	assert_string_not_equal(verdict(), "fine");

	begin();			/* a loop without a bound, and one that is left open */
	prog->nlabels = 1;
	ins(IR_LOOP)->label = 0;
	ins(IR_LOOP_END)->label = 0;
	ins(IR_RET);
	assert_string_not_equal(verdict(), "fine");
	prog->ins.v[0].imm = 4;
	assert_string_equal(verdict(), "fine");
	prog->ins.v[1].op = IR_NOP;
	assert_string_not_equal(verdict(), "fine");

	begin();			/* a constant slot is written */
	vec_add(&prog->slots)->text = xstrdup("x");
	ins(IR_COMM)->slot = 0;
	ins(IR_RET);
	assert_string_not_equal(verdict(), "fine");

	begin();			/* goes on behind its end */
	constant(1);
	assert_string_not_equal(verdict(), "fine");
}

static int64_t value(uint8_t op, uint8_t type, int64_t a, int64_t b)
{
	struct interp in = { .unit = &unit };
	struct interp_site site = { 0 };
	uint32_t ra, rb, d;

	begin();
	ra = constant(a);
	rb = constant(b);
	d = reg(IR_I);
	math(op, type, d, ra, op == IR_NEG || op == IR_NOT || op == IR_CAST ? IR_NONE : rb);
	ins(IR_RET)->a = d;
	return interp_run(&in, prog, &site) + (in.errors[IR_ERR_DIV] ? 1000000 : 0);
}

static const struct { uint8_t op, type; int64_t a, b, want; } sums[] = {
	{ IR_ADD, IR_I32, INT32_MAX, 1, INT32_MIN }, { IR_ADD, IR_U32, UINT32_MAX, 1, 0 }, { IR_ADD, IR_I64, INT64_MAX, 1, INT64_MIN },
	{ IR_SUB, IR_U32, 3, 5, 0xfffffffe }, { IR_SUB, IR_I32, 3, 5, -2 }, { IR_MUL, IR_I32, 65536, 65536, 0 },
	{ IR_DIV, IR_I64, -7, 2, -3 }, { IR_MOD, IR_I64, -7, 2, -1 }, { IR_DIV, IR_U64, -1, 2, INT64_MAX },
	{ IR_DIV, IR_I64, 1, 0, 1000000 }, { IR_MOD, IR_U64, 1, 0, 1000000 }, { IR_DIV, IR_I64, INT64_MIN, -1, 1000000 },
	{ IR_DIV, IR_I32, INT32_MIN, -1, 1000000 }, { IR_MOD, IR_I32, INT32_MIN, -1, 1000000 },
	{ IR_SHL, IR_I32, 1, 31, INT32_MIN }, { IR_SHL, IR_I32, 1, 33, 2 }, { IR_SHL, IR_I64, 1, 65, 2 }, { IR_SHR, IR_I64, -8, 1, -4 },
	{ IR_SHR, IR_U32, 0x80000000, 31, 1 }, { IR_NEG, IR_U32, 1, 0, 0xffffffff }, { IR_NOT, IR_U32, 0, 0, 0xffffffff },
	{ IR_CAST, IR_I8, 0x1ff, 0, -1 }, { IR_CAST, IR_U8, 0x1ff, 0, 255 }, { IR_CAST, IR_BOOL, 256, 0, 1 }, { IR_CAST, IR_U16, -1, 0, 65535 },
	{ IR_LT, IR_I64, -1, 1, 1 }, { IR_LT, IR_U64, -1, 1, 0 }, { IR_GE, IR_U64, -1, 1, 1 }, { IR_NE, IR_I64, 2, 2, 0 },
};

static void test_sums(void **state)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sums); i++)
		assert_int_equal(value(sums[i].op, sums[i].type, sums[i].a, sums[i].b), sums[i].want);
}

/* A loop ends at its bound, and says so. */
static void test_bound(void **state)
{
	struct interp in = { .unit = &unit };
	struct interp_site site = { 0 };
	uint32_t one, n;
	struct ir_ins *i;

	begin();
	prog->nlabels = 1;
	one = constant(1);
	n = constant(0);
	i = ins(IR_LOOP);
	i->label = 0;
	i->imm = 10;
	math(IR_ADD, IR_I64, n, n, one);
	ins(IR_LOOP_END)->label = 0;
	ins(IR_RET)->a = n;
	assert_int_equal(interp_run(&in, prog, &site), 10);
	assert_int_equal(in.errors[IR_ERR_LOOP], 1);
}

/* Each bucket begins where the one before it ends, and holds its own ends. */
static void test_buckets(void **state)
{
	unsigned int bits;
	uint32_t i;

	for (bits = 0; bits <= 5; bits++) {
		int64_t lo, hi, before = 0;

		for (i = 1; i < hist_buckets(bits); i++) {
			hist_range(i, bits, &lo, &hi);
			assert_int_equal(lo, before);
			assert_int_equal(hist_bucket(lo, bits), i);
			if (hi != INT64_MAX) {
				assert_int_equal(hist_bucket(hi - 1, bits), i);
				assert_int_equal(hist_bucket(hi, bits), i + 1);
			}
			before = hi;
		}
		assert_int_equal(hist_bucket(-1, bits), 0);
		assert_int_equal(hist_bucket(INT64_MIN, bits), 0);
		assert_int_equal(hist_bucket(INT64_MAX, bits), hist_buckets(bits) - 1);
	}
	assert_int_equal(lhist_bucket(-1, 0, 100, 10), 0);
	assert_int_equal(lhist_bucket(0, 0, 100, 10), 1);
	assert_int_equal(lhist_bucket(99, 0, 100, 10), 10);
	assert_int_equal(lhist_bucket(100, 0, 100, 10), 11);
	assert_int_equal(lhist_buckets(0, 100, 10), 12);
	assert_int_equal(lhist_buckets(0, 95, 10), 12);
	assert_true(quantile_bucket(INT64_MIN) < quantile_bucket(-1));
	assert_true(quantile_bucket(-1) < quantile_bucket(0));
	assert_true(quantile_bucket(INT64_MAX) < 2048);
}

/* Parts that are merged say the same as one that has seen everything. */
static void test_merge(void **state)
{
	static const uint8_t kinds[] = { IR_MAP_COUNT, IR_MAP_SUM, IR_MAP_AVG, IR_MAP_MIN, IR_MAP_MAX, IR_MAP_STATS, IR_MAP_HIST,
					 IR_MAP_LHIST, IR_MAP_QUANTILE };
	size_t k;
	int i;

	for (k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct ir_map m = { .kind = kinds[k], .num = IR_I64, .lo = -50, .hi = 50, .step = 7, .bits = 2 };
		struct agg all = { 0 }, parts[3] = { 0 }, sum = { 0 };

		for (i = 0; i < 300; i++) {
			num v = { .i = (i * 7919) % 211 - 100 };

			agg_add(&m, &all, v);
			agg_add(&m, &parts[i % 2], v);	/* the third stays empty */
		}
		for (i = 0; i < 3; i++)
			agg_merge(&m, &sum, &parts[i]);
		assert_int_equal(sum.count, all.count);
		assert_int_equal(sum.sum.i, all.sum.i);
		assert_int_equal(sum.min.i, all.min.i);
		assert_int_equal(sum.max.i, all.max.i);
		assert_int_equal(agg_value(&m, &sum).i, agg_value(&m, &all).i);
		if (agg_buckets(&m))
			assert_memory_equal(sum.buckets, all.buckets, agg_buckets(&m) * sizeof(*sum.buckets));
		agg_free(&all);
		agg_free(&sum);
		for (i = 0; i < 3; i++)
			agg_free(&parts[i]);
	}
}

/* A quantile is off by at most 1/16, and exact at both ends. */
static void test_quantiles(void **state)
{
	struct ir_map m = { .kind = IR_MAP_QUANTILE, .num = IR_I64 };
	struct agg a = { 0 };
	int64_t i, got;

	for (i = 1; i <= 100000; i++)
		agg_add(&m, &a, (num){ .i = i });
	assert_int_equal(agg_quantile(&a, 0), 1);
	assert_int_equal(agg_quantile(&a, 1), 100000);
	for (i = 1; i < 100; i++) {
		got = agg_quantile(&a, i / 100.0);
		assert_in_range(got, i * 1000 - i * 1000 / 16 - 1, i * 1000 + i * 1000 / 16 + 1);
	}
	agg_free(&a);
}

static int teardown(void **state)
{
	ir_unit_free(&unit);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused), cmocka_unit_test(test_sums), cmocka_unit_test(test_bound), cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_merge), cmocka_unit_test(test_quantiles),
	};

	return cmocka_run_group_tests_name("lang_ir", tests, NULL, teardown);
}
