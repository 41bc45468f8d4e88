/* SPDX-License-Identifier: MIT */
/*
 * What is wrong with a script, where (line, first column, the column after the last one), and the line with a mark under it:
 *
 *	opens.bt:3:9-14: ERROR: unknown function 'prinf'; did you mean 'printf'?
 *	BEGIN { prinf("hello"); }
 *	        ~~~~~
 */
#ifndef JAB_LANG_DIAG_H
#define JAB_LANG_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/mem.h"

#define DIAG_MOST 20	/* errors; what follows is rarely worth reading */

struct diag {
	uint32_t at, len;	/* in the source */
	uint32_t line, column;	/* from 1; column in bytes */
	bool warning;
	char *text;
};

/* `source` is that of the script; also for what is said while it runs. */
struct diags {
	const char *name;	/* of the script, as shown */
	const char *source;
	size_t size;
	VEC(struct diag) list;
	uint32_t errors;
	bool no_warnings;	/* diags_text() leaves them out */
};

void diag_error(struct diags *d, uint32_t at, uint32_t len, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void diag_warn(struct diags *d, uint32_t at, uint32_t len, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Where a part of the source is, without a text; and as it is shown in front of messages: "name:1:9-62: ". */
struct diag diag_at(const struct diags *d, uint32_t at, uint32_t len);
void diag_place(FILE *f, const struct diags *d, uint32_t at, uint32_t len);

/* Forget all but the first so many. Gives the text of the first error among the others; caller frees. */
char *diags_take_back(struct diags *d, size_t n);

/* All of them, in order of their place in the source. Caller frees. */
char *diags_text(struct diags *d);
void diags_free(struct diags *d);

#endif
