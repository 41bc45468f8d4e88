/* SPDX-License-Identifier: MIT */
#include "arch/regs.h"

const struct arch_regs x86_regs = {
	.names = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
		   "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15" },
	.n = 16,
	.args = { 7, 6, 2, 1, 8, 9 },
	.nargs = 6,
	.go_args = { 0, 3, 1, 7, 6, 8, 9, 10, 11 },
	.ret = 0,
	.sp = 4,
};
