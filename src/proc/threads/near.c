/* SPDX-License-Identifier: MIT */
#include "proc/threads/near.h"

#include <sched.h>
#include "proc/internal.h"

static cpu_set_t before;
static bool is_away;

void near_to(pid_t pid, pid_t tid)
{
	struct task_stat s;
	cpu_set_t one;

	if (!is_away && sched_getaffinity(0, sizeof(before), &before) < 0)
		return;
	if (CPU_COUNT(&before) < 2 || task_stat(pid, tid, &s) < 0 || s.cpu < 0 || s.cpu >= CPU_SETSIZE || !CPU_ISSET(s.cpu, &before))
		return;
	CPU_ZERO(&one);
	CPU_SET(s.cpu, &one);
	is_away = sched_setaffinity(0, sizeof(one), &one) == 0 || is_away;
}

bool near_is(void)
{
	return is_away;
}

void near_leave(void)
{
	if (is_away)
		sched_setaffinity(0, sizeof(before), &before);
	is_away = false;
}
