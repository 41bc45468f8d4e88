/* SPDX-License-Identifier: MIT */
/*
 * x86-64, for the code that runs inside the target. Registers have the numbers of arch/x86/regs.c.
 *
 * rsp SP, rbp FP; rbx EXTRA: the third register that a CFA is based on at a call.
 */
#ifndef JAB_BLOB_X86_CPU_H
#define JAB_BLOB_X86_CPU_H

#include <stdbool.h>
#include <stdint.h>
#include "arch/known.h"

#define PAGE 4096u
#define RED_ZONE 128
#define USER_BITS 47		/* addresses of user space have no more */

enum { REG_EXTRA = 3, REG_SP = 4, REG_FP = 5, NREGS = 16, REG_PC = 16 };

/* ---- unwinding ---- */

#define CALL_PUSHES 8		/* bytes of a return address that a call pushes; 0: it is in REG_LINK */

/* From the stack pointer in a signal's restorer to the registers in the context, and their order: the last word is the pc. */
#define SIGNAL_REGS 40
#define SIGNAL_ORDER { 8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4 }

/* ---- system calls ---- */

enum { NR_GETPID = 39, NR_PRCTL = 157, NR_ARCH_PRCTL = 158, NR_GETTID = 186, NR_FUTEX = 202, NR_CLOCK_GETTIME = 228,
       NR_PROCESS_VM_READV = 310,
       NR_MEMBARRIER = 324 };

static inline int64_t call0(long nr)
{
	int64_t r;

	__asm__ volatile("syscall" : "=a"(r) : "0"(nr) : "rcx", "r11", "memory");
	return r;
}

static inline int64_t call2(long nr, uint64_t a, const void *b)
{
	int64_t r;

	__asm__ volatile("syscall" : "=a"(r) : "0"(nr), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return r;
}

static inline int64_t call4(long nr, uint64_t a, uint64_t b, uint64_t c, const void *d)
{
	register uint64_t r10 __asm__("r10") = (uint64_t)d;
	int64_t r;

	__asm__ volatile("syscall" : "=a"(r) : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return r;
}

static inline int64_t call6(long nr, uint64_t a, const void *b, uint64_t c, const void *d, uint64_t e, uint64_t f)
{
	register uint64_t r10 __asm__("r10") = (uint64_t)d;
	register uint64_t r8 __asm__("r8") = e;
	register uint64_t r9 __asm__("r9") = f;
	int64_t r;

	__asm__ volatile("syscall" : "=a"(r) : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return r;
}

/* ---- the thread ---- */

#define ARCH_GET_FS 0x1003

/* In user mode, where the kernel allows it (leave_desc.has_thread_insn). */
static inline uint64_t thread_pointer_by_insn(void)
{
	uint64_t at;

	__asm__ volatile("rdfsbase %0" : "=r"(at));
	return at;
}

static inline uint64_t thread_pointer_by_call(void)
{
	uint64_t at = 0;

	return call2(NR_ARCH_PRCTL, ARCH_GET_FS, &at) ? 0 : at;
}

/* The clock, after all that the thread has done before. */
static inline uint64_t ticks(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

static inline void spin(void)
{
	__asm__ volatile("pause");
}

/* Calls code of a pad with two words on the stack. */
static inline void call_with_words(uint64_t code, uint64_t first, uint64_t second)
{
	__asm__ volatile("push %[second]\n\tpush %[first]\n\tcall *%[code]\n\tadd $16,%%rsp"
			 : : [second] "r"(second), [first] "r"(first), [code] "r"(code) : "memory", "cc");
}

/* The stack pointer in a jmp_buf: musl's has it as it is, glibc's mixed with a secret of the thread's. */
static inline uint64_t jmp_buf_sp(const uint64_t *buf)
{
	return buf[6];
}

static inline uint64_t jmp_buf_sp_clear(uint64_t sp, const uint64_t *thread)
{
	return (sp >> 17 | sp << 47) ^ thread[6];
}

#define LLVM_CONTEXT_SP 7	/* word of the registers of LLVM's unwinder */

/*
 * Registers as a pad of a program of the language has saved them: A, B and C in its frame, those that C functions may change from
 * `kept` on; the code has stored the others itself (asm_ops.note_saved).
 */
static inline void note_saved(uint64_t *regs, const uint8_t *frame, const uint64_t *kept)
{
	regs[0] = *(const uint64_t *)frame;
	regs[1] = *(const uint64_t *)(frame + 16);
	regs[2] = *(const uint64_t *)(frame + 24);
	regs[7] = kept[0];
	regs[6] = kept[1];
	for (int i = 0; i < 4; i++)
		regs[8 + i] = kept[2 + i];
}

/* ---- known memory (arch/known.h) ---- */

/* Whether the thread is registered with rseq. off: its rseq area, from the thread pointer */
static inline bool is_registered(int64_t off)
{
	int32_t cpu;

	__asm__ volatile("movl %%fs:4(%1), %0" : "=r"(cpu) : "r"(off));
	return cpu >= 0;
}

/*
 * Looks whether all bytes are in one of n ranges ({ start, length - 7 }), and copies them, in one restartable sequence. false: they are
 * not, or it was interrupted. The descriptor says where the sequence begins, how long it is, and where it goes on if it is interrupted.
 */
static inline bool copy_if_in(const void *ranges, uint32_t n, int64_t off, void *to, uint64_t from, uint64_t len)
{
	uint64_t room[8], *d = (uint64_t *)(((uint64_t)room + 31) & -32ull), end;
	uint32_t done;

	d[0] = 0;
	__asm__ volatile(
		"leaq 1f(%%rip), %%rax\n\t"
		"movq %%rax, 8(%[d])\n\t"
		"movq $(2f - 1f), 16(%[d])\n\t"
		"leaq 4f(%%rip), %%rax\n\t"
		"movq %%rax, 24(%[d])\n\t"
		"movq %[d], %%fs:8(%[off])\n"
		"1:\n\t"
		"movq %%rsi, %%rax\n\t"
		"subq (%[r]), %%rax\n\t"
		"cmpq 8(%[r]), %%rax\n\t"
		"jb 5f\n\t"
		"addq $16, %[r]\n\t"
		"decl %[n]\n\t"
		"jnz 1b\n\t"
		"jmp 3f\n"
		"5:\n\t"
		"movq 8(%[r]), %[end]\n\t"
		"addq $7, %[end]\n\t"
		"subq %%rax, %[end]\n\t"
		"cmpq %%rcx, %[end]\n\t"
		"jb 3f\n\t"
		"rep movsb\n"
		"2:\n\t"
		"movl $1, %[done]\n\t"
		"jmp 6f\n\t"
		".byte 0x0f, 0xb9, 0x3d\n\t"		/* so that it is an instruction, which traps */
		".long %c[sig]\n"
		"4:\n"
		"3:\n\t"
		"movl $0, %[done]\n"
		"6:\n\t"
		"movq $0, %%fs:8(%[off])"
		: [done] "=&r"(done), [end] "=&r"(end), [r] "+&r"(ranges), [n] "+&r"(n), "+&D"(to), "+&S"(from), "+&c"(len)
		: [d] "r"(d), [off] "r"(off), [sig] "i"(KNOWN_SIGNATURE)
		: "rax", "memory", "cc");
	return done;
}

/* ---- memory ---- */

static inline void copy_words(void *to, const void *from, uint64_t n)
{
	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static inline void copy_bytes(void *to, const void *from, uint64_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static inline void set_bytes(void *to, int c, uint64_t n)
{
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(c) : "memory");
}

/* Replaces two words, aligned to 16 bytes, in one step if they are `from` and *old; else *old is the second one that was found. */
static inline bool replace_pair(void *at, uint64_t from, uint64_t *old, uint64_t to, uint64_t value)
{
	bool done;

	__asm__ volatile("lock cmpxchg16b %0; sete %1" : "+m"(*(char (*)[16])at), "=q"(done), "+a"(from), "+d"(*old)
			 : "b"(to), "c"(value) : "memory", "cc");
	return done;
}

/* ---- doubles, in xmm0 and xmm1, which a program that uses doubles has saved ---- */

static inline void add_double(uint64_t *to, uint64_t v)
{
	__asm__("movsd %0, %%xmm0; addsd %1, %%xmm0; movsd %%xmm0, %0" : "+m"(*to) : "m"(v));
}

static inline bool double_below(uint64_t a, uint64_t b)
{
	bool below;

	__asm__("movsd %2, %%xmm0; ucomisd %1, %%xmm0; seta %0" : "=q"(below) : "m"(a), "m"(b) : "cc");
	return below;
}

static inline void divide_double(uint64_t *sum, uint64_t count)
{
	__asm__("cvtsi2sdq %1, %%xmm1; movsd %0, %%xmm0; divsd %%xmm1, %%xmm0; movsd %%xmm0, %0" : "+m"(*sum) : "r"(count));
}

#endif
