/* SPDX-License-Identifier: MIT */
/* What several commands do alike: choosing targets, saying what failed, writing JSON. */
#ifndef JAB_CMD_COMMON_H
#define JAB_CMD_COMMON_H

#include <jab/jab.h>
#include <stdio.h>
#include "cmd/opts.h"

/* Prints the last error, of the command itself or of a call of libjab, as `jab: ...`, and returns the exit status for it. */
int complain(const struct jab *j);	/* NULL: the call had no session */

/* A file for our output; a new one is its owner's only. NULL after fail(). */
FILE *output_create(const char *path);

/* Has everything that was written to it arrived? A full disk is an error like any other. */
int output_done(FILE *to, const char *name);
int output_status(FILE *to, const char *name, int status);	/* the exit status: this one, or 1 after a message */
void output_failed(void);	/* a write has, just now: errno is kept for output_done() */

bool is_colourful(FILE *to);	/* a terminal, and the user does not mind (NO_COLOR) */

/* A decimal number is a pid, everything else a name. */
int attach_word(struct jab *j, const char *word);
bool is_pid(const char *word, pid_t *ret_pid);

void json_text(FILE *to, const char *s);	/* with quotes */
void json_pair(FILE *to, const char *key, const char *value, bool first);

const char *base_name(const char *path);

#endif
