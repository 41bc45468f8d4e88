/* SPDX-License-Identifier: MIT */
/* Functions as `jab list` and `jab -l` show them. */
#ifndef JAB_CMD_LISTING_H
#define JAB_CMD_LISTING_H

#include <jab/symbols.h>
#include "cmd/common.h"

/* One a line, indented: parameters as C declares them, then "TYPE retval". Nothing without debug info. */
void listing_types(FILE *to, const struct jab_function *f);

/* One JSON object and a newline; spec stands for f->spec. */
void listing_json(FILE *to, const struct jab_function *f, const char *spec);

/* jab -l: what a pattern, or the probes of a script, would match. */
struct jab_script_options;
int list_pattern(const char *pattern, FILE *to, bool verbose);
int list_script(const struct jab_script_options *o, FILE *to, bool verbose);

#endif
