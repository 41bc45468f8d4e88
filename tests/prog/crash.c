/* SPDX-License-Identifier: MIT */
/* `crash HOW [SECONDS]`: ends as it is told, after some seconds if it should wait for a tracer; `fault` in a second thread. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noipa)) int reads(volatile int *p)
{
	return *p + 1;
}

static void *runs(void *unused)
{
	(void)unused;
	printf("%d\n", reads((int *)0x1230));
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;

	if (argc < 2)
		return 2;
	if (argc > 2)
		usleep(1000000 * atof(argv[2]));
	if (!strcmp(argv[1], "fault") && pthread_create(&t, NULL, runs, NULL) == 0)
		pthread_join(t, NULL);
	if (!strcmp(argv[1], "illegal"))
		__builtin_trap();
	if (!strcmp(argv[1], "abort"))
		abort();
	if (!strcmp(argv[1], "kill"))
		kill(getpid(), SIGKILL);
	return atoi(argv[1]);
}
