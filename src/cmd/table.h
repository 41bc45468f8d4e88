/* SPDX-License-Identifier: MIT */
/* The table of counts: collected, sorted by hits, printed live, at the end or as JSON. */
#ifndef JAB_CMD_TABLE_H
#define JAB_CMD_TABLE_H

#include <jab/jab.h>
#include <stdio.h>
#include "base/mem.h"

struct table_row { struct jab_count c; uint64_t before; };

enum table_sort { SORT_HITS, SORT_RATE, SORT_NAME };

/* What keys have chosen in the live table. */
struct table_view {
	enum table_sort sort;
	char filter[64];	/* part of the names that are shown; "": all */
	bool paused, typing;	/* the filter is being typed */
	bool quit;
	bool keys;		/* standard input is a terminal of jab's own */
	int rows, columns;	/* of the terminal, when it was drawn last */
	double draw_ms;		/* the longest that took */
};

struct table {
	VEC(struct table_row) rows;
	struct table_view view;
	uint64_t *last;		/* hits at the last refresh, in the order of jab_each_count() */
	size_t nlast;
	double seconds;		/* since the last refresh */
};

int table_read(struct table *t, struct jab *j);		/* reads the counts, for table_live() */
int table_fill(struct table *t, struct jab *j);		/* reads and sorts them */
void table_begin(struct table *t, FILE *to, bool keys);	/* before the first table_live(); keys: they may be read */
bool table_keys(struct table *t, FILE *to);	/* reads keys and looks at the terminal's size: true if it is to be drawn anew */
void table_end(struct table *t, FILE *to);	/* after the last one */
void table_live(struct table *t, FILE *to, double elapsed);	/* as many rows as the terminal has */
void table_final(struct table *t, FILE *to, bool all);
void table_json(struct table *t, FILE *to);
void table_free(struct table *t);

#endif
