/* SPDX-License-Identifier: MIT */
/* Code of gcc, LLVM, glibc, musl and Go that is always the same. */
#include "arch/x86/x86.h"

#include <elf.h>
#include <string.h>

#include "arch/x86/tables.h"

static const uint8_t endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa };

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/*
 * main() of a stripped program is in no symbol table, but the program's first instructions have been these for many years:
 *
 *	31 ed  49 89 d1  5e  48 89 e2  48 83 e4 f0  50  54	xor %ebp,%ebp; mov %rdx,%r9; pop %rsi; mov %rsp,%rdx; ...
 *	...							other arguments: two or three instructions
 *	48 8d 3d rel32  or  48 c7 c7 imm32			lea main(%rip),%rdi  or  mov $main,%rdi
 *	ff 15 rel32  or  [67] e8 rel32				call __libc_start_main
 */
static const uint8_t head[] = { 0x31, 0xed, 0x49, 0x89, 0xd1, 0x5e, 0x48, 0x89, 0xe2, 0x48, 0x83, 0xe4, 0xf0, 0x50, 0x54 };

#define MOST_BETWEEN 24
_Static_assert(START_LEN >= 4 + sizeof(head) + MOST_BETWEEN + 7 + 2, "all of it");

static bool is_call(const uint8_t *p)
{
	return (p[0] == 0xff && p[1] == 0x15) || p[0] == 0xe8 || (p[0] == 0x67 && p[1] == 0xe8);
}

static uint64_t main_of_start(const uint8_t *code, uint64_t addr)
{
	const uint8_t *p = code;

	if (!memcmp(p, endbr, sizeof(endbr)))
		p += sizeof(endbr);
	if (memcmp(p, head, sizeof(head)) != 0)
		return 0;
	p += sizeof(head);
	for (int i = 0; i <= MOST_BETWEEN; i++, p++) {
		if (!is_call(p + 7))
			continue;
		if (memcmp(p, "\x48\x8d\x3d", 3) == 0)
			return addr + (p - code) + 7 + (int64_t)(int32_t)get32(p + 3);
		if (memcmp(p, "\x48\xc7\xc7", 3) == 0)
			return get32(p + 3);
	}
	return 0;
}

/* jmp *slot(%rip), perhaps after endbr64 and with a prefix: what a stub of the PLT is, and how code without a PLT jumps. */
static bool stub(const uint8_t *code, uint64_t addr, uint64_t *ret_slot)
{
	size_t n = memcmp(code, endbr, sizeof(endbr)) ? 0 : sizeof(endbr);

	if (code[n] == 0xf2 || code[n] == 0x3e)
		n++;
	if (code[n] != 0xff || code[n + 1] != 0x25)
		return false;
	*ret_slot = addr + n + 6 + (int32_t)get32(code + n + 2);
	return true;
}

/* mov %fs:0,%rax; then add $8,%rax, lea 8(%rax),%rax or add $32,%rax; ret */
static int64_t errno_offset(const uint8_t *p, size_t len)
{
	static const uint8_t pointer[] = { 0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0 };
	const uint8_t *end = p + len;
	int32_t off = 0;

	if (len >= 14 && !memcmp(p, endbr, sizeof(endbr)))
		p += sizeof(endbr);
	if (end - p < 14 || memcmp(p, pointer, sizeof(pointer)))
		return 0;
	p += sizeof(pointer);
	if (p[0] == 0x48 && ((p[1] == 0x83 && p[2] == 0xc0) || (p[1] == 0x8d && p[2] == 0x40))) {
		off = (int8_t)p[3];
		p += 4;
	} else if (p[0] == 0x48 && p[1] == 0x05 && end - p >= 7) {
		off = get32(p + 2);
		p += 6;
	}
	return off > 0 && off < 4096 && *p == 0xc3 ? off : 0;
}

/*
 * mov %rcx,%rsp; ret, as gcc has it for __builtin_eh_return(), or with CET mov %rcx,%rsp; pop %rcx; jmp *%rcx. The address that it goes to
 * is at the new stack pointer.
 */
static const struct code_bytes eh_return[] = {
	{ 4, { 0x48, 0x89, 0xcc, 0xc3 } }, { 4, { 0x48, 0x8b, 0xe1, 0xc3 } },
	{ 6, { 0x48, 0x89, 0xcc, 0x59, 0xff, 0xe1 } }, { 6, { 0x48, 0x8b, 0xe1, 0x59, 0xff, 0xe1 } }, { 0 },
};

/* mov %fs:off,%r14 in one step or in two, or into rcx (before Go 1.17). */
static bool go_loads_g(const uint8_t *c, int32_t *ret_off)
{
	bool one;

	if (c[0] != 0x64 && c[0] != 0x49)
		return false;
	one = !memcmp(c, "\x64\x4c\x8b\x34\x25", 5) || !memcmp(c, "\x64\x48\x8b\x0c\x25", 5);
	if (!one && (memcmp(c, "\x49\xc7\xc6", 3) || memcmp(c + 7, "\x64\x4d\x8b\x36", 4)))
		return false;
	*ret_off = get32(c + (one ? 5 : 3));
	return true;
}

static bool begins(const uint8_t *code, size_t len, const char *with, size_t n)
{
	return len >= n && !memcmp(code, with, n);
}

static bool go_prepares_check(const uint8_t *c, size_t len)
{
	return begins(c, len, "\x4c\x8d\x64\x24", 4) ||		/* lea -8(%rsp),%r12 */
	       begins(c, len, "\x4c\x8d\xa4\x24", 4) ||		/* lea -400(%rsp),%r12 */
	       begins(c, len, "\x49\x89\xe4", 3) ||		/* mov %rsp,%r12 */
	       begins(c, len, "\x49\x81\xec", 3) ||		/* sub $size,%r12 */
	       begins(c, len, "\x64\x48\x8b\x0c\x25", 5);	/* mov %fs:-8,%rcx (before Go 1.17) */
}

static bool go_checks_stack(const uint8_t *c, size_t len)
{
	return begins(c, len, "\x49\x3b\x66\x10", 4) ||		/* cmp 16(%r14),%rsp */
	       begins(c, len, "\x4d\x3b\x66\x10", 4) ||		/* cmp 16(%r14),%r12 */
	       begins(c, len, "\x49\x3b\x66\x18", 4) ||		/* cmp 24(%r14),%rsp: of the run time's own stacks */
	       begins(c, len, "\x4d\x3b\x66\x18", 4) ||
	       begins(c, len, "\x48\x3b\x61\x10", 4);		/* cmp 16(%rcx),%rsp */
}

/*
 *	call 1f
 *  2:	pause; lfence; jmp 2b
 *  1:	mov %reg,(%rsp)
 *	ret
 */
static int thunk(const uint8_t *p, size_t len, size_t *ret_exit)
{
	const uint8_t *end;

	if (len < 5 || p[0] != 0xe8 || p[2] || p[3] || p[4] || p[1] > THUNK_SEARCH || len < 5u + p[1] + 5)
		return -1;
	end = p + 5 + p[1];
	if ((end[0] & 0xfb) != 0x48 || end[1] != 0x89 || (end[2] & 0xc7) != 0x04 || end[3] != 0x24 || end[4] != 0xc3)
		return -1;
	*ret_exit = end + 4 - p;
	return (end[0] & 4) << 1 | (end[2] >> 3 & 7);
}

/*
 * Whether it is the operand of a `mov $signature,%r10d` or `%r8d`, which passes it to the kernel or to syscall()
 * when a thread registers: glibc's start_thread() does.
 */
static bool is_operand(const uint8_t *at, size_t before)
{
	return before >= 2 && at[-2] == 0x41 && (at[-1] == 0xba || at[-1] == 0xb8);
}

const struct code_idioms x86_idioms = {
	.musl_cancel = { "\x49\x89\xfb\x48\x89\xf0\x48\x89\xd7\x48\x89\xce\x4c\x89\xc2\x4d\x89\xca", 18 },
	.landing_len = sizeof(endbr),
	.landing = { 0xf3, 0x0f, 0x1e, 0xfa },
	.main_of_start = main_of_start,
	.stub = stub,
	.errno_offset = errno_offset,
	.eh_return = eh_return,
	.go_loads_g = go_loads_g,
	.go_prepares_check = go_prepares_check,
	.go_checks_stack = go_checks_stack,
	.takes_address = x86_takes_address,
	.takes_immediate = x86_takes_immediate,
	.jump_from = x86_jump_from,
	.frame_goes = x86_frame_goes,
	.takes_own_label = x86_takes_own_label,
	.thunk = thunk,
	.is_operand = is_operand,
};

const struct elf_abi x86_elf = {
	.relative = R_X86_64_RELATIVE,
	.irelative = R_X86_64_IRELATIVE,
	.absolute = R_X86_64_64,
	.glob_dat = R_X86_64_GLOB_DAT,
	.jump_slot = R_X86_64_JUMP_SLOT,
	.tls_offset = R_X86_64_TPOFF64,
};
