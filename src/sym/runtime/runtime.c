/* SPDX-License-Identifier: MIT */
#include "sym/runtime/runtime.h"

const struct runtime runtime_c = { .name = "C" };

const struct runtime runtime_go = {
	.name = "Go",
	.parks_anywhere = true,
	.enters_again = true,
	.moves_stacks = true,
	.sees_faults = true,
	.no_tail_calls = true,
	.no_unwinding = true,
	.own_calls = true,
	.own_tables = true,
	.own_blocks = true,
	.entered_at_call = "runtime.deferreturn",	/* after a recovered panic; it may follow a call that never returns */
	.returned_to = { "runtime.goexit", "runtime.goexit.abi0" },	/* by the first function of a goroutine */
};
