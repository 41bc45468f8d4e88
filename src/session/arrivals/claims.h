/* SPDX-License-Identifier: MIT */
/*
 * Whose event is it? The number of a process and of a thread in an event are written by the target, or by any of its forks:
 * good enough to be shown. Where something is done with them (system("kill %d", pid)) they are checked first.
 *
 * What is promised: the process has our probes mapped (it is the target or a fork of it), and the thread is one of that
 * process; or there is no process, no thread of that number any more, or it is ending. A target can name another thread of its own
 * family, no other.
 */
#ifndef JAB_SESSION_CLAIMS_H
#define JAB_SESSION_CLAIMS_H

#include "session/session.h"

/* The numbers are ours, of our own pid namespace. -EPERM with a sentence: they belong to something else. */
int claim_check(struct jab *j, uint32_t target, uint32_t pid, uint32_t tid);

#endif
