/* SPDX-License-Identifier: MIT */
/*
 * Programs that begin with questions about registers: they are decided as the interpreter does, whoever asks about
 * whatever, and the short way out leaves every register and flag as it was, also if each instruction is interrupted.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "gen_run.h"

#define SLACK 57	/* bytes of room that no program needs */
enum { RSP = 4 };

static const int64_t values[] = { 0, 1, 5, -1, -128, 128, INT32_MAX, INT32_MIN, 1ll << 31, 0x123456789abcdef, INT64_MIN, INT64_MAX };
static uint32_t enabled[1];

static int64_t any_value(void)
{
	return values[random_word() % ARRAY_SIZE(values)];
}

static int any_reg(void)
{
	int n = random_word() % 15;

	return n < RSP ? n : n + 1;
}

static uint32_t any_operand(struct ir_prog *p, bool constant)
{
	struct ir_ins *i = gen_ins(p, constant ? IR_CONST : IR_REG);

	i->imm = constant ? any_value() : any_reg();
	i->dst = gen_reg(p, IR_I);
	return p->regs.n - 1;
}

/* To the end, unless it holds (or: if it does). */
static void put_question(struct ir_prog *p)
{
	uint32_t a = any_operand(p, random_word() % 8 == 0), b;
	struct ir_ins *i;

	if (random_word() % 4) {
		b = any_operand(p, random_word() % 2);
		i = gen_ins(p, IR_EQ + random_word() % 6);
		i->type = random_word() % 2 ? IR_I64 : IR_U64;
		i->a = a;
		i->b = b;
		i->dst = a = gen_reg(p, IR_I);
	}
	i = gen_ins(p, random_word() % 2 ? IR_JZ : IR_JNZ);
	i->a = a;
	i->label = 0;
}

/* 1 to 3 questions; the event has a register that the door may use. */
static void make_program(struct ir_unit *u, struct ir_prog *p)
{
	uint32_t seen;

	gen_record(u, 2, 2, false);
	p->nlabels = 1;
	for (int n = random_word() % 3; n >= 0; n--)
		put_question(p);
	seen = any_operand(p, false);
	gen_ins(p, IR_EMIT);
	for (int k = 0; k < 2; k++)
		gen_arg(p, &p->ins.v[p->ins.n - 1], IR_U64, seen, 0);
	gen_ins(p, IR_LABEL)->label = 0;
	gen_ins(p, IR_RET);
}

/* In a room of more than its size: it must go on at its end. */
static void place(const struct ir_unit *u, const struct ir_prog *p, bool switched)
{
	static const struct maps_layout none;
	struct gen_env env = gen_make_env(random_word() % 2, &none);
	struct gen_site site = { .addr = GEN_SITE, .number = 77, .func = GEN_SITE, .no_stack = (uint64_t)&shared->no_stack };
	uint8_t *rw = code_rw + BODY_OFF;
	int most = gen_measure(u, p);

	assert_true(most > 0);
	site.size = random_word() % 2 ? most + SLACK : 0;
	env.enabled = switched ? (uint64_t)enabled : 0;
	memset(rw, 0xcc, most + SLACK + MACHINE_BACK);
	most = gen_emit(u, p, &env, &site, (uint64_t)code_rx + BODY_OFF, rw);
	assert_true(most > 0 && (!site.size || most == (int)site.size));
	memcpy(rw + most, machine_back(), MACHINE_BACK);
	machine_body = (uint64_t)code_rx + BODY_OFF;
}

/* Registers have values that meet often. */
static void run(const struct ir_unit *u, const struct ir_prog *p, bool off, void (*how)(void), int *stayed)
{
	struct interp in = { .unit = u };
	const char *changed;

	gen_machine(random_word() % 128, 0);
	for (int i = 0; i < 16; i++)
		if (i != RSP)
			machine_in.gpr[i] = any_value();
	enabled[0] = !off;
	changed = gen_run(how);
	if (changed)
		print_error("%s has changed\n", changed);
	assert_null(changed);
	gen_judge(&in, p);
	if (off)
		gen_judged.n = 0;
	assert_int_equal(gen_native.n, gen_judged.n);
	if (gen_native.n)
		assert_memory_equal(gen_native.payload, gen_judged.payload, 16);
	*stayed += gen_native.n;
}

static void many(int programs, void (*how)(void))
{
	int stayed = 0, hits = 0;

	for (int n = 0; n < programs; n++) {
		struct ir_unit u = { 0 };
		struct ir_prog *p = ir_prog_new(&u, IR_WHERE_SITE, 0);
		bool switched = random_word() % 2;

		make_program(&u, p);
		place(&u, p, switched);
		for (int k = 0; k < 6; k++, hits++)
			run(&u, p, switched && k % 3 == 2, how, &stayed);
		ir_unit_free(&u);
	}
	print_message("    %d hits, %d events\n", hits, stayed);
	assert_true(stayed > hits / 20 && stayed < hits);
}

static void questions(void **state)
{
	gen_set_up();
	many(2500, machine_run);
}

static void questions_interrupted(void **state)
{
	gen_set_up();
	many(60, machine_run_stepped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(questions),
		cmocka_unit_test(questions_interrupted),
	};

	return cmocka_run_group_tests_name("gen_door", tests, NULL, NULL);
}
