/* SPDX-License-Identifier: MIT */
/* The code of batch.h. */
#include "arch/aarch64/aarch64.h"

#include <linux/futex.h>

#include "arch/aarch64/encode.h"

#define NR_FUTEX 98

/*
 * x19: table, x20: calls left, x21: answer, x22: the way home, x23: futex, w24: its value while we live. Home by `ret`, which needs no
 * landing mark there.
 */
static const uint8_t code[] = {
	0x68, 0x02, 0x40, 0xf9,		/* 0: ldr x8, [x19] */
	0x60, 0x86, 0x40, 0xa9,		/* ldp x0, x1, [x19, #8] */
	0x62, 0x8e, 0x41, 0xa9,		/* ldp x2, x3, [x19, #24] */
	0x64, 0x96, 0x42, 0xa9,		/* ldp x4, x5, [x19, #40] */
	0x01, 0x00, 0x00, 0xd4,		/* svc #0 */
	0x69, 0x1e, 0x40, 0xf9,		/* ldr x9, [x19, #56] */
	0x1f, 0x00, 0x09, 0xeb,		/* cmp x0, x9 */
	0x81, 0x00, 0x00, 0x54,		/* b.ne 1f */
	0x73, 0x02, 0x01, 0x91,		/* add x19, x19, #64 */
	0x94, 0x06, 0x00, 0xf1,		/* subs x20, x20, #1 */
	0xc1, 0xfe, 0xff, 0x54,		/* b.ne 0b */
#define OVER 44				/* from here on nothing is done any more */
	0xb4, 0x82, 0x00, 0xa9,		/* 1: stp x20, x0, [x21, #8] */
	0x29, 0x00, 0x80, 0xd2,		/* mov x9, #1 */
	0xa9, 0xfe, 0x9f, 0xc8,		/* stlr x9, [x21]: after the two; read by ptrace (take_answer() in proc/borrow/batch.c) */
	0x48, 0x0c, 0x80, 0xd2,		/* 2: mov x8, #98 */
	0xe0, 0x03, 0x17, 0xaa,		/* mov x0, x23 */
	0x01, 0x00, 0x80, 0xd2,		/* mov x1, #0 */
	0xe2, 0x03, 0x18, 0x2a,		/* mov w2, w24 */
	0x03, 0x00, 0x80, 0xd2,		/* mov x3, #0 */
	0x01, 0x00, 0x00, 0xd4,		/* svc #0 */
	0xe9, 0x02, 0x40, 0xb9,		/* ldr w9, [x23] */
	0x3f, 0x01, 0x18, 0x6b,		/* cmp w9, w24 */
	0x00, 0xff, 0xff, 0x54,		/* b.eq 2b */
	0xc0, 0x02, 0x5f, 0xd6,		/* ret x22 */
};

_Static_assert(sizeof(code) <= BATCH_CODE_MAX, "room for it");
_Static_assert(sizeof(struct batch_call) == 64, "the code knows it");
_Static_assert(FUTEX_WAIT == 0, "the code knows it");

static void start(struct thread_regs *r, const struct batch_start *s)
{
	r->cpu.pc = s->code;
	r->cpu.reg[19] = s->table;
	r->cpu.reg[20] = s->calls;
	r->cpu.reg[21] = s->answer;
	r->cpu.reg[22] = s->home;
	r->cpu.reg[23] = s->futex;
	r->cpu.reg[24] = s->asleep;
}

static uint64_t left(const struct thread_regs *r)
{
	return r->cpu.reg[20];
}

const struct batch_code a64_batch = {
	.bytes = code,
	.len = sizeof(code),
	.over = OVER,
	.start = start,
	.left = left,
};
