/* SPDX-License-Identifier: MIT */
/* The calling conventions of System V and of Go. */
#include "arch/x86/thread.h"
#include "arch/x86/x86.h"

const struct call_abi x86_c_call = {
	.args = { RDI, RSI, RDX, RCX, R8, R9 },
	.nargs = 6,
	.rets = { RAX, RDX },
	.nrets = 2,
	.float_args = 8,
	.float_rets = 2,
	.result_at = RAX,
	.result_to = NO_REG,
	.pushes = 8,
	.link = NO_REG,
	.kept = { RBX, RBP, R12, R13, R14, R15 },
	.nkept = 6,
	.rules = CALL_BY_CLASS,
};

/* Since Go 1.17. */
const struct call_abi x86_go_call = {
	.args = { RAX, RBX, RCX, RDI, RSI, R8, R9, R10, R11 },
	.nargs = 9,
	.rets = { RAX, RBX, RCX, RDI, RSI, R8, R9, R10, R11 },
	.nrets = 9,
	.float_args = 15,
	.float_rets = 15,
	.result_at = NO_REG,
	.result_to = NO_REG,
	.pushes = 8,
	.link = NO_REG,
};
