/* SPDX-License-Identifier: MIT */
/* The code before system calls that may take known memory away (arch/x86/unmap.c): which of them call the blob, and how. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sys/mman.h>
#include "arch/arch.h"
#include "arch/known.h"
#include "base/mem.h"
#include "machine.h"

static struct known table __attribute__((aligned(64)));
static struct known *const known = &table;
static uint32_t quiet;
static uint8_t *code;

static struct { uint64_t at, len; uint32_t how, ncpus, n; const void *known, *quiet; } called;

static void note_call(struct known *k, uint64_t at, uint64_t len, uint32_t how, uint32_t ncpus, const uint32_t *q)
{
	called.at = at;
	called.len = len;
	called.how = how;
	called.ncpus = ncpus;
	called.known = k;
	called.quiet = q;
	called.n++;
	assert_int_equal(k->busy, 1);
}

#define NONE 9

static uint32_t how_of(enum unmap_abi abi, uint64_t rax, uint64_t rdi, uint64_t rsi, uint64_t rdx, uint64_t r10)
{
	static uint8_t stack[65536], before[65536];
	struct unmap_spec spec = { (uint64_t)known, (uint64_t)note_call, (uint64_t)&quiet, 77, abi };
	int n = arch_x86_64.emit_unmap(code, &spec);

	assert_in_range(n, 1, UNMAP_MAX);
	memcpy(code + n, machine_back(), MACHINE_BACK);
	machine_body = (uint64_t)code;
	memset(&called, 0, sizeof(called));
	machine_fill(n, (uint64_t)stack + 60000 + n % 16);
	machine_in.gpr[0] = rax;
	machine_in.gpr[7] = rdi;
	machine_in.gpr[6] = rsi;
	machine_in.gpr[2] = rdx;
	machine_in.gpr[10] = r10;
	memcpy(before, stack, sizeof(stack));
	machine_run();
	machine_check(stack, before, sizeof(stack));
	assert_int_equal(known->busy, 0);
	if (!called.n)
		return NONE;
	assert_int_equal(called.n, 1);
	assert_int_equal(called.ncpus, 77);
	assert_ptr_equal(called.known, known);
	assert_ptr_equal(called.quiet, &quiet);
	assert_int_equal(called.at, rdi);
	assert_int_equal(called.len, abi == UNMAP_BRK ? 1ull << 40 : rsi);
	return called.how;
}

static void calls_are_told_apart(void **state)
{
	const uint32_t RANGE = KNOWN_CUT_RANGE, ALL = KNOWN_CUT_ALL, OFF = KNOWN_CUT_OFF;
	const struct { enum unmap_abi abi; uint64_t rdi, rsi, rdx, r10; uint32_t how; } rows[] = {
		{ UNMAP_RANGE, 0x1000, 0x2000, 0, 0, RANGE },
		{ UNMAP_MOVE, 0x1000, 0x2000, 0x3000, 1, RANGE }, { UNMAP_MOVE, 0x1000, 0x2000, 0x3000, 3, ALL },
		{ UNMAP_PROTECT, 0x1000, 0x2000, 0, 0, RANGE }, { UNMAP_PROTECT, 0x1000, 0x2000, 2, 0, RANGE },
		{ UNMAP_PROTECT, 0x1000, 0x2000, 3, 0, NONE }, { UNMAP_PROTECT, 0x1000, 0x2000, 5, 0, ALL },
		{ UNMAP_PROTECT, 0x1000, 0x2000, 1u << 24, 0, ALL }, { UNMAP_PROTECT, 0x1000, 0x2000, 3 | 1u << 25, 0, ALL },
		{ UNMAP_MAP, 0, 0x2000, 3, 0x22, NONE }, { UNMAP_MAP, 0x1000, 0x2000, 3, 0x32, RANGE },
		{ UNMAP_MAP, 0x1000, 0x2000, 3, 0x100022, NONE }, { UNMAP_MAP, 0, 0x2000, 5, 2, ALL }, { UNMAP_MAP, 0x1000, 0x2000, 7, 0x32, ALL },
		{ UNMAP_BRK, 0, 0, 0, 0, NONE }, { UNMAP_BRK, 0x1000, 5, 0, 0, RANGE },
		{ UNMAP_ATTACH, 1, 0x1000, 0, 0, NONE }, { UNMAP_ATTACH, 1, 0x1000, 040000, 0, ALL },
		{ UNMAP_FORBID, 22, 0, 0, 0, ALL }, { UNMAP_FORBID, 59, 0, 0, 0, ALL }, { UNMAP_FORBID, 15, 0, 0, 0, NONE },
		{ UNMAP_ALWAYS, 0, 0, 0, 0, ALL }, { UNMAP_OFF, 0, 0, 0, 0, OFF },
	};
	static const uint64_t harmless[] = { 3, 4, 8, 14, 15, 16, 17, 20 };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(how_of(rows[i].abi, random_word(), rows[i].rdi, rows[i].rsi, rows[i].rdx, rows[i].r10), rows[i].how);
	for (uint64_t advice = 0; advice < 130; advice++) {
		uint32_t how = KNOWN_CUT_RANGE;

		for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
			how = advice == harmless[i] ? NONE : how;
		assert_int_equal(how_of(UNMAP_ADVISE, 28, 0x1000, 0x2000, advice | 0xabc00000000, 0), how);
	}
	for (uint64_t nr = 0; nr < 500; nr++) {
		static const uint64_t all[] = { 9, 10, 11, 12, 25, 28, 30, 157, 317, 440 }, off[] = { 323, 329, 425 };
		uint32_t how = NONE;

		for (size_t i = 0; i < ARRAY_SIZE(all); i++)
			how = nr == all[i] ? ALL : how;
		for (size_t i = 0; i < ARRAY_SIZE(off); i++)
			how = nr == off[i] ? OFF : how;
		assert_int_equal(how_of(UNMAP_ANY, nr | 0xdead00000000, 0x1000, 0x2000, 0, 0), how);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(calls_are_told_apart) };

	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return code == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
