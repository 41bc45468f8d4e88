/* SPDX-License-Identifier: MIT */
/* The calling convention of AAPCS64: eight registers for arguments, the return address in x30. */
#include "arch/aarch64/aarch64.h"

const struct call_abi a64_c_call = {
	.args = { 0, 1, 2, 3, 4, 5, 6, 7 },
	.nargs = 8,
	.rets = { 0, 1 },
	.nrets = 2,
	.float_args = 8,
	.float_rets = 4,
	.result_at = NO_REG,
	.result_to = 8,
	.pushes = 0,
	.link = 30,
	.kept = { 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29 },
	.nkept = 11,
	.rules = CALL_BY_SCALAR,
};

/* Go is refused (pad/plan_one.c); its files can be listed. */
const struct call_abi a64_go_call = {
	.args = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
	.nargs = 16,
	.rets = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
	.nrets = 16,
	.float_args = 16,
	.float_rets = 16,
	.result_at = NO_REG,
	.result_to = NO_REG,
	.link = 30,
	.rules = CALL_BY_SCALAR,
};
