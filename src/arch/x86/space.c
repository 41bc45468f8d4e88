/* SPDX-License-Identifier: MIT */
/*
 * The code before a body that may need more stack than a goroutine has left. Go's run time knows where that stack
 * begins: g, whose address every thread has in its thread-local storage, starts with it. If too little is left
 * above it, the hit is counted elsewhere and the body is skipped. A thread that is on another stack (the thread's
 * own one, or the signal stack) has enough, and so has a thread without g, which is not one of Go's.
 *
 * The code pushes two words itself, right below the stack pointer: Go uses no red zone.
 */
#include "arch/x86/x86.h"

#include "arch/x86/assemble.h"

#define PUSHED 16

static void put_restore(uint8_t **p)
{
	put(p, 0x59, 0x04, 0x7f, 0x9e, 0x58);	/* pop  %rcx; add $127,%al; sahf; pop %rax */
}

int x86_emit_space(uint8_t *out, const struct space_spec *spec)
{
	uint8_t *p = out, *none, *little;

	put(&p, 0x50, 0x9f, 0x0f, 0x90, 0xc0, 0x51);	/* push %rax; lahf; seto %al; push %rcx */
	put(&p, 0x64, 0x48, 0x8b, 0x0c, 0x25);	/* mov  %fs:g,%rcx */
	put32(&p, spec->g_off);
	put(&p, 0xe3, 0);			/* jrcxz 1f */
	none = p;
	put(&p, 0x48, 0x8b, 0x09);		/* mov  (%rcx),%rcx: the stack's lowest address */
	put(&p, 0x48, 0x29, 0xe1);		/* sub  %rsp,%rcx */
	put(&p, 0x48, 0x83, 0xc1, 0x100 - PUSHED - 1);	/* add  $-17,%rcx: -1 - what is left */
	put(&p, 0x48, 0x81, 0xf9);		/* cmp  $-need,%rcx */
	put32(&p, -spec->need);
	put(&p, 0x73, 0);			/* jae  2f: less than that is left */
	little = p;
	none[-1] = p - none;
	put_restore(&p);			/* 1: */
	put(&p, 0xeb, 10 + 4 + 5 + 5);		/* jmp  body */
	little[-1] = p - little;
	put(&p, 0x48, 0xb9);			/* 2: movabs $instead,%rcx */
	put64(&p, spec->instead);
	put(&p, 0xf0, 0x48, 0xff, 0x01);	/* lock incq (%rcx) */
	put_restore(&p);
	put(&p, 0xe9);				/* jmp  over the body */
	put32(&p, spec->body);
	return p - out;
}
