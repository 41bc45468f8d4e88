/* SPDX-License-Identifier: MIT */
/* execs N PROGRAM [ARG...]: so many processes one after the other, each executing PROGRAM. Prints the microseconds of each. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[1]) : 0;
	double *took = calloc(n + 1, sizeof(*took));

	for (int i = 0; i < n; i++) {
		double start = now_us();
		int status = 1;
		pid_t pid = fork();

		if (!pid) {
			execv(argv[2], argv + 2);
			_exit(127);
		}
		waitpid(pid, &status, 0);
		if (status)
			return 1;
		took[i] = now_us() - start;
	}
	for (int i = 0; i < n; i++)
		printf("%.1f\n", took[i]);
	free(took);
	return 0;
}
