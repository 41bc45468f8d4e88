/* SPDX-License-Identifier: MIT */
/*
 * A thread that is followed from stop to stop and its tracer run alternately. On two CPUs each change is a wake-up of the other
 * CPU, which on a busy machine takes ten times as long as a switch on one CPU. So for the time of such work the tracer sets its
 * own affinity to the thread's CPU, if that is in its set. The thread's affinity is not changed.
 */
#ifndef JAB_PROC_NEAR_H
#define JAB_PROC_NEAR_H

#include <stdbool.h>
#include <sys/types.h>

void near_to(pid_t pid, pid_t tid);
bool near_is(void);	/* after near_to(), before near_leave() */
void near_leave(void);	/* restores the affinity; does nothing if it was not changed */

#endif
