/* SPDX-License-Identifier: MIT */
/*
 * The prologue and epilogue of event code: the red zone is skipped, and four registers and the flags are saved on
 * the stack. The flags go through ah and al, not pushf: a pushf that is single-stepped saves the trap flag, and
 * popf would set it again after the debugger has gone.
 */
#ifndef JAB_ARCH_X86_FRAME_H
#define JAB_ARCH_X86_FRAME_H

#include "arch/event.h"
#include "arch/x86/assemble.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };

/* Offsets from rsp to what put_enter() has pushed, and to the rsp of the site. */
#define SAVED_FLAGS 0
#define SAVED_PID 4		/* pid of the ring's owner, in four bytes that the flags leave free */
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

/*
 * After put_enter(): checks that the stack has `need` bytes below the site's stack pointer. Otherwise *no_stack is
 * incremented and a jmp is taken; the caller patches its rel32, the four bytes before the returned pointer. rax,
 * rcx, rdx and the flags change.
 */
static inline uint8_t *put_ask_room(uint8_t **p, uint64_t slow, uint64_t no_stack, int32_t need)
{
	uint8_t *enough, *none;

	put(p, 0x89, 0xe0, 0x25);		/* mov  %esp,%eax; and $4095,%eax */
	put32(p, 4095);
	put(p, 0x3d);				/* cmp  $need - SITE_RSP,%eax */
	put32(p, need - SITE_RSP);
	put(p, 0x73, 0);			/* jae  1f */
	enough = *p;
	put(p, 0x57, 0x41, 0x53);		/* push %rdi, %r11 */
	put(p, 0x48, 0x8d, 0xbc, 0x24);		/* lea  -(need - SITE_RSP - 16)(%rsp),%rdi */
	put32(p, -(need - SITE_RSP - 16));
	put(p, 0x48, 0x8d, 0x15, 12, 0, 0, 0);	/* lea  2f(%rip),%rdx */
	put(p, 0x48, 0xb8);			/* movabs $slow + EVENT_ROOM,%rax */
	put64(p, slow + EVENT_ROOM);
	put(p, 0xff, 0xe0);			/* jmp  *%rax */
	put(p, 0x41, 0x5b, 0x5f, 0xe3, 0);	/* 2: pop %r11, %rdi; jrcxz 1f */
	none = *p;
	put(p, 0x48, 0xb9);			/* movabs $no_stack,%rcx */
	put64(p, no_stack);
	put(p, 0xf0, 0x48, 0xff, 0x01, 0xe9);	/* lock incq (%rcx); jmp */
	put32(p, 0);
	enough[-1] = *p - enough;		/* 1: */
	none[-1] = *p - none;
	return *p;
}

static inline void put_leave(uint8_t **p)
{
	put(p, 0x58, 0x04, 0x7f, 0x9e);		/* pop  %rax; add $127,%al; sahf */
	put(p, 0x5e, 0x5a, 0x59, 0x58);		/* pop  %rsi, %rdx, %rcx, %rax */
	put(p, 0x48, 0x8d, 0xa4, 0x24);		/* lea  128(%rsp),%rsp */
	put32(p, 128);
}

#endif
