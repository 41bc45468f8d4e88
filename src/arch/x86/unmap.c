/* SPDX-License-Identifier: MIT */
/*
 * The code before a system call that may take known memory away (arch/known.h). Most calls are seen to be harmless by their
 * arguments; for the others the blob is called, with all registers saved.
 */
#include "arch/x86/x86.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include "arch/known.h"
#include "arch/syscalls.h"
#include "arch/x86/assemble.h"

#define HEAP_MOST (1ull << 40)	/* less than from any heap to the next mapping that is not one */
#define SET_DISPATCH 59		/* PR_SET_SYSCALL_USER_DISPATCH */

/* Private anonymous memory stays readable with these: WILLNEED DONTNEED FREE HUGEPAGE NOHUGEPAGE DONTDUMP DODUMP COLD. */
#define HARMLESS (1u << 3 | 1u << 4 | 1u << 8 | 1u << 14 | 1u << 15 | 1u << 16 | 1u << 17 | 1u << 20)
#define ADVICE_MOST 20

struct numbered { uint16_t number, how; };
static const struct numbered numbered[] = {
	{ SYS_mmap, KNOWN_CUT_ALL }, { SYS_mprotect, KNOWN_CUT_ALL }, { SYS_munmap, KNOWN_CUT_ALL }, { SYS_brk, KNOWN_CUT_ALL },
	{ SYS_mremap, KNOWN_CUT_ALL }, { SYS_madvise, KNOWN_CUT_ALL }, { SYS_shmat, KNOWN_CUT_ALL }, { SYS_prctl, KNOWN_CUT_ALL },
	{ SYS_seccomp, KNOWN_CUT_ALL }, { SYS_process_madvise, KNOWN_CUT_ALL }, { SYS_userfaultfd, KNOWN_CUT_OFF },
	{ SYS_pkey_mprotect, KNOWN_CUT_OFF }, { SYS_io_uring_setup, KNOWN_CUT_OFF },
};

static void put_how(uint8_t **p, enum known_cut how)
{
	put(p, 0xb9);				/* mov  $how,%ecx */
	put32(p, how);
}

/* Unless the jump `opcode` is taken, all ranges are cut. */
static void put_all_unless(uint8_t **p, uint8_t opcode, struct branches *go)
{
	uint8_t *over;

	put(p, opcode, 0);			/* jcc  1f */
	over = *p;
	put_how(p, KNOWN_CUT_ALL);
	put_branch(p, 0xeb, go);		/* jmp  go */
	over[-1] = *p - over;			/* 1: */
}

/* Compares the lower half of rax: the kernel ignores the upper one. ecx = how, 255: another call */
static void put_numbers(uint8_t **p, struct branches *out)
{
	for (size_t i = 0; i < sizeof(numbered) / sizeof(numbered[0]); i++) {
		put(p, 0xb1, numbered[i].how, 0x3d);	/* mov $how,%cl; cmp $number,%eax */
		put32(p, numbered[i].number);
		put(p, 0x74, 0);			/* je   go, filled in below */
	}
	put_branch(p, 0xeb, out);
}

#define NUMBER_LEN 9

static void land_numbers(uint8_t *from, const uint8_t *target)
{
	for (size_t i = 0; i < sizeof(numbered) / sizeof(numbered[0]); i++) {
		uint8_t *end = from + (i + 1) * NUMBER_LEN;

		assert(target - end < 128);
		end[-1] = target - end;
	}
}

/* rdi, rsi, rdx, r10: the arguments of the call; ecx = how. Branches out if it takes nothing away. */
static void put_condition(uint8_t **p, enum unmap_abi abi, struct branches *go, struct branches *out)
{
	switch (abi) {
	case UNMAP_MOVE:
		put(p, 0x41, 0xf6, 0xc2, MREMAP_FIXED);	/* test $MREMAP_FIXED,%r10b */
		put_all_unless(p, 0x74, go);
		break;
	case UNMAP_PROTECT:
		put(p, 0xf7, 0xc2);			/* test $...,%edx: new code, or more than the range */
		put32(p, PROT_EXEC | PROT_GROWSDOWN | PROT_GROWSUP);
		put_all_unless(p, 0x74, go);
		put(p, 0xf6, 0xc2, PROT_READ);
		put_branch(p, 0x75, out);		/* jnz  out */
		break;
	case UNMAP_MAP:
		put(p, 0xf6, 0xc2, PROT_EXEC);
		put_all_unless(p, 0x74, go);
		put(p, 0x41, 0xf6, 0xc2, MAP_FIXED);	/* test $MAP_FIXED,%r10b */
		put_branch(p, 0x74, out);		/* jz   out */
		break;
	case UNMAP_ADVISE:
		put(p, 0x83, 0xfa, ADVICE_MOST);	/* cmp  $ADVICE_MOST,%edx */
		put_branch(p, 0x77, go);		/* ja   go */
		put(p, 0xb8);				/* mov  $HARMLESS,%eax */
		put32(p, HARMLESS);
		put(p, 0x0f, 0xa3, 0xd0);		/* bt   %edx,%eax */
		put_branch(p, 0x72, out);		/* jc   out */
		break;
	case UNMAP_BRK:
		put(p, 0x48, 0x85, 0xff);		/* test %rdi,%rdi */
		put_branch(p, 0x74, out);		/* jz   out: asks for the break */
		put(p, 0x48, 0xbe);			/* movabs $HEAP_MOST,%rsi */
		put64(p, HEAP_MOST);
		break;
	case UNMAP_ATTACH:
		put(p, 0xf6, 0xc6, 0x40);		/* test $SHM_REMAP >> 8,%dh */
		put_branch(p, 0x74, out);
		break;
	case UNMAP_FORBID:
		put(p, 0x83, 0xff, PR_SET_SECCOMP);	/* cmp  $PR_SET_SECCOMP,%edi */
		put_branch(p, 0x74, go);
		put(p, 0x83, 0xff, SET_DISPATCH);
		put_branch(p, 0x75, out);
		break;
	default:
		break;
	}
}

static enum known_cut how_of(enum unmap_abi abi)
{
	switch (abi) {
	case UNMAP_ATTACH: case UNMAP_FORBID: case UNMAP_ALWAYS:
		return KNOWN_CUT_ALL;
	case UNMAP_OFF:
		return KNOWN_CUT_OFF;
	default:
		return KNOWN_CUT_RANGE;
	}
}

int x86_emit_unmap(uint8_t *out, const struct unmap_spec *spec)
{
	struct branches go = { .n = 0 }, harmless = { .n = 0 };
	uint8_t *p = out, *numbers;

	put(&p, 0x48, 0x8d, 0x64, 0x24, 0x80);		/* lea  -128(%rsp),%rsp */
	put(&p, 0x9c, 0x50, 0x51, 0x52, 0x56, 0x57);	/* pushf; push %rax, %rcx, %rdx, %rsi, %rdi */
	put_how(&p, how_of(spec->abi));
	numbers = p;
	if (spec->abi == UNMAP_ANY)
		put_numbers(&p, &harmless);
	put_condition(&p, spec->abi, &go, &harmless);
	land_branches(&go, p);
	if (spec->abi == UNMAP_ANY)
		land_numbers(numbers, p);
	put(&p, 0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53);	/* push %r8 ... %r11 */
	put(&p, 0x55, 0x48, 0x89, 0xe5);		/* push %rbp; mov %rsp,%rbp */
	put(&p, 0x48, 0x83, 0xe4, 0xf0, 0xfc);		/* and  $-16,%rsp; cld */
	put(&p, 0x48, 0x89, 0xf2, 0x48, 0x89, 0xfe);	/* mov  %rsi,%rdx; mov %rdi,%rsi */
	put(&p, 0x48, 0xbf);				/* movabs $known,%rdi */
	put64(&p, spec->known);
	put(&p, 0xf0, 0xff, 0x87);			/* lock incl busy(%rdi) */
	put32(&p, offsetof(struct known, busy));
	put(&p, 0x41, 0xb8);				/* mov  $ncpus,%r8d */
	put32(&p, spec->ncpus);
	put(&p, 0x49, 0xb9);				/* movabs $quiet,%r9 */
	put64(&p, spec->quiet);
	put(&p, 0x48, 0xb8);				/* movabs $routine,%rax */
	put64(&p, spec->routine);
	put(&p, 0xff, 0xd0);				/* call *%rax */
	put(&p, 0x48, 0xb8);				/* movabs $known,%rax */
	put64(&p, spec->known);
	put(&p, 0xf0, 0xff, 0x88);			/* lock decl busy(%rax) */
	put32(&p, offsetof(struct known, busy));
	put(&p, 0x48, 0x89, 0xec, 0x5d);		/* mov  %rbp,%rsp; pop %rbp */
	put(&p, 0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58);	/* pop %r11 ... %r8 */
	land_branches(&harmless, p);
	put(&p, 0x5f, 0x5e, 0x5a, 0x59, 0x58, 0x9d);	/* pop %rdi, %rsi, %rdx, %rcx, %rax; popf */
	put(&p, 0x48, 0x8d, 0xa4, 0x24);		/* lea  128(%rsp),%rsp */
	put32(&p, 128);
	return p - out;
}
