/* SPDX-License-Identifier: MIT */
/*
 * Calls that are left by an exception or by longjmp (docs/why/exits.md): in the target, a pad of our own where frames go
 * away (a landing), and for each function that `call:` watches the code that ends its calls then (a leaver).
 */
#ifndef JAB_SESSION_LEFT_H
#define JAB_SESSION_LEFT_H

#include "session/session.h"

#define LANDING_ID 0x40000000u	/* in want.id: the rest is enum leave_how */

/* True if the target has functions at which frames go away and they would be watched. Opens files to find out. */
bool left_is_wanted(struct jab *j, struct target *t);

int left_plan(struct jab *j, struct target *t);		/* wants of landings, room for leavers; behind all other wants */
int left_landing_body(struct jab *j, struct target *t, uint32_t how, uint8_t *out);
void left_planned(const struct target *t, const struct loaded *l, const struct want *w);

uint32_t left_number(const struct jab *j, const struct target *t, uint32_t site);	/* of the leaver, + 1; 0: none. site: an entry */
size_t left_tables_size(const struct jab *j, const struct target *t);
void left_take(struct target *t, uint8_t *here, uint64_t at);
int left_emit(struct jab *j, struct target *t);		/* leavers; the units' memory is there */

#endif
