/* SPDX-License-Identifier: MIT */
/*
 * Code that is known by its words, relocations, the clock, and what of the stack is known without tables. Patterns of Go's
 * code, and the address of main() in a program's first instructions, are not known here: Go is refused, and a stripped main() has no name.
 */
#include "arch/aarch64/aarch64.h"

#include <elf.h>

#include "arch/aarch64/encode.h"

static uint64_t main_of_start(const uint8_t *code, uint64_t addr)
{
	return 0;
}

/* adrp x16, page; ldr x17, [x16, #off]; add x16, x16, #off; br x17, perhaps after a bti. */
static bool stub(const uint8_t *code, uint64_t addr, uint64_t *ret_slot)
{
	size_t n = (a64_word(code) & 0xffffff3f) == 0xd503241f ? 4 : 0;
	uint32_t load = a64_word(code + n + 4);
	struct insn page;

	if (n + 8 > STUB_LEN || a64_decode(code + n, 4, addr + n, &page) < 0 || (a64_word(code + n) & 0x9f00001f) != 0x90000010 ||
	    (load & 0xffc003ff) != 0xf9400211)
		return false;
	*ret_slot = page.target + 8 * (load >> 10 & 0xfff);
	return true;
}

static int64_t errno_offset(const uint8_t *code, size_t len)
{
	return 0;
}

static const struct code_bytes eh_return[] = { { 0, { 0 } } };

static bool go_loads_g(const uint8_t *code, int32_t *ret_off)
{
	return false;
}

static bool is_none(const uint8_t *code, size_t len)
{
	return false;
}

static bool takes_immediate(const uint8_t *code, size_t len, uint64_t *ret_value)
{
	return false;
}

static bool jump_from(const struct code_view *v, uint32_t jump, int reg, struct jump_from *ret)
{
	return false;
}

static bool frame_goes(const struct code_view *v, uint32_t jump)
{
	return false;
}

static bool takes_own_label(const struct code_view *v, int reg)
{
	return false;
}

static int thunk(const uint8_t *code, size_t len, size_t *ret_exit)
{
	return -1;
}

static bool is_operand(const uint8_t *at, size_t before)
{
	return false;
}

const struct code_idioms a64_idioms = {
	.landing_len = 4,
	.landing = { 0x5f, 0x24, 0x03, 0xd5 },	/* bti c */
	.main_of_start = main_of_start,
	.stub = stub,
	.errno_offset = errno_offset,
	.eh_return = eh_return,
	.go_loads_g = go_loads_g,
	.go_prepares_check = is_none,
	.go_checks_stack = is_none,
	.takes_address = is_none,
	.takes_immediate = takes_immediate,
	.jump_from = jump_from,
	.frame_goes = frame_goes,
	.takes_own_label = takes_own_label,
	.thunk = thunk,
	.is_operand = is_operand,
};

const struct elf_abi a64_elf = {
	.relative = R_AARCH64_RELATIVE,
	.irelative = R_AARCH64_IRELATIVE,
	.absolute = R_AARCH64_ABS64,
	.glob_dat = R_AARCH64_GLOB_DAT,
	.jump_slot = R_AARCH64_JUMP_SLOT,
	.tls_offset = R_AARCH64_TLS_TPREL,
	.tls_head = 16,
};

/* Backtraces are refused: after the first instruction nothing is known. */
static void follow(struct stack_height *h, const uint8_t *code, size_t len)
{
	h->depth = h->fp = HEIGHT_UNKNOWN;
}

static bool is_padding(const uint8_t *code)
{
	return code[0] == 0 && code[1] == 0;
}

const struct unwind_abi a64_unwind = {
	.extra = NO_REG,
	.follow = follow,
	.is_padding = is_padding,
};

/* The generic timer has one rate by its architecture. */
static bool is_steady(void)
{
	return true;
}

const struct clock_abi a64_clock = { is_steady };
