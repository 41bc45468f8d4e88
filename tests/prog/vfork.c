/* SPDX-License-Identifier: MIT */
/*
 * Children that run on their parent's thread block: while two threads call hit() all the time, vfork
 * children call it, too. Prints how often it was called. `vfork N apart`: the threads and the parent are on one CPU,
 * whose number stays in the parent's block, and the children on another one. `vfork N few`: no threads, and ten calls a child.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 2

static volatile int running = 1;
static volatile long by_children;
static cpu_set_t here, there;
static int apart, few;

/* The first CPU that we may use and the last one. */
static void choose_cpus(void)
{
	cpu_set_t all;
	int first = -1, last = -1;

	sched_getaffinity(0, sizeof(all), &all);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all)) {
			first = first < 0 ? i : first;
			last = i;
		}
	CPU_SET(first, &here);
	CPU_SET(last, &there);
}

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

	few = argc > 2 && !strcmp(argv[2], "few");
	apart = argc > 2 && !strcmp(argv[2], "apart");
	choose_cpus();
	if (apart)
		sched_setaffinity(0, sizeof(here), &here);
	for (int i = 0; i < THREADS && !few; i++)
		pthread_create(&threads[i], NULL, caller, &counts[i]);
	for (int i = 0; i < children; i++) {
		pid_t pid = vfork();

		if (!pid) {
			if (apart)
				sched_setaffinity(0, sizeof(there), &there);
			for (int k = 0; k < (few ? 10 : 200000); k++) {
				hit(k);
				by_children++;
			}
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	running = 0;
	for (int i = 0; i < THREADS && !few; i++) {
		pthread_join(threads[i], NULL);
		total += counts[i];
	}
	printf("%ld\n", total + by_children);
	return 0;
}
