/* SPDX-License-Identifier: MIT */
/* Which clause programs are plain events, and which of these need code with a frame behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "base/addr.h"
#include "gen/gen.h"
#include "lang/type.h"

struct world { struct ir_unit u; struct ir_prog *p; };

static struct ir_ins *add(struct world *w, uint8_t op)
{
	struct ir_ins *i = vec_add(&w->p->ins);

	*i = (struct ir_ins){ .op = op, .dst = IR_NONE, .a = IR_NONE, .b = IR_NONE, .slot = IR_NONE, .slot2 = IR_NONE };
	return i;
}

static uint32_t value(struct world *w, uint8_t op, uint8_t type, uint32_t a, int64_t imm)
{
	uint32_t dst = w->p->regs.n;
	struct ir_ins *i = add(w, op);

	*vec_add(&w->p->regs) = op == IR_VECTOR || op == IR_FCONST || (op == IR_LOAD && ir_is_float(type)) ? IR_F : IR_I;
	i->dst = dst;
	i->type = type;
	i->a = a;
	i->imm = imm;
	return dst;
}

/* An event of one field. */
static void emit(struct world *w, uint8_t type, uint32_t reg, uint64_t mask)
{
	struct ir_record r = { .kind = IR_RECORD_EVENT, .faulty = mask, .nfields = 1, .fields = xcalloc(1, sizeof(struct ir_field)) };
	struct ir_ins *i = add(w, IR_EMIT);

	r.fields[0] = (struct ir_field){ .type = type, .cap = 8 };
	i->record = w->u.records.n;
	i->first = w->p->args.n;
	i->n = 1;
	*vec_add(&w->u.records) = r;
	*vec_add(&w->p->args) = (struct ir_arg){ .type = type, .reg = reg, .mask = mask };
}

enum what { NOT, PLAIN, FRAMED };
#define NONE 0xff	/* no cast */

static enum what is_plain(struct world *w)
{
	bool framed, plain;

	add(w, IR_RET);
	assert_null(ir_verify(&w->u, w->p));
	plain = gen_is_plain(&w->u, w->p, &framed);
	if (plain)
		assert_true(gen_measure_plain(&w->u, w->p) > 0);
	ir_unit_free(&w->u);
	return !plain ? NOT : framed ? FRAMED : PLAIN;
}

static struct world new_world(void)
{
	struct world w = { 0 };

	w.p = ir_prog_new(&w.u, IR_WHERE_SITE, 0);
	return w;
}

/* One value, and how wide the field is that has it. */
static void test_what_is_plain(void **state)
{
	const struct arch_regs *regs = arch_host()->regs;
	const struct { uint8_t op, type, cast; int64_t imm; uint8_t field; enum what want; } rows[] = {
		{ IR_REG, IR_I64, NONE, 7, IR_U64, PLAIN },
		{ IR_REG, IR_I64, IR_I32, 7, IR_I32, PLAIN },
		{ IR_REG, IR_I64, IR_I32, 7, IR_I8, PLAIN },
		{ IR_REG, IR_I64, IR_I8, 7, IR_I32, NOT },		/* the register has other bits there */
		{ IR_REG, IR_I64, IR_U16, 7, IR_U64, NOT },
		{ IR_REG, IR_I64, IR_BOOL, 7, IR_BOOL, NOT },		/* true if any of its bits is set */
		{ IR_CONST, IR_I64, IR_BOOL, 0x100, IR_BOOL, PLAIN },
		{ IR_REG, IR_I64, NONE, regs->sp, IR_PTR, PLAIN },
		{ IR_REG, IR_I64, IR_U16, reg_pc(regs), IR_U64, PLAIN },	/* a number */
		{ IR_REG, IR_I64, NONE, reg_flags(regs), IR_U64, NOT },
		{ IR_CONST, IR_I64, IR_U8, 300, IR_U64, PLAIN },
		{ IR_VECTOR, IR_F64, NONE, 1, IR_F64, PLAIN },
		{ IR_VECTOR, IR_F32, NONE, 1, IR_F64, NOT },
		{ IR_FCONST, IR_F64, NONE, 0, IR_F64, PLAIN },
		{ IR_CTX, 0, NONE, IR_CTX_PID, IR_U64, NOT },
		{ IR_CTX, 0, NONE, IR_CTX_NSECS, IR_U64, NOT },
		{ IR_CTX, 0, NONE, IR_CTX_SITE, IR_U64, PLAIN },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct world w = new_world();
		uint32_t r = value(&w, rows[i].op, rows[i].type, IR_NONE, rows[i].imm);
		enum what got;

		r = rows[i].cast != NONE ? value(&w, IR_CAST, rows[i].cast, r, 0) : r;
		emit(&w, rows[i].field, r, 0);
		got = is_plain(&w);
		if (got != rows[i].want)
			fail_msg("row %zu is %d", i, got);
	}
}

static enum what load(uint64_t base, int64_t off, uint8_t type, uint8_t flags)
{
	struct world w = new_world();
	uint32_t a = value(&w, IR_REG, IR_I64, IR_NONE, base), r = value(&w, IR_LOAD, type, a, off);

	w.p->ins.v[w.p->ins.n - 1].flags = flags;
	emit(&w, type, r, flags ? 0 : 1);
	return is_plain(&w);
}

static void test_words_above_the_stack_pointer(void **state)
{
	uint64_t sp = arch_host()->regs->sp;

	assert_int_equal(load(sp, 8, IR_U64, 0), FRAMED);
	assert_int_equal(load(sp, 2032, IR_I32, 0), FRAMED);
	assert_int_equal(load(sp, 2040, IR_U64, 0), NOT);
	assert_int_equal(load(sp, 0, IR_U64, IR_GOOD), PLAIN);
	assert_int_equal(load(sp, -120, IR_U32, IR_GOOD), PLAIN);
	assert_int_equal(load(sp, -128, IR_U64, IR_GOOD), NOT);
	assert_int_equal(load(sp, 8, IR_F32, 0), NOT);
	assert_int_equal(load(sp, 8, IR_BOOL, 0), NOT);
	assert_int_equal(load(sp == 3 ? 5 : 3, 8, IR_U64, 0), NOT);	/* what another register points to */
}

/* As lower_unknown() has it: a read of an address that is none, unless it is 0. */
static enum what unknown(uint8_t op, int64_t imm)
{
	struct world w = new_world();
	uint32_t ret = value(&w, IR_REG, IR_I64, IR_NONE, 0), why = value(&w, op, IR_I64, IR_NONE, imm);
	struct ir_ins *i = add(&w, IR_JZ);

	i->a = why;
	w.p->nlabels = 1;
	value(&w, IR_LOAD, IR_U64, why, 0);
	add(&w, IR_LABEL);
	emit(&w, IR_U64, ret, 1);
	return is_plain(&w);
}

static void test_values_that_are_missing(void **state)
{
	assert_int_equal(unknown(IR_CTX, IR_CTX_TAIL), PLAIN);
	assert_int_equal(unknown(IR_CONST, ADDR_NO_RESULT), PLAIN);
	assert_int_equal(unknown(IR_CONST, 0), PLAIN);
	assert_int_equal(unknown(IR_CONST, 4096), NOT);		/* an address like others */
	assert_int_equal(unknown(IR_REG, 3), NOT);		/* nobody knows which way */
}

static void test_other_work(void **state)
{
	struct world w = new_world();

	assert_int_equal(is_plain(&w), NOT);			/* no event */
	w = new_world();
	emit(&w, IR_U64, value(&w, IR_REG, IR_I64, IR_NONE, 7), 0);
	emit(&w, IR_U64, value(&w, IR_REG, IR_I64, IR_NONE, 6), 0);
	assert_int_equal(is_plain(&w), NOT);
	w = new_world();
	emit(&w, IR_U64, value(&w, IR_REG, IR_I64, IR_NONE, 7), 0);
	value(&w, IR_EVERY, 0, IR_NONE, 3);
	w.u.ncells = 1;
	assert_int_equal(is_plain(&w), NOT);
	w = new_world();
	w.p->where = IR_WHERE_EXIT;
	emit(&w, IR_U64, value(&w, IR_REG, IR_I64, IR_NONE, 7), 0);
	assert_int_equal(is_plain(&w), NOT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_plain), cmocka_unit_test(test_words_above_the_stack_pointer),
		cmocka_unit_test(test_values_that_are_missing), cmocka_unit_test(test_other_work),
	};

	return cmocka_run_group_tests_name("gen_plain", tests, NULL, NULL);
}
