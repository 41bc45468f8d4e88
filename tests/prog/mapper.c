/* SPDX-License-Identifier: MIT */
/*
 * `mapper T`: T threads map and unmap memory of many sizes all the time and start threads, as a
 * server with a thread for each request does: what was free a moment ago is taken. `run N` calls
 * work() N times.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include "phases.h"

enum { HELD = 16 };

static atomic_int quit;

static void *touch(void *arg)
{
	*(volatile char *)arg = 1;
	return NULL;
}

static void *body(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg * 7919 + 1;
	struct { char *at; size_t len; } held[HELD] = { { NULL, 0 } };
	unsigned i = 0;

	for (; !quit; i = (i + 1) % HELD) {
		pthread_t t;

		if (held[i].at)
			munmap(held[i].at, held[i].len);
		held[i].len = (size_t)(rand_r(&seed) % 2000 + 1) * 4096;
		held[i].at = mmap(NULL, held[i].len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (held[i].at == MAP_FAILED || held[i].at[held[i].len - 1])
			bad("memory that is not new");
		if (i % 4 == 0 && !pthread_create(&t, NULL, touch, held[i].at))
			pthread_join(t, NULL);
		make_noise(i);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int i, threads = argc > 1 ? atoi(argv[1]) : 4;
	pthread_t t[64];

	if (threads < 1 || threads > 64)
		return 2;
	for (i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, body, (void *)(uintptr_t)i))
			return 4;
	serve(work_times, NULL);
	quit = 1;
	for (i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	return verdict();
}
