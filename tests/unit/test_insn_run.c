/* SPDX-License-Identifier: MIT */
/*
 * Relocated instructions, run. Each case runs twice from the same state, once where it stands and
 * once moved, and everything a program can see must be the same afterwards: registers, flags,
 * the stack with its red zone, memory, and the way it went. Then again with a signal after every
 * instruction, which finds whatever is kept where a signal may write.
 *
 *	code:	the instruction	-> landing 1
 *		+0x40		-> landing 2, or data
 *		+0x80		pointer to landing 2's code
 *	moved:	the same, relocated, then back to behind the original
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "arch/arch.h"
#include "machine.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define AREA_SIZE (1 << 20)
#define CODE_OFF 0x1000
#define MOVED_OFF 0x8000
#define STACK_OFF 0x80000
#define STACK_SIZE 0x10000
#define STACK_KEPT 256			/* bytes above rsp */

static uint8_t *area;			/* code and stack; all of it may be run */
static uint64_t *low_word;		/* below 4 GB, for 32-bit addresses */
static __thread uint64_t thread_word;

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11 };

/* Where the address to call or jump to is put before the run. */
enum place {
	NOWHERE,
	AT_40,			/* the instruction goes to +0x40 by itself */
	DATA_40,		/* +0x40 is data */
	IN_REG,
	BY_REG,			/* the register points to it */
	BY_REG_LOW,		/* the same, with a 32-bit address */
	BY_REG_INDEX,		/* rax + 8 * rbx */
	ON_STACK,		/* at `reg` bytes from rsp */
	AT_FS,			/* thread-local, the last four bytes are the offset */
	SP_ITSELF,		/* the code stands where rsp points */
};

struct run_row {
	const char *what;
	const char *hex;	/* distances lead to +0x40 or +0x80 from the end */
	enum place place;
	int reg;
};

static const struct run_row branch_rows[] = {
	{ "jmp rel8",			"eb 40",		AT_40, 0 },
	{ "jmp rel32",			"e9 40 00 00 00",	AT_40, 0 },
	{ "jmp *disp(%rip)",		"ff 25 80 00 00 00",	NOWHERE, 0 },
	{ "jmp *%rdx",			"ff e2",		IN_REG, RDX },
};

static const struct run_row loop_rows[] = {
	{ "loop",			"e2 40",		AT_40, 0 },
	{ "loope",			"e1 40",		AT_40, 0 },
	{ "loopne",			"e0 40",		AT_40, 0 },
	{ "jrcxz",			"e3 40",		AT_40, 0 },
	{ "loop with ecx",		"67 e2 40",		AT_40, 0 },
	{ "loope with ecx",		"67 e1 40",		AT_40, 0 },
	{ "loopne with ecx",		"67 e0 40",		AT_40, 0 },
	{ "jecxz",			"67 e3 40",		AT_40, 0 },
};

static const struct run_row call_rows[] = {
	{ "call",			"e8 40 00 00 00",	AT_40, 0 },
	{ "call padded for TLS",	"66 66 48 e8 40 00 00 00", AT_40, 0 },
	{ "call *%rax",			"ff d0",		IN_REG, RAX },
	{ "call *%r11",			"41 ff d3",		IN_REG, R11 },
	{ "notrack call *%rbp",		"3e ff d5",		IN_REG, RBP },
	{ "call *%rsp",			"ff d4",		SP_ITSELF, 0 },
	{ "call *(%rax)",		"ff 10",		BY_REG, RAX },
	{ "call *(%r9)",		"41 ff 11",		BY_REG, R9 },
	{ "call *(%eax)",		"67 ff 10",		BY_REG_LOW, RAX },
	{ "call *(%rax,%rbx,8)",	"ff 14 d8",		BY_REG_INDEX, 0 },
	{ "call *(%rsp)",		"ff 14 24",		ON_STACK, 0 },
	{ "call *8(%rsp)",		"ff 54 24 08",		ON_STACK, 8 },
	{ "call *-8(%rsp)",		"ff 54 24 f8",		ON_STACK, -8 },
	{ "call *-16(%rsp)",		"ff 54 24 f0",		ON_STACK, -16 },
	{ "call *-128(%rsp)",		"ff 54 24 80",		ON_STACK, -128 },
	{ "call *disp(%rip)",		"ff 15 80 00 00 00",	NOWHERE, 0 },
	{ "call *disp(%rip), REX.W",	"66 48 ff 15 80 00 00 00", NOWHERE, 0 },
	{ "call *%fs:disp",		"64 ff 14 25 00 00 00 00", AT_FS, 0 },
};

static const struct run_row data_rows[] = {
	{ "lea",			"48 8d 05 40 00 00 00",	DATA_40, 0 },
	{ "load",			"4c 8b 15 40 00 00 00",	DATA_40, 0 },
	{ "store",			"48 89 15 40 00 00 00",	DATA_40, 0 },
	{ "push",			"ff 35 40 00 00 00",	DATA_40, 0 },
	{ "cmpb with imm8",		"80 3d 40 00 00 00 07",	DATA_40, 0 },
	{ "addl with imm32",		"81 05 40 00 00 00 44 33 22 11", DATA_40, 0 },
	{ "movw with imm16",		"66 c7 05 40 00 00 00 22 11", DATA_40, 0 },
	{ "lock xadd",			"f0 48 0f c1 0d 40 00 00 00", DATA_40, 0 },
	{ "pinsrw with imm8",		"66 0f c4 0d 40 00 00 00 03", DATA_40, 0 },
	{ "fadd",			"dc 05 40 00 00 00",	DATA_40, 0 },
};

static const struct run_row avx_rows[] = {
	{ "vmovups",			"c5 fc 10 05 40 00 00 00", DATA_40, 0 },
	{ "vpalignr with imm8",		"c4 e3 71 0f 0d 40 00 00 00 03", DATA_40, 0 },
	{ "vmovups store",		"c5 fc 11 1d 40 00 00 00", DATA_40, 0 },
};

static int from_hex(const char *hex, uint8_t *out)
{
	int len = 0;
	char *end;

	for (;;) {
		unsigned long v = strtoul(hex, &end, 16);

		if (end == hex)
			return len;
		out[len++] = v;
		hex = end;
	}
}

static void put_jump_to(uint8_t *at, void (*landing)(void))
{
	uint64_t to = (uint64_t)landing;

	memcpy(at, (const uint8_t[]){ 0xff, 0x25, 0, 0, 0, 0 }, 6);	/* jmp *0(%rip) */
	memcpy(at + 6, &to, 8);
}

struct scene {
	uint8_t *code;		/* the original */
	uint8_t *moved;
	int len;
	uint8_t at_40[64];	/* what stands there before each run */
	uint8_t stack[STACK_SIZE];
};

static uint8_t *stack_pointer(void)
{
	return area + STACK_OFF + STACK_SIZE - STACK_KEPT;
}

/* Registers and memory through which the row finds landing 2. */
static void set_operand(const struct run_row *row, struct scene *s)
{
	uint8_t *landing_2 = s->code + s->len + 0xc0;
	uint64_t to = (uint64_t)landing_2;
	uint64_t *word = (uint64_t *)(s->code + s->len + 0x80);

	put_jump_to(landing_2, machine_landing_2);
	memcpy(word, &to, 8);
	*low_word = thread_word = to;
	switch (row->place) {
	case IN_REG:
		machine_in.gpr[row->reg] = to;
		break;
	case BY_REG:
		machine_in.gpr[row->reg] = (uint64_t)word;
		break;
	case BY_REG_LOW:			/* the high half must not matter */
		machine_in.gpr[row->reg] = (uint64_t)low_word | 0xabcdull << 32;
		break;
	case BY_REG_INDEX:
		machine_in.gpr[RBX] = -5;
		machine_in.gpr[RAX] = (uint64_t)word + 40;
		break;
	case ON_STACK:
		memcpy(stack_pointer() + row->reg, &to, 8);
		break;
	case SP_ITSELF:
		put_jump_to(stack_pointer(), machine_landing_2);
		break;
	default:
		break;
	}
}

static void build(const struct run_row *row, int flags, struct scene *s)
{
	struct insn insn;
	int len;

	s->code = area + CODE_OFF;
	s->moved = area + MOVED_OFF;
	s->len = from_hex(row->hex, s->code);
	if (row->place == AT_FS) {
		int32_t off = (uint64_t)&thread_word - (uint64_t)__builtin_thread_pointer();

		memcpy(s->code + s->len - 4, &off, 4);
	}
	put_jump_to(s->code + s->len, machine_landing);
	if (row->place == DATA_40)
		fill_random(s->code + s->len + 0x40, 64);
	else
		put_jump_to(s->code + s->len + 0x40, machine_landing_2);

	assert_int_equal(arch_x86_64.decode(s->code, s->len, (uint64_t)s->code, &insn), 0);
	assert_int_equal(insn.len, s->len);
	len = arch_x86_64.relocate(s->code, &insn, (uint64_t)s->code, (uint64_t)s->moved, s->moved);
	assert_true(len > 0);
	arch_x86_64.jump(s->moved + len, (uint64_t)s->moved + len, (uint64_t)s->code + s->len);

	fill_random(area + STACK_OFF, STACK_SIZE);
	machine_fill(flags, (uint64_t)stack_pointer());
	set_operand(row, s);
	memcpy(s->at_40, s->code + s->len + 0x40, 64);
	memcpy(s->stack, area + STACK_OFF, STACK_SIZE);
}

struct result {
	struct machine machine;
	uint32_t way;
	uint8_t data[64];
	uint8_t stack[STACK_KEPT + 128];
};

static void run_at(struct scene *s, uint8_t *body, void (*run)(void), struct result *ret_result)
{
	memset(&machine_out, 0, sizeof(machine_out));
	memcpy(s->code + s->len + 0x40, s->at_40, 64);
	memcpy(area + STACK_OFF, s->stack, STACK_SIZE);
	machine_way = 0;
	machine_body = (uint64_t)body;
	run();
	ret_result->machine = machine_out;
	ret_result->way = machine_way;
	memcpy(ret_result->data, s->code + s->len + 0x40, 64);
	memcpy(ret_result->stack, stack_pointer() - 128, sizeof(ret_result->stack));
}

static void check_same(const struct run_row *row, const struct result *a, const struct result *b)
{
	for (int i = 0; i < 16; i++)
		if (a->machine.gpr[i] != b->machine.gpr[i])
			fail_msg("%s: register %d: %#lx, not %#lx", row->what, i,
				 b->machine.gpr[i], a->machine.gpr[i]);
	if (a->machine.flags != b->machine.flags)
		fail_msg("%s: flags %#lx, not %#lx", row->what, b->machine.flags, a->machine.flags);
	if (a->way != b->way)
		fail_msg("%s: goes way %u, not %u", row->what, b->way, a->way);
	if (memcmp(a->data, b->data, sizeof(a->data)))
		fail_msg("%s: memory differs", row->what);
	if (memcmp(a->stack, b->stack, sizeof(a->stack)))
		fail_msg("%s: stack differs", row->what);
	if (memcmp(a->machine.high, b->machine.high, sizeof(a->machine.high)))
		fail_msg("%s: vector registers differ", row->what);
	/* x87, without the address of its last instruction: that is the pad's */
	if (memcmp(a->machine.fx, b->machine.fx, 8) ||
	    memcmp(a->machine.fx + 16, b->machine.fx + 16, 400))
		fail_msg("%s: x87 or xmm differs", row->what);
}

static struct scene scene;
static struct result original, moved;

/* Returns the way it went. */
static uint32_t compare(const struct run_row *row, void (*run)(void))
{
	run_at(&scene, scene.code, run, &original);
	run_at(&scene, scene.moved, run, &moved);
	check_same(row, &original, &moved);
	return original.way;
}

static void jumps(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(branch_rows); i++) {
		for (int flags = 0; flags < 128; flags++) {
			build(&branch_rows[i], flags, &scene);
			assert_int_equal(compare(&branch_rows[i], machine_run), 2);
		}
	}
}

/* All sixteen conditions, short and long, with all flags. */
static void conditional_jumps(void **state)
{
	char hex[32];
	int ways[3] = { 0 };

	for (int cc = 0; cc < 16; cc++) {
		for (int flags = 0; flags < 128; flags++) {
			struct run_row row = { "jcc rel8", hex, AT_40, 0 };

			sprintf(hex, "%02x 40", 0x70 + cc);
			build(&row, flags, &scene);
			ways[compare(&row, machine_run)]++;
			sprintf(hex, "0f %02x 40 00 00 00", 0x80 + cc);
			row.what = "jcc rel32";
			build(&row, flags, &scene);
			ways[compare(&row, machine_run)]++;
		}
	}
	assert_int_equal(ways[1], 16 * 128);	/* each condition has its opposite */
	assert_int_equal(ways[2], 16 * 128);
}

static void loops(void **state)
{
	static const uint64_t counts[] = {
		0, 1, 2, 0x100000000, 0x100000001, 0xffffffff00000000, -1ull,
	};
	int ways[3] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(loop_rows); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(counts); k++) {
			for (int flags = 0; flags < 128; flags++) {
				build(&loop_rows[i], flags, &scene);
				machine_in.gpr[RCX] = counts[k];
				ways[compare(&loop_rows[i], machine_run)]++;
			}
		}
	}
	assert_true(ways[1] > 1000 && ways[2] > 1000);
}

static void run_calls(void (*run)(void), int flags_step)
{
	for (size_t i = 0; i < ARRAY_SIZE(call_rows); i++) {
		for (int flags = 0; flags < 128; flags += flags_step) {
			uint64_t ret;

			build(&call_rows[i], flags, &scene);
			if (compare(&call_rows[i], run) != 2)
				fail_msg("%s: goes nowhere", call_rows[i].what);
			memcpy(&ret, moved.stack + 120, 8);
			assert_int_equal(ret, (uint64_t)scene.code + scene.len);
			assert_int_equal(moved.machine.gpr[RSP], (uint64_t)stack_pointer() - 8);
		}
	}
}

static void calls_leave_the_original_return_address(void **state)
{
	run_calls(machine_run, 1);
}

static void calls_survive_signals_everywhere(void **state)
{
	machine_steps = 0;
	run_calls(machine_run_stepped, 9);
	assert_true(machine_steps > 15 * 2 * 20 * ARRAY_SIZE(call_rows));
}

static void run_data(const struct run_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (int flags = 0; flags < 128; flags++) {
			build(&rows[i], flags, &scene);
			if (compare(&rows[i], machine_run) != 1)
				fail_msg("%s: does not go on", rows[i].what);
		}
	}
}

static void memory_relative_to_rip(void **state)
{
	run_data(data_rows, ARRAY_SIZE(data_rows));
	if (__builtin_cpu_supports("avx"))
		run_data(avx_rows, ARRAY_SIZE(avx_rows));
}

static int set_up(void **state)
{
	area = mmap(NULL, AREA_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	low_word = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	return area == MAP_FAILED || low_word == MAP_FAILED;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jumps),
		cmocka_unit_test(conditional_jumps),
		cmocka_unit_test(loops),
		cmocka_unit_test(calls_leave_the_original_return_address),
		cmocka_unit_test(calls_survive_signals_everywhere),
		cmocka_unit_test(memory_relative_to_rip),
	};

	return cmocka_run_group_tests_name("insn_run", tests, set_up, NULL);
}
