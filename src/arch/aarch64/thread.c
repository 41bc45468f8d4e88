/* SPDX-License-Identifier: MIT */
/*
 * A thread's registers as the kernel shows them, and the system-call ABI: the number is in x8, arguments in x0 to x5.
 *
 * When a stop has interrupted a call that is to be restarted, the kernel has gone back to the `svc` already when the tracer sees
 * the registers, with x0 as it was: there is no call left to be restarted (`call` is -1), and a thread whose registers are
 * changed and put back makes its call again. A call that ends with EINTR instead has lost its x0; see thread_regs.rest and
 * proc/threads/calls.c for where that is taken from.
 */
#include "arch/aarch64/aarch64.h"

#include <errno.h>
#include <string.h>

#include "arch/aarch64/encode.h"
#include "arch/aarch64/thread.h"

#ifdef __aarch64__
#include <asm/ptrace.h>
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#ifndef NT_ARM_TLS
#define NT_ARM_TLS 0x401
#endif
#ifndef NT_ARM_SYSTEM_CALL
#define NT_ARM_SYSTEM_CALL 0x404
#endif

static int regset(int request, pid_t tid, unsigned long set, void *data, size_t len)
{
	struct iovec io = { data, len };

	return ptrace(request, tid, set, &io) < 0 ? -1 : 0;
}

static int get(pid_t tid, struct thread_regs *ret_regs)
{
	struct user_pt_regs g;
	uint64_t tls = 0;
	int call = -1;

	if (regset(PTRACE_GETREGSET, tid, NT_PRSTATUS, &g, sizeof(g)) < 0 ||
	    regset(PTRACE_GETREGSET, tid, NT_ARM_TLS, &tls, sizeof(tls)) < 0 ||
	    regset(PTRACE_GETREGSET, tid, NT_ARM_SYSTEM_CALL, &call, sizeof(call)) < 0)
		return -1;
	*ret_regs = (struct thread_regs){ .cpu = { .pc = g.pc, .flags = g.pstate, .tls = tls }, .call = call };
	memcpy(ret_regs->cpu.reg, g.regs, sizeof(g.regs));
	ret_regs->cpu.reg[A64_SP] = g.sp;
	return 0;
}

static int put(pid_t tid, const struct thread_regs *regs)
{
	struct user_pt_regs g = { .sp = regs->cpu.reg[A64_SP], .pc = regs->cpu.pc, .pstate = regs->cpu.flags };
	int call = regs->call;

	memcpy(g.regs, regs->cpu.reg, sizeof(g.regs));
	if (regset(PTRACE_SETREGSET, tid, NT_PRSTATUS, &g, sizeof(g)) < 0)
		return -1;
	return regset(PTRACE_SETREGSET, tid, NT_ARM_SYSTEM_CALL, &call, sizeof(call));
}
#else
/* Built for another CPU: no thread of this one is ever met. */
static int get(pid_t tid, struct thread_regs *ret_regs)
{
	errno = ENOSYS;
	return -1;
}

static int put(pid_t tid, const struct thread_regs *regs)
{
	errno = ENOSYS;
	return -1;
}
#endif

static int64_t last_call(const struct thread_regs *r)
{
	return r->cpu.reg[8];
}

static void call_again(struct thread_regs *r, int64_t nr)
{
	r->cpu.reg[8] = nr;
	r->cpu.reg[0] = r->rest[REST_X0];
	r->cpu.pc -= 4;
	r->call = -1;
}

static void call_ended(struct thread_regs *r, int64_t nr, int64_t result)
{
	r->rest[REST_X0] = r->cpu.reg[0];
	r->cpu.reg[0] = result;
	r->cpu.pc += 4;
	r->call = -1;
}

static void call_set(struct thread_regs *r, int64_t nr, const uint64_t args[6])
{
	r->call = nr;
	for (int i = 0; i < 6; i++)
		r->cpu.reg[i] = args[i];
}

/* mov x8, #nr; svc #0 */
static int64_t call_number(const uint8_t *code)
{
	uint32_t w = a64_word(code + CALL_CODE_LEN - 8);

	return (w & 0xffe0001f) == a64_movz(8, 0, 0) ? (int64_t)(w >> 5 & 0xffff) : -1;
}

static void call_before(struct thread_regs *r, int64_t nr, uint64_t arg0)
{
	if (r->call >= 0 || (int64_t)r->cpu.reg[0] != -EINTR || (int64_t)r->cpu.reg[8] != nr)
		return;
	r->call = nr;
	r->rest[REST_X0] = arg0;
}

static bool reads_pointer(void)
{
	return true;
}

const struct thread_abi a64_thread_abi = {
	.args = { 0, 1, 2, 3, 4, 5 },
	.result = 0,
	.call_insn = { 4, { 0x01, 0x00, 0x00, 0xd4 } },				/* svc #0 */
	.restorers = { { 8, { 0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4 } },	/* mov x8, #139; svc #0 */
		       { 8, { 0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4 } } },
	.restorer_in_vdso = true,
	.get = get,
	.put = put,
	.last_call = last_call,
	.call_again = call_again,
	.call_ended = call_ended,
	.call_set = call_set,
	.call_number = call_number,
	.call_before = call_before,
	.reads_pointer = reads_pointer,
	.rseq_sig = 0xd428bc00,				/* brk #0x45e0 */
	.jumped = 3u << 10,				/* BTYPE: how the last branch was made */
	.nothing = { { 4, { 0xc0, 0x03, 0x5f, 0xd6 } }, { 8, { 0x5f, 0x24, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6 } } },	/* ret; bti c; ret */
	.trap = { 4, { 0x00, 0x00, 0x20, 0xd4 } },			/* brk #0 */
	.trap_pc = 0,
};
