/* SPDX-License-Identifier: MIT */
/*
 * A limit for the time that probes take (--max-overhead). Threads are looked at while they run
 * (proc/meter.h): how often one of them was found in our code, of all looks, is what tracing costs it. If
 * that is too much for any thread, the probe that was found most often is on for only a part of the time, half
 * as long as before; when there is room again, twice as long. Each change is told, in the trace too.
 */
#ifndef JAB_SESSION_BUDGET_H
#define JAB_SESSION_BUDGET_H

#include "session/session.h"

struct budget;

int budget_new(struct jab *j, double share);	/* 0 ... 1; before probes are added */
void budget_free(struct budget *b);

/* Code of a probe. */
void budget_body(struct jab *j, const struct target *t, uint32_t unit, uint32_t clause, uint64_t at, size_t len);
int budget_watch(struct jab *j, struct target *t);	/* its probes are in */
void budget_forget(struct jab *j, const struct target *t);	/* it is gone */
void budget_tick(struct jab *j);

#endif
