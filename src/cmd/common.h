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

bool is_colourful(FILE *to);	/* a terminal, and NO_COLOR is not set */

/* Attaches to the process with this pid, if the word is a decimal number, else to the processes with this name. */
int attach_word(struct jab *j, const char *word);
bool is_pid(const char *word, pid_t *ret_pid);

void json_text(FILE *to, const char *s);	/* writes a JSON string, with its quotes */
void json_pair(FILE *to, const char *key, const char *value, bool first);

const char *base_name(const char *path);

#endif
