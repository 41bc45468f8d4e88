/* SPDX-License-Identifier: MIT */
/* Threads and children that start and end while it runs. Each thread says which numbers it has for itself: "pid tid". */
#include "prog.h"

#include <sys/syscall.h>
#include <sys/wait.h>

#define CALLS 5
#define ROUNDS 3

noinline long work(long n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

static void *calls(void *arg)
{
	for (int i = 0; i < CALLS; i++)
		work(i);
	printf("%d %ld\n", getpid(), syscall(SYS_gettid));
	fflush(stdout);
	return arg;
}

static void threads(int n)
{
	pthread_t t[64];

	for (int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, calls, NULL);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 3;
	char line[64];

	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (int i = 0; i < ROUNDS; i++) {
		threads(n < 64 ? n : 64);
		if (!fork()) {
			calls(NULL);
			threads(2);
			_exit(0);
		}
		wait(NULL);
	}
	calls(NULL);
	puts("over");
	fflush(stdout);
	fgets(line, sizeof(line), stdin);
	return 0;
}
