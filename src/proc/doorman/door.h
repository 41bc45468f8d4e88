/* SPDX-License-Identifier: MIT */
/* What the tracer and its doorman process share. */
#ifndef JAB_PROC_DOOR_H
#define JAB_PROC_DOOR_H

#include "proc/doorman/doorman.h"

/* glibc's loader opens and maps this file before libraries, and unmaps it when all libraries are ready. */
#define DOOR_CACHE "/etc/ld.so.cache"

#define DOOR_FDS 4096	/* the most descriptors that the doorman has */

struct door_verdict { uint32_t id, answer; };

struct door_page {		/* mapped by both */
	uint32_t bell;		/* futex: incremented with each thread that the tracer is asked about */
	uint32_t open;		/* doorman_open() was called */
	uint32_t beat;		/* incremented as long as the tracer works */
	uint32_t holding;	/* the tracer holds processes */
	uint32_t stop_again;	/* the doorman has continued the stopped tracer because of that: it is to stop itself later */
	uint32_t door_beat;	/* incremented as long as the doorman works */
	uint32_t crowd;		/* queue_is_crowded() */
	struct door_counts counts;
};

struct door {
	int fan, sock, cache;	/* the fanotify group; the socket to the tracer; DOOR_CACHE, or -1 */
	pid_t tracer;
	bool exact;		/* see doorman_hire() */
	struct door_page *page;
};

void door_keep(struct door *d);	/* what the doorman process runs; returns when the tracer is gone */

#endif
