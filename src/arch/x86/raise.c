/* SPDX-License-Identifier: MIT */
/*
 * The code in front of a system call that makes a stranger: a thread that runs on its parent's
 * thread block (a vfork child, a bare clone) and so reads the CPU number that the kernel keeps for
 * the parent, while it has no restartable sequences itself. Two of them could count in one place.
 * This code clears the table of per-CPU counters before the stranger is born; from then on every
 * pad finds 0 there and takes the locked counter, which is right for everybody.
 *
 * A thread block of its own proves nothing: it may be a copy of another thread's, with the number and the CPU of that
 * one in it. C libraries have the kernel write a new thread's number into its block; who does not is taken for a stranger.
 */
#include "arch/x86/x86.h"

#include "arch/x86/assemble.h"

#define CLONE_VM 0x100
#define CLONE_SETTLS 0x80000
#define CLONE_PARENT_SETTID 0x100000

#define CLONE3_SIZE 64		/* of the kernel's first struct clone_args, */
#define CLONE3_PTID 24		/* and where these are in it */
#define CLONE3_TLS 56

/* Where a thread block may have its number: proc/tid.c looks there, too. */
#define NUMBER_FROM (-512)
#define NUMBER_TO 2048

static void put_test(uint8_t **p, uint32_t flag)
{
	put(p, 0xa9);				/* test $flag,%eax */
	put32(p, flag);
}

/* eax = flags. What is no struct at all is the kernel's matter. */
static void put_flags(uint8_t **p, enum clone_abi abi, struct branches *out)
{
	if (abi == CLONE_ABI_CLONE) {
		put(p, 0x48, 0x89, 0xf8);	/* mov  %rdi,%rax */
		return;
	}
	put(p, 0x48, 0x85, 0xff);		/* test %rdi,%rdi */
	put_branch(p, 0x74, out);		/* jz   out */
	put(p, 0x48, 0x83, 0xfe, CLONE3_SIZE);	/* cmp  $64,%rsi */
	put_branch(p, 0x72, out);		/* jb   out */
	put(p, 0x48, 0x8b, 0x07);		/* mov  (%rdi),%rax: args->flags */
}

/* CF: the kernel writes the new thread's number into its block. */
static void put_is_numbered(uint8_t **p, enum clone_abi abi)
{
	if (abi == CLONE_ABI_CLONE) {
		put(p, 0x48, 0x89, 0xd0);	/* mov  %rdx,%rax */
		put(p, 0x4c, 0x29, 0xc0);	/* sub  %r8,%rax */
	} else {
		put(p, 0x48, 0x8b, 0x47, CLONE3_PTID);	/* mov  parent_tid(%rdi),%rax */
		put(p, 0x48, 0x2b, 0x47, CLONE3_TLS);	/* sub  tls(%rdi),%rax */
	}
	put(p, 0x48, 0x05);			/* add  $-NUMBER_FROM,%rax */
	put32(p, -NUMBER_FROM);
	put(p, 0x48, 0x3d);			/* cmp  $NUMBER_TO - NUMBER_FROM,%rax */
	put32(p, NUMBER_TO - NUMBER_FROM);
}

/* Leave, unless the new thread shares the memory and gets no thread block that can be believed. The length is always the same. */
static void put_condition(uint8_t **p, const struct raise_spec *spec, struct branches *out)
{
	struct branches raise = { .n = 0 };

	put_flags(p, spec->abi, out);
	put_test(p, CLONE_VM);
	put_branch(p, 0x74, out);		/* jz   out */
	put_test(p, CLONE_SETTLS);
	put_branch(p, 0x74, &raise);		/* jz   raise */
	if (spec->own_numbers)
		put_branch(p, 0xeb, out);	/* jmp  out */
	else
		put(p, 0x90, 0x90);		/* nop, nop */
	put_test(p, CLONE_PARENT_SETTID);
	put_branch(p, 0x74, &raise);		/* jz   raise */
	put_is_numbered(p, spec->abi);
	put_branch(p, 0x72, out);		/* jb   out */
	land_branches(&raise, *p);
}

int x86_emit_raise(uint8_t *out, const struct raise_spec *spec)
{
	struct branches leave = { .n = 0 };
	uint8_t *p = out;

	put(&p, 0x48, 0x8d, 0x64, 0x24, 0x80);	/* lea  -128(%rsp),%rsp */
	put(&p, 0x9c, 0x50, 0x51);		/* pushf; push %rax; push %rcx */
	if (spec->abi != CLONE_ABI_VFORK)
		put_condition(&p, spec, &leave);
	put(&p, 0x48, 0xb8);			/* movabs $table,%rax */
	put64(&p, spec->cpu_table);
	put(&p, 0xb9);				/* mov  $n,%ecx */
	put32(&p, spec->ncpus);
	put(&p, 0x48, 0xc7, 0x44, 0xc8, 0xf8);	/* 1: movq $0,-8(%rax,%rcx,8) */
	put32(&p, 0);
	put(&p, 0xff, 0xc9, 0x75, 0xf3);	/* dec  %ecx; jnz 1b */
	land_branches(&leave, p);
	put(&p, 0x59, 0x58, 0x9d);		/* pop  %rcx; pop %rax; popf */
	put(&p, 0x48, 0x8d, 0xa4, 0x24);	/* lea  128(%rsp),%rsp */
	put32(&p, 128);
	return p - out;
}
