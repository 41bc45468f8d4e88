/* SPDX-License-Identifier: MIT */
/* Functions as `jab list` and `jab -l` show them. */
#ifndef JAB_CMD_LISTING_H
#define JAB_CMD_LISTING_H

#include <jab/symbols.h>
#include "cmd/common.h"

/* Prints parameters as C declares them, then "TYPE retval", each on an indented line. Prints nothing without debug info. */
void listing_types(FILE *to, const struct jab_function *f);

/* Prints one JSON object and a newline, with `spec` in place of f->spec. */
void listing_json(FILE *to, const struct jab_function *f, const char *spec);

/* jab -l: lists what a pattern, or the probes of a script, match. */
struct jab_script_options;
int list_pattern(const char *pattern, FILE *to, bool verbose);
int list_script(const struct jab_script_options *o, FILE *to, bool verbose);

/* The places of a static tracepoint with their arguments; all of it as one JSON object. */
void listing_places(FILE *to, const struct jab_tracepoint *t);
void listing_tracepoint_json(FILE *to, const struct jab_tracepoint *t, const char *spec);

#endif
