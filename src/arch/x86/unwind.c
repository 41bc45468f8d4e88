/* SPDX-License-Identifier: MIT */
/* What instructions do to the stack: rsp, rbp and rbx, the registers that CFAs are based on. */
#include "arch/x86/thread.h"
#include "arch/x86/x86.h"

#include <string.h>

#define UNKNOWN HEIGHT_UNKNOWN

static void move_sp(struct stack_height *h, int64_t by)
{
	if (h->depth == UNKNOWN || h->depth - by < 0 || h->depth - by > 1 << 24)
		h->depth = UNKNOWN;
	else
		h->depth -= by;
}

static void set_sp(struct stack_height *h, int64_t depth)
{
	h->depth = depth < 0 || depth > 1 << 24 ? UNKNOWN : depth;
}

static int16_t saved_here(const struct stack_height *h, int16_t before)
{
	return !before && h->depth != UNKNOWN && h->depth < 32768 ? -h->depth : before;
}

static void push_reg(struct stack_height *h, int reg)
{
	move_sp(h, -8);
	if (reg == RBP)
		h->saved_fp = saved_here(h, h->saved_fp);
	if (reg == RBX)
		h->saved_extra = saved_here(h, h->saved_extra);
}

static void pop_reg(struct stack_height *h, int reg)
{
	move_sp(h, 8);
	if (reg == RSP)
		h->depth = UNKNOWN;
	if (reg == RBX)
		h->saved_extra = 0;
	if (reg == RBP) {
		h->saved_fp = 0;
		h->fp = UNKNOWN;
	}
}

static void copy_reg(struct stack_height *h, int from, int to)
{
	if (to == RBP)
		h->fp = from == RSP ? h->depth : UNKNOWN;
	if (to == RSP)
		h->depth = from == RBP ? h->fp : UNKNOWN;
}

static int64_t immediate(const uint8_t *p, bool wide)
{
	int32_t v;

	if (!wide)
		return (int8_t)*p;
	memcpy(&v, p, sizeof(v));
	return v;
}

/* lea disp(%rsp or %rbp),%rsp; p is at the ModRM byte */
static void lea_sp(struct stack_height *h, const uint8_t *p, uint8_t rex)
{
	int mod = p[0] >> 6, rm = p[0] & 7;

	if (rm == RSP && p[1] == 0x24 && mod < 3 && !(rex & 3))
		move_sp(h, mod ? immediate(p + 2, mod == 2) : 0);
	else if (rm == RBP && (mod == 1 || mod == 2) && !(rex & 1) && h->fp != UNKNOWN)
		set_sp(h, h->fp - immediate(p + 1, mod == 2));
	else
		h->depth = UNKNOWN;
}

/* Instructions of 64 bits with a ModRM byte at p. */
static void wide_op(struct stack_height *h, uint8_t op, const uint8_t *p, uint8_t rex)
{
	int reg = (p[0] >> 3 & 7) | (rex & 4) << 1, rm = (p[0] & 7) | (rex & 1) << 3;
	bool direct = p[0] >> 6 == 3;

	switch (op) {
	case 0x81: case 0x83:
		if (!direct || rm != RSP || (reg & 7) == 7)
			break;
		if ((reg & 7) == 0)
			move_sp(h, immediate(p + 1, op == 0x81));
		else if ((reg & 7) == 5)
			move_sp(h, -immediate(p + 1, op == 0x81));
		else
			h->depth = UNKNOWN;
		break;
	case 0x8d:
		if (reg == RSP)
			lea_sp(h, p, rex);
		break;
	case 0x89:
		if (direct)
			copy_reg(h, reg, rm);
		break;
	case 0x8b:
		copy_reg(h, direct ? rm : -1, reg);
		break;
	case 0x01: case 0x21: case 0x29: case 0x31: case 0x87:
		if (direct && rm == RSP)
			h->depth = UNKNOWN;
		break;
	case 0x03: case 0x23: case 0x2b: case 0x33:
		if (reg == RSP)
			h->depth = UNKNOWN;
		break;
	}
}

static void follow(struct stack_height *h, const uint8_t *p, size_t n)
{
	uint8_t rex = 0, op;

	if ((p[0] & 0xf0) == 0x40 && n > 1) {
		rex = *p++;
		n--;
	}
	op = p[0];
	if (op >= 0x50 && op <= 0x57)
		push_reg(h, (op & 7) | (rex & 1) << 3);
	else if (op >= 0x58 && op <= 0x5f)
		pop_reg(h, (op & 7) | (rex & 1) << 3);
	else if (op == 0x6a || op == 0x68 || op == 0x9c || (op == 0xff && n > 1 && (p[1] >> 3 & 7) == 6))
		move_sp(h, -8);
	else if (op == 0x9d || op == 0x8f)
		move_sp(h, 8);
	else if (op == 0xc8 || op == 0xbc)
		h->depth = UNKNOWN;
	else if (op == 0xc9 && h->fp != UNKNOWN) {
		set_sp(h, h->fp);
		pop_reg(h, RBP);
	} else if (op == 0xc9) {
		h->depth = UNKNOWN;
	} else if (rex & 8 && n > 1) {
		wide_op(h, op, p + 1, rex);
	}
}

static bool is_padding(const uint8_t *p)
{
	return *p == 0x90 || *p == 0xcc || *p == 0 || *p == 0x66 || (p[0] == 0x0f && p[1] == 0x1f);
}

const struct unwind_abi x86_unwind = {
	.extra = RBX,
	.follow = follow,
	.is_padding = is_padding,
};
