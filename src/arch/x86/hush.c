/* SPDX-License-Identifier: MIT */
/*
 * The code before a system call that may forbid other calls (seccomp, syscall user dispatch) or rdtsc: sets a flag
 * that pads and the blob read, so that they no longer use what may be forbidden. Uses only instructions that
 * perform.c can emulate.
 */
#include "arch/x86/x86.h"

#include "arch/x86/assemble.h"

int x86_emit_hush(uint8_t *out, const struct hush_spec *spec)
{
	uint8_t *p = out, *other = NULL, *second = NULL, *harmless;

	put(&p, 0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0x51);	/* lea  -128(%rsp),%rsp; pushf; push %rcx */
	if (spec->number) {
		put(&p, 0x3d);					/* cmp  $number,%eax */
		put32(&p, spec->number);
		put(&p, 0x75, 0);				/* jne  out */
		other = p;
	}
	put(&p, 0x8d, 0x4f, -spec->first);			/* lea  -first(%rdi),%ecx */
	put(&p, 0x83, 0xf9, spec->n, 0x73, 0);			/* cmp  $n,%ecx; jae out */
	harmless = p;
	if (spec->second) {
		put(&p, 0x83, 0xfe, spec->second, 0x75, 0);	/* cmp  $second,%esi; jne out */
		second = p;
	}
	put(&p, 0x48, 0xb9);					/* movabs $word,%rcx */
	put64(&p, spec->word);
	put(&p, 0xc7, 0x01);					/* movl $1,(%rcx) */
	put32(&p, 1);
	put(&p, 0x48, 0xb9);					/* movabs $told,%rcx */
	put64(&p, spec->told);
	put(&p, 0xc7, 0x01);					/* movl $1,(%rcx) */
	put32(&p, 1);
	if (spec->clears) {
		put(&p, 0x48, 0xb9);				/* movabs $clears,%rcx */
		put64(&p, spec->clears);
		put(&p, 0xc7, 0x01);				/* movl $0,(%rcx) */
		put32(&p, 0);
	}
	harmless[-1] = p - harmless;
	if (other)
		other[-1] = p - other;
	if (second)
		second[-1] = p - second;
	put(&p, 0x59, 0x9d, 0x48, 0x8d, 0xa4, 0x24);		/* out: pop %rcx; popf; lea 128(%rsp),%rsp */
	put32(&p, 128);
	return p - out;
}
