/* SPDX-License-Identifier: MIT */
/* To be preloaded: a system clock that is an hour ahead as soon as the file $CLOCK_STEP exists. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *t)
{
	const char *file = getenv("CLOCK_STEP");
	long r = syscall(SYS_clock_gettime, clock, t);

	if (r == 0 && clock == CLOCK_REALTIME && file && access(file, F_OK) == 0)
		t->tv_sec += 3600;
	return r;
}
