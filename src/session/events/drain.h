/* SPDX-License-Identifier: MIT */
/* Out of the rings: to the trace, to the callback, or as a snapshot. */
#ifndef JAB_SESSION_DRAIN_H
#define JAB_SESSION_DRAIN_H

#include "session/session.h"

struct ctf;

int64_t drain(struct jab *j, bool last);
int64_t drain_snapshot(struct jab *j, struct ctf *trace);

#endif
