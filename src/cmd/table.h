/* SPDX-License-Identifier: MIT */
/* The table of counts: collected, sorted by hits, printed live, at the end or as JSON. */
#ifndef JAB_CMD_TABLE_H
#define JAB_CMD_TABLE_H

#include <jab/jab.h>
#include <stdio.h>
#include "base/mem.h"

struct table_row { struct jab_count c; uint64_t before; };

struct table {
	VEC(struct table_row) rows;
	uint64_t *last;		/* hits at the last refresh, in the order of jab_each_count() */
	size_t nlast;
	double seconds;		/* since the last refresh */
};

int table_fill(struct table *t, struct jab *j);		/* reads and sorts the counts */
void table_begin(FILE *to);	/* before the first table_live() */
void table_end(FILE *to);	/* after the last one */
void table_live(struct table *t, FILE *to, double elapsed);	/* as many rows as the terminal has */
void table_final(struct table *t, FILE *to, bool all);
void table_json(struct table *t, FILE *to);
void table_free(struct table *t);

#endif
