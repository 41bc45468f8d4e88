/* SPDX-License-Identifier: MIT */
#include "arch/aarch64/aarch64.h"

const struct arch_regs a64_regs = {
	.names = { "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
		   "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp" },
	.n = 32,
	.args = { 0, 1, 2, 3, 4, 5, 6, 7 },
	.nargs = 8,
	.ret = 0,
	.sp = 31,
};
