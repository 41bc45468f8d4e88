/* SPDX-License-Identifier: MIT */
/*
 * A thread that is stepped from stop to stop and its tracer take turns. On two CPUs each turn is a wake-up on the other one, which on
 * a busy machine takes ten times as long as a switch on the same one. So for the time of such work we run on the thread's
 * CPU, if it is one of those that we may use. Only where we run changes, nothing of the thread.
 */
#ifndef JAB_PROC_NEAR_H
#define JAB_PROC_NEAR_H

#include <stdbool.h>
#include <sys/types.h>

void near_to(pid_t pid, pid_t tid);
bool near_is(void);	/* we run where a thread runs that we work on */
void near_leave(void);	/* we run where we ran before; nothing if we never went */

#endif
