/* SPDX-License-Identifier: MIT */
#ifndef JAB_SESSION_SCRIPT_TRACE_H
#define JAB_SESSION_SCRIPT_TRACE_H

#include "session/events/events.h"
#include "session/scripts/units.h"

struct script_trace;

struct script_trace *script_trace_new(struct jab *j, uint32_t unit);
void script_trace_free(struct script_trace *t);

int script_trace_add(struct script_trace *t, const struct raw_event *ev);	/* of a record() */
void script_trace_lost(struct script_trace *t, const struct raw_event *ev);	/* of any event: what its ring has lost */
int script_trace_flush(struct script_trace *t);		/* what came since the last time is written */

#endif
