/* SPDX-License-Identifier: MIT */
/*
 * A thread as its tracer sees it: its registers, and how it makes system calls. Of the operations, get and put are the
 * only ones of all of arch that access a process.
 */
#ifndef JAB_ARCH_THREAD_H
#define JAB_ARCH_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/cpu.h"

struct thread_regs {
	struct cpu cpu;
	int64_t call;		/* the system call in which the thread is, or from which it returns; -1: none, and the kernel
				   restarts none */
	uint64_t rest[8];	/* the other registers that the kernel shows: put writes them back as get has read them */
};

struct code_bytes { uint8_t len, bytes[15]; };

#define CALL_CODE_LEN 7

struct thread_abi {
	uint8_t args[6], result;	/* numbers of the registers of a system call, */
	struct code_bytes call_insn;	/* and its instruction */
	struct code_bytes restorers[2];	/* code that calls rt_sigreturn, in its forms, the longest first */
	struct code_bytes take_number;	/* code that takes the number of a call off the stack, and then the address to go on at */

	/* As ptrace: -1 and errno. */
	int (*get)(pid_t tid, struct thread_regs *ret_regs);
	int (*put)(pid_t tid, const struct thread_regs *regs);

	/* After the instruction: back to it, so that it makes call nr with the arguments that it had. */
	void (*call_again)(struct thread_regs *r, int64_t nr);
	/* The opposite: at the instruction, go on after it as if call nr had returned that. */
	void (*call_ended)(struct thread_regs *r, int64_t nr, int64_t result);
	/* In the stop before a call: make another one instead. pc and sp are the caller's. */
	void (*call_set)(struct thread_regs *r, int64_t nr, const uint64_t args[6]);
	/* The number that the CALL_CODE_LEN bytes before the address after a call load; -1: it is not there. */
	int64_t (*call_number)(const uint8_t *code);

	struct code_bytes nothing[2];	/* a function that returns at once, in its forms; the return address is at the stack pointer */
	struct code_bytes trap;		/* the instruction of a breakpoint, */
	uint8_t trap_pc;		/* and where the pc is in its stop, from its address on */
	bool (*reads_pointer)(void);	/* whether an instruction reads the thread pointer, on this machine */
	uint32_t rseq_sig;		/* which the C library has the kernel expect before the abort address of a restartable sequence */
	uint32_t shadow_set;		/* of PTRACE_GETREGSET: the shadow stack, if the thread has one; 0: no thread has */
};

#endif
