/* SPDX-License-Identifier: MIT */
/*
 * The code before a system call that may unmap or protect pages. If the call touches one of the ranges from which
 * pads load without a check, the lengths of all ranges become 0 before the call is made; pads then have the kernel
 * read. Uses only instructions that perform.c can emulate.
 */
#include "arch/x86/x86.h"

#include "arch/x86/assemble.h"

#define MAP_FIXED 0x10

/* Branches out if the call makes no page unreadable. Returns the end of the jump, or NULL. */
static uint8_t *put_condition(uint8_t **p, enum forget_abi abi)
{
	if (abi == FORGET_RANGE)
		return NULL;
	if (abi == FORGET_PROTECT)
		put(p, 0x48, 0x89, 0xd0, 0xa9);	/* mov  %rdx,%rax; test $PROT_READ,%eax */
	else
		put(p, 0x4c, 0x89, 0xd0, 0xa9);	/* mov  %r10,%rax; test $MAP_FIXED,%eax */
	put32(p, abi == FORGET_PROTECT ? 1 : MAP_FIXED);
	put(p, abi == FORGET_PROTECT ? 0x75 : 0x74, 0);	/* jnz, jz out */
	return *p;
}

static void put_start(uint8_t **p, const struct forget_spec *spec)
{
	put(p, 0x48, 0xb8);			/* movabs $table,%rax */
	put64(p, spec->table);
	put(p, 0xb9);				/* mov  $n,%ecx */
	put32(p, spec->n);
}

/* Goes to the next range; the loop ends after the last one. */
static void put_next(uint8_t **p, const uint8_t *head)
{
	put(p, 0x48, 0x83, 0xc0, 16, 0xff, 0xc9, 0x75, 0);	/* add $16,%rax; dec %ecx; jnz head */
	(*p)[-1] = head - *p;
}

/*
 * Branches to `hit` if the call's range (rsi bytes from rdi on) overlaps one of the table. Returns the ends of
 * these branches.
 */
static void put_search(uint8_t **p, const struct forget_spec *spec, uint8_t *hit[2])
{
	uint8_t *head, *empty;

	put_start(p, spec);
	head = *p;
	put(p, 0x48, 0x83, 0x78, 8, 0, 0x74, 0);	/* cmpq $0,8(%rax); je 1f */
	empty = *p;
	put(p, 0x48, 0x8b, 0x10, 0x48, 0x29, 0xfa);	/* mov  (%rax),%rdx; sub %rdi,%rdx */
	put(p, 0x48, 0x39, 0xf2, 0x72, 0);		/* cmp  %rsi,%rdx; jb hit */
	hit[0] = *p;
	put(p, 0x48, 0x89, 0xfa, 0x48, 0x2b, 0x10);	/* mov  %rdi,%rdx; sub (%rax),%rdx */
	put(p, 0x48, 0x3b, 0x50, 8, 0x72, 0);		/* cmp  8(%rax),%rdx; jb hit */
	hit[1] = *p;
	empty[-1] = *p - empty;				/* 1: */
	put_next(p, head);
}

int x86_emit_forget(uint8_t *out, const struct forget_spec *spec)
{
	uint8_t *p = out, *harmless, *hit[2], *over, *head;

	put(&p, 0x48, 0x8d, 0x64, 0x24, 0x80);		/* lea  -128(%rsp),%rsp */
	put(&p, 0x9c, 0x50, 0x51, 0x52);		/* pushf; push %rax; push %rcx; push %rdx */
	harmless = put_condition(&p, spec->abi);
	put_search(&p, spec, hit);
	put(&p, 0xeb, 0);				/* jmp  out */
	over = p;
	hit[0][-1] = p - hit[0];
	hit[1][-1] = p - hit[1];
	put_start(&p, spec);
	head = p;
	put(&p, 0x48, 0xc7, 0x40, 8);			/* movq $0,8(%rax) */
	put32(&p, 0);
	put_next(&p, head);
	over[-1] = p - over;
	if (harmless)
		harmless[-1] = p - harmless;
	put(&p, 0x5a, 0x59, 0x58, 0x9d);		/* out: pop %rdx; pop %rcx; pop %rax; popf */
	put(&p, 0x48, 0x8d, 0xa4, 0x24);		/* lea  128(%rsp),%rsp */
	put32(&p, 128);
	return p - out;
}
