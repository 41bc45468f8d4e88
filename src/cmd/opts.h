/* SPDX-License-Identifier: MIT */
/*
 * Options as a table: what a command takes, what it means and where the value goes. The same table
 * makes --help.
 */
#ifndef JAB_CMD_OPTS_H
#define JAB_CMD_OPTS_H

#include <stdbool.h>
#include <stdint.h>
#include "base/mem.h"

typedef VEC(char *) text_list;

enum opt_kind {
	OPT_FLAG,	/* bool * */
	OPT_TEXT,	/* const char ** */
	OPT_LIST,	/* text_list *: may be repeated */
	OPT_SECONDS,	/* double * */
	OPT_PERCENT,	/* double *: above 0, with or without a % behind it */
	OPT_NUMBER,	/* uint64_t *: 0NNN, NNN or 0xNNN */
	OPT_SIZE,	/* uint64_t *: the same, with k, M or G behind it */
	OPT_MORE,	/* int *: counts how often */
	OPT_REFUSED,	/* a usage error with its help text as the reason; only by its full name, and not in --help */
};

struct opt {
	char letter;		/* 0: none */
	const char *name;	/* without the dashes */
	const char *arg;	/* name of its value in --help; NULL for flags */
	enum opt_kind kind;
	void *to;
	const char *help;
};

struct command {
	const char *name;
	const char *usage;	/* the line behind "usage: jab NAME " */
	const char *about;	/* one sentence */
	const struct opt *opts;	/* ends with a zeroed one */
	int (*run)(text_list *words, char **rest);	/* rest: what follows "--", or NULL */
};

extern const struct command cmd_count, cmd_list, cmd_check, cmd_recover, cmd_view,
	cmd_trace, cmd_record, cmd_script;

/* Fill the table's values and collect the other words. 0, or 2 after a message; 1: --help was given. */
int opts_parse(const struct command *c, int argc, char **argv, text_list *words, char ***ret_rest);
void opts_help(const struct command *c);

/* Is one letter changed, missing or too many, or two neighbours swapped? */
bool is_near(const char *a, const char *b);

/* 'a "b c" d' -> words, as a shell would split it but expanding nothing. Ends with NULL. */
int split_words(const char *line, text_list *ret_words);

#endif
