/* SPDX-License-Identifier: MIT */
/* Where a recording goes: a directory, an archive through a descriptor, snapshots. */
#ifndef JAB_CMD_RECORD_H
#define JAB_CMD_RECORD_H

#include <jab/trace.h>

enum snapshot_when { SNAPSHOT_END, SNAPSHOT_EXIT, SNAPSHOT_CRASH, SNAPSHOT_SIGNAL };

struct output {
	char *name;		/* of the directory, or what a person calls the descriptor */
	struct jab_writer *trace;	/* NULL: it was used for a snapshot */
	char *command;
	int fd;			/* -1: a directory */
	bool is_stdout;
	bool written;		/* all events go to `trace`; else it is for the first snapshot */
	bool made, unused;	/* the directory is ours; nothing was recorded */
	size_t snapshots;
	size_t number;		/* behind the name of the last one; 0: it had none */
};

/* EXIT, CRASH, SIGNAL, or the name or number of one. */
bool snapshot_parse(const char *text, enum snapshot_when *ret_when, int *ret_signal);

/* Make it, before anything is touched. Without a name there is one: jab-NAME-TIME. */
int output_open(struct output *o, struct jab *j, const char *name, char **rest);

/* The newest events, into a trace of their own. */
int output_snapshot(struct output *o, struct jab *j);

/* Closes the trace; what was made and not used is removed again. */
int output_close(struct output *o);

#endif
