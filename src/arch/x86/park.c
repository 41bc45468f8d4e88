/* SPDX-License-Identifier: MIT */
/* The code of a pad in which a thread parks: saves all registers that C may change and calls the blob. */
#include "arch/x86/x86.h"

#include "arch/x86/assemble.h"
#include "base/err.h"

int x86_emit_park(uint8_t *out, const struct park_spec *spec)
{
	uint8_t scratch[PARK_CODE_MAX];
	uint8_t *base = out ? out : scratch, *p = base;
	struct branches out_of_it = { .n = 0 };

	put(&p, 0x48, 0x8d, 0x64, 0x24, 0x80);	/* lea  -128(%rsp),%rsp */
	put(&p, 0x9c, 0x50, 0x51, 0x52, 0x56, 0x57);	/* pushf; push %rax, %rcx, %rdx, %rsi, %rdi */
	put(&p, 0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53);	/* push %r8 ... %r11 */
	put(&p, 0x55);				/* push %rbp */
	put(&p, 0x48, 0x89, 0xe5);		/* mov  %rsp,%rbp */
	put(&p, 0x48, 0x83, 0xe4, 0xf0);	/* and  $-16,%rsp */
	put(&p, 0xfc);				/* cld */
	put(&p, 0x48, 0xb8);			/* movabs $quiet,%rax */
	put64(&p, spec->quiet);
	put(&p, 0x83, 0x38, 0x00);		/* cmpl $0,(%rax) */
	put_branch(&p, 0x75, &out_of_it);	/* jne  out */
	put(&p, 0x48, 0x89, 0xf1);		/* mov  %rsi,%rcx */
	put(&p, 0x48, 0x89, 0xfa);		/* mov  %rdi,%rdx */
	put(&p, 0x48, 0xbf);			/* movabs $keeper,%rdi */
	put64(&p, spec->keeper);
	put(&p, 0xbe);				/* mov  $kind,%esi */
	put32(&p, spec->kind);
	put(&p, 0x48, 0xb8);			/* movabs $routine,%rax */
	put64(&p, spec->routine);
	put(&p, 0xff, 0xd0);			/* call *%rax */
	land_branches(&out_of_it, p);
	put(&p, 0x48, 0x89, 0xec);		/* mov  %rbp,%rsp */
	put(&p, 0x5d);				/* pop  %rbp */
	put(&p, 0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58);	/* pop %r11 ... %r8 */
	put(&p, 0x5f, 0x5e, 0x5a, 0x59, 0x58, 0x9d);	/* pop %rdi, %rsi, %rdx, %rcx, %rax; popf */
	put(&p, 0x48, 0x8d, 0xa4, 0x24);	/* lea  128(%rsp),%rsp */
	put32(&p, 128);
	return p - base;
}
