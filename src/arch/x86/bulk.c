/* SPDX-License-Identifier: MIT */
/*
 * The code in a pad that has a bulk event written: it takes a locked ring, stores the registers in the ring's
 * scratch memory, and calls the C code of the blob, which is the same for all sites.
 *
 *		save; check the stack		too little: count that, out
 *		slow routine			no ring: lost, out
 *		save what C may change		on the stack: other threads could overwrite other memory
 *		registers -> context
 *		record(ref, desc, rsp)		releases the lock
 *	out	restore
 *
 * C code needs the direction flag clear. Its old value is found by the direction in which lods moves a pointer.
 */
#include "arch/x86/x86.h"

#include "arch/x86/frame.h"
#include "base/err.h"

/* Bytes pushed after put_enter(), between rsp and SAVED_*. */
#define KEPT (8 * 5)
#define SAVED_DIRECTION (KEPT + SAVED_FLAGS + 4)	/* SAVED_PID, which bulk code does not use */

_Static_assert(SITE_RSP + KEPT + 8 == BULK_STACK_PAD, "the return address comes below what is kept");

#define CONTEXT(member) offsetof(struct bulk_context, member)
#define CONTEXT_REG(n) (CONTEXT(regs) + 8 * (n))

/* mov %reg,off(%rcx) */
static void put_note(uint8_t **p, int reg, uint32_t off)
{
	put(p, reg & 8 ? 0x4c : 0x48, 0x89, 0x81 | (reg & 7) << 3);
	put32(p, off);
}

#define GIVE_BACK (3 + 2 + 10 + 2 + 2)

/* Releases the lock. In a copy of the owner (NZ) skips the next `skip` bytes, which count the event as lost. */
static void put_give_back(uint8_t **p, uint64_t slow, uint8_t skip)
{
	put(p, 0x48, 0x8b, 0x09);		/* mov  (%rcx),%rcx: ring_ref.ring */
	put(p, 0x89, 0xc2);			/* mov  %eax,%edx */
	put(p, 0x48, 0xb8);			/* movabs $slow + EVENT_GIVE_BACK,%rax */
	put64(p, slow + EVENT_GIVE_BACK);
	put(p, 0xff, 0xd0);			/* call *%rax */
	put(p, 0x75, skip);			/* jnz */
}

/*
 * If there is no ring, or the ring has no scratch memory: counts the event as lost and jumps over the code that is
 * put next. Returns the address after the rel32 of that jump, which the caller patches.
 */
static uint8_t *put_lost(uint8_t **p, const struct bulk_spec *spec)
{
	put(p, 0x48, 0x85, 0xc9);		/* test %rcx,%rcx */
	put(p, 0x74, 5 + 2 + GIVE_BACK);	/* jz   1f */
	put(p, 0x48, 0x83, 0x79, offsetof(struct ring_ref, scratch), 0);	/* cmpq $0,scratch(%rcx) */
	put(p, 0x75, GIVE_BACK + 10 + 4 + 5);	/* jne  2f */
	put_give_back(p, spec->slow, 10 + 4);
	put(p, 0x48, 0xb9);			/* 1: movabs $lost_shared,%rcx */
	put64(p, spec->lost_shared);
	put(p, 0xf0, 0x48, 0xff, 0x01);		/* lock incq (%rcx) */
	put(p, 0xe9);				/* jmp  out */
	put32(p, 0);
	return *p;				/* 2: */
}

/* From here on rdi is the ring_ref, rcx the context, esi 1 or -1 by the direction flag. */
static void put_keep(uint8_t **p)
{
	put(p, 0x57);				/* push %rdi */
	for (int reg = 8; reg < 12; reg++)
		put(p, 0x41, 0x50 + (reg & 7));	/* push %r8 ... %r11 */
	put(p, 0x48, 0x89, 0xcf);		/* mov  %rcx,%rdi */
	put(p, 0x48, 0x8b, 0x49, offsetof(struct ring_ref, scratch));	/* mov  scratch(%rcx),%rcx */
	put_note(p, RAX, CONTEXT(pid));		/* the tid then overwrites the upper half */
	put(p, 0x89, 0x91);			/* mov  %edx,tid(%rcx) */
	put32(p, CONTEXT(tid));
	put(p, 0x48, 0x89, 0xe6);		/* mov  %rsp,%rsi */
	put(p, 0xac);				/* lods (%rsi),%al */
	put(p, 0x48, 0x29, 0xe6);		/* sub  %rsp,%rsi */
	put(p, 0x89, 0x74, 0x24, SAVED_DIRECTION);	/* mov  %esi,direction(%rsp) */
	put(p, 0xfc);				/* cld */
}

/* Stores the flags as pushf would; IF is always set. In: esi of put_keep(). */
static void put_note_flags(uint8_t **p)
{
	put(p, 0x8b, 0x44, 0x24, KEPT + SAVED_FLAGS);	/* mov  flags(%rsp),%eax */
	put(p, 0x81, 0xe6);			/* and  $DF,%esi */
	put32(p, 0x400);
	put(p, 0x0f, 0xb6, 0xd0);		/* movzbl %al,%edx */
	put(p, 0xc1, 0xe2, 0x0b);		/* shl  $11,%edx */
	put(p, 0x09, 0xd6);			/* or   %edx,%esi */
	put(p, 0x0f, 0xb6, 0xc4);		/* movzbl %ah,%eax */
	put(p, 0x8d, 0x84, 0x30);		/* lea  IF(%rax,%rsi),%eax */
	put32(p, 0x200);
	put_note(p, RAX, CONTEXT_REG(reg_flags(&x86_regs)));
}

static void put_note_registers(uint8_t **p, const struct bulk_spec *spec)
{
	static const uint8_t saved[8] = {
		[RAX] = KEPT + SAVED_RAX, [RCX] = KEPT + SAVED_RCX, [RDX] = KEPT + SAVED_RDX,
		[RSI] = KEPT + SAVED_RSI, [RDI] = KEPT - 8,
	};

	for (int reg = 0; reg < 16; reg++) {
		if (reg < 8 && saved[reg]) {
			put(p, 0x48, 0x8b, 0x44, 0x24, saved[reg]);	/* mov saved(%rsp),%rax */
			put_note(p, RAX, CONTEXT_REG(reg));
		} else if (reg != RSP) {
			put_note(p, reg, CONTEXT_REG(reg));
		}
	}
	put_note_flags(p);
	put(p, 0x48, 0xb8);			/* movabs $site,%rax */
	put64(p, spec->site);
	put_note(p, RAX, CONTEXT_REG(reg_pc(&x86_regs)));
	put(p, 0x48, 0x8d, 0x94, 0x24);		/* lea  site's rsp,%rdx */
	put32(p, KEPT + SITE_RSP);
	put_note(p, RDX, CONTEXT_REG(RSP));
	for (int n = 0; n < 16; n++) {
		if (!(spec->vectors >> n & 1))
			continue;
		put(p, 0x66);			/* movq %xmm,off(%rcx) */
		if (n & 8)
			put(p, 0x44);
		put(p, 0x0f, 0xd6, 0x81 | (n & 7) << 3);
		put32(p, CONTEXT(vectors) + 8 * n);
	}
}

/* The other two arguments, rdi and rdx, are already set. */
static void put_record(uint8_t **p, const struct bulk_spec *spec)
{
	put(p, 0x48, 0xbe);			/* movabs $desc,%rsi */
	put64(p, spec->desc);
	put(p, 0x48, 0xb8);			/* movabs $record,%rax */
	put64(p, spec->record);
	put(p, 0xff, 0xd0);			/* call *%rax */
}

static void put_restore(uint8_t **p)
{
	put(p, 0x83, 0x7c, 0x24, SAVED_DIRECTION, 0);	/* cmpl $0,direction(%rsp) */
	put(p, 0x79, 1);			/* jns  1f */
	put(p, 0xfd);				/* std */
	for (int reg = 11; reg >= 8; reg--)
		put(p, 0x41, 0x58 + (reg & 7));	/* 1: pop %r11 ... %r8 */
	put(p, 0x5f);				/* pop  %rdi */
}

int x86_emit_bulk(uint8_t *out, const struct bulk_spec *spec)
{
	uint8_t scratch[BULK_CODE_MAX];
	uint8_t *base = out ? out : scratch, *p = base, *to_out[2];

	put_enter(&p);
	to_out[0] = put_ask_room(&p, spec->slow, spec->no_stack, BULK_STACK_MAX);
	put(&p, 0x48, 0xb8);			/* movabs $slow,%rax */
	put64(&p, spec->slow);
	put(&p, 0xff, 0xd0);			/* call *%rax */
	to_out[1] = put_lost(&p, spec);
	put_keep(&p);
	put_note_registers(&p, spec);
	put_record(&p, spec);
	put_restore(&p);
	for (int i = 0; i < 2; i++) {
		int32_t distance = p - to_out[i];

		memcpy(to_out[i] - 4, &distance, sizeof(distance));
	}
	put_leave(&p);
	return p - base;
}
