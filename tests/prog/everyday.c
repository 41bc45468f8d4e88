/* SPDX-License-Identifier: MIT */
/*
 * What the well-known scripts watch, the same each time: `everyday alloc N`, `everyday lock T N`, `everyday name`,
 * `everyday sleep N`. Each says how often it did it.
 */
#include "prog.h"
#include <netdb.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long held, times;

static void alloc(long n)
{
	unsigned long bytes = 0;

	for (long i = 0; i < n; i++) {
		size_t size = (size_t)(i * i % 5000 + 1);
		char *volatile p = malloc(size);

		bytes += size;
		p[0] = 1;
		free(p);
	}
	say("malloc %ld %lu", n, bytes);
}

static void *locker(void *arg)
{
	for (long i = 0; i < times; i++) {
		pthread_mutex_lock(&lock);
		held++;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void locks(int threads, long n)
{
	pthread_t ids[16];

	times = n;
	for (int i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, locker, NULL))
			exit(4);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	say("locked %ld", held);
}

static void name(void)
{
	struct addrinfo *ai = NULL;
	int r = getaddrinfo("localhost", "80", NULL, &ai);

	if (!r)
		freeaddrinfo(ai);
	say("name %d", r);
}

noinline int pause_for(long us)
{
	return usleep((useconds_t)us);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	long n = argc > 2 ? atol(argv[2]) : 0, m = argc > 3 ? atol(argv[3]) : 0;

	if (!strcmp(what, "alloc"))
		alloc(n);
	else if (!strcmp(what, "lock") && n <= 16)
		locks((int)n, m);
	else if (!strcmp(what, "name"))
		name();
	else if (!strcmp(what, "sleep"))
		for (long i = 0; i < n; i++)
			pause_for(1000);
	else
		return 2;
	return 0;
}
