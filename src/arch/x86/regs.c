/* SPDX-License-Identifier: MIT */
#include "arch/x86/x86.h"

const struct arch_regs x86_regs = {
	.names = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
		   "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip", "rflags" },
	.others = { "ax", "cx", "dx", "bx", "sp", "bp", "si", "di", [16] = "ip", "flags" },
	.some = "ax, bx, cx, dx, si, di, bp, sp, r8...r15, ip, flags",
	.vector = "xmm",
	.n = 16,
	.nvectors = 16,
	.sp = 4,
	.fp = 5,
	.dwarf = { 0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15 },
	.dwarf_pc = 16,
	.dwarf_vectors = { { 17, 32, 0 }, { 67, 82, 16 } },
	.dwarf_stacked = { 33, 40 },
};
