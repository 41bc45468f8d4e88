/* SPDX-License-Identifier: MIT */
/*
 * Processes that begin to use a file which a probe names, while we run. They are held before they run code of it
 * (proc/doorman/arrivals.h), and become targets as those do that a target has executed.
 */
#ifndef JAB_SESSION_NEWCOMERS_H
#define JAB_SESSION_NEWCOMERS_H

#include "session/session.h"

int newcomers_watch(struct jab *j, const char *const *paths, size_t n);
void newcomers_start(struct jab *j);	/* the probes are in: holds processes from now on, and takes those that came since the search */
int newcomers_poll(struct jab *j);	/* how many there were */
uint32_t *newcomers_bell(struct jab *j, uint32_t *ret_heard, uint64_t *ns);	/* NULL: none. Shortens ns if need be */
void newcomers_stop(struct jab *j);
void newcomers_free(struct jab *j);

bool is_jab(pid_t pid);	/* true if that process runs jab */
bool newcomers_may_come(const struct jab *j);
bool newcomers_are_all(const struct jab *j);	/* every process that is meant arrives here: execs of targets need not be followed */
bool newcomers_suffice(const struct jab *j);	/* nor need the libraries that targets load */
bool newcomers_watches(const struct jab *j, const struct probe_spec *spec);	/* true if the file of this probe is watched */
void newcomers_get(const struct jab *j, struct jab_newcomers *ret);

#endif
