/* SPDX-License-Identifier: MIT */
/*
 * The code before a system call that creates a stranger: a thread that runs on its parent's thread block (a vfork
 * child, a bare clone). It reads the CPU number that the kernel keeps for the parent, and has no restartable
 * sequences itself, so it and its parent could count in the same place at the same time. Or its thread pointer is
 * 0, or points to something else. This code clears process_state.fast before the stranger exists; from then on
 * every pad takes the locked path, which is right for all threads and reads nothing in a thread block. It is also
 * put before a call that gives a thread another thread pointer (arch_prctl).
 *
 * That a thread has a block of its own proves nothing: it may be a copy of another thread's block, with that
 * thread's tid and CPU number. C libraries have the kernel write a new thread's tid into its block, at an offset
 * that is known from the other threads; any other new thread counts as a stranger. So only blocks of the C library
 * are relied on.
 *
 * Such a block may have belonged to another thread before, whose CPU number is still in it. The new thread runs
 * code of the C library before it is registered with rseq, so its CPU number is made invalid.
 */
#include "arch/x86/x86.h"

#include "arch/x86/assemble.h"
#include "arch/rseq.h"

#define CLONE_VM 0x100
#define CLONE_SETTLS 0x80000
#define CLONE_PARENT_SETTID 0x100000
#define ARCH_SET_FS 0x1002

#define CLONE3_SIZE 64		/* size of the kernel's first struct clone_args, */
#define CLONE3_PTID 24		/* and offsets in it */
#define CLONE3_TLS 56

#define SITE_RSP (128 + 3 * 8)	/* offset from rsp, in this code */
#define NEAR 4096		/* bytes above the stack pointer: C libraries have the struct in a caller's frame */

static void put_test(uint8_t **p, uint32_t flag)
{
	put(p, 0xa9);				/* test $flag,%eax */
	put32(p, flag);
}

/*
 * eax = flags of the call. With an invalid struct (NULL, too small) there is no new thread. A struct that is not on
 * the stack right above the site may be unmapped: it is not read, and the new thread counts as a stranger.
 */
static void put_flags(uint8_t **p, enum clone_abi abi, struct branches *out, struct branches *raise)
{
	if (abi == CLONE_ABI_CLONE) {
		put(p, 0x48, 0x89, 0xf8);	/* mov  %rdi,%rax */
		return;
	}
	put(p, 0x48, 0x85, 0xff);		/* test %rdi,%rdi */
	put_branch(p, 0x74, out);		/* jz   out */
	put(p, 0x48, 0x83, 0xfe, CLONE3_SIZE);	/* cmp  $64,%rsi */
	put_branch(p, 0x72, out);		/* jb   out */
	put(p, 0x48, 0x8d, 0x8c, 0x24);		/* lea  site's rsp,%rcx */
	put32(p, SITE_RSP);
	put(p, 0x48, 0x89, 0xf8);		/* mov  %rdi,%rax */
	put(p, 0x48, 0x29, 0xc8);		/* sub  %rcx,%rax */
	put(p, 0x48, 0x3d);			/* cmp  $NEAR - 64,%rax */
	put32(p, NEAR - CLONE3_SIZE);
	put_branch(p, 0x77, raise);		/* ja   raise */
	put(p, 0x48, 0x8b, 0x07);		/* mov  (%rdi),%rax: args->flags */
}

/* ZF: the kernel will write the new thread's tid into its block, at the same offset as in all threads. rcx = the block */
static void put_is_numbered(uint8_t **p, const struct raise_spec *spec)
{
	if (spec->abi == CLONE_ABI_CLONE) {
		put(p, 0x48, 0x89, 0xd0);	/* mov  %rdx,%rax */
		put(p, 0x4c, 0x89, 0xc1);	/* mov  %r8,%rcx */
	} else {
		put(p, 0x48, 0x8b, 0x47, CLONE3_PTID);	/* mov  parent_tid(%rdi),%rax */
		put(p, 0x48, 0x8b, 0x4f, CLONE3_TLS);	/* mov  tls(%rdi),%rcx */
	}
	put(p, 0x48, 0x29, 0xc8);		/* sub  %rcx,%rax */
	put(p, 0x48, 0x3d);			/* cmp  $tid_off,%rax */
	put32(p, spec->tid_off);
}

/* Makes the CPU number of the new thread's block invalid. In: rcx of put_is_numbered(). */
static void put_unregister(uint8_t **p, const struct raise_spec *spec)
{
	if (!spec->has_rseq) {
		memset(*p, 0x90, 10);		/* nop */
		*p += 10;
		return;
	}
	put(p, 0xc7, 0x81);			/* movl $-1,cpu_id(%rcx) */
	put32(p, spec->rseq_off + RSEQ_CPU_ID);
	put32(p, -1);
}

/*
 * Branches out unless the new thread shares the memory and gets no thread block that can be relied on. The length
 * is always the same.
 */
static void put_condition(uint8_t **p, const struct raise_spec *spec, struct branches *out)
{
	struct branches raise = { .n = 0 };

	if (spec->abi == CLONE_ABI_SET_FS) {
		put(p, 0x81, 0xff);		/* cmp  $ARCH_SET_FS,%edi */
		put32(p, ARCH_SET_FS);
		put_branch(p, 0x75, out);	/* jne  out */
		return;
	}
	put_flags(p, spec->abi, out, &raise);
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
	put_is_numbered(p, spec);
	put_branch(p, spec->tid_off ? 0x75 : 0xeb, &raise);	/* jne or jmp raise */
	put_unregister(p, spec);
	put_branch(p, 0xeb, out);		/* jmp  out */
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
	put(&p, 0x48, 0xb8);			/* movabs $fast,%rax */
	put64(&p, spec->fast);
	put(&p, 0xc7, 0x00);			/* movl $0,(%rax) */
	put32(&p, 0);
	put(&p, 0x48, 0xb8);			/* movabs $raised,%rax */
	put64(&p, spec->raised);
	put(&p, 0xc7, 0x00);			/* movl $1,(%rax) */
	put32(&p, 1);
	land_branches(&leave, p);
	put(&p, 0x59, 0x58, 0x9d);		/* pop  %rcx; pop %rax; popf */
	put(&p, 0x48, 0x8d, 0xa4, 0x24);	/* lea  128(%rsp),%rsp */
	put32(&p, 128);
	return p - out;
}
