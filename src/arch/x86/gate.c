/* SPDX-License-Identifier: MIT */
/*
 * The code before the `syscall` of a function that makes calls of any number, like libc's syscall(): the number is
 * known only there. It finds the calls before which the code of raise.c or forget.c is needed and does what these
 * do, whatever the other arguments are: calls made in this way are rare, and both are harmless when they were not
 * needed. All other calls pay for a comparison with each number, which is nothing compared to the call itself.
 */
#include "arch/x86/x86.h"

#include <sys/syscall.h>
#include "arch/x86/assemble.h"

static const uint16_t raising[] = { SYS_clone, SYS_vfork, SYS_clone3, SYS_arch_prctl };
static const uint16_t forgetting[] = { SYS_mmap, SYS_mprotect, SYS_munmap, SYS_mremap, SYS_madvise, SYS_pkey_mprotect };

/* Compares the lower half of rax: the kernel ignores the upper one. */
static void put_numbers(uint8_t **p, const uint16_t *numbers, size_t n, struct branches *found)
{
	for (size_t i = 0; i < n; i++) {
		if (numbers[i] <= 128) {
			put(p, 0x8d, 0x48, -numbers[i]);	/* lea  -NUMBER(%rax),%ecx */
		} else {
			put(p, 0x8d, 0x88);
			put32(p, -numbers[i]);
		}
		put_branch(p, 0xe3, found);			/* jrcxz found */
	}
}

static uint8_t *put_leave(uint8_t **p)
{
	put(p, 0xe9);				/* jmp  out: too far for a short one */
	put32(p, 0);
	return *p;
}

static void land_far(uint8_t *end, const uint8_t *target)
{
	uint8_t *at = end - 4;

	put32(&at, target - end);
}

int x86_emit_gate(uint8_t *out, const struct gate_spec *spec)
{
	struct branches raise = { .n = 0 }, forget = { .n = 0 };
	struct raise_spec any_child = spec->raise;
	struct forget_spec any_range = spec->forget;
	uint8_t *p = out, *other, *raised = NULL;

	any_child.abi = CLONE_ABI_VFORK;
	any_range.abi = FORGET_RANGE;
	put(&p, 0x48, 0x8d, 0x64, 0x24, 0x80, 0x51);	/* lea  -128(%rsp),%rsp; push %rcx */
	put_numbers(&p, raising, sizeof(raising) / sizeof(raising[0]), &raise);
	if (spec->forgets)
		put_numbers(&p, forgetting, sizeof(forgetting) / sizeof(forgetting[0]), &forget);
	other = put_leave(&p);
	land_branches(&raise, p);
	p += x86_emit_raise(p, &any_child);
	if (spec->forgets) {
		raised = put_leave(&p);
		land_branches(&forget, p);
		p += x86_emit_forget(p, &any_range);
	}
	land_far(other, p);
	if (raised)
		land_far(raised, p);
	put(&p, 0x59, 0x48, 0x8d, 0xa4, 0x24);		/* pop  %rcx; lea 128(%rsp),%rsp */
	put32(&p, 128);
	return p - out;
}
