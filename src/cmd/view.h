/* SPDX-License-Identifier: MIT */
/* jab view --stats: numbers of events of a trace per probe, thread and stream. */
#ifndef JAB_CMD_VIEW_H
#define JAB_CMD_VIEW_H

#include <stdio.h>
#include <jab/trace.h>

struct view_stats;

struct view_stats *stats_new(bool with_fields);
void stats_add(struct view_stats *s, const struct jab_event *ev, const char *comm);
void stats_print(struct view_stats *s, struct jab_trace *t, FILE *to);
void stats_json(struct view_stats *s, struct jab_trace *t, FILE *to);
void stats_free(struct view_stats *s);

#endif
