/* SPDX-License-Identifier: MIT */
/*
 * What the run time of a language does with code, stacks and threads that others don't do. Each module has one of two tables: that of C and of all
 * that runs like it, in which all is false, and Go's (docs/why/go.md).
 */
#ifndef JAB_SYM_RUNTIME_H
#define JAB_SYM_RUNTIME_H

#include <stdbool.h>

struct runtime {
	const char *name;	/* of the language */
	bool parks_anywhere;	/* it parks its own threads at any instruction, and looks up where: a window has one instruction, and no jump is in filler */
	bool enters_again;	/* a function that needs more stack starts once more: its entry is after the check, a jump there is no exit */
	bool moves_stacks;	/* they are copied: a frame is known by its thread's record, and code that needs stack looks whether there is */
	bool sees_faults;	/* it looks at the pc of any fault */
	bool no_tail_calls;	/* its compiler makes none */
	bool no_unwinding;	/* no frame is left by exception or longjmp */
	bool own_calls;		/* arguments and results are as arch.go_call says */
	bool own_tables;	/* names and heights of frames are in a table of its own (gotab.c) */
	bool own_blocks;	/* a new thread gets its thread block by a call of its own, before it runs anything else */

	/* Functions by name, NULL: none. Calls of the first one are entered from nowhere; threads return behind the first instruction of the others. */
	const char *entered_at_call;
	const char *returned_to[2];
};

extern const struct runtime runtime_c, runtime_go;

#endif
