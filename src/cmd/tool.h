/* SPDX-License-Identifier: MIT */
/*
 * Ready tools: scripts that are installed with jab and run by their names. The head of a script describes it:
 *
 *	// NAME: one sentence
 *	// $1: the functions, as in a probe	a parameter that must be given; or $1 = DEFAULT: ...
 *
 * and its getopt() calls are its options, beside those of all scripts.
 */
#ifndef JAB_CMD_TOOL_H
#define JAB_CMD_TOOL_H

#include "cmd/opts.h"

struct tool;

/* Finds and reads the tool of this name; NULL: there is none. */
struct tool *tool_find(const char *name);
void tool_free(struct tool *t);

/*
 * Turns the words after the tool's name into those of a script: the tool's own options go to `named`, as --name=value; the rest, after the
 * name of the file, to `argv`. 0; 1 after --help; 2 after a usage message.
 */
int tool_words(struct tool *t, int argc, char **argv, text_list *ret_argv, text_list *named);

void tool_help(const struct tool *t);
void tools_list(FILE *to);	/* a line for each */
void tools_names(text_list *ret_names);	/* the caller frees them */

extern const char *tool_name;	/* of the tool that runs; NULL: another script */
extern text_list tool_named;	/* its own options */

int script_read(const char *path, char **ret_text, size_t *ret_len);	/* script.c: a whole file, which must look like a script */

#endif
