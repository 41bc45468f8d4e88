/* SPDX-License-Identifier: MIT */
/*
 * The code in front of a system call that makes a stranger: a thread that runs on its parent's
 * thread block (a vfork child, a bare clone) and so reads the CPU number that the kernel keeps for
 * the parent, while it has no restartable sequences itself. Two of them could count in one place.
 * This code clears the table of per-CPU counters before the stranger is born; from then on every
 * pad finds 0 there and takes the locked counter, which is right for everybody.
 */
#include "arch/x86/x86.h"

#include "arch/x86/assemble.h"

#define CLONE_VM 0x100
#define CLONE_SETTLS 0x80000

/* Leave, unless the new thread shares the memory and gets no thread block of its own. */
static void put_condition(uint8_t **p, enum clone_abi abi, uint8_t **ret_jump1, uint8_t **ret_jump2)
{
	if (abi == CLONE_ABI_CLONE3)
		put(p, 0x48, 0x8b, 0x07);	/* mov  (%rdi),%rax: args->flags */
	else
		put(p, 0x48, 0x89, 0xf8);	/* mov  %rdi,%rax */
	put(p, 0xa9);				/* test $CLONE_SETTLS,%eax */
	put32(p, CLONE_SETTLS);
	put(p, 0x75, 0);			/* jnz  out */
	*ret_jump1 = *p;
	put(p, 0xa9);				/* test $CLONE_VM,%eax */
	put32(p, CLONE_VM);
	put(p, 0x74, 0);			/* jz   out */
	*ret_jump2 = *p;
}

int x86_emit_raise(uint8_t *out, const struct raise_spec *spec)
{
	uint8_t *p = out, *jump1 = NULL, *jump2 = NULL;

	put(&p, 0x48, 0x8d, 0x64, 0x24, 0x80);	/* lea  -128(%rsp),%rsp */
	put(&p, 0x9c, 0x50, 0x51);		/* pushf; push %rax; push %rcx */
	if (spec->abi != CLONE_ABI_VFORK)
		put_condition(&p, spec->abi, &jump1, &jump2);
	put(&p, 0x48, 0xb8);			/* movabs $table,%rax */
	put64(&p, spec->cpu_table);
	put(&p, 0xb9);				/* mov  $n,%ecx */
	put32(&p, spec->ncpus);
	put(&p, 0x48, 0xc7, 0x44, 0xc8, 0xf8);	/* 1: movq $0,-8(%rax,%rcx,8) */
	put32(&p, 0);
	put(&p, 0xff, 0xc9, 0x75, 0xf3);	/* dec  %ecx; jnz 1b */
	if (jump1) {
		jump1[-1] = p - jump1;
		jump2[-1] = p - jump2;
	}
	put(&p, 0x59, 0x58, 0x9d);		/* pop  %rcx; pop %rax; popf */
	put(&p, 0x48, 0x8d, 0xa4, 0x24);	/* lea  128(%rsp),%rsp */
	put32(&p, 128);
	return p - out;
}
