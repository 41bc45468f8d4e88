/* SPDX-License-Identifier: MIT */
/* The code of batch.h. */
#include "arch/x86/thread.h"
#include "arch/x86/x86.h"

#include <linux/futex.h>
#include <sys/syscall.h>

/* rbx: table, r12: calls left, r13: answer, rbp: futex, r15: its value while we live, r14: the way home */
static const uint8_t code[] = {
	0x48, 0x8b, 0x03,		/* 0: mov (%rbx),%rax */
	0x48, 0x8b, 0x7b, 0x08,		/* mov 8(%rbx),%rdi */
	0x48, 0x8b, 0x73, 0x10,		/* mov 16(%rbx),%rsi */
	0x48, 0x8b, 0x53, 0x18,		/* mov 24(%rbx),%rdx */
	0x4c, 0x8b, 0x53, 0x20,		/* mov 32(%rbx),%r10 */
	0x4c, 0x8b, 0x43, 0x28,		/* mov 40(%rbx),%r8 */
	0x4c, 0x8b, 0x4b, 0x30,		/* mov 48(%rbx),%r9 */
	0x0f, 0x05,			/* syscall */
	0x48, 0x3b, 0x43, 0x38,		/* cmp 56(%rbx),%rax */
	0x75, 0x09,			/* jne 1f */
	0x48, 0x83, 0xc3, 0x40,		/* add $64,%rbx */
	0x49, 0xff, 0xcc,		/* dec %r12 */
	0x75, 0xd4,			/* jnz 0b */
#define OVER 44				/* from here on nothing is done any more */
	0x4d, 0x89, 0x65, 0x08,		/* 1: mov %r12,8(%r13) */
	0x49, 0x89, 0x45, 0x10,		/* mov %rax,16(%r13) */
	0x49, 0xc7, 0x45, 0x00, 1, 0, 0, 0,	/* movq $1,0(%r13) */
	0xb8, 0xca, 0x00, 0x00, 0x00,	/* 2: mov $SYS_futex,%eax */
	0x48, 0x89, 0xef,		/* mov %rbp,%rdi */
	0x31, 0xf6,			/* xor %esi,%esi */
	0x44, 0x89, 0xfa,		/* mov %r15d,%edx */
	0x45, 0x31, 0xd2,		/* xor %r10d,%r10d */
	0x0f, 0x05,			/* syscall */
	0x44, 0x39, 0x7d, 0x00,		/* cmp %r15d,0(%rbp) */
	0x74, 0xe8,			/* je 2b */
	0x41, 0xff, 0xe6,		/* jmp *%r14 */
};

_Static_assert(sizeof(code) <= BATCH_CODE_MAX, "room for it");
_Static_assert(sizeof(struct batch_call) == 64, "the code knows it");
_Static_assert(SYS_futex == 0xca && FUTEX_WAIT == 0, "the code knows it");

static void start(struct thread_regs *r, const struct batch_start *s)
{
	r->cpu.pc = s->code;
	r->cpu.reg[RBX] = s->table;
	r->cpu.reg[R12] = s->calls;
	r->cpu.reg[R13] = s->answer;
	r->cpu.reg[R14] = s->home;
	r->cpu.reg[RBP] = s->futex;
	r->cpu.reg[R15] = s->asleep;
}

static uint64_t left(const struct thread_regs *r)
{
	return r->cpu.reg[R12];
}

const struct batch_code x86_batch = {
	.bytes = code,
	.len = sizeof(code),
	.over = OVER,
	.start = start,
	.left = left,
};
