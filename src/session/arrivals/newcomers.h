/* SPDX-License-Identifier: MIT */
/*
 * Processes that begin to use a file which a probe names, while we run. They are held before they run code of it
 * (proc/doorman/arrivals.h), and become targets as those do that a target has executed.
 */
#ifndef JAB_SESSION_NEWCOMERS_H
#define JAB_SESSION_NEWCOMERS_H

#include "session/session.h"

int newcomers_watch(struct jab *j, const char *const *paths, size_t n);
void newcomers_start(struct jab *j);	/* the probes are in: from now on; and who came since processes were looked for */
int newcomers_poll(struct jab *j);	/* how many there were */
uint32_t *newcomers_bell(struct jab *j, uint32_t *ret_heard, uint64_t *ns);	/* NULL: none. Shortens ns if need be */
void newcomers_stop(struct jab *j);
void newcomers_free(struct jab *j);

bool is_jab(pid_t pid);	/* runs it our own program? */
bool newcomers_may_come(const struct jab *j);
bool newcomers_are_all(const struct jab *j);	/* whoever is meant comes this way: what targets execute need not be followed */
bool newcomers_suffice(const struct jab *j);	/* neither need the libraries that they load */
bool newcomers_watches(const struct jab *j, const struct probe_spec *spec);	/* its file */
void newcomers_get(const struct jab *j, struct jab_newcomers *ret);

#endif
