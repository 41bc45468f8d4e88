/* SPDX-License-Identifier: MIT */
/* A thread's registers as the kernel shows them, and the system-call ABI. */
#include "arch/x86/thread.h"
#include "arch/x86/x86.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#define CALL_LEN 2

#define HWCAP2_FSGSBASE 2

#ifndef NT_X86_SHSTK
#define NT_X86_SHSTK 0x204
#endif

static int get(pid_t tid, struct thread_regs *ret_regs)
{
	struct user_regs_struct g;

	if (ptrace(PTRACE_GETREGS, tid, 0, &g) < 0)
		return -1;
	*ret_regs = (struct thread_regs){
		.cpu = {
			.reg = { g.rax, g.rcx, g.rdx, g.rbx, g.rsp, g.rbp, g.rsi, g.rdi,
				 g.r8, g.r9, g.r10, g.r11, g.r12, g.r13, g.r14, g.r15 },
			.pc = g.rip, .flags = g.eflags, .tls = g.fs_base,
		},
		.call = g.orig_rax,
		.rest = { [REST_CS] = g.cs, [REST_SS] = g.ss, [REST_DS] = g.ds, [REST_ES] = g.es, [REST_FS] = g.fs, [REST_GS] = g.gs,
			  [REST_GS_BASE] = g.gs_base },
	};
	return 0;
}

static int put(pid_t tid, const struct thread_regs *regs)
{
	const uint64_t *r = regs->cpu.reg, *rest = regs->rest;
	struct user_regs_struct g = {
		.rax = r[RAX], .rcx = r[RCX], .rdx = r[RDX], .rbx = r[RBX], .rsp = r[RSP], .rbp = r[RBP], .rsi = r[RSI], .rdi = r[RDI],
		.r8 = r[R8], .r9 = r[R9], .r10 = r[R10], .r11 = r[R11], .r12 = r[R12], .r13 = r[R13], .r14 = r[R14], .r15 = r[R15],
		.rip = regs->cpu.pc, .eflags = regs->cpu.flags, .fs_base = regs->cpu.tls, .orig_rax = regs->call,
		.cs = rest[REST_CS], .ss = rest[REST_SS], .ds = rest[REST_DS], .es = rest[REST_ES], .fs = rest[REST_FS],
		.gs = rest[REST_GS], .gs_base = rest[REST_GS_BASE],
	};

	return ptrace(PTRACE_SETREGS, tid, 0, &g);
}

static void call_again(struct thread_regs *r, int64_t nr)
{
	r->cpu.reg[RAX] = nr;
	r->cpu.pc -= CALL_LEN;
	r->call = -1;
}

static void call_ended(struct thread_regs *r, int64_t nr, int64_t result)
{
	r->cpu.reg[RAX] = result;
	r->cpu.pc += CALL_LEN;
	r->call = nr;
}

static void call_set(struct thread_regs *r, int64_t nr, const uint64_t args[6])
{
	r->call = nr;
	r->cpu.reg[RAX] = -ENOSYS;
	for (int i = 0; i < 6; i++)
		r->cpu.reg[x86_thread_abi.args[i]] = args[i];
}

/* mov $nr,%eax; syscall */
static int64_t call_number(const uint8_t *code)
{
	uint32_t nr;

	memcpy(&nr, code + 1, 4);
	return code[0] == 0xb8 ? (int64_t)nr : -1;
}

static bool reads_pointer(void)
{
	return getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE;
}

const struct thread_abi x86_thread_abi = {
	.args = { RDI, RSI, RDX, R10, R8, R9 },
	.result = RAX,
	.call_insn = { CALL_LEN, { 0x0f, 0x05 } },			/* syscall */
	.restorers = { { 9, { 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05 } },	/* mov $15,%rax; syscall */
		       { 7, { 0xb8, 15, 0, 0, 0, 0x0f, 0x05 } } },	/* mov $15,%eax; syscall */
	.take_number = { 2, { 0x58, 0xc3 } },				/* pop %rax; ret */
	.get = get,
	.put = put,
	.call_again = call_again,
	.call_ended = call_ended,
	.call_set = call_set,
	.call_number = call_number,
	.nothing = { { 1, { 0xc3 } }, { 5, { 0xf3, 0x0f, 0x1e, 0xfa, 0xc3 } } },	/* ret; endbr64; ret */
	.trap = { 1, { 0xcc } },					/* int3 */
	.trap_pc = 1,
	.reads_pointer = reads_pointer,
	.rseq_sig = 0x53053053,
	.shadow_set = NT_X86_SHSTK,
};
