/* SPDX-License-Identifier: MIT */
/* What the doorman and we share. */
#ifndef JAB_PROC_DOOR_H
#define JAB_PROC_DOOR_H

#include "proc/doorman.h"

/* Every program with glibc's loader opens and maps it at its start, before libraries, and unmaps it when all are ready. */
#define DOOR_CACHE "/etc/ld.so.cache"

#define DOOR_FDS 4096	/* so many descriptors the doorman has at most */

struct door_verdict { uint32_t id, answer; };

struct door_page {
	uint32_t bell;
	uint32_t open;
	uint32_t beat;		/* grows as long as the tracer lives */
	uint32_t holding;	/* it has stopped somebody */
	uint32_t stop_again;	/* it was continued because of that */
	uint32_t door_beat;	/* grows as long as the doorman works */
	uint32_t crowd;		/* more come than may wait: none is to take long */
	struct door_counts counts;
};

struct door {
	int fan, sock, cache;	/* cache: DOOR_CACHE, or -1 */
	pid_t tracer;
	bool exact;
	struct door_page *page;
};

void door_keep(struct door *d);	/* the child's work; returns when the tracer is gone */

#endif
