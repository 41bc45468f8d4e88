/* SPDX-License-Identifier: MIT */
/*
 * How event code begins and ends: the red zone is skipped, and four registers and the flags are kept on
 * the stack. The flags go through ah and al, not pushf: what pushes them while somebody single-steps
 * would bring the trap flag back after he has gone.
 */
#ifndef JAB_ARCH_X86_FRAME_H
#define JAB_ARCH_X86_FRAME_H

#include "arch/x86/assemble.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };

/* From rsp to what put_enter() has pushed, and to the site's own rsp. */
#define SAVED_FLAGS 0
#define SAVED_PID 4		/* of who holds a ring: the flags leave these four bytes free */
#define SAVED_RSI 8
#define SAVED_RDX 16
#define SAVED_RCX 24
#define SAVED_RAX 32
#define SITE_RSP (40 + 128)

static inline void put_enter(uint8_t **p)
{
	put(p, 0x48, 0x8d, 0x64, 0x24, 0x80);	/* lea  -128(%rsp),%rsp */
	put(p, 0x50, 0x51, 0x52, 0x56);		/* push %rax, %rcx, %rdx, %rsi */
	put(p, 0x9f, 0x0f, 0x90, 0xc0, 0x50);	/* lahf; seto %al; push %rax */
}

static inline void put_leave(uint8_t **p)
{
	put(p, 0x58, 0x04, 0x7f, 0x9e);		/* pop  %rax; add $127,%al; sahf */
	put(p, 0x5e, 0x5a, 0x59, 0x58);		/* pop  %rsi, %rdx, %rcx, %rax */
	put(p, 0x48, 0x8d, 0xa4, 0x24);		/* lea  128(%rsp),%rsp */
	put32(p, 128);
}

#endif
