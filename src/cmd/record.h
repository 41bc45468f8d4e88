/* SPDX-License-Identifier: MIT */
/* Where a recording goes: a directory, an archive through a descriptor, snapshots. */
#ifndef JAB_CMD_RECORD_H
#define JAB_CMD_RECORD_H

#include <jab/trace.h>

enum snapshot_when { SNAPSHOT_END, SNAPSHOT_EXIT, SNAPSHOT_CRASH, SNAPSHOT_SIGNAL };

struct output {
	char *name;		/* of the directory; or the descriptor's, for messages */
	struct jab_writer *trace;	/* NULL: a snapshot was written to it */
	char *command;		/* the command line of jab */
	int fd;			/* -1: a directory */
	bool is_stdout;
	bool written;		/* all events go to `trace`; otherwise it is for the first snapshot */
	bool made, unused;	/* jab has created the directory; nothing was recorded */
	size_t snapshots;	/* number of snapshots taken */
	size_t number;		/* suffix of the last snapshot's name; 0: none */
};

/* Parses EXIT, CRASH, SIGNAL, or the name or number of a signal. */
bool snapshot_parse(const char *text, enum snapshot_when *ret_when, int *ret_signal);

/* Creates the trace, before a target is changed. name: a directory, "-", "fd:N", or NULL for jab-NAME-TIME. */
int output_open(struct output *o, struct jab *j, const char *name, char **rest);

/* Writes the newest events to a trace of their own. */
int output_snapshot(struct output *o, struct jab *j);

/* Closes the trace. A directory that was created and not used is removed. */
int output_close(struct output *o);

#endif
