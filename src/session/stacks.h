/* SPDX-License-Identifier: MIT */
/*
 * Stacks in the events of programs. The target keeps each different stack once and writes its number; a trace must tell
 * them without the target, so on their way out of the ring numbers become addresses.
 */
#ifndef JAB_SESSION_STACKS_H
#define JAB_SESSION_STACKS_H

#include "lang/ir.h"
#include "lang/store.h"
#include "session/session.h"

bool record_has_stacks(const struct ir_record *r);

/* One event with its head, longer by the frames, behind what is in `to`. */
void stacks_add_event(const struct jab *j, uint32_t unit, uint32_t target, const struct ir_record *r, const uint8_t *event, uint32_t len,
		      struct bytes *to);

/* All events of a span of lines. Gives `span` itself where there is nothing to do; else memory that is good until the next call. */
const uint8_t *stacks_widen(const struct jab *j, const struct target *t, const uint8_t *span, uint64_t len, uint64_t *ret_len);

#endif
