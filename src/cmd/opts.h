/* SPDX-License-Identifier: MIT */
/*
 * Command-line options as a table: for each its name, the kind of its value, the variable that gets it, and its help text.
 * --help is printed from the same table.
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
	OPT_TIME,	/* uint64_t *: nanoseconds; the value has a unit, such as 100us, 1ms or 1.5s */
	OPT_PERCENT,	/* double *: above 0; may end with % */
	OPT_NUMBER,	/* uint64_t *: 0NNN, NNN or 0xNNN */
	OPT_SIZE,	/* uint64_t *: as OPT_NUMBER; may end with k, M or G */
	OPT_MORE,	/* int *: incremented each time the option is given */
	OPT_HIDDEN,	/* a flag that is not in --help: another name, for those who know it */
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
	const char *usage;	/* the line after "usage: jab NAME " */
	const char *about;	/* one sentence */
	const struct opt *opts;	/* ends with a zeroed element */
	int (*run)(text_list *words, char **rest);	/* returns the exit status. rest: the words after "--", or NULL */
};

extern const struct command cmd_count, cmd_list, cmd_check, cmd_recover, cmd_view,
	cmd_trace, cmd_record, cmd_script;

/* Sets the variables of the table and collects the other words. 0; 2 after a usage message; 1 after --help. */
int opts_parse(const struct command *c, int argc, char **argv, text_list *words, char ***ret_rest);
void opts_help(const struct command *c);

/* True if the words differ by at most one changed, missing or extra letter, or by two adjacent letters swapped. */
bool is_near(const char *a, const char *b);

/* Splits a command line into words as a shell does, with quotes and backslashes but no expansion. The list ends with NULL. */
int split_words(const char *line, text_list *ret_words);

#endif
