/* SPDX-License-Identifier: MIT */
/*
 * Children that run on their parent's thread block: while two threads call hit() all the time, vfork
 * children call it, too. Prints how often it was called.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 2

static volatile int running = 1;
static volatile long by_children;

__attribute__((noinline, noclone)) long hit(long x)
{
	__asm__ volatile("" ::: "memory");
	return x + 1;
}

static void *caller(void *arg)
{
	long n = 0;

	while (running)
		n = hit(n);
	*(long *)arg = n;
	return NULL;
}

int main(int argc, char **argv)
{
	int children = argc > 1 ? atoi(argv[1]) : 40;
	long counts[THREADS], total = 0;
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, caller, &counts[i]);
	for (int i = 0; i < children; i++) {
		pid_t pid = vfork();

		if (!pid) {
			for (int k = 0; k < 200000; k++) {
				hit(k);
				by_children++;
			}
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	running = 0;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		total += counts[i];
	}
	printf("%ld\n", total + by_children);
	return 0;
}
