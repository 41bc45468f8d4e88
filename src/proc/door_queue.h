/* SPDX-License-Identifier: MIT */
/* Those that wait for the tracer, in the order in which it is asked about them. */
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
	uint64_t since;
	uint64_t told;		/* when the tracer was asked; 0: not yet */
};

bool queue_add(const struct waiting *w, size_t most);	/* false: too many wait already */
bool queue_is_full(uint32_t uid, size_t most);	/* would it be, for another one of that user? */
struct waiting *queue_next(uint64_t now);	/* the tracer is to be asked about it now; NULL: about none */
void queue_done(uint32_t id, bool good, uint64_t now);	/* the tracer has done with it */

bool queue_is_crowded(uint64_t now);	/* more have come of late than may wait */
bool door_is_late(uint64_t since, bool crowd, uint64_t now);	/* one that the tracer was asked about has been let go by then */
bool queue_is_paused(size_t i, uint64_t now);	/* its user has made a crowd meanwhile: it is let go */
bool queue_is_old(size_t i, uint64_t now);	/* it has waited for so long that it is let go */

size_t queue_length(void);
struct waiting *queue_at(size_t i);	/* oldest first */
void queue_forget(size_t i);

#endif
