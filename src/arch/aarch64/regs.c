/* SPDX-License-Identifier: MIT */
#include "arch/aarch64/aarch64.h"

const struct arch_regs a64_regs = {
	.names = { "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
		   "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp",
		   "pc", "pstate" },
	.others = { [29] = "fp", [30] = "lr", [32] = "ip", [33] = "flags" },
	.some = "x0...x30, fp, lr, sp, pc, pstate",
	.vector = "v",
	.n = 32,
	.nvectors = 32,
	.sp = 31,
	.fp = 29,
	.dwarf = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31 },
	.dwarf_pc = 30,
	.dwarf_vectors = { { 64, 95, 0 } },
};
