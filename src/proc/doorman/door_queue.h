/* SPDX-License-Identifier: MIT */
/* Threads whose exec or open waits (fanotify permission events), and the order in which the tracer is asked about them. */
#ifndef JAB_PROC_DOOR_QUEUE_H
#define JAB_PROC_DOOR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DOOR_MOST_WAITING 512

struct waiting {
	uint32_t id, uid, kind;
	int fd;
	pid_t tid;
	uint64_t since;		/* when it was added */
	uint64_t told;		/* when the tracer was asked about it; 0: not yet */
};

bool queue_add(const struct waiting *w, size_t most);	/* false: too many wait already, or its user is paused */
bool queue_is_full(uint32_t uid, size_t most);	/* no further thread of that user may wait */
struct waiting *queue_next(uint64_t now);	/* the one to ask the tracer about now; NULL: none */
void queue_done(uint32_t id, bool good, uint64_t now);	/* the tracer has finished with it; good: not by giving it up */

bool queue_is_crowded(uint64_t now);	/* in the last seconds more came than may wait */
bool door_is_late(uint64_t since, bool crowd, uint64_t now);	/* one that waits since then is allowed to go on by now */
bool queue_is_paused(size_t i, uint64_t now);	/* its user is paused now: it is allowed to go on */
bool queue_is_old(size_t i, uint64_t now);	/* it has waited too long: it is allowed to go on */

size_t queue_length(void);
struct waiting *queue_at(size_t i);	/* oldest first */
void queue_forget(size_t i);

#endif
