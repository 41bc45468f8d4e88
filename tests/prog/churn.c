/* SPDX-License-Identifier: MIT */
/*
 * `churn T`: T threads that do nothing but start short-lived threads and wait for them; every
 * fourth of these is detached and dies on its own. "run N" spreads N calls over 8 such threads.
 *
 * A thread is born detached or detaches itself, never by its breeder: glibc's pthread_detach()
 * looks at the thread once more after it has let go of it (bug 19951). If the thread has ended by
 * then and another one lives on its stack, that one's stack is given away while it is in use.
 */
#include <stdatomic.h>
#include "phases.h"

static int threads;
static atomic_int quit, alive;
static atomic_ulong born;
static __thread unsigned long mine;

static pthread_attr_t detached;

/* Of eight, one is born detached and one becomes it on its own. */
static int born_detached(unsigned long n)
{
	return n % 8 == 3;
}

static int detaches_itself(unsigned long n)
{
	return n % 8 == 7;
}

static void *brief(void *arg)
{
	unsigned long i;

	if (detaches_itself((unsigned long)arg) && pthread_detach(pthread_self()))
		bad("thread %p can't detach itself", arg);
	mine = (unsigned long)arg;
	for (i = 0; i < 50; i++)
		make_noise(mine + i);
	if (mine != (unsigned long)arg)
		bad("a thread's own variable changed");
	alive--;
	return arg;
}

static void *breeder(void *arg)
{
	unsigned long n = 0;
	pthread_t id;
	void *got;

	while (!quit) {
		alive++;
		if (pthread_create(&id, born_detached(n) ? &detached : NULL, brief, (void *)n)) {
			alive--;
			usleep(1000);
			continue;
		}
		born++;
		if (!born_detached(n) && !detaches_itself(n)) {
			if (pthread_join(id, &got))
				bad("thread %lu can't be joined", n);
			else if (got != (void *)n)
				bad("thread %lu returned %p", n, got);
		}
		n++;
		while (alive > 200)
			usleep(100);
	}
	return NULL;
}

static void *worker(void *arg)
{
	work_times((long)arg);
	return NULL;
}

static void run(long n)
{
	pthread_t id[8];
	int i;

	for (i = 0; i < 8; i++)
		if (pthread_create(&id[i], NULL, worker, (void *)share_of(n, i, 8)))
			exit(4);
	for (i = 0; i < 8; i++)
		pthread_join(id[i], NULL);
}

int main(int argc, char **argv)
{
	pthread_t id[64];
	int i;

	threads = argc > 1 ? atoi(argv[1]) : 2;
	if (threads < 1 || threads > 64)
		return 2;
	if (pthread_attr_init(&detached) ||
	    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED))
		return 4;
	for (i = 0; i < threads; i++)
		if (pthread_create(&id[i], NULL, breeder, NULL))
			return 4;
	serve(run, NULL);
	quit = 1;
	for (i = 0; i < threads; i++)
		pthread_join(id[i], NULL);
	while (alive)
		usleep(1000);
	if (!born)
		bad("no thread was born");
	return verdict();
}
