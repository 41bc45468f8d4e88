/* SPDX-License-Identifier: MIT */
/* Shared by the commands: choosing targets, error messages, output files, JSON. */
#ifndef JAB_CMD_COMMON_H
#define JAB_CMD_COMMON_H

#include <jab/jab.h>
#include <stdio.h>
#include "cmd/opts.h"

/* Prints the last error, of the command itself or of a call of libjab, as `jab: ...`, and returns the exit status for it. */
int complain(const struct jab *j);	/* NULL: the call had no session */

/* Opens a file for output. A new file can be read by its owner only, an existing one is truncated. NULL after fail(). */
FILE *output_create(const char *path);

/* Flushes; returns an error with a message if that or an earlier write has failed. */
int output_done(FILE *to, const char *name);
int output_status(FILE *to, const char *name, int status);	/* output_done(); the exit status is 1 if it fails, else `status` */
void output_failed(void);	/* call after a failed write: keeps errno for output_done() */

bool is_colourful(FILE *to);	/* as --color says; without it: a terminal, and NO_COLOR is not set */

/* Options of text output, and the flags for jab_event_print() that they mean. */
struct look {
	const char *colour, *time;	/* NULL: not given */
	bool plain, full_names;
};
extern struct look look;
#define LOOK_COLOUR \
	{ 0, "color", "WHEN", OPT_TEXT, &look.colour, "colours: auto (on a terminal), always or never" }, \
	{ 0, "no-colour", NULL, OPT_HIDDEN, &look.plain, "as --color=never" }
#define LOOK_NAMES \
	{ 0, "full-names", NULL, OPT_FLAG, &look.full_names, "C++ and Rust names in full: no std::string for std::basic_string<...>" }
#define LOOK_TIME \
	{ 0, "time", "CLOCK", OPT_TEXT, &look.time, "times: boot (seconds, the default), wall, relative (to the first), delta (to the one before)" }
int look_usage(const char *command);	/* 0, or 2 after a message */
unsigned int look_flags(FILE *to, bool json);

/* Attaches to the process with this pid, if the word is a decimal number, else to the processes with this name. */
int attach_word(struct jab *j, const char *word);
bool is_pid(const char *word, pid_t *ret_pid);

void json_text(FILE *to, const char *s);	/* writes a JSON string, with its quotes */
void json_pair(FILE *to, const char *key, const char *value, bool first);

const char *base_name(const char *path);

#endif
